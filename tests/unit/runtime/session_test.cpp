// Sessions: right answers for every size by one executable, the same bits for any number of threads, clear
// refusals.
#include "base/files.h"
#include "graph/interpreter.h"
#include "ops/samples.h"
#include "runtime/conformance.h"
#include "tests/unit/formats/onnx_writer.h"
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

TEST_CASE("a file's sizes of 1 stretch, by a form of the model that is compiled when a run needs it") {
  const test::ScratchCache cache;

  using Name = std::string_view;
  const test::GraphSpec graph{
      .nodes = {test::node("Sub", {"a", "b"}, {"d"}), test::node("ReduceSum", {"d"}, {"s"}),
                test::node("Sub", {"a", "s"}, {"y"})},
      .inputs = {test::tensor_info("a", test::kFloat, {Name("N"), Name("M")}),
                 test::tensor_info("b", test::kFloat, {Name("P"), Name("Q")})},
      .outputs = {test::tensor_info("y", test::kFloat, {Name("N"), Name("M")})}};
  const auto path = cache.folder() / "m.onnx";
  REQUIRE(write_file_atomically(path, test::model_of(graph).bytes()).has_value());
  DeviceList devices(built_in_plugins(), 1);
  const auto session = Session::open(devices, path, {}).value();
  const auto run = [&](StaticShape a, StaticShape b) {
    return session->run({{"a", sample_tensor(DType::f32, std::move(a), Fill::normal, 1)},
                         {"b", sample_tensor(DType::f32, std::move(b), Fill::normal, 2)}});
  };
  EXPECT(run({2, 3}, {2, 3}).value()[0].shape() == StaticShape{2, 3});
  const auto refused = run({2, 3}, {2, 4});
  REQUIRE_FALSE(refused.has_value());
  EXPECT(refused.error().message.contains("M = 3 must be equal to Q = 4"));
  const HostTensor column = run({2, 1}, {1, 3}).value()[0];
  EXPECT(column.shape() == StaticShape{2, 1});
  EXPECT(run({2, 3}, {1, 3}).value()[0].shape() == StaticShape{2, 3});
  EXPECT(run({0, 3}, {1, 1}).value()[0].shape() == StaticShape{0, 3});
  // Sizes that fit neither form: what the model's own says.
  const auto neither = run({2, 3}, {1, 4});
  REQUIRE_FALSE(neither.has_value());
  EXPECT(neither.error().message.contains("N = 2 must be equal to P = 1"));
  // A file that is another one by now is not taken for the model.
  const auto changed = Session::open(devices, path, {}).value();
  REQUIRE(write_file_atomically(path, test::model_of(graph, 16).bytes()).has_value());
  const auto given = sample_tensor(DType::f32, {1, 3}, Fill::normal, 2);
  EXPECT_FALSE(changed->run({{"a", sample_tensor(DType::f32, {2, 3}, Fill::normal, 1)}, {"b", given}}));
}

TEST_CASE("a graph that stretches computes what NumPy's rule says, within the proven bound") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  const auto text = [](std::string_view word) {
    return fmt::format(R"(graph "stretch" {} {{
    symbol N in [0, 1099511627776]
    symbol M in [0, 1099511627776]
    input %a "a" : f32[N, 5]
    input %b "b" : f32[M, 5]
    %p = mul(%a, %b)
    %y = add(%p, %a)
    output "y" = %y
  }})",
                       word);
  };
  const Graph graph = test::graph_from(text("stretches"));
  EXPECT(print(test::graph_from(print(graph))) == print(graph));
  const auto session = Session::of(devices, graph, {}).value();
  for (const auto& [n, m] : {std::pair{3, 3}, {1, 70}, {70, 1}, {1, 1}, {0, 1}, {1, 0}}) {
    const auto a = sample_tensor(DType::f32, {n, 5}, Fill::normal, 1),
               b = sample_tensor(DType::f32, {m, 5}, Fill::normal, 2);
    const HostTensor y = session->run({{"a", a}, {"b", b}}).value()[0];
    const std::int64_t rows = n == 1 ? m : n;
    REQUIRE(y.shape() == StaticShape{rows, 5});
    for (std::int64_t i = 0; i < y.count(); ++i) {
      const double left = a.as_double(n == 1 ? i % 5 : i), right = b.as_double(m == 1 ? i % 5 : i);
      const float product = static_cast<float>(left * right);
      EXPECT(y.as_double(i) == product + static_cast<float>(left));
    }
  }
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
