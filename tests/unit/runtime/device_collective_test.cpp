// Collectives on device memory: every device gives what the host's communicator does, with kernels and copies
// around it in their order, and its errors come out.
#include "runtime/device_collective.h"

#include "plugins/cpu/cpu_plugin.h"
#include "plugins/mock/mock_plugin.h"
#include "plugins/sim/sim_plugin.h"
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/collective/thread_world.h"
#include "tests/unit/device/environment.h"
#include "tests/unit/expect.h"

#include <array>
#include <chrono>

namespace diji {
namespace {

using collective::Communicator;
using collective::Operation;

struct Devices {
  test::ScratchFolder folder;
  test::ScopedEnvironment environment{"DIJI_SIM", folder.write("card.txt", "devices = 4\n").string()};
  std::array<const diji_device_plugin_table*, 3> tables = {diji_plugin_cpu(), diji_plugin_mock(),
                                                           diji_plugin_sim(diji_plugin_cpu())};
  DeviceList list{tables, 2};
  Device& open(std::string_view name) {
    auto device = list.open(name);
    REQUIRE_MESSAGE(device, (device ? "" : device.error().message));
    return **device;
  }
};

constexpr std::array kOperations = {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                                    Operation::all_to_all, Operation::broadcast};

std::int64_t blocks(Operation operation, std::int64_t world, bool output) {
  const bool all = operation == Operation::all_to_all ||
                   operation == (output ? Operation::all_gather : Operation::reduce_scatter);
  return all ? world : 1;
}

std::vector<std::int32_t> values_of(int rank, std::int64_t count) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<std::int32_t>(1000 * rank + i));
  return values;
}

/// What the host's communicator gives.
std::vector<std::int32_t> on_host(Communicator& communicator, Operation operation, std::int64_t count) {
  const auto input = values_of(communicator.rank(), count * blocks(operation, communicator.world(), false));
  std::vector<std::int32_t> output(
      static_cast<std::size_t>(count * blocks(operation, communicator.world(), true)));
  CHECK(communicator.run({.operation = operation,
                          .input = input.data(),
                          .output = output.data(),
                          .count = count,
                          .type = collective::ElementType::i32,
                          .root = 1}),
        "the host's");
  return output;
}

/// The same on a device, with copies before and behind on a stream that never waits for the host.
Result<std::vector<std::int32_t>> on_device(DeviceGroup& group, Operation operation, std::int64_t count) {
  Device& device = group.device();
  const int world = group.communicator().world();
  const auto input = values_of(group.communicator().rank(), count * blocks(operation, world, false));
  std::vector<std::int32_t> output(static_cast<std::size_t>(count * blocks(operation, world, true)));
  const auto bytes_of_input = std::as_bytes(std::span(input));
  const auto bytes_of_output = std::as_writable_bytes(std::span(output));
  Buffer from = TRY(device.default_pool().allocate(bytes_of_input.size() + 4));
  Buffer to = TRY(device.default_pool().allocate(bytes_of_output.size() + 4));
  Stream stream = TRY(device.new_stream());
  TRY(stream.copy_to_device(from.place(4), bytes_of_input));
  TRY(group.run({.operation = operation,
                 .input = from.place(4),
                 .output = to.place(4),
                 .count = count,
                 .type = collective::ElementType::i32,
                 .root = 1},
                stream));
  TRY(stream.copy_to_host(bytes_of_output, to.place(4)));
  TRY(stream.sync());
  return output;
}

void check_world(const std::vector<std::string>& names, DeviceGroupOptions options) {
  Devices devices;
  std::vector<Device*> opened;
  for (const std::string& name : names) opened.push_back(&devices.open(name));
  std::atomic<int> wrong = 0, failed = 0, done = 0;
  collective::ThreadWorld world(static_cast<int>(names.size()));
  world.run([&](Communicator& communicator) {
    for (const Operation operation : kOperations) {
      for (const std::int64_t count : {1, 7, 64, 1000}) {
        const auto wanted = on_host(communicator, operation, count);
        auto group = DeviceGroup::create(*opened[static_cast<std::size_t>(communicator.rank())], communicator,
                                         options);
        const auto got = group ? on_device(**group, operation, count)
                               : Result<std::vector<std::int32_t>>(std::unexpected(group.error()));
        failed += got ? 0 : 1;
        wrong += got && *got != wanted ? 1 : 0;
        ++done;
      }
    }
  });
  EXPECT(failed == 0);
  EXPECT(wrong == 0);
  EXPECT(done == static_cast<int>(names.size() * kOperations.size() * 4));
}

TEST_CASE("in place on the CPU") { check_world({"cpu", "cpu", "cpu"}, {}); }
TEST_CASE("in slices of any length") {
  for (const std::int64_t slice_bytes : {1, 52, 400, 1 << 20}) {
    CAPTURE(slice_bytes);
    check_world({"cpu", "cpu", "cpu"}, {.stages = true, .slice_bytes = slice_bytes});
  }
}
TEST_CASE("copies that are done as late as allowed") {
  for (const std::int64_t slice_bytes : {64, 1 << 20})
    check_world({"mock:0", "mock:1"}, {.slice_bytes = slice_bytes});
}
TEST_CASE("virtual accelerators") { check_world({"sim:0", "sim:1", "sim:2", "sim:3"}, {.slice_bytes = 256}); }
TEST_CASE("ranks on different devices") { check_world({"cpu", "mock:0", "mock:1"}, {.slice_bytes = 128}); }

TEST_CASE("calls that were handed over are done in order, beside other work") {
  Devices devices;
  std::atomic<int> wrong = 0;
  collective::ThreadWorld(2).run([&](Communicator& communicator) {
    Device& device = devices.open(communicator.rank() == 0 ? "mock:0" : "mock:1");
    auto group = DeviceGroup::create(device, communicator, {.slice_bytes = 64}).value();
    Stream stream = device.new_stream().value();
    constexpr int kCalls = 20;
    constexpr std::int64_t kCount = 100;
    std::vector<Buffer> buffers;
    std::vector<std::shared_ptr<DeviceWork>> work;
    std::vector<std::vector<std::int32_t>> values;
    for (int i = 0; i <= kCalls; ++i) {
      buffers.push_back(device.default_pool().allocate(kCount * 4).value());
      values.push_back(values_of(i, kCount));
    }
    // Each call's operand is the result of the one before: a chain that only the group's stream orders.
    CHECK(stream.copy_to_device(buffers[0].place(), std::as_bytes(std::span(values[0]))), "queued");
    for (std::size_t i = 0; i < kCalls; ++i) {
      work.push_back(group
                         ->start({.operation = Operation::all_reduce,
                                  .input = buffers[i].place(),
                                  .output = buffers[i + 1].place(),
                                  .count = kCount,
                                  .type = collective::ElementType::i32},
                                 stream)
                         .value());
    }
    for (const auto& one : work) wrong += group->join(*one, stream) ? 0 : 1;
    std::vector<std::int32_t> last(kCount);
    CHECK(stream.copy_to_host(std::as_writable_bytes(std::span(last)), buffers[kCalls].place()), "queued");
    CHECK(stream.sync(), "done");
    for (std::int32_t i = 0; i < kCount; ++i)
      wrong += last[static_cast<std::size_t>(i)] == i << kCalls ? 0 : 1;
  });
  EXPECT(wrong == 0);
}

TEST_CASE("a rank that does not come is a deadline of the call, and of all after it") {
  Devices devices;
  std::atomic<int> right = 0;
  collective::ThreadWorld world(2, {.timeout_us = 300'000});
  world.run([&](Communicator& communicator) {
    Device& device = devices.open(communicator.rank() == 0 ? "mock:0" : "mock:1");
    auto group = DeviceGroup::create(device, communicator).value();
    if (communicator.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      return;
    }
    Stream stream = device.new_stream().value();
    Buffer buffer = device.default_pool().allocate(800).value();
    const DeviceCall call{.operation = Operation::all_reduce,
                          .input = buffer.place(),
                          .output = buffer.place(400),
                          .count = 100,
                          .type = collective::ElementType::i32};
    for (int i = 0; i < 2; ++i) {
      const auto result = group->run(call, stream);
      right += !result && result.error().code == ErrorCode::deadline && result.error().peer.rank == 1 ? 1 : 0;
    }
  });
  EXPECT(right == 2);
}

TEST_CASE("abort ends what other ranks wait in") {
  Devices devices;
  std::atomic<int> aborted = 0;
  const auto begin = std::chrono::steady_clock::now();
  collective::ThreadWorld(2).run([&](Communicator& communicator) {
    Device& device = devices.open("cpu");
    auto group = DeviceGroup::create(device, communicator).value();
    if (communicator.rank() == 1) return group->abort("not today");
    Stream stream = device.new_stream().value();
    Buffer buffer = device.default_pool().allocate(800).value();
    const auto result = group->run({.operation = Operation::all_reduce,
                                    .input = buffer.place(),
                                    .output = buffer.place(400),
                                    .count = 100,
                                    .type = collective::ElementType::i32},
                                   stream);
    aborted +=
        !result && result.error().code == ErrorCode::aborted && result.error().message.contains("not today")
            ? 1
            : 0;
  });
  EXPECT(aborted == 1);
  EXPECT(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}

}  // namespace
}  // namespace diji
