// Einsum, TopK, Unique: equations, ties, what has no fixed length.
#include "tests/unit/expect.h"
#include "tests/unit/ops/call.h"

namespace diji {
namespace {

using test::Call;
using test::N;

std::string einsum(std::string equation, Shape a, Shape b) {
  return Call("einsum", {{"equation", std::move(equation)}})
      .input(DType::f32, std::move(a))
      .input(DType::f32, std::move(b))
      .type();
}

TEST_CASE("einsum: types and sentences") {
  EXPECT(einsum("ij,jk", {N, 3}, {3, 5}) == "f32[N, 5]");
  EXPECT(einsum("bij,bkj->bik", {N, 2, 3}, {N, 4, 3}) == "f32[N, 2, 4]");
  EXPECT(einsum("...i,i->...", {2, N, 3}, {3}) == "f32[2, N]");
  EXPECT(einsum("ii,jj->ij", {3, 3}, {N, N}) == "f32[3, N]");
  EXPECT(einsum("ab,ab->ba", {N, 1}, {N, 7}) == "f32[7, N]");
  EXPECT(einsum("ij,jk->iz", {2, 3}, {3, 5}) ==
         "einsum: Einsum equation 'ij,jk->iz' does not fit 2 operands");
  EXPECT(einsum("ij,jk->ii", {2, 3}, {3, 5}) ==
         "einsum: Einsum equation 'ij,jk->ii' does not fit 2 operands");
  EXPECT(einsum("ij->i", {2, 3}, {3, 5}) == "einsum: Einsum equation 'ij->i' does not fit 2 operands");
  EXPECT(einsum("ijk,jk->i", {2, 3}, {3, 5}) == "einsum: term 'ijk' does not fit [2, 3]");
}

TEST_CASE("top_k: sizes") {
  const auto type = [](std::int64_t k) {
    return Call("top_k").input(DType::f32, {N, 4}).constant(ints({k})).type();
  };
  EXPECT(type(3) == "f32[N, 3]");
  EXPECT(type(0) == "f32[N, 0]");
  EXPECT(type(-2) == "top_k: TopK of -2 elements; k must not be negative");
  EXPECT(type(5).contains("5 is more than 4"));
}

TEST_CASE("unique: NaN is one value, and the first of equal elements stands for them") {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {DType::f32, {N}});
  const Values outputs = b.call(*find_op("unique"), {x}, {{"sorted", std::int64_t{0}}});
  REQUIRE(b.ok());
  for (std::size_t i = 1; i < 4; ++i) graph.add_output(fmt::format("{}", i), outputs[i]);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<HostTensor> given = {HostTensor::of<float>({6}, {3, nan, 1, 3, nan, 3})};
  const auto found = interpret(graph, given, Arithmetic::typed);
  REQUIRE(found);
  EXPECT((*found)[0].as_int64() == std::vector<std::int64_t>{0, 1, 2});
  EXPECT((*found)[1].as_int64() == std::vector<std::int64_t>{0, 1, 2, 0, 1, 0});
  EXPECT((*found)[2].as_int64() == std::vector<std::int64_t>{3, 2, 1});
}

}  // namespace
}  // namespace diji
