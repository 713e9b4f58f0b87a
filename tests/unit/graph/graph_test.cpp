// Storage of the IR: values, ports, assumptions.
#include "graph/graph.h"

#include "graph/builder.h"

#include "tests/unit/expect.h"

namespace diji {
namespace {

TEST_CASE("an assumption is kept once, and not when the bounds prove it") {
  const Dim n = Dim::symbol("N", {1, 10});
  Graph graph;
  graph.require({Constraint::Kind::equal, n, n, "trivial"});
  graph.require({Constraint::Kind::less_equal, 1, n, "proved"});
  graph.require({Constraint::Kind::less_equal, n, 10, "proved"});
  EXPECT(graph.constraints().empty());
  graph.require({Constraint::Kind::less_equal, n, 9, "first"});
  graph.require({Constraint::Kind::less_equal, n, 9, "again"});
  graph.require({Constraint::Kind::equal, n, 9, "another kind"});
  REQUIRE(graph.constraints().size() == 2);
  EXPECT(graph.constraints()[0].why == "first");
  EXPECT(graph.take_constraints().size() == 2);
  EXPECT(graph.constraints().empty());
}

TEST_CASE("a result is no input") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {2}});
  Builder b(graph);
  const ValueId y = b.add(x, x);
  EXPECT(graph.is_input(x));
  EXPECT_FALSE(graph.is_input(y));
}

TEST_CASE("symbols are those of the inputs") {
  Graph graph;
  graph.add_input("x", {DType::f32, {Dim::symbol("B"), Dim::symbol("A", {1, 2}) + 1}});
  const auto symbols = graph.symbols();
  REQUIRE(symbols.size() == 2);
  EXPECT(symbols.begin()->first == "A");
  EXPECT((symbols.begin()->second == Bounds{1, 2}));
}

}  // namespace
}  // namespace diji
