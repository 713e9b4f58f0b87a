// Kernel text on the CPU device: compiled, loaded, launched, at every level and with several numbers of
// threads.
#include "base/files.h"
#include "device/device.h"
#include "plugins/cpu/cpu_features.h"
#include "plugins/cpu/cpu_plugin.h"
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/device/environment.h"
#include "tests/unit/expect.h"
#include "tests/unit/plugins/kernel_text.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#define DIJI_TEST_LSAN 1
#endif
#endif

namespace diji {
namespace {

/// LeakSanitizer looks away while one of these lives.
#if defined(DIJI_TEST_LSAN)
using IgnoreLeaks = __lsan::ScopedDisabler;
#else
struct IgnoreLeaks {
  IgnoreLeaks() {}
};
#endif

constexpr const char* kColdTest = "child process: nothing was compiled";
constexpr const char* kBlobVariable = "DIJI_TEST_BLOB";

/// The CPU device with some kernels loaded, and the few steps that every test takes.
struct Kernels {
  explicit Kernels(int threads = 2) : list(std::span(&table, 1), threads) {}
  const diji_device_plugin_table* table = diji_plugin_cpu();
  DeviceList list;
  Device& device = **list.open("cpu");
  MemoryPool& pool = device.default_pool();
  Stream stream = device.new_stream().value();
  Buffer error_word = upload(std::vector<std::uint64_t>{0});

  Module load(std::string_view text) { return device.load(device.compile(text).value()).value(); }
  template <typename T>
  Buffer upload(const std::vector<T>& values) {
    Buffer buffer = pool.allocate(values.size() * sizeof(T)).value();
    REQUIRE(stream.copy_to_device(buffer.place(), std::as_bytes(std::span(values))));
    return buffer;
  }
  template <typename T>
  std::vector<T> download(const Buffer& buffer) {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    REQUIRE(stream.copy_to_host(std::as_writable_bytes(std::span(values)), buffer.place()));
    REQUIRE(stream.sync());
    return values;
  }
  Result<void> launch(const Module& module, const char* entry, std::int64_t grid,
                      std::vector<diji_place> places, std::int64_t size = 0, std::uint64_t local_bytes = 0) {
    diji_launch launch{};
    launch.struct_size = sizeof(launch);
    launch.entry = entry;
    launch.grid = grid;
    launch.places = places.data();
    launch.place_count = static_cast<std::uint32_t>(places.size());
    launch.size_count = 1;
    launch.sizes = &size;
    launch.error_word = error_word.place();
    launch.local_bytes = local_bytes;
    return module.launch(stream, launch);
  }
};

std::vector<float> ramp(std::size_t count, float step) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) * step;
  return values;
}

void expect_add_works(Kernels& kernels, const Module& module) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{1003}}) {
    const std::vector<float> a = ramp(count, 1), b = ramp(count, 0.25f);
    std::vector<float> c(count + 1, -1);  // one element beyond, which must stay
    const Buffer da = kernels.upload(a), db = kernels.upload(b), dc = kernels.upload(c);
    const auto grid = static_cast<std::int64_t>((count + 15) / 16);
    EXPECT(kernels.launch(module, "add", grid, {da.place(), db.place(), dc.place()},
                          static_cast<std::int64_t>(count)));
    c = kernels.download<float>(dc);
    for (std::size_t i = 0; i < count; ++i) REQUIRE(c[i] == a[i] + b[i]);
    EXPECT(c[count] == -1);
  }
}

bool llvm_is_mapped() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.contains("libLLVM") || line.contains("libdiji_llvm")) return true;
  }
  return false;
}

// Run by the next test in a process of its own, in which nothing was compiled before.
TEST_CASE("child process: nothing was compiled" * doctest::skip()) {
  Kernels kernels;
  const auto blob = read_file(std::getenv(kBlobVariable)).value();
  const Module module = kernels.device.load(blob).value();
  expect_add_works(kernels, module);
  EXPECT_FALSE(llvm_is_mapped());
}

TEST_CASE("a compiled blob runs in another process, into which LLVM is never loaded") {
  const test::ScratchFolder folder;
  Kernels kernels;
  const auto blob = kernels.device.compile(test::kKernels).value();
  EXPECT(llvm_is_mapped());  // so the search for its name finds it
  REQUIRE(write_file_atomically(folder.path() / "blob", blob));
  const test::ScopedEnvironment path(kBlobVariable, (folder.path() / "blob").string());
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = fmt::format("'{}' --no-skip --test-case='{}' > '{}/log' 2>&1", program,
                                          kColdTest, folder.path().string());
  EXPECT(std::system(command.c_str()) == 0);
  const auto log = read_file(folder.path() / "log").value();
  const std::string text(reinterpret_cast<const char*>(log.data()), log.size());
  CAPTURE(text);
  EXPECT(text.contains("1 passed"));
}

TEST_CASE("kernels run at every level that the processor has") {
  const cpu::CpuFacts& facts = cpu::cpu_facts();
  for (const cpu::CpuLevel& has : facts.levels.first(facts.highest + 1)) {
    const std::string level(has.name);
    CAPTURE(level);
    const test::ScopedEnvironment environment("DIJI_CPU", level);
    Kernels kernels;
    EXPECT(kernels.device.info().features.starts_with(level));
    const Module module = kernels.load(test::kKernels);
    expect_add_works(kernels, module);

    std::vector<float> x;
    for (float value = -40; value < 40; value += 0.37f) x.push_back(value);
    x.push_back(0.5f);
    x.push_back(-2.5f);
    const Buffer dx = kernels.upload(x), dy = kernels.upload(x);
    EXPECT(kernels.launch(module, "round", std::ssize(x), {dx.place(), dy.place()}));
    const auto y = kernels.download<float>(dy);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float f = std::fma(std::floor(x[i]), std::rint(x[i]), x[i]);
      const auto half = static_cast<float>(static_cast<double>(Float16(static_cast<double>(f))));
      const auto bfloat = static_cast<float>(static_cast<double>(BFloat16(static_cast<double>(x[i]))));
      REQUIRE(y[i] == half + bfloat);
    }
  }
}

TEST_CASE("every index runs once, whatever the number of threads") {
  for (const int threads : {1, 2, 3, 7}) {
    CAPTURE(threads);
    Kernels kernels(threads);
    const Module module = kernels.load(test::kKernels);
    expect_add_works(kernels, module);
    for (const std::size_t grid :
         {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{57}, std::size_t{10007}}) {
      const Buffer counts = kernels.upload(std::vector<std::int32_t>(grid + 1, 0));
      EXPECT(kernels.launch(module, "count", static_cast<std::int64_t>(grid), {counts.place()}, 0, 64));
      auto values = kernels.download<std::int32_t>(counts);
      EXPECT(values.back() == 0);
      values.pop_back();
      EXPECT(std::ranges::all_of(values, [](std::int32_t value) { return value == 1; }));
    }
    EXPECT(kernels.launch(module, "report", 1000, {}));
    const auto word = kernels.download<std::uint64_t>(kernels.error_word)[0];
    EXPECT((word & 0xff) == 1);
    EXPECT((word >> 32) % 100 == 13);
  }
}

TEST_CASE("streams on several threads launch at the same time") {
  Kernels kernels(3);
  const Module module = kernels.load(test::kKernels);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int& failures : wrong) {
    threads.emplace_back([&kernels, &module, &failures] {
      Stream stream = kernels.device.new_stream().value();
      const std::uint64_t zero = 0;
      std::vector<std::int32_t> values(500, 0);
      const Buffer buffer = kernels.pool.allocate(2000).value(), word = kernels.pool.allocate(8).value();
      failures += !stream.copy_to_device(buffer.place(), std::as_bytes(std::span(values)));
      failures += !stream.copy_to_device(word.place(), std::as_bytes(std::span(&zero, 1)));
      const diji_place place = buffer.place();
      diji_launch launch{sizeof(launch), "count", 500, &place, 1, 0, nullptr, word.place(), 64, 0, 0};
      for (int i = 0; i < 50; ++i) failures += !module.launch(stream, launch);
      failures += !stream.copy_to_host(std::as_writable_bytes(std::span(values)), place);
      failures += !stream.sync();
      failures += !std::ranges::all_of(values, [](std::int32_t value) { return value == 50; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(wrong == std::vector<int>(4, 0));
}

TEST_CASE("a failed launch is named, stays with the stream until sync, and then it is over") {
  Kernels kernels;
  const Module module = kernels.load(test::kKernels);
  const auto missing = kernels.launch(module, "subtract", 1, {});
  REQUIRE_FALSE(missing);
  EXPECT(missing.error().code == ErrorCode::device);
  EXPECT(
      missing.error().message ==
      "cpu:0: launch: launch: the module has no entry 'subtract'; it has add, count, report, round, where");
  EXPECT_FALSE(kernels.launch(module, "report", 1, {}));
  const auto synced = kernels.stream.sync();
  REQUIRE_FALSE(synced);
  EXPECT(synced.error().message.contains("no entry 'subtract'"));
  EXPECT(kernels.stream.sync());
  EXPECT(kernels.launch(module, "report", 1, {}));

  const Buffer buffer = kernels.pool.allocate(64).value();
  const auto fault = [&](std::int64_t grid, std::vector<diji_place> places, std::uint64_t local_bytes) {
    const auto launched = kernels.launch(module, "report", grid, std::move(places), 0, local_bytes);
    (void)kernels.stream.sync();
    return launched ? "" : launched.error().message;
  };
  EXPECT(fault(-1, {}, 0).contains("grid -1 is negative"));
  EXPECT(fault(1, {buffer.place(), buffer.place(std::uint64_t{1} << 40)}, 0).contains("buffer argument 1"));
  EXPECT(fault(1, {diji_place{nullptr, 0}}, 0).contains("buffer argument 0"));
  EXPECT(fault(1, {}, std::uint64_t{1} << 62).contains("scratch memory"));
  EXPECT(fault(1, std::vector<diji_place>(100, buffer.place()), 0).empty());
  kernels.error_word = kernels.pool.allocate(16).value();
  diji_launch launch{
      sizeof(launch), "report", 1, nullptr, 0, 0, nullptr, kernels.error_word.place(4), 0, 0, 0};
  EXPECT(module.launch(kernels.stream, launch).error().message.contains("aligned to 8"));
  (void)kernels.stream.sync();
  launch.error_word = {};
  EXPECT(module.launch(kernels.stream, launch).error().message.contains("the error word is not 8 bytes"));
}

TEST_CASE("broken kernel text is refused with the compiler's words and the line") {
  Kernels kernels;
  const auto refusal = [&](std::string_view text) {
    const auto blob = kernels.device.compile(text);
    if (!blob) EXPECT(blob.error().code == ErrorCode::device);
    return blob ? "" : blob.error().message;
  };
  EXPECT(refusal("define void @f() {\n  foo\n}\n")
             .starts_with("cpu:0: compile: kernel text:2:3: error: expected"));
  EXPECT(refusal("define void @f() {\n  ret void\n").contains("kernel text:3:"));
  EXPECT(
      refusal("define i32 @f(i1 %c) {\nentry:\n  br label %b\nb:\n  %p = phi i32 [ 0, %entry ], [ 1, %b ]\n"
              "  ret i32 %p\n}\n")
          .contains("breaks LLVM's rules: PHINode"));
  EXPECT(refusal("define void @f() {\n  call void asm \"bogus\", \"\"()\n  ret void\n}\n")
             .contains("invalid instruction mnemonic 'bogus'"));
  {
    // The code generator would end the process here; what it had allocated by then is lost, and known to be.
    const IgnoreLeaks ignore;
    EXPECT(
        refusal(
            "declare void @llvm.aarch64.dmb(i32)\ndefine void @f() {\n  call void @llvm.aarch64.dmb(i32 1)\n"
            "  ret void\n}\n")
            .contains("LLVM gave up: Cannot select"));
  }
  EXPECT(refusal(test::kKernels).empty());
  const auto blob = kernels.device.compile(
      "declare void @evil()\ndefine void @f() {\n  call void @evil()\n  ret void\n}\n");
  REQUIRE(blob);
  const auto module = kernels.device.load(*blob);
  REQUIRE_FALSE(module);
  EXPECT(module.error().code == ErrorCode::malformed);
  EXPECT(module.error().message.contains("it calls 'evil', which kernels are not offered"));
}

TEST_CASE("threads compile at the same time") {
  Kernels kernels;
  std::vector<std::thread> threads;
  std::vector<std::vector<std::byte>> blobs(4);
  for (auto& blob : blobs) {
    threads.emplace_back(
        [&] { blob = kernels.device.compile(test::kKernels).value_or(std::vector<std::byte>()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& blob : blobs) EXPECT((!blob.empty() && blob == blobs[0]));
}

TEST_CASE("a missing kernel compiler is named") {
  // In this process it is loaded already: the child process test covers absence, so only the search is looked
  // at.
  const test::ScopedEnvironment named("DIJI_LLVM_LIBRARY", "/nonexistent/libdiji_llvm.so");
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command =
      fmt::format("'{}' --no-skip --test-case='child process: no compiler' > /dev/null 2>&1", program);
  EXPECT(std::system(command.c_str()) == 0);
}

TEST_CASE("child process: no compiler" * doctest::skip()) {
  Kernels kernels;
  const auto blob = kernels.device.compile(test::kKernels);
  REQUIRE_FALSE(blob);
  EXPECT(blob.error().code == ErrorCode::device);
  EXPECT(blob.error().message.contains("/nonexistent/libdiji_llvm.so: cannot open"));
  EXPECT(blob.error().message.contains("name it in DIJI_LLVM_LIBRARY"));
}

}  // namespace
}  // namespace diji
