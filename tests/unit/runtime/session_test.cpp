// Sessions: right answers for every size by one executable, the same bits for any number of threads, clear
// refusals.
#include "graph/interpreter.h"
#include "ops/samples.h"
#include "runtime/conformance.h"
#include "tests/unit/runtime/fixture.h"

#include <thread>

namespace diji {
namespace {

std::map<std::string, HostTensor> inputs_of(std::int64_t n) {
  return {{"x", sample_tensor(DType::f32, {n, 40}, Fill::normal, 3)},
          {"w", sample_tensor(DType::f32, {40}, Fill::wide, 4)}};
}

std::unique_ptr<Session> open_small(DeviceList& devices, SessionOptions options = {}) {
  auto session = Session::of(devices, test::small_graph(), options);
  REQUIRE(session.has_value());
  return std::move(*session);
}

TEST_CASE("one executable serves every size, within the proven bound") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  const auto session = open_small(devices);
  EXPECT(session->executable().compiled_kernels > 0);
  for (const std::int64_t n : {1, 2, 0, 7, 33, 1, 500}) {
    const auto inputs = inputs_of(n);
    const auto got = session->run(inputs);
    REQUIRE(got.has_value());
    const auto truth =
        interpret_with_bounds(test::small_graph(), std::vector{inputs.at("x"), inputs.at("w")});
    REQUIRE(truth.has_value());
    const Comparison compared = compare_with_truth((*got)[0], (*truth)[0].value, (*truth)[0].bound);
    CAPTURE(compared.problem);
    EXPECT(compared.ok);
  }
}

TEST_CASE("a second compilation of the same model compiles nothing") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  EXPECT(open_small(devices)->executable().compiled_kernels > 0);
  EXPECT(open_small(devices)->executable().compiled_kernels == 0);
}

TEST_CASE("the same bits with 1, 2, 3 and 7 threads") {
  const test::ScratchCache cache;
  std::optional<HostTensor> first;
  for (const int threads : {1, 2, 3, 7}) {
    DeviceList devices(built_in_plugins(), threads);
    const auto session = open_small(devices);
    const auto got = session->run(inputs_of(1000));
    REQUIRE(got.has_value());
    if (!first) first = (*got)[0];
    EXPECT((*got)[0].same_bits(*first));
  }
}

TEST_CASE("many threads on one session get the bits of one") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  const auto session = open_small(devices);
  const auto alone = session->run(inputs_of(64));
  REQUIRE(alone.has_value());
  std::atomic<int> equal = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int run = 0; run < 20; ++run) {
        const auto got = session->run(inputs_of(64));
        equal += got && (*got)[0].same_bits((*alone)[0]) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(equal == 160);
}

// The sentence of a refused run; "" when it was not refused.
std::string refusal(Session& session, std::map<std::string, HostTensor> inputs) {
  const auto result = session.run(inputs);
  return result ? "" : result.error().message;
}

TEST_CASE("inputs that do not fit are refused by name") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 1);
  const auto session = open_small(devices);
  auto inputs = inputs_of(3);
  const HostTensor w = inputs.at("w");
  inputs.erase("w");
  EXPECT(refusal(*session, inputs) == "input 'w' (f32[40]) is missing");
  inputs["ww"] = w;
  EXPECT(refusal(*session, inputs) == "the model has no input 'ww'; did you mean 'w'? its inputs are: x, w");
  inputs.erase("ww");
  inputs["w"] = sample_tensor(DType::f64, {40}, Fill::normal);
  EXPECT(refusal(*session, inputs) == "input 'w': dtype f64 where f32 is wanted");
  inputs["w"] = sample_tensor(DType::f32, {41}, Fill::normal);
  EXPECT(refusal(*session, inputs) ==
         "input 'w': axis 0 is 41, it must be 40 (given [41], declared f32[40])");
  inputs["w"] = sample_tensor(DType::f32, {1, 40}, Fill::normal);
  EXPECT(refusal(*session, inputs) ==
         "input 'w': rank 2 where 1 is wanted (given [1, 40], declared f32[40])");
  inputs["w"] = w;
  EXPECT(refusal(*session, inputs).empty());
}

TEST_CASE("a memory limit is an error with numbers, and the session goes on") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 1);
  const auto session = open_small(devices, {.memory_limit_bytes = 100000});
  REQUIRE(session->run(inputs_of(10)).has_value());
  const auto refused = session->run(inputs_of(100000));
  REQUIRE_FALSE(refused.has_value());
  EXPECT(refused.error().code == ErrorCode::out_of_memory);
  EXPECT(refused.error().bytes > 100000);
  EXPECT(refused.error().pool.contains("small"));
  EXPECT(refused.error().message.contains("100000"));
  EXPECT(session->run(inputs_of(10)).has_value());
}

TEST_CASE("what a kernel finds in the data is an error, and the next run is clean") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  auto session = Session::of(devices, test::graph_from(R"(graph "divide" {
    symbol N in [0, 1099511627776]
    input %a "a" : i32[N]
    input %b "b" : i32[N]
    %y = div(%a, %b)
    output "y" = %y
  })"),
                             {});
  REQUIRE(session.has_value());
  const auto run = [&](std::int32_t divisor) {
    return (*session)->run({{"a", HostTensor::of<std::int32_t>({3}, {7, -7, 5})},
                            {"b", HostTensor::of<std::int32_t>({3}, {2, 2, divisor})}});
  };
  const auto bad = run(0);
  REQUIRE_FALSE(bad.has_value());
  EXPECT(bad.error().code == ErrorCode::data);
  EXPECT(bad.error().message == "divide: integer division by zero");
  const auto good = run(-5);
  REQUIRE(good.has_value());
  EXPECT((*good)[0].same_bits(HostTensor::of<std::int32_t>({3}, {3, -3, -1})));
}

TEST_CASE("sizes that were assumed equal are checked at every run") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 1);
  auto session = Session::of(devices, test::graph_from(R"(graph "assume" {
    symbol N in [0, 1099511627776]
    symbol M in [0, 1099511627776]
    input %a "a" : f32[N]
    input %b "b" : f32[M]
    %y = add(%a, %b)
    output "y" = %y
  })"),
                             {});
  REQUIRE(session.has_value());
  const auto run = [&](std::int64_t n, std::int64_t m) {
    return (*session)->run({{"a", sample_tensor(DType::f32, {n}, Fill::normal)},
                            {"b", sample_tensor(DType::f32, {m}, Fill::normal)}});
  };
  EXPECT(run(4, 4).has_value());
  const auto refused = run(4, 5);
  REQUIRE_FALSE(refused.has_value());
  EXPECT(refused.error().code == ErrorCode::mismatch);
  EXPECT(refused.error().message.contains("N = 4 must be equal to M = 5"));
}

TEST_CASE("an unknown device lists what exists") {
  DeviceList devices(built_in_plugins(), 1);
  const auto refused = Session::of(devices, test::small_graph(), {.device = "gpu:7"});
  REQUIRE_FALSE(refused.has_value());
  EXPECT(refused.error().code == ErrorCode::no_device);
  EXPECT(refused.error().message.contains("cpu:0"));
}

}  // namespace
}  // namespace diji
