// What the importer refuses: the code, the byte and the names in the sentence.
#include "formats/onnx/import.h"

#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/formats/expect_error.h"
#include "tests/unit/formats/onnx_writer.h"

#include <string>
#include <vector>

namespace diji::test {
namespace {

using onnx::GraphFields;
using onnx::ModelFields;
using onnx::NodeFields;
using std::string_view;

Message plain_model() { return model_of(small_graph({node("Add", {"x", "y"}, {"z"})})); }

// Fails with `op` and a byte inside the file in the error's fields.
void expect_at_node(const Result<ImportedModel>& model, ErrorCode code,
                    std::initializer_list<string_view> words, string_view op) {
  expect_error(model, code, words);
  EXPECT(model.error().op == op);
  EXPECT(model.error().file == "m.onnx");
  EXPECT(model.error().offset > 0);
}

TEST_CASE("files that are not there or no files") {
  const ScratchFolder folder;
  expect_error(read_onnx(folder.path() / "none.onnx"), ErrorCode::not_found, {"none.onnx"});
  expect_error(read_onnx(folder.path()), ErrorCode::io, {"directory"});
  expect_error(read_onnx(folder.write("empty.onnx", "")), ErrorCode::malformed,
               {"empty.onnx", "byte 0", "is empty"});
  const auto text = read_onnx(folder.write("page.onnx", "<!DOCTYPE html><html>"));
  expect_error(text, ErrorCode::malformed, {"page.onnx", "byte 0"});
  EXPECT(text.error().file.ends_with("page.onnx"));
  EXPECT(text.error().offset == 0);
}

TEST_CASE("a model that is cut off says where") {
  const std::string whole = plain_model().text();
  const auto cut = import(Message().raw(whole.substr(0, whole.size() / 2)));
  expect_error(cut, ErrorCode::malformed, {"m.onnx: byte", "are left: the file is cut off"});
  EXPECT(cut.error().offset > 0);
  expect_error(import(Message().integer(ModelFields::ir_version, 8)), ErrorCode::malformed,
               {"byte 2", "without a graph"});
}

TEST_CASE("versions of IR and operator sets") {
  const GraphSpec graph = small_graph({node("Add", {"x", "y"}, {"z"})});
  const auto model = [&](std::int64_t ir, std::initializer_list<Message> opsets) {
    Message message =
        Message().integer(ModelFields::ir_version, ir).message(ModelFields::graph, graph.message());
    for (const Message& set : opsets) message.message(ModelFields::opset_import, set);
    return import(message);
  };
  expect_error(model(0, {opset("", 17)}), ErrorCode::malformed, {"ir_version is 0"});
  expect_error(model(-3, {opset("", 17)}), ErrorCode::malformed, {"ir_version is -3"});
  expect_error(model(999, {opset("", 17)}), ErrorCode::unsupported, {"IR version 999", "up to 14"});
  expect_error(model(8, {}), ErrorCode::malformed, {"no operator set"});
  expect_error(model(8, {opset("", 0)}), ErrorCode::malformed, {"version 0"});
  expect_error(model(8, {opset("", 9731)}), ErrorCode::unsupported, {"operator set 9731", "up to 28"});
  expect_error(model(8, {opset("", 13), opset("ai.onnx", 14)}), ErrorCode::malformed,
               {"ai.onnx", "13 and 14"});
  expect_error(model(8, {opset("ai.onnx.ml", 1)}), ErrorCode::malformed,
               {"Add", "no operator set of the domain 'ai.onnx'"});
}

TEST_CASE("all unknown operators at once, with counts and nearest names") {
  Message inner =
      GraphSpec{.nodes = {node("Wobble", {}, {"w"})}, .outputs = {tensor_info("w", kFloat, {})}}.message();
  Message branch =
      attribute_head("then_branch", onnx::AttributeType::graph).message(onnx::AttributeFields::g, inner);
  GraphSpec graph = small_graph({node("Addd", {"x", "y"}, {"a"}), node("If", {"x"}, {"b"}, {branch}),
                                 node("Addd", {"a", "b"}, {"c"}), node("Twirl", {"c"}, {"d"}),
                                 node("Fused", {"d"}, {"z"}).text(NodeFields::domain, "com.lab")});
  const auto model = import(model_of(graph).message(ModelFields::opset_import, opset("com.lab", 1)));
  expect_at_node(model, ErrorCode::unsupported,
                 {"4 operators are not built yet", "Addd x2 (the nearest is 'Add')", "Wobble x1", "Twirl x1",
                  "com.lab.Fused x1"},
                 "Addd, Twirl, Wobble, com.lab.Fused");
}

TEST_CASE("an error about thousands of unknown operators stays readable") {
  GraphSpec graph = small_graph({node("Add", {"x", "y"}, {"z"})});
  for (int i = 0; i < 1000; ++i)
    graph.nodes.push_back(node(fmt::format("Unknown{}", i), {}, {fmt::format("v{}", i)}));
  expect_error(import(graph), ErrorCode::unsupported, {"1000 operators are not built yet", "744 more"});
}

TEST_CASE("versions that are not understood, domains that are not imported") {
  GraphSpec graph = small_graph({node("Grow", {"x"}, {"z"}).text(NodeFields::domain, "own")});
  expect_at_node(import(model_of(graph)), ErrorCode::malformed,
                 {"'z'", "own.Grow", "no operator set of the domain 'own'"}, "own.Grow");
  expect_at_node(import(small_graph({node("Expand", {"x", "y"}, {"z"})}), 6), ErrorCode::unsupported,
                 {"Expand x1", "operator set 6", "8, 13"}, "Expand");
}

TEST_CASE("cycles name their nodes") {
  const auto model =
      import(small_graph({node("Add", {"x", "y"}, {"z"}), node("Exp", {"c"}, {"a"}, {}, "one"),
                          node("Sqrt", {"a"}, {"b"}, {}, "two"), node("Tanh", {"b"}, {"c"}, {}, "three"),
                          node("Exp", {"a"}, {"behind"}, {}, "reader")}));
  expect_error(model, ErrorCode::malformed, {"cycle", "'one' (Exp)", "'two' (Sqrt)", "'three' (Tanh)"});
  EXPECT(model.error().message.find("reader") == std::string::npos);
  EXPECT(model.error().offset > 0);
  expect_error(import(small_graph({node("Add", {"z", "y"}, {"z"})})), ErrorCode::malformed,
               {"cycle", "the node of 'z'"});
  std::vector<Message> ring;
  for (int i = 0; i < 20; ++i) {
    const std::string from = fmt::format("v{}", i), to = fmt::format("v{}", (i + 1) % 20);
    ring.push_back(node("Exp", {from}, {to}));
  }
  ring.push_back(node("Add", {"x", "y"}, {"z"}));
  expect_error(import(small_graph(ring)), ErrorCode::malformed, {"cycle", "12 more"});
}

TEST_CASE("values defined twice or never") {
  expect_error(import(small_graph({node("Add", {"x", "y"}, {"z"}), node("Exp", {"x"}, {"z"})})),
               ErrorCode::malformed, {"'z' is defined twice"});
  expect_error(import(small_graph({node("Add", {"x", "y"}, {"z"}), node("Exp", {"x"}, {"x"})})),
               ErrorCode::malformed, {"'x' is defined twice"});
  expect_error(import(small_graph({node("Add", {"x", "y"}, {"z"}), node("Exp", {"x"}, {"y"})})),
               ErrorCode::malformed, {"'y' is defined twice"});
  GraphSpec graph = small_graph({node("Add", {"x", "y"}, {"z"})});
  graph.inputs.push_back(graph.inputs[0]);
  expect_error(import(graph), ErrorCode::malformed, {"'x' is defined twice"});
  graph = small_graph({node("Add", {"x", "y"}, {"z"})});
  graph.initializers.push_back(graph.initializers[0]);
  expect_error(import(graph), ErrorCode::malformed, {"'y' is defined twice"});
  expect_error(import(small_graph({node("Add", {"x", "weigth"}, {"z"}), node("Exp", {"y"}, {"weight"})})),
               ErrorCode::malformed,
               {"the node of 'z' (Add)", "'weigth', which nothing defines", "nearest is 'weight'"});
  graph = small_graph({node("Add", {"x", "y"}, {"zz"})});
  expect_error(import(graph), ErrorCode::malformed, {"outputs", "'z', which nothing defines"});
  graph.outputs = {tensor_info("zz", kFloat, {{}, {}}), tensor_info("zz", kFloat, {{}, {}})};
  expect_error(import(graph), ErrorCode::malformed, {"output 'zz' stands twice"});
  graph.outputs.clear();
  expect_error(import(graph), ErrorCode::malformed, {"no outputs"});
}

TEST_CASE("inputs without type or shape, or of a type that is not built") {
  const auto with_input = [](const Message& info) {
    return import(GraphSpec{
        .nodes = {node("Exp", {"in"}, {"z"})}, .inputs = {info}, .outputs = {tensor_info("z", kFloat, {})}});
  };
  using onnx::TypeFields;
  const Message element = Message().integer(onnx::TensorTypeFields::elem_type, kFloat);
  expect_error(with_input(value_info("in", Message().message(TypeFields::tensor_type, element))),
               ErrorCode::unsupported, {"input 'in' has no shape"});
  expect_error(with_input(value_info("in", Message())), ErrorCode::malformed, {"'in' is of no type"});
  expect_error(with_input(value_info("in", Message().message(TypeFields::sequence_type, Message()))),
               ErrorCode::unsupported, {"'in' is of type sequence"});
  expect_error(with_input(value_info("in", Message().message(TypeFields::map_type, Message()))),
               ErrorCode::unsupported, {"type map"});
  expect_error(with_input(value_info("in", Message().message(TypeFields::optional_type, Message()))),
               ErrorCode::unsupported, {"type optional"});
  expect_error(with_input(tensor_info("in", kString, {{}})), ErrorCode::unsupported, {"'in'", "STRING"});
  expect_error(with_input(tensor_info("in", 0, {{}})), ErrorCode::malformed, {"'in'", "data type 0"});
  expect_error(with_input(tensor_info("in", kFloat, {std::int64_t{-2}})), ErrorCode::malformed,
               {"axis 0 has size -2"});
  expect_error(with_input(tensor_info("in", kFloat, {INT64_MAX})), ErrorCode::malformed, {"axis 0 has size"});
  expect_error(with_input(tensor_info("", kFloat, {})), ErrorCode::malformed, {"input without a name"});
}

TEST_CASE("attributes: unknown, of another type, twice, without a value") {
  const auto with = [](string_view op, std::initializer_list<Message> attributes) {
    return import(small_graph({node(op, {"x"}, {"z"}, attributes, "n1")}));
  };
  expect_at_node(with("Transpose", {ints_attribute("prem", {1, 0})}), ErrorCode::unsupported,
                 {"node 'n1' (Transpose)", "no attribute 'prem'", "nearest is 'perm'"}, "Transpose 'n1'");
  expect_at_node(with("Transpose", {int_attribute("perm", 1)}), ErrorCode::malformed,
                 {"'n1'", "'perm' is of type INT", "INTS"}, "Transpose 'n1'");
  expect_at_node(with("Cast", {text_attribute("to", "FLOAT")}), ErrorCode::malformed,
                 {"'to' is of type STRING"}, "Cast 'n1'");
  expect_at_node(with("Cast", {int_attribute("to", 8)}), ErrorCode::unsupported, {"'to'", "STRING"},
                 "Cast 'n1'");
  expect_at_node(with("Cast", {int_attribute("to", 77)}), ErrorCode::malformed, {"data type 77"},
                 "Cast 'n1'");
  expect_at_node(with("Cast", {}), ErrorCode::mismatch, {"attribute 'to' is missing"}, "Cast 'n1'");
  expect_at_node(with("Exp", {text_attribute("mode", "\xff")}), ErrorCode::malformed, {"'mode' is not UTF-8"},
                 "Exp 'n1'");
  expect_at_node(with("Exp", {attribute_head("t", onnx::AttributeType::tensor)}), ErrorCode::malformed,
                 {"'t' says TENSOR and has no value"}, "Exp 'n1'");
  expect_at_node(with("Exp", {attribute_head("t", onnx::AttributeType::sparse_tensor)}),
                 ErrorCode::unsupported, {"SPARSE_TENSOR"}, "Exp 'n1'");
  expect_at_node(with("Exp", {int_attribute("k", 1).text(onnx::AttributeFields::ref_attr_name, "outer")}),
                 ErrorCode::malformed, {"refers to a function's"}, "Exp 'n1'");
  expect_error(with("Cast", {int_attribute("to", 1), int_attribute("to", 7)}), ErrorCode::malformed,
               {"'to' stands twice"});
  expect_error(with("Cast", {int_attribute("to", 1).real(onnx::AttributeFields::f, 1)}), ErrorCode::malformed,
               {"'to' has values of two types"});
  expect_error(
      with("Cast", {attribute_head("to", onnx::AttributeType::integer).real(onnx::AttributeFields::f, 1)}),
      ErrorCode::malformed, {"'to' says INT and has FLOAT"});
  expect_error(with("Cast", {attribute_head("to", static_cast<onnx::AttributeType>(77))}),
               ErrorCode::malformed, {"attribute type 77"});
  expect_error(with("Cast", {Message().integer(onnx::AttributeFields::i, 1)}), ErrorCode::malformed,
               {"attribute without a name"});
}

TEST_CASE("constants of no valid form") {
  const auto constant = [](std::initializer_list<Message> attributes) {
    return import(small_graph({node("Add", {"x", "y"}, {"z"}), node("Constant", {}, {"c"}, attributes)}));
  };
  expect_at_node(constant({}), ErrorCode::malformed, {"'c' (Constant)", "0 attributes"}, "Constant");
  expect_at_node(constant({text_attribute("value_string", "s")}), ErrorCode::unsupported, {"'value_string'"},
                 "Constant");
  expect_at_node(constant({int_attribute("value_float", 1)}), ErrorCode::malformed, {"INT", "FLOAT"},
                 "Constant");
  expect_at_node(constant({tensor_attribute("value", tensor_head("c", kString, {1}))}),
                 ErrorCode::unsupported, {"STRING"}, "Constant");
  expect_at_node(constant({tensor_attribute("value", raw_tensor("c", kFloat, {2}, "1234"))}),
                 ErrorCode::malformed, {"4 bytes", "needs 8"}, "Constant");
}

TEST_CASE("operands an operator refuses are reported at the node") {
  GraphSpec graph = small_graph({node("Mul", {"x", "i"}, {"z"}, {}, "mixed")});
  graph.initializers.push_back(int_tensor("i", {1, 2, 3, 4}));
  expect_at_node(import(graph), ErrorCode::mismatch, {"m.onnx: byte", "node 'mixed' (Mul)", "'b' is i64"},
                 "Mul 'mixed'");
  expect_at_node(import(small_graph({node("Add", {"x"}, {"z"})})), ErrorCode::mismatch,
                 {"input 'b' is missing"}, "Add");
  expect_at_node(import(small_graph({node("Exp", {"x", "y"}, {"z"})})), ErrorCode::mismatch,
                 {"2 inputs given"}, "Exp");
  expect_at_node(import(small_graph({node("Exp", {"x"}, {"z", "more"})})), ErrorCode::unsupported,
                 {"output 1 ('more')"}, "Exp");
  const Message both = ints_attribute("axes", {1});
  graph = small_graph({node("ReduceSum", {"x", "i"}, {"z"}, {both})});
  graph.initializers.push_back(int_tensor("i", {1}));
  expect_at_node(import(graph, 11), ErrorCode::malformed, {"'axes' is given as an attribute and as an input"},
                 "ReduceSum");
}

TEST_CASE("declared outputs") {
  GraphSpec graph = small_graph({node("Add", {"x", "y"}, {"z"})});
  graph.outputs = {tensor_info("z", kInt32, {{}, {}})};
  const auto model = import(graph);
  expect_error(model, ErrorCode::malformed, {"output 'z' is declared as i32 and is f32[N, 4]"});
  EXPECT(model.error().offset > 0);
  graph.outputs = {value_info("z", Message().message(onnx::TypeFields::sequence_type, Message()))};
  expect_error(import(graph), ErrorCode::malformed, {"declared as sequence"});
}

TEST_CASE("options that the model has no place for") {
  const Message model = plain_model();
  expect_error(import(model, {.fixed_dims = {{"M", 2}}}), ErrorCode::usage, {"dim 'M'", "nearest is 'N'"});
  expect_error(import(model, {.fixed_dims = {{"N", -1}}}), ErrorCode::usage, {"'N' = -1", "use 0.."});
  expect_error(import(model, {.constants = {{"xx", HostTensor::of<float>({1}, {1})}}}), ErrorCode::usage,
               {"constant 'xx'", "nearest is 'x'"});
  expect_error(import(model, {.constants = {{"x", HostTensor::of<double>({1, 4}, {1, 2, 3, 4})}}}),
               ErrorCode::mismatch, {"'x' is f32", "f64"});
  expect_error(import(model, {.constants = {{"x", HostTensor::of<float>({4}, {1, 2, 3, 4})}}}),
               ErrorCode::mismatch, {"'x'", "shape [4]"});
  expect_error(import(model, {.constants = {{"x", HostTensor::of<float>({1, 3}, {1, 2, 3})}}}),
               ErrorCode::mismatch, {"'x'", "shape [1, 3]"});
  expect_error(import(model, {.fixed_dims = {{"N", 2}},
                              .constants = {{"x", HostTensor::of<float>({1, 4}, {1, 2, 3, 4})}}}),
               ErrorCode::mismatch, {"size 'N' is 1 here and 2 elsewhere"});
}

TEST_CASE("things that stand twice, and unnamed ones") {
  const Message graph = small_graph({node("Add", {"x", "y"}, {"z"})}).message();
  expect_error(import(plain_model().message(ModelFields::graph, graph)), ErrorCode::malformed,
               {"two graphs"});
  const Message entry = Message().text(1, "key").text(2, "value");
  expect_error(import(plain_model()
                          .message(ModelFields::metadata_props, entry)
                          .message(ModelFields::metadata_props, entry)),
               ErrorCode::malformed, {"metadata 'key' stands twice"});
  expect_error(import(model_of(Message(graph).message(GraphFields::node, Message()))), ErrorCode::malformed,
               {"without an op_type"});
  expect_error(import(model_of(Message(graph).message(GraphFields::initializer, Message()))),
               ErrorCode::malformed, {"initializer without a name"});
  expect_error(import(model_of(Message(graph).message(GraphFields::sparse_initializer, Message()))),
               ErrorCode::unsupported, {"sparse initializers"});
}

TEST_CASE("limits: nesting, names, lists") {
  Message nested = GraphSpec{}.message();
  for (int depth = 0; depth < 40; ++depth) {
    const Message body =
        attribute_head("body", onnx::AttributeType::graph).message(onnx::AttributeFields::g, nested);
    nested = GraphSpec{.nodes = {node("Loop", {}, {"a"}, {body})}}.message();
  }
  expect_error(import(model_of(nested)), ErrorCode::malformed, {"nested deeper than 32"});
  const std::string long_name(10 << 20, 'a');
  expect_error(import(small_graph({node(long_name, {"x"}, {"z"})})), ErrorCode::malformed,
               {"10485760 bytes", "16384"});
  const std::string longer(200, 'b');
  expect_error(import(small_graph({node(longer, {"x"}, {"z"})})), ErrorCode::unsupported,
               {std::string(100, 'b') + "…"});
  GraphSpec wide = small_graph({node("Add", {"x", "y"}, {"z"})});
  for (int i = 0; i < 8200; ++i)
    wide.inputs.push_back(tensor_info(fmt::format("i{}", i), kFloat, {{}, {}, {}, {}, {}, {}, {}, {}}));
  expect_error(import(wide), ErrorCode::malformed, {"more than 65536 symbolic sizes"});
  Message many = node("Exp", {"x"}, {"z"});
  for (int i = 0; i < 257; ++i) many.message(NodeFields::attribute, int_attribute(fmt::format("a{}", i), 0));
  expect_error(import(small_graph({many})), ErrorCode::malformed, {"more than 256 attributes"});
  expect_error(import(small_graph({node("A\n\x1b[31mB", {"x"}, {"z"})})), ErrorCode::malformed,
               {"control character"});
}

}  // namespace
}  // namespace diji::test
