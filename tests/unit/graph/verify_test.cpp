// Every rule of verify() fires on a graph that breaks it.
#include "graph/verify.h"

#include "graph/builder.h"

#include "tests/unit/expect.h"

namespace diji {
namespace {

std::string problem(const Graph& graph) {
  const auto verified = verify(graph);
  return verified ? "" : verified.error().message;
}

Node node(Primitive primitive, Values inputs, Attributes attributes = {}) {
  return {.op = &op_of(primitive), .inputs = std::move(inputs), .attributes = std::move(attributes)};
}

struct Broken {
  Graph graph;
  ValueId x = graph.add_input("x", {DType::f32, {2, 3}});
  static constexpr auto kLater = static_cast<ValueId>(2);
};

TEST_CASE("a good graph passes") {
  Broken b;
  Builder builder(b.graph);
  b.graph.add_output("y", builder.exp(b.x));
  b.graph.add_output("same", b.x);
  EXPECT(problem(b.graph) == "");
}

TEST_CASE("operands") {
  Broken missing;
  missing.graph.add_node(node(Primitive::add, {missing.x}), {missing.graph.type(missing.x)});
  EXPECT(problem(missing.graph).contains("node 0 (prim.add): prim.add: input 'b' is missing"));
  Broken later;
  later.graph.add_node(node(Primitive::add, {later.x, Broken::kLater}), {later.graph.type(later.x)});
  later.graph.add_node(node(Primitive::exp, {later.x}), {later.graph.type(later.x)});
  EXPECT(problem(later.graph).contains("an input that is made later"));
  Broken itself;
  itself.graph.add_node(node(Primitive::exp, {static_cast<ValueId>(1)}), {itself.graph.type(itself.x)});
  EXPECT(problem(itself.graph).contains("an input that is made later"));
  Broken nowhere;
  nowhere.graph.add_node(node(Primitive::exp, {static_cast<ValueId>(77)}), {nowhere.graph.type(nowhere.x)});
  EXPECT(problem(nowhere.graph).contains("an input that does not exist"));
  Broken nothing;
  nothing.graph.add_node({}, {});
  EXPECT(problem(nothing.graph).contains("node 0 (?): no operator"));
}

TEST_CASE("types") {
  Broken shape;
  shape.graph.add_node(node(Primitive::exp, {shape.x}), {{DType::f32, {3, 2}}});
  EXPECT(problem(shape.graph).contains("result 0 is f32[3, 2], inferred f32[2, 3]"));
  Broken count;
  count.graph.add_node(node(Primitive::exp, {count.x}),
                       {count.graph.type(count.x), count.graph.type(count.x)});
  EXPECT(problem(count.graph).contains("another number of results"));
  Broken attribute;
  attribute.graph.add_node(node(Primitive::exp, {attribute.x}, {{"axis", std::int64_t{0}}}),
                           {attribute.graph.type(attribute.x)});
  EXPECT(problem(attribute.graph).contains("it has no attribute 'axis'"));
  Broken size;
  size.graph.add_input("bad", {DType::f32, {Dim::invalid()}});
  EXPECT(problem(size.graph).contains("a size that is not an integer of 64 bits"));
}

TEST_CASE("bodies") {
  const auto body_of = [](Type type) {
    Graph body;
    const ValueId p = body.add_input("p", std::move(type));
    body.add_output("y", Builder(body).exp(p));
    return std::make_shared<const Graph>(std::move(body));
  };
  Broken none;
  none.graph.add_node(node(Primitive::fusion, {none.x}), {none.graph.type(none.x)});
  EXPECT(problem(none.graph).contains("a fusion without a body"));
  const auto with_body = [&](Values inputs, std::shared_ptr<const Graph> body, Type result) {
    Broken b;
    Node fusion = node(Primitive::fusion, std::move(inputs));
    fusion.bodies = {std::move(body)};
    b.graph.add_node(std::move(fusion), {std::move(result)});
    return problem(b.graph);
  };
  const auto x = static_cast<ValueId>(0);
  const Type type{DType::f32, {2, 3}};
  EXPECT(with_body({x}, body_of(type), type) == "");
  EXPECT(with_body({x, x}, body_of(type), type).contains("its body has other ports"));
  EXPECT(with_body({x}, body_of({DType::f32, {3}}), type).contains("input 0 has another type in the body"));
  EXPECT(
      with_body({x}, body_of(type), {DType::f16, {2, 3}}).contains("output 0 has another type in the body"));
  EXPECT(with_body({ValueId::none}, body_of(type), type).contains("input 0 is missing"));
}

TEST_CASE("ports") {
  Broken input;
  input.graph.add_input("x", {DType::f32, {}});
  EXPECT(problem(input.graph).contains("input 'x' stands twice or is no input"));
  Broken output;
  output.graph.add_output("y", output.x);
  output.graph.add_output("y", output.x);
  EXPECT(problem(output.graph).contains("output 'y' stands twice or has no value"));
  Broken nothing;
  nothing.graph.add_output("y", ValueId::none);
  EXPECT(problem(nothing.graph).contains("output 'y' stands twice or has no value"));
}

}  // namespace
}  // namespace diji
