// Real shapes against declared ones: each sentence that stands before a run.
#include "graph/bind.h"

#include "tests/unit/expect.h"

namespace diji {
namespace {

const Dim N = Dim::symbol("N", {1, 100}), M = Dim::symbol("M");

std::string bind(const std::vector<Shape>& declared, const std::vector<StaticShape>& given,
                 const std::vector<Constraint>& constraints = {}) {
  Graph graph;
  for (const Shape& shape : declared)
    graph.add_input(fmt::format("x{}", graph.inputs().size()), {DType::f32, shape});
  for (const Constraint& constraint : constraints) graph.require(constraint);
  const auto bindings = bind_symbols(graph, given);
  if (!bindings) {
    EXPECT(bindings.error().code == ErrorCode::mismatch);
    return bindings.error().message;
  }
  std::string text;
  for (const auto& [name, value] : *bindings) text += fmt::format("{}={} ", name, value);
  return text;
}

TEST_CASE("symbols get their sizes") {
  EXPECT(bind({{N, 3}, {M, N}}, {{5, 3}, {0, 5}}) == "M=0 N=5 ");
  EXPECT(bind({{Dim(2) * N}, {N}}, {{10}, {5}}) == "N=5 ");
  EXPECT(bind({{}}, {{}}) == "");
}

TEST_CASE("what does not fit says the input, the axis, what it is and what it may be") {
  EXPECT(bind({{N, 3}}, {{5}}) == "input 'x0': rank 1 where 2 is wanted (given [5], declared f32[N, 3])");
  EXPECT(bind({{N, 3}}, {{5, 4}}) ==
         "input 'x0': axis 1 is 4, it must be 3 (given [5, 4], declared f32[N, 3])");
  EXPECT(bind({{N}}, {{0}}) == "input 'x0': axis 0 (N) is 0, it may be 1 … 100 (given [0], declared f32[N])");
  EXPECT(bind({{N}}, {{101}}) ==
         "input 'x0': axis 0 (N) is 101, it may be 1 … 100 (given [101], declared f32[N])");
  EXPECT(bind({{N}, {3, N}}, {{4}, {3, 5}}) ==
         "input 'x1': axis 1 is 5, but N is already 4 (axis 0 of 'x0') (given [3, 5], declared f32[3, N])");
  EXPECT(bind({{N}, {Dim(2) * N}}, {{4}, {9}}) ==
         "input 'x1': axis 0 is 9, 2*N is 8 (given [9], declared f32[2*N])");
}

TEST_CASE("assumptions are checked with both sides and the reason") {
  EXPECT(bind({{N}, {M}}, {{4}, {4}}, {{Constraint::Kind::equal, N, M, "why"}}) == "M=4 N=4 ");
  EXPECT(bind({{N}, {M}}, {{4}, {5}}, {{Constraint::Kind::equal, N, M, "add: axis 0"}}) ==
         "these sizes do not fit the model: add: axis 0: N = 4 must be equal to M = 5");
  EXPECT(bind({{N}}, {{4}}, {{Constraint::Kind::less_equal, 7, N, "kernel"}}) ==
         "these sizes do not fit the model: kernel: 7 = 7 must be at most N = 4");
}

TEST_CASE("dtypes") {
  const Port port{"x", static_cast<ValueId>(0)};
  EXPECT(check_dtype(port, DType::f32, DType::f32));
  const auto wrong = check_dtype(port, DType::f32, DType::f64);
  REQUIRE_FALSE(wrong);
  EXPECT(wrong.error().message == "input 'x': dtype f64 where f32 is wanted");
  EXPECT(wrong.error().dtype == "f64");
}

}  // namespace
}  // namespace diji
