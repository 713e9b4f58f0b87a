// Kernels in C: compiled by a child process, loaded and launched; what is refused, and that no file stays.
#include "plugins/cpu/cc/c_compiler.h"
#include "base/files.h"
#include "device/device.h"
#include "plugins/cpu/cc/child_process.h"
#include "plugins/cpu/cpu_plugin.h"
#include "plugins/cpu/object_loader.h"
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/device/environment.h"
#include "tests/unit/expect.h"

#include <filesystem>
#include <string>
#include <vector>

namespace diji::cpu {
namespace {

constexpr std::chrono::milliseconds kLong(10000), kShort(200);

constexpr std::string_view kTwice = R"(
void twice(void *const *places, const long long *sizes, void *error_word, void *local, long long begin,
           long long end) {
  float *x = places[0];
  for (long long i = begin; i < end; ++i) x[i] *= 2;
}
)";

DIJI_CALLS_KERNEL void call(KernelFunction entry, float* values) {
  void* places[] = {values};
  entry(places, nullptr, nullptr, nullptr, 1, 3);
}

TEST_CASE("kernel text in C runs, under a fingerprint of its own, and leaves no file") {
  const test::ScratchFolder folder;
  const test::ScopedEnvironment temporary("TMPDIR", folder.path().c_str());
  const test::ScopedEnvironment chosen("DIJI_CPU_COMPILER", "c");
  const diji_device_plugin_table* const built_in[] = {diji_plugin_cpu()};
  DeviceList list(built_in, 1);
  Device& device = **list.open("cpu");
  EXPECT(device.info().dialect == "c");
  EXPECT(device.info().fingerprint.starts_with("c "));
  const auto blob = device.compile(kTwice);
  REQUIRE(blob);
  const Module module = device.load(*blob).value();
  std::vector<float> values(1000, 1.5F);
  const auto bytes = std::as_writable_bytes(std::span(values));
  const Buffer buffer = device.default_pool().allocate(bytes.size()).value();
  const Buffer word = device.default_pool().allocate(8).value();
  Stream stream = device.new_stream().value();
  REQUIRE(stream.copy_to_device(buffer.place(), bytes));
  const diji_place place = buffer.place();
  diji_launch launch{};
  launch.struct_size = sizeof(launch);
  launch.entry = "twice";
  launch.grid = std::ssize(values);
  launch.places = &place;
  launch.place_count = 1;
  launch.error_word = word.place();
  REQUIRE(module.launch(stream, launch));
  REQUIRE(stream.copy_to_host(bytes, buffer.place()));
  REQUIRE(stream.sync());
  EXPECT(values == std::vector<float>(1000, 3.0F));

  const auto refused = device.compile("void broken( {");
  REQUIRE_FALSE(refused);
  CAPTURE(refused.error().message);
  EXPECT(refused.error().message.contains("error:"));
  EXPECT(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a compiler that is not there is named, a word that is none is refused") {
  const diji_device_plugin_table* const built_in[] = {diji_plugin_cpu()};
  {
    const test::ScopedEnvironment chosen("DIJI_CPU_COMPILER", "c");
    const test::ScopedEnvironment compiler("CC", "no-such-compiler");
    DeviceList list(built_in, 1);
    const auto blob = (*list.open("cpu"))->compile(kTwice);
    REQUIRE_FALSE(blob);
    CAPTURE(blob.error().message);
    EXPECT(blob.error().message.contains("no-such-compiler could not be started"));
  }
  const test::ScopedEnvironment chosen("DIJI_CPU_COMPILER", "rust");
  DeviceList list(built_in, 1);
  const auto device = list.open("cpu");
  REQUIRE_FALSE(device);
  EXPECT(device.error().message.contains("DIJI_CPU_COMPILER=rust: no such compiler; use llvm or c"));
}

TEST_CASE("kernels in a shared object, as processors without a loader of diji's have them") {
  const test::ScratchFolder folder;
  const std::string source = folder.write("twice.c", kTwice), library = folder.path() / "twice.so";
  std::vector<std::string> command = find_c_compiler(current_target().value()).value().command;
  command.insert(command.end(), {"-shared", "-o", library, source});
  const auto built = run_program(command, kLong);
  REQUIRE(built);
  CAPTURE(built->output);
  REQUIRE(built->exit_code == 0);
  const auto object = LoadedObject::load_shared(read_file(library).value());
  REQUIRE(object);
  EXPECT(((*object)->find("thrice") == nullptr));
  const KernelFunction twice = (*object)->find("twice");
  REQUIRE((twice != nullptr));
  float values[] = {1, 2, 3};
  EXPECT((call(twice, values), values[0] == 1 && values[1] == 4 && values[2] == 6));
  const std::vector<std::byte> garbage(100);
  const auto refused = LoadedObject::load_shared(garbage);
  REQUIRE_FALSE(refused);
  EXPECT(refused.error().message.starts_with("kernel blob: "));
}

TEST_CASE("a program's words, exit code and deadline") {
  const std::string speaks[] = {"sh", "-c", "echo out; echo err >&2; exit 7"};
  const auto spoken = run_program(speaks, kLong);
  REQUIRE(spoken);
  EXPECT(spoken->exit_code == 7);
  EXPECT(spoken->output == "out\nerr\n");
  const std::string dies[] = {"sh", "-c", "kill -9 $$"};
  EXPECT(run_program(dies, kLong)->exit_code == 137);
  // The shell's child holds the output open; it goes with the shell.
  const std::string sleeps[] = {"sh", "-c", "sleep 100 & wait"};
  const auto begin = std::chrono::steady_clock::now();
  const auto late = run_program(sleeps, kShort);
  REQUIRE_FALSE(late);
  EXPECT((late.error().code == ErrorCode::deadline));
  EXPECT((std::chrono::steady_clock::now() - begin < std::chrono::seconds(50)));
}

}  // namespace
}  // namespace diji::cpu
