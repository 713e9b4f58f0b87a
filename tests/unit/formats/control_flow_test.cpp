// If, Loop and Scan: bodies, captures, and sizes that only a run tells.
#include "formats/onnx/import.h"

#include "graph/primitives.h"
#include "graph/verify.h"
#include "tests/unit/formats/expect_error.h"
#include "tests/unit/formats/onnx_writer.h"

#include <algorithm>
#include <string>
#include <vector>

namespace diji::test {
namespace {

constexpr std::int64_t kBool = 9;

Message if_node(std::initializer_list<std::string_view> outputs, const Message& then,
                const Message& otherwise, std::string_view condition = "c") {
  return node("If", {condition}, outputs,
              {graph_attribute("then_branch", then), graph_attribute("else_branch", otherwise)});
}

// x f32[N, 4], c bool, n i64 and weights; outputs have no declared type.
Message model_around(std::vector<Message> nodes, std::initializer_list<std::string_view> outputs,
                     std::int64_t version = 17) {
  GraphSpec graph = small_graph(std::move(nodes));
  graph.inputs.push_back(tensor_info("c", kBool, {}));
  graph.inputs.push_back(tensor_info("n", kInt64, {}));
  graph.initializers.push_back(raw_tensor("yes", kBool, {}, "\x01"));
  graph.initializers.push_back(raw_tensor("no", kBool, {}, std::string_view("\x00", 1)));
  graph.initializers.push_back(raw_tensor("five", kInt64, {}, bytes_of_values<std::int64_t>({5})));
  graph.initializers.push_back(int_tensor("axes", {0}));
  graph.initializers.push_back(int_tensor("one", {1}));
  graph.outputs.clear();
  for (const std::string_view name : outputs) graph.outputs.push_back(value_info(name, {}));
  return model_of(graph, version);
}

Graph graph_of(const Message& model) {
  const auto imported = import(model);
  if (!imported) MESSAGE(imported.error().message);
  REQUIRE(imported.has_value());
  const auto verified = verify(imported->graph);
  if (!verified) MESSAGE(verified.error().message);
  EXPECT(verified.has_value());
  return imported->graph;
}

const Node& node_of(const Graph& graph, Primitive primitive) {
  const auto found = std::ranges::find_if(
      graph.nodes(), [&](const Node& node) { return primitive_of(node.op) == primitive; });
  REQUIRE(found != graph.nodes().end());
  return *found;
}

std::string output_type(const Graph& graph, std::size_t i = 0) {
  return text_of(graph.type(graph.outputs().at(i).value));
}

TEST_CASE("branches capture what they read, in one order") {
  const Message then = body_of({}, {node("Add", {"x", "a"}, {"t"})}, {"t"});
  const Message otherwise =
      body_of({}, {node("Mul", {"b", "a"}, {"u"}), node("Add", {"u", "y"}, {"e"})}, {"e"});
  const Graph graph = graph_of(model_around(
      {node("Exp", {"x"}, {"a"}), node("Exp", {"a"}, {"b"}), if_node({"z"}, then, otherwise)}, {"z"}));
  const Node& node = node_of(graph, Primitive::conditional);
  EXPECT(node.inputs.size() == 4);  // the condition, x, a, b; y is a constant on both sides
  EXPECT(node.bodies[0]->inputs().size() == 3);
  EXPECT(node.bodies[1]->inputs().size() == 3);
  EXPECT(output_type(graph) == "f32[N, 4]");
}

TEST_CASE("a branch may return what it was given, and nested ones see every level") {
  const Message inner = body_of({}, {node("Add", {"deep", "x"}, {"t"})}, {"t"});
  const Message outer =
      body_of({}, {node("Exp", {"x"}, {"deep"}), if_node({"r"}, inner, body_of({}, {}, {"deep"}))}, {"r"});
  const Graph graph = graph_of(model_around({if_node({"z"}, outer, body_of({}, {}, {"x"}))}, {"z"}));
  EXPECT(output_type(graph) == "f32[N, 4]");
}

TEST_CASE("an If whose condition is known is the branch it takes") {
  const Message then = body_of({}, {node("Exp", {"x"}, {"t"})}, {"t"});
  const Message otherwise = body_of({}, {node("Tanh", {"x"}, {"e"})}, {"e"});
  for (const bool taken : {true, false}) {
    const Graph graph =
        graph_of(model_around({if_node({"z"}, then, otherwise, taken ? "yes" : "no")}, {"z"}));
    REQUIRE(graph.nodes().size() == 1);
    EXPECT(graph.nodes()[0].op->name == (taken ? "exp" : "tanh"));
  }
}

TEST_CASE("subgraphs may shadow with inputs and initializers, not with a node's output") {
  const Message weights =
      body_of({}, {node("Exp", {"y"}, {"t"})}, {"t"}, {float_tensor("y", {4}, {5, 6, 7, 8})});
  const Message otherwise = body_of({}, {node("Exp", {"y"}, {"e"})}, {"e"});
  graph_of(model_around({if_node({"z"}, weights, otherwise)}, {"z"}));
  const Message shadows = body_of({}, {node("Exp", {"y"}, {"x"})}, {"x"});
  expect_error(import(model_around({if_node({"z"}, shadows, otherwise)}, {"z"})), ErrorCode::malformed,
               {"the node of 'x' (Exp)", "'x'", "around this one"});
}

TEST_CASE("sizes that differ between branches are the run's; ranks move what follows into the branches") {
  const Message longer = body_of({}, {node("Concat", {"x", "x"}, {"t"}, {int_attribute("axis", 0)})}, {"t"});
  const Message same = body_of({}, {}, {"x"});
  const Graph sizes = graph_of(model_around({if_node({"z"}, longer, same)}, {"z"}));
  EXPECT(sizes.type(sizes.outputs()[0].value).shape[0].symbol_name().has_value());
  EXPECT(sizes.type(sizes.outputs()[0].value).shape[1].is(4));

  const Message higher = body_of({}, {node("Unsqueeze", {"x", "axes"}, {"t"})}, {"t"});
  const Graph ranks = graph_of(model_around(
      {if_node({"v"}, higher, same), node("Exp", {"x"}, {"free"}), node("Tanh", {"v"}, {"w"}),
       node("Shape", {"w"}, {"dims"}), node("ReduceMax", {"w"}, {"z"}, {int_attribute("keepdims", 0)})},
      {"z", "free", "dims"}));
  const Node& node = node_of(ranks, Primitive::conditional);
  EXPECT(node.outputs.size() == 2);
  EXPECT(output_type(ranks, 0) == "f32[]");
  EXPECT(output_type(ranks, 1) == "f32[N, 4]");
  EXPECT(ranks.type(ranks.outputs()[2].value).shape.size() == 1);
  expect_error(import(model_around({if_node({"z"}, higher, same)}, {"z"})), ErrorCode::unsupported,
               {"f32 of rank 3", "f32 of rank 2"});
}

TEST_CASE("where what follows fits one branch only, every run checks that the condition takes it") {
  const Message higher = body_of({}, {node("Unsqueeze", {"x", "axes"}, {"t"})}, {"t"});
  const Message same = body_of({}, {}, {"x"});
  const Message swapped = node("Transpose", {"v"}, {"z"}, {ints_attribute("perm", {1, 0})});
  const Graph by_value = graph_of(model_around({if_node({"v"}, higher, same), swapped}, {"z"}));
  EXPECT(output_type(by_value) == "f32[4, N]");
  node_of(by_value, Primitive::observe);
  REQUIRE(by_value.constraints().size() == 1);
  EXPECT(by_value.constraints()[0].right.is(0));  // the condition is false

  // Of two sizes that are compared, the assumption is about the sizes: nothing is read.
  const Graph by_size =
      graph_of(model_around({node("Shape", {"x"}, {"s"}, {int_attribute("end", 1)}),
                             node("Equal", {"s", "one"}, {"e"}), if_node({"v"}, same, higher, "e"), swapped},
                            {"z"}));
  REQUIRE(by_size.constraints().size() == 1);
  EXPECT(by_size.constraints()[0].left.text() == "N");
  EXPECT(by_size.constraints()[0].right.is(1));
}

Message loop_node(std::initializer_list<std::string_view> inputs,
                  std::initializer_list<std::string_view> outputs, const Message& body) {
  return node("Loop", inputs, outputs, {graph_attribute("body", body)});
}

TEST_CASE("a loop whose body always goes on has as many trips as its limit") {
  const Message body = body_of(
      {"i", "go", "a"}, {node("Add", {"a", "x"}, {"b"}), node("Identity", {"go"}, {"on"})}, {"on", "b", "b"});
  const Graph counted =
      graph_of(model_around({loop_node({"five", "yes", "x"}, {"last", "all"}, body)}, {"last", "all"}));
  const Node& node = node_of(counted, Primitive::loop);
  EXPECT(node.inputs[1] == ValueId::none);
  EXPECT(!loop_form(node).conditional);
  EXPECT(output_type(counted, 0) == "f32[N, 4]");
  EXPECT(output_type(counted, 1) == "f32[5, N, 4]");
  const Graph given =
      graph_of(model_around({loop_node({"n", "", "x"}, {"last", "all"}, body)}, {"last", "all"}));
  EXPECT(given.type(given.outputs()[1].value).shape[0].symbol_name().has_value());
  expect_error(import(model_around({loop_node({"", "", "x"}, {"last", "all"}, body)}, {"last"})),
               ErrorCode::mismatch, {"nothing ends it"});
}

TEST_CASE("a condition ends a loop; without one the body's is ignored") {
  const Message body = body_of(
      {"i", "go", "a"}, {node("Add", {"a", "x"}, {"b"}), node("Less", {"i", "n"}, {"on"})}, {"on", "b", "b"});
  const Graph ended =
      graph_of(model_around({loop_node({"five", "yes", "x"}, {"last", "all"}, body)}, {"all"}));
  EXPECT(loop_form(node_of(ended, Primitive::loop)).conditional);
  EXPECT(ended.type(ended.outputs()[0].value).shape[0].symbol_name().has_value());
  const Graph ignored =
      graph_of(model_around({loop_node({"five", "", "x"}, {"last", "all"}, body)}, {"all"}));
  EXPECT(output_type(ignored) == "f32[5, N, 4]");
  const Graph asked = graph_of(model_around({loop_node({"", "c", "x"}, {"last"}, body)}, {"last"}));
  EXPECT(node_of(asked, Primitive::loop).inputs[1] != ValueId::none);
  const Graph never = graph_of(model_around({loop_node({"n", "no", "x"}, {"last"}, body)}, {"last"}));
  EXPECT(contents_of(never, node_of(never, Primitive::loop).inputs[0]) == Shape{0});
}

TEST_CASE("a carried value that grows has a size of the body's own") {
  const Message body =
      body_of({"i", "go", "a"}, {node("Concat", {"a", "x"}, {"b"}, {int_attribute("axis", 0)})}, {"go", "b"});
  const Graph graph = graph_of(model_around({loop_node({"n", "yes", "x"}, {"last"}, body)}, {"last"}));
  const Shape& shape = graph.type(graph.outputs()[0].value).shape;
  EXPECT(shape[0].symbol_name().has_value());
  EXPECT(shape[0].text() != "N");
  EXPECT(shape[1].is(4));
  const Message rank = body_of({"i", "go", "a"}, {node("Unsqueeze", {"a", "axes"}, {"b"})}, {"go", "b"});
  expect_error(import(model_around({loop_node({"n", "yes", "x"}, {"last"}, rank)}, {"last"})),
               ErrorCode::unsupported, {"carried value 0", "f32[N, 4]", "f32[1, N, 4]"});
}

TEST_CASE("a loop over sequences is unrolled") {
  const Message body =
      body_of({"i", "go", "s"}, {node("SequenceInsert", {"s", "x"}, {"t"})}, {"go", "t", "i"});
  const Graph graph = graph_of(model_around(
      {node("SequenceEmpty", {}, {"s0"}), loop_node({"five", "yes", "s0"}, {"s1", "trips"}, body),
       node("ConcatFromSequence", {"s1"}, {"z"}, {int_attribute("axis", 1)})},
      {"z", "trips"}));
  EXPECT(output_type(graph, 0) == "f32[N, 20]");
  EXPECT(output_type(graph, 1) == "i64[5]");
  expect_error(import(model_around(
                   {node("SequenceEmpty", {}, {"s0"}), loop_node({"n", "yes", "s0"}, {"s1", "trips"}, body)},
                   {"trips"})),
               ErrorCode::unsupported, {"trip count", "depends on data"});
}

TEST_CASE("scans go along any axis, both ways, and stack along any axis") {
  const Message body =
      body_of({"s", "col"}, {node("Add", {"s", "col"}, {"t"}), node("Exp", {"t"}, {"e"})}, {"t", "e"});
  const auto scan = [&](std::initializer_list<Message> attributes) {
    Message message = node("Scan", {"s0", "x"}, {"last", "all"}, attributes);
    return message.message(onnx::NodeFields::attribute, graph_attribute("body", body))
        .message(onnx::NodeFields::attribute, int_attribute("num_scan_inputs", 1));
  };
  const Message start =
      node("ReduceMax", {"x"}, {"s0"}, {ints_attribute("axes", {1}), int_attribute("keepdims", 0)});
  const Graph graph = graph_of(model_around(
      {start,
       scan({ints_attribute("scan_input_axes", {-1}), ints_attribute("scan_input_directions", {1}),
             ints_attribute("scan_output_axes", {-1}), ints_attribute("scan_output_directions", {1})})},
      {"last", "all"}));
  EXPECT(output_type(graph, 0) == "f32[N]");
  EXPECT(output_type(graph, 1) == "f32[N, 4]");
  const auto refused = [&](const Message& attribute, ErrorCode code,
                           std::initializer_list<std::string_view> words) {
    expect_error(import(model_around({start, scan({attribute})}, {"all"})), code, words);
  };
  refused(ints_attribute("scan_input_axes", {2}), ErrorCode::mismatch, {"axis 2", "out of range"});
  refused(ints_attribute("scan_input_axes", {0, 1}), ErrorCode::malformed, {"2 entries, 1 are wanted"});
  refused(ints_attribute("scan_axis", {0}), ErrorCode::unsupported, {"no attribute 'scan_axis'"});
}

TEST_CASE("scans of operator set 8 have a batch in front") {
  const Message body = body_of({"s", "col"}, {node("Add", {"s", "col"}, {"t"})}, {"t", "t"});
  GraphSpec graph{
      .nodes = {node("Scan", {"", "s0", "xs"}, {"last", "all"},
                     {graph_attribute("body", body), int_attribute("num_scan_inputs", 1),
                      ints_attribute("directions", {1})})},
      .inputs = {tensor_info("s0", kFloat, {std::string_view("B"), std::int64_t{2}}),
                 tensor_info("xs", kFloat, {std::string_view("B"), std::string_view("T"), std::int64_t{2}})},
      .outputs = {value_info("last", {}), value_info("all", {})}};
  const Graph batched = graph_of(model_of(graph, 8));
  EXPECT(output_type(batched, 0) == "f32[B, 2]");
  EXPECT(output_type(batched, 1) == "f32[B, T, 2]");
}

TEST_CASE("bodies that do not fit their node") {
  const Message few = body_of({"i", "go"}, {}, {"go"});
  expect_error(import(model_around({loop_node({"n", "yes", "x"}, {"z"}, few)}, {"z"})), ErrorCode::malformed,
               {"3 inputs", "has 2"});
  const Message short_of = body_of({"i", "go", "a"}, {}, {"go"});
  expect_error(import(model_around({loop_node({"n", "yes", "x"}, {"z"}, short_of)}, {"z"})),
               ErrorCode::malformed, {"its body has 1 outputs"});
  expect_error(import(model_around({node("Loop", {"n", "yes", "x"}, {"z"})}, {"z"})), ErrorCode::malformed,
               {"'body' is missing"});
  const Message undefined = body_of({}, {node("Exp", {"nowhere"}, {"t"})}, {"t"});
  expect_error(import(model_around({if_node({"z"}, undefined, undefined)}, {"z"})), ErrorCode::malformed,
               {"'nowhere', which nothing defines"});
  expect_error(
      import(model_around({if_node({"z"}, body_of({}, {}, {"x"}), body_of({}, {}, {"x"}), "x")}, {"z"})),
      ErrorCode::mismatch, {"condition is f32[N, 4]"});
}

TEST_CASE("everything that nests in one model") {
  const Graph graph = graph_of(nested_model());
  EXPECT(output_type(graph, 2) == "f32[4]");
  EXPECT(output_type(graph, 3) == "f32[4, N]");
  EXPECT(output_type(graph, 4) == "f32[N, 8]");
}

TEST_CASE("references reach the bodies inside a function") {
  const Message scaled = body_of(
      {},
      {node("Constant", {}, {"k"}, {reference_attribute("value_float", onnx::AttributeType::real, "by")}),
       node("Mul", {"p", "k"}, {"t"})},
      {"t"});
  const FunctionSpec function{.name = "Maybe",
                              .inputs = {"c", "p"},
                              .outputs = {"r"},
                              .attributes = {"by"},
                              .nodes = {if_node({"r"}, scaled, body_of({}, {}, {"p"}))}};
  GraphSpec graph = small_graph({own_node("Maybe", {"c", "x"}, {"z"}, {real_attribute("by", 3)})});
  graph.inputs.push_back(tensor_info("c", kBool, {}));
  const Graph imported = graph_of(model_with(graph, {function}));
  EXPECT(node_of(imported, Primitive::conditional).bodies[0]->nodes().back().op->name == "mul");
}

}  // namespace
}  // namespace diji::test
