// A device's kernels in a collective: the host's bits, for every type and reduction that it has, and its
// failures.
#include "runtime/device_reducer.h"

#include "plugins/cpu/cpu_plugin.h"
#include "plugins/mock/mock_plugin.h"
#include "plugins/sim/sim_plugin.h"
#include "runtime/compiler.h"
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/collective/thread_world.h"
#include "tests/unit/device/environment.h"
#include "tests/unit/expect.h"

#include <array>
#include <cstring>
#include <random>

namespace diji {
namespace {

using collective::Communicator;
using collective::ElementType;
using collective::Operation;
using collective::Reduction;

struct Devices {
  explicit Devices(std::string_view card = "devices = 1\n")
      : environment("DIJI_SIM", folder.write("card.txt", card).string()) {}
  test::ScratchFolder folder;
  test::ScopedEnvironment environment;
  std::array<const diji_device_plugin_table*, 3> tables = {diji_plugin_cpu(), diji_plugin_mock(),
                                                           diji_plugin_sim(diji_plugin_cpu())};
  DeviceList list{tables, 2};
  CompileCache cache{""};  // none
};

constexpr std::int64_t kCount = 131;

/// Any bits, but in floats no NaN: which one comes out of two is the device's.
std::vector<std::byte> numbers(ElementType type, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(kCount * bytes_of(type)));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  visit_dtype(static_cast<DType>(type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_integral_v<T>) {
      for (std::int64_t i = 0; i < kCount; ++i) {
        T value;
        std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
        if (!std::isfinite(static_cast<double>(value))) value = static_cast<T>(i % 2 == 0 ? -0.0F : 0.0F);
        std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
      }
    }
  });
  return bytes;
}

constexpr std::array kReductions = {Reduction::sum,     Reduction::product, Reduction::min,    Reduction::max,
                                    Reduction::bit_and, Reduction::bit_or,  Reduction::bit_xor};

void check_bits(std::string_view device_name) {
  Devices devices;
  Device& device = **devices.list.open(device_name);
  const auto reducer = DeviceReducer::create(device, devices.cache);
  REQUIRE_MESSAGE(reducer, (reducer ? "" : reducer.error().message));
  for (int type_number = 0; type_number < static_cast<int>(ElementType::boolean); ++type_number) {
    const auto type = static_cast<ElementType>(type_number);
    const ElementType accumulator = accumulator_of(type, false);
    for (const Reduction reduction : kReductions) {
      if (!supports(reduction, type)) continue;
      CAPTURE(name_of(type));
      CAPTURE(name_of(reduction));
      const auto left = numbers(accumulator, 1), right = numbers(type, 2);
      std::vector<std::byte> wanted(left.size()), got = left;
      collective::combine(reduction, accumulator, wanted.data(), {left.data(), accumulator},
                          {right.data(), type}, kCount);
      // In place, as ranks keep their partial results.
      const auto combined = (*reducer)->combine(reduction, accumulator, got.data(), {got.data(), accumulator},
                                                {right.data(), type}, kCount);
      REQUIRE_MESSAGE(combined, (combined ? "" : combined.error().message));
      EXPECT(got == wanted);
    }
  }
  EXPECT((*reducer)->on_host() == 0);
  EXPECT((*reducer)->on_device() > 60);
}

TEST_CASE("the CPU's kernels give the host's bits") { check_bits("cpu"); }
TEST_CASE("so do those of a device that must have copies") { check_bits("sim"); }

TEST_CASE("what has no kernel is done here, and counted") {
  Devices devices;
  const auto reducer = DeviceReducer::create(**devices.list.open("cpu"), devices.cache).value();
  const std::array<std::byte, 4> left{std::byte{1}, std::byte{0}, std::byte{1}, std::byte{0}},
      right{std::byte{1}, std::byte{1}, std::byte{0}, std::byte{0}};
  std::array<std::byte, 4> target{};
  EXPECT(reducer->combine(Reduction::logical_and, ElementType::boolean, target.data(),
                          {left.data(), ElementType::boolean}, {right.data(), ElementType::boolean}, 4));
  EXPECT(target == std::array<std::byte, 4>{std::byte{1}});
  EXPECT(reducer->on_host() == 1);
  EXPECT(reducer->on_device() == 0);
}

TEST_CASE("a device without kernels combines nothing") {
  Devices devices;
  const auto reducer = DeviceReducer::create(**devices.list.open("mock"), devices.cache);
  REQUIRE_FALSE(reducer);
  EXPECT(reducer.error().code == ErrorCode::unsupported);
}

/// Every algorithm's result on four ranks, by this processor or by the device's kernels.
std::vector<std::vector<float>> reduced(const std::shared_ptr<collective::Reducer>& reducer,
                                        std::string_view algorithm) {
  std::vector<std::vector<float>> results(4);
  collective::ThreadWorld(4, {.reducer = reducer}).run([&](Communicator& communicator) {
    std::vector<float> input, output(5000);
    for (int i = 0; i < 5000; ++i)
      input.push_back(1.0F / static_cast<float>(1 + i + 7 * communicator.rank()));
    const auto done = communicator.run({.operation = Operation::all_reduce,
                                        .input = input.data(),
                                        .output = output.data(),
                                        .count = 5000,
                                        .algorithm = algorithm});
    CHECK(done, "an all_reduce");
    results[static_cast<std::size_t>(communicator.rank())] = std::move(output);
  });
  return results;
}

TEST_CASE("a collective whose elements a device combines has the same bits") {
  Devices devices;
  for (const std::string_view name : {"cpu", "sim"}) {
    const std::shared_ptr<DeviceReducer> reducer =
        DeviceReducer::create(**devices.list.open(name), devices.cache).value();
    for (const std::string_view algorithm : {"", "ring", "direct"}) {
      CAPTURE(algorithm);
      EXPECT(reduced(reducer, algorithm) == reduced(nullptr, algorithm));
    }
    EXPECT(reducer->on_device() > 20);
    EXPECT(reducer->on_host() == 0);
  }
}

TEST_CASE("a device that fails ends the call on all ranks") {
  Devices devices("devices = 1\nfail_launch = 1\n");
  std::array<ErrorCode, 2> codes{};
  const std::shared_ptr<DeviceReducer> reducer =
      DeviceReducer::create(**devices.list.open("sim"), devices.cache).value();
  collective::ThreadWorld world(2, {.timeout_us = 20'000'000});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      // Rank 0 alone has a device.
      const auto communicator =
          Communicator::create(world.group(rank), {.reducer = rank == 0 ? reducer : nullptr}).value();
      std::vector<float> input(5000, 1), output(5000);
      for (int i = 0; i < 2; ++i) {
        const auto done = communicator->run({.operation = Operation::all_reduce,
                                             .input = input.data(),
                                             .output = output.data(),
                                             .count = 5000,
                                             .algorithm = "ring"});
        if (!done) codes[static_cast<std::size_t>(rank)] = done.error().code;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(codes[0] == ErrorCode::device);
  EXPECT(codes[1] == ErrorCode::device);  // the first failure, wherever it was
}

}  // namespace
}  // namespace diji
