// The builder: the first error sticks, helpers add no node where nothing changes, calls are checked against
// the record.
#include "graph/builder.h"

#include "tests/unit/expect.h"

namespace diji {
namespace {

const Dim N = Dim::symbol("N"), M = Dim::symbol("M");

TEST_CASE("after an error nothing changes, and the first error is the one reported") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {2}}), y = graph.add_input("y", {DType::f32, {3}});
  Builder b(graph);
  EXPECT(b.add(x, y) == ValueId::none);
  const std::size_t values = graph.values().size(), constraints = graph.constraints().size();
  const ValueId none = b.exp(b.transpose(b.slice(b.reshape(b.add(x, y), {6}), {0}, {1}, {1}), {0}));
  EXPECT(none == ValueId::none);
  b.reduce(x, Reduction::sum, {9});
  b.convert(x, DType::i32);
  EXPECT(b.concatenate({x, y}, 4) == ValueId::none);
  EXPECT(b.dims({1}) == ValueId::none);
  EXPECT(b.fail(ErrorCode::usage, "later") == ValueId::none);
  EXPECT_FALSE(b.ok());
  EXPECT(graph.values().size() == values);
  EXPECT(graph.constraints().size() == constraints);
  EXPECT(b.status().error().message == "prim.add: shapes [2] and [3] do not broadcast: 2 and 3 on axis 0");
  EXPECT(b.rank(ValueId::none) == 0);
}

TEST_CASE("helpers add no node where nothing changes") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {N, 2}});
  Builder b(graph);
  EXPECT(b.reshape(x, {N, 2}) == x);
  EXPECT(b.broadcast(x, {N, 2}) == x);
  EXPECT(b.transpose(x, {0, 1}) == x);
  EXPECT(b.slice(x, {0, 0}, {N, 2}, {1, 1}) == x);
  EXPECT(b.concatenate({x}, 0) == x);
  EXPECT(b.reduce(x, Reduction::sum, {}) == x);
  EXPECT(b.convert(x, DType::f32) == x);
  EXPECT(graph.nodes().empty());
  EXPECT(b.transpose(x, {0, 0}) == ValueId::none);
  EXPECT(b.status().error().message == "prim.transpose: axis 0 stands twice");
}

TEST_CASE("broadcast_shapes") {
  const auto broadcast = [](const Shape& a, const Shape& b, std::size_t assumptions) {
    Graph graph;
    Builder builder(graph);
    const Shape shape = builder.broadcast_shapes(a, b, "test");
    EXPECT(graph.constraints().size() == assumptions);
    return builder.ok() ? text_of(shape) : builder.status().error().message;
  };
  EXPECT(broadcast({2, 1}, {3}, 0) == "[2, 3]");
  EXPECT(broadcast({}, {N}, 0) == "[N]");
  EXPECT(broadcast({N, 1}, {1, N}, 0) == "[N, N]");
  EXPECT(broadcast({N}, {M}, 1) == "[M]");
  EXPECT(broadcast({N}, {7}, 1) == "[7]");
  EXPECT(broadcast({7}, {N}, 1) == "[7]");
  EXPECT(broadcast({0}, {1}, 0) == "[0]");
  EXPECT(broadcast({0}, {2}, 0) == "test: shapes [0] and [2] do not broadcast: 0 and 2 on axis 0");
  EXPECT(broadcast({N + 1}, {N}, 0) ==
         "test: shapes [N + 1] and [N] do not broadcast: N + 1 and N on axis 0");
}

TEST_CASE("broadcast_shapes where sizes that turn out to be 1 stretch") {
  Graph graph;
  graph.stretches = true;
  Builder b(graph);
  const Dim common = b.broadcast_shapes({N}, {M}, "test")[0];
  const auto size = [&](std::int64_t n, std::int64_t m) { return *common.evaluate({{"N", n}, {"M", m}}); };
  EXPECT(size(3, 3) == 3);
  EXPECT(size(1, 3) == 3);
  EXPECT(size(3, 1) == 3);
  EXPECT(size(0, 1) == 0);
  EXPECT(size(1, 0) == 0);
  EXPECT(b.broadcast_shapes({N}, {7}, "test")[0].is(7));
  EXPECT(b.broadcast_shapes({0}, {N}, "test")[0].is(0));
  EXPECT(b.broadcast_shapes({N}, {Dim::symbol("P", {2, 9})}, "test")[0].symbol_name() == "P");
  EXPECT(graph.constraints().empty());
  // Views of what lies there: no axis is copied that cannot stretch.
  const ValueId x = graph.add_input("x", {DType::f32, {N, 1, Dim::symbol("P", {2, 9})}});
  b.broadcast(x, {N, M, Dim::symbol("P", {2, 9})});
  EXPECT(graph.nodes().size() == 1);
  b.broadcast(x, {M, M, Dim::symbol("P", {2, 9})});
  REQUIRE(graph.constraints().size() == 1);
  EXPECT(graph.constraints()[0].why == "broadcast: axis 0 of [N, 1, P] to [M, M, P]");
  EXPECT(graph.child().stretches);
  EXPECT(graph.successor().stretches);
}

TEST_CASE("axis counts from the end when negative") {
  Graph graph;
  Builder b(graph);
  EXPECT(b.axis(-1, 3) == 2);
  EXPECT(b.axis(2, 3) == 2);
  b.axis(3, 3);
  EXPECT(b.status().error().message == "axis 3 is out of range for 3 axes; use -3..2");
}

TEST_CASE("scalars are rounded to their dtype") {
  Graph graph;
  Builder b(graph);
  EXPECT(graph.value(b.scalar(DType::f16, 0.1)).constant->as_double(0) == static_cast<double>(Float16(0.1)));
  EXPECT(graph.value(b.scalar(DType::boolean, 1)).constant->as_int64()[0] == 1);
  EXPECT(graph.type(b.scalar(DType::i8, -3)).shape.empty());
}

}  // namespace
}  // namespace diji
