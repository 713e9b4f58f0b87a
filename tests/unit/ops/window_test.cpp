// Windows: how many there are for symbolic sizes, which cells count, and where they came from.
#include "tests/unit/expect.h"
#include "tests/unit/ops/call.h"

namespace diji {
namespace {

using test::Call;
using test::N;

std::string pooled(std::string_view op, Shape x, Attributes attributes) {
  return Call(op, std::move(attributes)).input(DType::f32, std::move(x)).type();
}

std::vector<double> values(const Result<HostTensor>& tensor) {
  std::vector<double> all;
  for (std::int64_t i = 0; tensor && i < tensor->count(); ++i) all.push_back(tensor->as_double(i));
  return all;
}

TEST_CASE("pools: sizes as expressions") {
  const std::string same = "SAME_UPPER";
  EXPECT(pooled("max_pool", {1, 2, N}, {{"kernel_shape", Ints{3}}}) == "f32[1, 2, N - 2]");
  EXPECT(pooled("max_pool", {1, 2, N}, {{"kernel_shape", Ints{3}}, {"auto_pad", same}}) == "f32[1, 2, N]");
  const Attributes ceil = {
      {"kernel_shape", Ints{2}}, {"strides", Ints{3}}, {"pads", Ints{1, 1}}, {"ceil_mode", std::int64_t{1}}};
  // A third window would start in the padding behind the five cells.
  EXPECT(pooled("average_pool", {1, 1, 5}, ceil) == "f32[1, 1, 2]");
  EXPECT(pooled("average_pool", {1, 1, 6}, ceil) == "f32[1, 1, 3]");
}

TEST_CASE("conv: SAME with a stride on a symbolic size") {
  for (const std::int64_t size : {1, 5, 6, 7, 20}) {
    Call call("conv", {{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{3}}});
    call.input(DType::f32, {1, 1, N}).input(DType::f32, {1, 1, 4});
    const auto y = call.run({sample_tensor(DType::f32, {1, 1, size}, Fill::normal),
                             sample_tensor(DType::f32, {1, 1, 4}, Fill::normal)});
    REQUIRE(y);
    EXPECT(y->shape() == StaticShape{1, 1, (size + 2) / 3});
  }
}

TEST_CASE("average_pool: padding counts on demand, cells beyond it never") {
  const auto mean = [](std::int64_t count_padding) {
    Call call("average_pool", {{"kernel_shape", Ints{3}},
                               {"strides", Ints{2}},
                               {"pads", Ints{1, 0}},
                               {"ceil_mode", std::int64_t{1}},
                               {"count_include_pad", count_padding}});
    call.input(DType::f32, {1, 1, 4});
    return values(call.run({HostTensor::of<float>({1, 1, 4}, {2, 4, 6, 8})}));
  };
  EXPECT(mean(0) == std::vector<double>{3, 6});
  EXPECT(mean(1) == std::vector<double>{2, 6});
}

TEST_CASE("max_pool: a window of −inf names a cell, not its padding") {
  Call call("max_pool", {{"kernel_shape", Ints{2}}, {"pads", Ints{1, 0}}});
  call.input(DType::f32, {1, 1, 2});
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {DType::f32, {1, 1, 2}});
  const Values outputs = b.call(*find_op("max_pool"), {x}, {{"kernel_shape", Ints{2}}, {"pads", Ints{1, 0}}});
  REQUIRE(b.ok());
  graph.add_output("indices", outputs[1]);
  const float low = -std::numeric_limits<float>::infinity();
  const std::vector<HostTensor> given = {HostTensor::of<float>({1, 1, 2}, {low, low})};
  const auto found = interpret(graph, given, Arithmetic::typed);
  REQUIRE(found);
  EXPECT((*found)[0].as_int64() == std::vector<std::int64_t>{0, 0});
}

TEST_CASE("conv_transpose: sizes") {
  const auto type = [](Attributes attributes) {
    return Call("conv_transpose", std::move(attributes))
        .input(DType::f32, {1, 2, N})
        .input(DType::f32, {2, 3, 4})
        .type();
  };
  EXPECT(type({}) == "f32[1, 3, N + 3]");
  EXPECT(type({{"strides", Ints{2}}, {"pads", Ints{1, 2}}, {"output_padding", Ints{1}}}) == "f32[1, 3, 2*N]");
  EXPECT(type({{"strides", Ints{3}}, {"auto_pad", std::string("SAME_UPPER")}}) == "f32[1, 3, 3*N]");
  EXPECT(type({{"group", std::int64_t{-1}}}) == "conv_transpose: group -1 must be at least 1");
}

}  // namespace
}  // namespace diji
