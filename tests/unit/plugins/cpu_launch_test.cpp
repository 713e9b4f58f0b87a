// How a launch is spread: blocks a worker, and scratch memory of its own for each, seen by a host that is
// only a test.
#include "plugins/cpu/cpu_plugin.h"
#include "tests/unit/expect.h"
#include "tests/unit/plugins/kernel_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define DIJI_TEST_ASAN 1
#endif
#endif

namespace diji {
namespace {

constexpr std::int32_t kWorkers = 3;

/// Notes the grain and runs index i on worker i % kWorkers, one after the other.
struct NotingHost {
  std::int64_t grain = 0;
  bool run = true;
  diji_host_services services = {sizeof(diji_host_services), this, parallel_for, kWorkers, nullptr, nullptr};

  static void parallel_for(void* context, std::int64_t count, std::int64_t grain,
                           void (*body)(void*, std::int64_t, std::int64_t, std::int32_t), void* data) {
    auto& host = *static_cast<NotingHost*>(context);
    host.grain = grain;
    for (std::int64_t i = 0; host.run && i < count; ++i)
      body(data, i, i + 1, static_cast<std::int32_t>(i % kWorkers));
  }
};

/// A device with the test kernels loaded, through the table.
struct Launcher {
  NotingHost host;
  const diji_device_plugin_table& table = *diji_plugin_cpu();
  diji_device* device = nullptr;
  diji_module* module = nullptr;
  diji_stream* stream = nullptr;
  diji_buffer* word = nullptr;

  Launcher() {
    REQUIRE(table.open(0, &host.services, &device) == DIJI_OK);
    const diji_kernel_text text = {sizeof(text), test::kKernels.data(), test::kKernels.size()};
    const void* blob = nullptr;
    std::size_t blob_bytes = 0;
    REQUIRE(table.compile(device, &text, &blob, &blob_bytes) == DIJI_OK);
    REQUIRE(table.load(device, blob, blob_bytes, &module) == DIJI_OK);
    table.blob_free(blob);
    REQUIRE(table.stream_new(device, &stream) == DIJI_OK);
    REQUIRE(table.alloc(device, 8, &word) == DIJI_OK);
  }
  ~Launcher() {
    table.unload(module);
    table.stream_free(stream);
    table.free(device, nullptr, word);
    table.close(device);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  std::int64_t grain_of(std::int64_t grid) {
    host.grain = 0;
    host.run = false;
    const diji_launch launch{sizeof(launch), "report", grid, nullptr, 0, 0, nullptr, {word, 0}, 0, 0, 0};
    EXPECT(table.launch(stream, module, &launch) == DIJI_OK);
    return host.grain;
  }

  /// The scratch memory that each of six indices saw.
  std::array<std::byte*, 6> scratch_of(std::uint64_t local_bytes) {
    std::array<std::byte*, 6> seen{};
    diji_buffer* buffer = nullptr;
    REQUIRE(table.import_host(device, seen.data(), sizeof(seen), nullptr, nullptr, &buffer) == DIJI_OK);
    const diji_place place = {buffer, 0};
    const diji_launch launch{sizeof(launch), "where", 6, &place, 1, 0, nullptr, {word, 0}, local_bytes, 0, 0};
    host.run = true;
    EXPECT(table.launch(stream, module, &launch) == DIJI_OK);
    table.free(device, nullptr, buffer);
    return seen;
  }
};

TEST_CASE("a large grid is cut into about eight blocks a worker") {
  Launcher launcher;
  EXPECT(launcher.grain_of(1000) == 42);  // 24 blocks of 42 cover 1008
  EXPECT(launcher.grain_of(48) == 2);
  EXPECT(launcher.grain_of(20) == 1);
  EXPECT(launcher.grain_of(1) == 0);  // run by the caller
  EXPECT(launcher.grain_of(0) == 0);
  EXPECT(launcher.grain_of(INT64_MAX) == INT64_MAX / 24 + 1);
}

TEST_CASE("each worker has aligned scratch memory of its own, which grows and stays") {
  Launcher launcher;
  for (const std::uint64_t bytes :
       {std::uint64_t{1}, std::uint64_t{100}, std::uint64_t{5000}, std::uint64_t{64}}) {
    auto seen = launcher.scratch_of(bytes);
    EXPECT(std::equal(seen.begin(), seen.begin() + kWorkers,
                      seen.begin() + kWorkers));  // by worker, not by index
    for (std::byte* pointer : seen) {
      EXPECT(reinterpret_cast<std::uintptr_t>(pointer) % 64 == 0);
#if defined(DIJI_TEST_ASAN)
      EXPECT(__asan_region_is_poisoned(pointer, bytes) == nullptr);
#endif
    }
    std::sort(seen.begin(), seen.begin() + kWorkers);
    for (std::size_t i = 0; i + 1 < kWorkers; ++i) EXPECT(seen[i] + bytes <= seen[i + 1]);
  }
  EXPECT(launcher.scratch_of(5000)[0] == launcher.scratch_of(64)[0]);
  EXPECT(launcher.scratch_of(0) == std::array<std::byte*, 6>{});
}

}  // namespace
}  // namespace diji
