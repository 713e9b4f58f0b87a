// Rules of memory: allocation, addresses, copies, running out, leaks, the host's memory.
#include "runtime/rule_bench.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <thread>

namespace diji {
namespace {

// Sizes and offsets that no vector width divides, and some that all do.
constexpr std::array<std::uint64_t, 9> kSizes = {1, 2, 3, 7, 64, 65, 255, 4096, 4099};
constexpr std::array<std::uint64_t, 5> kOffsets = {0, 1, 3, 5, 64};
constexpr std::uint64_t kMargin = 80;  // around what is copied, to see who writes too much

Result<void> same_count(RuleBench& bench) {
  std::array<std::int32_t, 2> counts{};
  for (auto& count : counts) TRY(bench.ok(bench.table().device_count(&count), "device_count"));
  if (counts[0] != counts[1] || counts[0] <= bench.entry().ordinal)
    return fail(ErrorCode::failed, "device_count gave {}, then {}", counts[0], counts[1]);
  diji_device_properties properties{};
  properties.struct_size = sizeof(properties);
  const diji_status status = bench.table().device_properties(counts[0], &properties);
  if (status == DIJI_OK)
    return fail(ErrorCode::failed, "there are {} devices, and device_properties knows device {}", counts[0],
                counts[0]);
  return {};
}

Result<void> aligned(RuleBench& bench) {
  for (const std::uint64_t bytes : kSizes) {
    void* address = nullptr;
    const auto buffer = TRY(bench.alloc(bytes));
    TRY(bench.ok(bench.table().map(buffer, &address), "map"));
    const auto alignment = bench.entry().info.alignment;
    if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0)
      return fail(ErrorCode::failed, "a buffer of {} bytes lies at {}, which is not aligned to {}", bytes,
                  fmt::ptr(address), alignment);
  }
  return {};
}

Result<void> separate(RuleBench& bench) {
  constexpr unsigned kBuffers = 16;
  constexpr std::uint64_t kBytes = 1000;
  const auto stream = TRY(bench.stream());
  std::vector<diji_buffer*> buffers;
  for (unsigned i = 0; i < kBuffers; ++i) {
    buffers.push_back(TRY(bench.alloc(kBytes)));
    TRY(bench.upload(stream, {buffers.back(), 0}, bench.host(kBytes, i)));
  }
  for (unsigned i = 0; i < kBuffers; ++i) {
    const auto got = bench.host(kBytes, 99);
    TRY(bench.download(stream, got, {buffers[i], 0}));
    TRY(bench.sync(stream));
    TRY(same_bytes(got, bench.host(kBytes, i), fmt::format("buffer {} after all were filled", i)));
  }
  return {};
}

/// One copy into the middle of a buffer with a pattern: it arrives, and what is around it stays.
Result<void> copy_case(RuleBench& bench, diji_stream* stream, std::array<diji_buffer*, 2> buffers,
                       std::uint64_t bytes, std::uint64_t offset) {
  const std::uint64_t whole = bytes + offset + kMargin;
  const auto before = bench.host(whole, 1), sent = bench.host(bytes, 2), got = bench.host(whole, 3);
  const auto part = bench.host(bytes, 4);
  const std::string what = fmt::format("{} bytes at offset {}", bytes, offset);
  TRY(bench.upload(stream, {buffers[0], 0}, before));
  TRY(bench.upload(stream, {buffers[0], offset}, sent));
  TRY(bench.download(stream, part, {buffers[0], offset}));
  TRY(bench.download(stream, got, {buffers[0], 0}));
  TRY(bench.sync(stream));
  std::vector<std::byte> wanted(before.begin(), before.end());
  std::ranges::copy(sent, wanted.begin() + static_cast<std::ptrdiff_t>(offset));
  TRY(same_bytes(part, sent, "copy_to_host of " + what));
  TRY(same_bytes(got, wanted, "copy_to_device of " + what));
  // On the device: from an odd place to another one, over the same pattern.
  TRY(bench.upload(stream, {buffers[1], 0}, before));
  TRY(bench.copy(stream, {buffers[1], offset}, {buffers[0], offset}, bytes));
  const auto moved = bench.host(whole, 5);
  TRY(bench.download(stream, moved, {buffers[1], 0}));
  TRY(bench.sync(stream));
  return same_bytes(moved, wanted, "copy_on_device of " + what);
}

Result<void> copies(RuleBench& bench) {
  const auto stream = TRY(bench.stream());
  const std::uint64_t most = kSizes.back() + kOffsets.back() + kMargin;
  const std::array buffers = {TRY(bench.alloc(most)), TRY(bench.alloc(most))};
  for (const std::uint64_t bytes : kSizes) {
    for (const std::uint64_t offset : kOffsets) TRY(copy_case(bench, stream, buffers, bytes, offset));
  }
  TRY(bench.ok(bench.table().copy_to_device(stream, {buffers[0], 0}, nullptr, 0), "a copy of 0 bytes"));
  return bench.sync(stream);
}

Result<void> out_of_range(RuleBench& bench) {
  const auto stream = TRY(bench.stream());
  const auto buffer = TRY(bench.alloc(64));
  const auto host = bench.host(64, 1);
  const auto refused = [&](diji_status status, std::string_view call) -> Result<void> {
    // At the call, or as the first failure of the stream's work.
    if (status == DIJI_OK) status = bench.table().stream_sync(stream);
    TRY(bench.refused(status, {DIJI_ERROR_INVALID}, call));
    (void)bench.table().stream_sync(stream);  // and the stream works again
    return {};
  };
  TRY(refused(bench.table().copy_to_device(stream, {buffer, 8}, host.data(), 64), "a copy past the end"));
  TRY(refused(bench.table().copy_to_host(stream, host.data(), {buffer, UINT64_MAX - 8}, 16),
              "a copy from an offset that overflows"));
  TRY(refused(bench.table().copy_to_device(stream, {nullptr, 0}, host.data(), 8), "a copy to no buffer"));
  TRY(bench.upload(stream, {buffer, 0}, host));
  return bench.sync(stream);
}

Result<void> out_of_memory(RuleBench& bench) {
  constexpr std::uint64_t kAbsurd = std::uint64_t{1} << 60;
  const std::uint64_t memory = bench.entry().info.memory_bytes;
  for (const std::uint64_t bytes : {memory == 0 ? kAbsurd : memory + memory / 2, kAbsurd, UINT64_MAX}) {
    diji_buffer* buffer = nullptr;
    const diji_status status = bench.table().alloc(bench.device(), bytes, &buffer);
    if (status == DIJI_OK) bench.table().free(bench.device(), nullptr, buffer);
    TRY(bench.refused(status, {DIJI_ERROR_OUT_OF_MEMORY}, fmt::format("alloc of {} bytes", bytes)));
  }
  const auto stream = TRY(bench.stream());
  const auto after = TRY(bench.alloc(4096));
  const auto got = bench.host(4096, 2);
  TRY(bench.upload(stream, {after, 0}, bench.host(4096, 1)));
  TRY(bench.download(stream, got, {after, 0}));
  TRY(bench.sync(stream));
  return same_bytes(got, bench.host(4096, 1), "a buffer after memory ran out");
}

/// Pages of this process that are in memory.
std::int64_t resident_bytes() {
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

Result<void> no_leak(RuleBench& bench) {
  constexpr int kRounds = 10'000;
  constexpr std::uint64_t kBytes = 64 << 10;
  // A page that was touched in each of 5,000 lost buffers would be 20 MB. What allocators and sanitizers keep
  // for a while, they have by the end of the first half.
  constexpr std::int64_t kGrowthMax = 8 << 20;
  const auto stream = TRY(bench.stream());
  const auto one = bench.host(1, 1);
  std::int64_t half = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (round == kRounds / 2) half = resident_bytes();
    const auto buffer = TRY(bench.alloc(kBytes));
    TRY(bench.upload(stream, {buffer, kBytes / 2}, one));
    TRY(bench.sync(stream));
    bench.free(buffer, round % 2 == 0 ? stream : nullptr);
  }
  TRY(bench.sync(stream));
  const std::int64_t growth = resident_bytes() - half;
  if (growth <= kGrowthMax) return {};
  return fail(ErrorCode::failed, "{} rounds of alloc and free keep {} bytes of the process's memory",
              kRounds / 2, growth);
}

Result<void> import_host(RuleBench& bench) {
  constexpr std::uint64_t kBytes = 4096;
  const auto stream = TRY(bench.stream());
  const auto memory = bench.host(kBytes, 6), got = bench.host(kBytes, 7);
  int released = 0;
  diji_buffer* buffer = nullptr;
  const diji_status status = bench.table().import_host(
      bench.device(), memory.data(), kBytes, [](void* count) { ++*static_cast<int*>(count); }, &released,
      &buffer);
  TRY(bench.ok(status, "import_host"));
  TRY(bench.download(stream, got, {buffer, 0}));
  TRY(bench.sync(stream));
  bench.table().free(bench.device(), nullptr, buffer);
  TRY(same_bytes(got, memory, "imported memory"));
  if (released != 1) return fail(ErrorCode::failed, "imported memory was released {} times", released);
  return {};
}

Result<void> map(RuleBench& bench) {
  constexpr std::uint64_t kBytes = 4096;
  const auto stream = TRY(bench.stream());
  const auto buffer = TRY(bench.alloc(kBytes));
  TRY(bench.upload(stream, {buffer, 0}, bench.host(kBytes, 1)));
  TRY(bench.sync(stream));
  void* address = nullptr;
  TRY(bench.ok(bench.table().map(buffer, &address), "map"));
  return same_bytes({static_cast<const std::byte*>(address), kBytes}, bench.host(kBytes, 1), "mapped memory");
}

Result<void> many_threads(RuleBench& bench) {
  constexpr std::size_t kThreads = 4;
  constexpr std::uint64_t kBytes = 10'000;
  struct Part {
    diji_stream* stream;
    diji_buffer* buffer;
    std::span<std::byte> sent, got;
    Result<void> result;
  };
  std::vector<Part> parts;
  for (unsigned i = 0; i < kThreads; ++i)
    parts.push_back(
        {TRY(bench.stream()), TRY(bench.alloc(kBytes)), bench.host(kBytes, i), bench.host(kBytes, 50), {}});
  const auto work = [&](const Part& part) -> Result<void> {
    for (int round = 0; round < 100; ++round) {
      TRY(bench.upload(part.stream, {part.buffer, 0}, part.sent));
      TRY(bench.download(part.stream, part.got, {part.buffer, 0}));
      TRY(bench.sync(part.stream));
      TRY(same_bytes(part.got, part.sent, "a copy beside other threads' copies"));
    }
    return {};
  };
  std::vector<std::thread> threads;
  for (Part& part : parts) threads.emplace_back([&] { part.result = work(part); });
  for (std::thread& thread : threads) thread.join();
  for (const Part& part : parts) TRY(Result<void>(part.result));
  return {};
}

Result<void> telemetry(RuleBench& bench) {
  diji_telemetry told{};
  told.struct_size = sizeof(told);
  TRY(bench.ok(bench.table().telemetry(bench.entry().ordinal, &told), "telemetry"));
  const bool sane = std::isfinite(told.temperature_c) && told.temperature_c > -100 &&
                    told.temperature_c < 200 && told.clock_mhz >= 0 && told.utilisation >= 0 &&
                    told.utilisation <= 1;
  if (sane) return {};
  return fail(ErrorCode::failed, "telemetry: {} degrees, {} MHz, utilisation {}", told.temperature_c,
              told.clock_mhz, told.utilisation);
}

}  // namespace

std::span<const Rule> memory_rules() {
  static constexpr std::array kRules = {
      Rule{"the number of devices stays", same_count},
      Rule{"buffers are aligned", aligned},
      Rule{"buffers are separate", separate},
      Rule{"copies move these bytes and no others", copies},
      Rule{"copies out of range are refused", out_of_range},
      Rule{"out of memory is a status, and the device goes on", out_of_memory},
      Rule{"nothing leaks in 10,000 rounds", no_leak},
      Rule{"host memory can be imported", import_host},
      Rule{"memory can be mapped", map},
      Rule{"many threads copy at once", many_threads},
      Rule{"telemetry is plausible", telemetry},
  };
  return kRules;
}

}  // namespace diji
