// Functions of a model: what their bodies become where they are called.
#include "formats/onnx/import.h"

#include "graph/interpreter.h"
#include "graph/verify.h"
#include "tests/unit/formats/expect_error.h"
#include "tests/unit/formats/onnx_writer.h"

#include <string>
#include <vector>

namespace diji::test {
namespace {

using onnx::AttributeType;

// y = x times a constant that is an attribute.
FunctionSpec scale(std::vector<std::string_view> attributes, std::vector<Message> defaults = {}) {
  return {
      .name = "Scale",
      .inputs = {"p"},
      .outputs = {"r"},
      .attributes = std::move(attributes),
      .defaults = std::move(defaults),
      .nodes = {node("Constant", {}, {"c"}, {reference_attribute("value_float", AttributeType::real, "by")}),
                node("Mul", {"p", "c"}, {"r"})}};
}

// The first output for x = [1, 2, 3, 4].
std::vector<float> result_of(const Result<ImportedModel>& model) {
  if (!model) MESSAGE(model.error().message);
  REQUIRE(model.has_value());
  EXPECT(verify(model->graph).has_value());
  const auto outputs =
      interpret(model->graph, std::vector{HostTensor::of<float>({1, 4}, {1, 2, 3, 4})}, Arithmetic::typed);
  REQUIRE(outputs.has_value());
  const auto values = outputs->at(0).values<float>();
  return {values.begin(), values.end()};
}

TEST_CASE("each call has attributes and inner names of its own") {
  const GraphSpec graph = small_graph({own_node("Scale", {"x"}, {"c"}, {real_attribute("by", 2)}),
                                       own_node("Scale", {"c"}, {"z"}, {real_attribute("by", -1)})});
  EXPECT(result_of(import(model_with(graph, {scale({"by"})}))) == std::vector<float>{-2, -4, -6, -8});
}

TEST_CASE("defaults of attributes, and calls that replace them") {
  const GraphSpec graph = small_graph(
      {own_node("Scale", {"x"}, {"a"}), own_node("Scale", {"a"}, {"z"}, {real_attribute("by", 10)})});
  EXPECT(result_of(import(model_with(graph, {scale({}, {real_attribute("by", 0.5F)})}))) ==
         std::vector<float>{5, 10, 15, 20});
}

TEST_CASE("a reference goes through several levels") {
  const auto pass = [](std::string_view name, std::string_view callee) {
    return FunctionSpec{
        .name = name,
        .inputs = {"p"},
        .outputs = {"r"},
        .attributes = {"by"},
        .nodes = {own_node(callee, {"p"}, {"r"}, {reference_attribute("by", AttributeType::real, "by")})}};
  };
  const GraphSpec graph = small_graph({own_node("Outer", {"x"}, {"z"}, {real_attribute("by", 3)})});
  EXPECT(result_of(import(model_with(graph, {scale({"by"}), pass("Inner", "Scale"),
                                             pass("Outer", "Inner")}))) == std::vector<float>{3, 6, 9, 12});
}

TEST_CASE("an attribute that is not given is left out of the body") {
  const FunctionSpec join{.name = "Transposed",
                          .inputs = {"p"},
                          .outputs = {"r"},
                          .attributes = {"order"},
                          .nodes = {node("Transpose", {"p"}, {"t"},
                                         {reference_attribute("perm", AttributeType::integers, "order")}),
                                    node("Transpose", {"t"}, {"r"})}};
  EXPECT(result_of(import(model_with(small_graph({own_node("Transposed", {"x"}, {"z"})}), {join}))) ==
         std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("absent inputs stay absent, and unused outputs need no name") {
  const FunctionSpec cut{
      .name = "Cut",
      .inputs = {"p", "first", "last", "axes"},
      .outputs = {"copy", "r"},
      .nodes = {node("Slice", {"p", "first", "last", "axes"}, {"r"}), node("Add", {"p", "p"}, {"copy"})}};
  GraphSpec graph = small_graph({own_node("Cut", {"x", "from", "to", ""}, {"", "z"})});
  graph.initializers = {int_tensor("from", {0, 1}), int_tensor("to", {1, 3})};
  graph.outputs = {tensor_info("z", kFloat, {{}, {}})};
  EXPECT(result_of(import(model_with(graph, {cut}))) == std::vector<float>{2, 3});
}

TEST_CASE("the function's own operator set decides the version of its nodes") {
  const auto squeeze = [](std::int64_t version) {
    return FunctionSpec{.name = "Drop",
                        .inputs = {"p"},
                        .outputs = {"r"},
                        .nodes = {node("Unsqueeze", {"p"}, {"u"}, {ints_attribute("axes", {0})}),
                                  node("Squeeze", {"u"}, {"r"}, {ints_attribute("axes", {0})})},
                        .version = version};
  };
  const GraphSpec graph = small_graph({own_node("Drop", {"x"}, {"z"})});
  EXPECT(result_of(import(model_with(graph, {squeeze(11)}))) == std::vector<float>{1, 2, 3, 4});
  expect_error(import(model_with(graph, {squeeze(9731)})), ErrorCode::unsupported, {"operator set 9731"});
}

TEST_CASE("a function of the model goes before the operator of its name") {
  FunctionSpec exp{
      .name = "Exp", .inputs = {"p"}, .outputs = {"r"}, .nodes = {node("Add", {"p", "p"}, {"r"})}};
  Message model = model_of(small_graph({node("Exp", {"x"}, {"z"})}));
  Message function = exp.message().text(onnx::FunctionFields::domain, "ai.onnx");
  EXPECT(result_of(import(model.message(onnx::ModelFields::functions, function))) ==
         std::vector<float>{2, 4, 6, 8});
}

TEST_CASE("overloads are functions of their own") {
  const auto overload = [](std::string_view name, std::string_view op) {
    return FunctionSpec{
        .name = "F", .inputs = {"p"}, .outputs = {"r"}, .nodes = {node(op, {"p", "p"}, {"r"})}}
        .message()
        .text(onnx::FunctionFields::overload, name);
  };
  const auto call = [](std::string_view name, std::string_view from, std::string_view to) {
    return own_node("F", {from}, {to}).text(onnx::NodeFields::overload, name);
  };
  const GraphSpec graph = small_graph({call("sum", "x", "a"), call("product", "a", "z")});
  Message model = model_with(graph, {}).message(onnx::ModelFields::functions, overload("sum", "Add"));
  EXPECT(
      result_of(import(Message(model).message(onnx::ModelFields::functions, overload("product", "Mul")))) ==
      std::vector<float>{4, 16, 36, 64});
  expect_error(import(model.message(onnx::ModelFields::functions, overload("sum", "Mul"))),
               ErrorCode::malformed, {"own.F:sum", "twice"});
}

TEST_CASE("recursion is refused by name") {
  const auto calls = [](std::string_view name, std::string_view callee) {
    return FunctionSpec{
        .name = name, .inputs = {"p"}, .outputs = {"r"}, .nodes = {own_node(callee, {"p"}, {"r"})}};
  };
  const GraphSpec graph = small_graph({own_node("A", {"x"}, {"z"})});
  expect_error(import(model_with(graph, {calls("A", "A")})), ErrorCode::malformed,
               {"'own.A' calls itself: own.A -> own.A"});
  expect_error(import(model_with(graph, {calls("A", "B"), calls("B", "C"), calls("C", "B")})),
               ErrorCode::malformed, {"'own.B' calls itself: own.B -> own.C -> own.B"});
}

TEST_CASE("bodies that multiply end at a limit") {
  std::vector<std::string> names;
  for (int i = 0; i <= 40; ++i) names.push_back(fmt::format("F{}", i));
  Message model = model_with(small_graph({own_node("F0", {"x"}, {"z"})}), {});
  for (std::size_t i = 0; i < 40; ++i) {
    const FunctionSpec twice{
        .name = names[i],
        .inputs = {"p"},
        .outputs = {"r"},
        .nodes = {own_node(names[i + 1], {"p"}, {"q"}), own_node(names[i + 1], {"q"}, {"r"})}};
    model.message(onnx::ModelFields::functions, twice.message());
  }
  const FunctionSpec last{.name = names[40], .inputs = {"p"}, .outputs = {"p"}, .nodes = {}};
  expect_error(import(model.message(onnx::ModelFields::functions, last.message())), ErrorCode::unsupported,
               {"expand to more than the limit"});
}

TEST_CASE("calls that do not fit the function") {
  const auto refused = [](const Message& call, const FunctionSpec& function,
                          std::initializer_list<std::string_view> words) {
    expect_error(import(model_with(small_graph({call}), {function})), ErrorCode::malformed, words);
  };
  refused(own_node("Scale", {"x", "y"}, {"z"}), scale({"by"}), {"2 inputs", "'Scale'", "has 1"});
  refused(own_node("Scale", {"x"}, {"z"}, {real_attribute("bye", 1)}), scale({"by"}),
          {"no attribute 'bye'", "'by'"});
  refused(own_node("Scale", {"x"}, {"z"}, {int_attribute("by", 1)}), scale({"by"}),
          {"'value_float'", "FLOAT", "'by'", "INT"});
  refused(own_node("Scale", {"x"}, {"z"}), scale({"factor"}), {"stands for 'by'", "'own.Scale'"});
  FunctionSpec open = scale({"by"});
  open.nodes = {node("Add", {"p", "x"}, {"r"})};  // names of the caller are not visible
  refused(own_node("Scale", {"x"}, {"z"}), open, {"needs 'x'", "nothing defines"});
}

TEST_CASE("the survey goes into functions that are called, and only those") {
  FunctionSpec used = scale({"by"}), unused = scale({"by"});
  used.nodes = {node("Wobble", {"p"}, {"r"})};
  unused.name = "Unused";
  unused.nodes = {node("Twirl", {"p"}, {"r"})};
  const GraphSpec graph = small_graph(
      {own_node("Scale", {"x"}, {"a"}), own_node("Scale", {"a"}, {"b"}), node("Wibble", {"b"}, {"z"})});
  const auto model = import(model_with(graph, {used, unused}));
  expect_error(model, ErrorCode::unsupported, {"2 operators are not built yet", "Wibble x1", "Wobble x1"});
  EXPECT(model.error().message.find("Twirl") == std::string::npos);
}

}  // namespace
}  // namespace diji::test
