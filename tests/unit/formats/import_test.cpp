// What the importer makes of valid models.
#include "formats/onnx/import.h"

#include "base/log.h"
#include "graph/interpreter.h"
#include "graph/verify.h"
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/formats/expect_error.h"
#include "tests/unit/formats/onnx_writer.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace diji::test {
namespace {

ImportedModel imported(const Result<ImportedModel>& model) {
  if (!model) MESSAGE(model.error().message);
  REQUIRE(model.has_value());
  EXPECT(verify(model->graph).has_value());
  return *model;
}

std::string type_of_output(const ImportedModel& model, std::size_t i = 0) {
  return text_of(model.graph.type(model.graph.outputs().at(i).value));
}

std::vector<std::string> operators(const ImportedModel& model) {
  std::vector<std::string> names;
  for (const Node& node : model.graph.nodes()) names.emplace_back(node.op->name);
  return names;
}

HostTensor run(const ImportedModel& model, const std::vector<HostTensor>& inputs) {
  return interpret(model.graph, inputs, Arithmetic::typed).value().at(0);
}

TEST_CASE("a model of every kind of part") {
  const ImportedModel model = imported(import(rich_model()));
  EXPECT(model.graph.name == "g");
  EXPECT(model.ir_version == 8);
  EXPECT(model.opset == 17);
  EXPECT(model.producer == "writer");
  EXPECT(model.metadata == std::map<std::string, std::string>{{"author", "t"}});
  EXPECT(model.warnings.empty());
  EXPECT(model.defaulted_inputs.empty());
  EXPECT(model.graph.inputs().size() == 1);
  EXPECT(model.graph.inputs()[0].name == "x");
  EXPECT(text_of(model.graph.type(model.graph.inputs()[0].value)) == "f32[N, 4]");
  EXPECT(model.graph.outputs()[0].name == "z");
  EXPECT(type_of_output(model, 0) == "f32[N, 4]");
  EXPECT(type_of_output(model, 1) == "f32[4, N]");
  EXPECT(type_of_output(model, 2) == "f32[2]");
  EXPECT(model.graph.nodes()[0].name == "first");
  const auto results =
      interpret(model.graph, std::vector{HostTensor::of<float>({1, 4}, {0, 0, 0, 0})}, Arithmetic::typed);
  EXPECT(results->at(2).same_bits(HostTensor::of<float>({2}, {2.0F, 4.0F})));
}

TEST_CASE("the digest is XXH3-128 of the file, in memory and on disk") {
  const ScratchFolder folder;
  const auto path = folder.write("m.onnx", rich_model().text());
  const ImportedModel model = imported(read_onnx(path));
  EXPECT(model.digest.size() == 32);
  EXPECT(model.digest.find_first_not_of("0123456789abcdef") == std::string::npos);
  EXPECT(model.digest == imported(import(rich_model())).digest);
  EXPECT(model.digest != imported(import(rich_model().integer(99, 1))).digest);
}

TEST_CASE("nodes out of order are sorted, as far as needed, with one warning") {
  set_log_level(LogLevel::error);
  const ImportedModel model =
      imported(import(small_graph({node("Exp", {"b"}, {"z"}), node("Sqrt", {"y"}, {"free"}),
                                   node("Tanh", {"a"}, {"b"}), node("Add", {"x", "y"}, {"a"})})));
  set_log_level(LogLevel::warning);
  EXPECT(operators(model) == std::vector<std::string>{"sqrt", "add", "tanh", "exp"});
  REQUIRE(model.warnings.size() == 1);
  EXPECT(model.warnings[0].find("not in order") != std::string::npos);
}

TEST_CASE("unnamed and unknown sizes become symbols of input and axis") {
  GraphSpec graph{
      .nodes = {node("Exp", {"x"}, {"z"})},
      .inputs = {tensor_info("x", kFloat, {{}, std::int64_t{-1}, std::string_view(""), std::int64_t{3}})},
      .outputs = {tensor_info("z", kFloat, {{}, std::int64_t{-1}, {}, std::int64_t{3}})}};
  const ImportedModel model = imported(import(graph));
  EXPECT(model.graph.symbols().size() == 3);
  EXPECT(model.graph.symbols().contains("x.0"));
  EXPECT(model.graph.symbols().contains("x.1"));
  EXPECT(model.graph.symbols().contains("x.2"));
  EXPECT(model.warnings.empty());
}

TEST_CASE("fixed dims replace symbols, named and unnamed") {
  const GraphSpec graph{.nodes = {node("Exp", {"x"}, {"z"})},
                        .inputs = {tensor_info("x", kFloat, {std::string_view("N"), {}})},
                        .outputs = {tensor_info("z", kFloat, {std::string_view("N"), {}})}};
  const ImportedModel model = imported(import(model_of(graph), {.fixed_dims = {{"N", 3}, {"x.1", 0}}}));
  EXPECT(type_of_output(model) == "f32[3, 0]");
}

TEST_CASE("an input that the caller fixes is a constant, and its sizes fix shared symbols") {
  const GraphSpec graph{.nodes = {node("Reshape", {"x", "shape"}, {"r"}), node("Add", {"u", "u"}, {"v"})},
                        .inputs = {tensor_info("x", kFloat, {std::int64_t{6}}),
                                   tensor_info("shape", kInt64, {std::string_view("R")}),
                                   tensor_info("u", kFloat, {std::string_view("R")})},
                        .outputs = {tensor_info("r", kFloat, {{}, {}}), tensor_info("v", kFloat, {{}})}};
  const ImportedModel model = imported(
      import(model_of(graph), {.constants = {{"shape", HostTensor::of<std::int64_t>({2}, {2, 3})}}}));
  EXPECT(model.graph.inputs().size() == 2);
  EXPECT(type_of_output(model, 0) == "f32[2, 3]");
  EXPECT(type_of_output(model, 1) == "f32[2]");
}

TEST_CASE("an input with a default is a constant that the caller may replace") {
  GraphSpec graph = small_graph({node("Add", {"x", "y"}, {"z"})});
  graph.inputs.push_back(tensor_info("y", kFloat, {std::int64_t{4}}));
  const ImportedModel model = imported(import(graph));
  EXPECT(model.defaulted_inputs == std::vector<std::string>{"y"});
  EXPECT(model.graph.inputs().size() == 1);
  const std::vector inputs = {HostTensor::of<float>({1, 4}, {0, 0, 0, 0})};
  EXPECT(run(model, inputs).same_bits(HostTensor::of<float>({1, 4}, {1, 2, 3, 4})));
  const ImportedModel other =
      imported(import(model_of(graph), {.constants = {{"y", HostTensor::of<float>({4}, {9, 9, 9, 9})}}}));
  EXPECT(other.defaulted_inputs.empty());
  EXPECT(run(other, inputs).same_bits(HostTensor::of<float>({1, 4}, {9, 9, 9, 9})));
}

TEST_CASE("overrides replace defaults and nothing else") {
  GraphSpec graph = small_graph({node("Add", {"x", "y"}, {"z"})});
  graph.inputs.push_back(tensor_info("y", kFloat, {std::int64_t{4}}));
  const HostTensor nines = HostTensor::of<float>({4}, {9, 9, 9, 9});
  const ImportedModel model = imported(import(model_of(graph), {.overrides = {{"y", nines}, {"x", nines}}}));
  EXPECT(model.graph.inputs().size() == 1);
  EXPECT(run(model, {HostTensor::of<float>({1, 4}, {1, 2, 3, 4})})
             .same_bits(HostTensor::of<float>({1, 4}, {10, 11, 12, 13})));
  expect_error(import(model_of(graph), {.overrides = {{"y", HostTensor::of<float>({3}, {9, 9, 9})}}}),
               ErrorCode::mismatch, {"'y'", "[3]"});
}

TEST_CASE("Constant in each of its forms") {
  const auto constant = [](const Message& attribute) {
    GraphSpec graph{.nodes = {node("Constant", {}, {"z"}, {attribute})},
                    .outputs = {Message().text(onnx::ValueInfoFields::name, "z")}};
    return run(imported(import(graph)), {});
  };
  EXPECT(constant(tensor_attribute("value", float_tensor("", {2}, {1, 2})))
             .same_bits(HostTensor::of<float>({2}, {1, 2})));
  EXPECT(constant(real_attribute("value_float", 0.5F)).same_bits(HostTensor::of<float>({}, {0.5F})));
  EXPECT(constant(int_attribute("value_int", -7)).same_bits(HostTensor::of<std::int64_t>({}, {-7})));
  EXPECT(constant(ints_attribute("value_ints", {1, 2})).same_bits(HostTensor::of<std::int64_t>({2}, {1, 2})));
  Message floats = attribute_head("value_floats", onnx::AttributeType::reals);
  floats.real(onnx::AttributeFields::floats, 1).real(onnx::AttributeFields::floats, 2);
  EXPECT(constant(floats).same_bits(HostTensor::of<float>({2}, {1, 2})));
  // Defaults of the wire format: an absent number is 0, an absent list is empty.
  EXPECT(constant(attribute_head("value_int", onnx::AttributeType::integer))
             .same_bits(HostTensor::of<std::int64_t>({}, {0})));
  EXPECT(constant(attribute_head("value_ints", onnx::AttributeType::integers)).count() == 0);
  // IR versions before 2 had no type.
  Message untyped;
  untyped.text(onnx::AttributeFields::name, "value_int").integer(onnx::AttributeFields::i, 3);
  EXPECT(constant(untyped).same_bits(HostTensor::of<std::int64_t>({}, {3})));
}

TEST_CASE("older versions are normalised") {
  // ReduceSum had axes as an attribute until 13, Unsqueeze and Squeeze too; Slice-1 had all of them.
  const auto model = [](std::vector<Message> nodes, std::int64_t version) {
    GraphSpec graph{.nodes = std::move(nodes),
                    .initializers = {int_tensor("one", {1})},
                    .inputs = {tensor_info("x", kFloat, {std::int64_t{2}, std::int64_t{3}})},
                    .outputs = {Message().text(onnx::ValueInfoFields::name, "z")}};
    return imported(import(graph, version));
  };
  const Message axes = ints_attribute("axes", {1});
  EXPECT(type_of_output(model({node("ReduceSum", {"x"}, {"z"}, {axes})}, 11)) == "f32[2, 1]");
  EXPECT(type_of_output(model({node("ReduceSum", {"x", "one"}, {"z"})}, 13)) == "f32[2, 1]");
  EXPECT(type_of_output(model({node("Unsqueeze", {"x"}, {"z"}, {axes})}, 12)) == "f32[2, 1, 3]");
  EXPECT(type_of_output(model({node("Slice", {"x"}, {"z"},
                                    {ints_attribute("starts", {0}), ints_attribute("ends", {2}), axes})},
                              9)) == "f32[2, 2]");
  EXPECT(type_of_output(model({node("Concat", {"x", "x"}, {"z"})}, 1)) == "f32[2, 6]");
}

TEST_CASE("scales that a run tells resize as constant ones do") {
  const std::string_view name = "N";
  GraphSpec graph{.nodes = {node("Concat", {"one", "s"}, {"scales"}, {int_attribute("axis", 0)}),
                            node("Resize", {"x", "", "scales"}, {"z"}, {text_attribute("mode", "linear")})},
                  .initializers = {float_tensor("one", {1}, {1})},
                  .inputs = {tensor_info("x", kFloat, {std::int64_t{2}, name}),
                             tensor_info("s", kFloat, {std::int64_t{1}})},
                  .outputs = {value_info("z", {})}};
  const ImportedModel from_data = imported(import(graph));
  // Numerator and denominator of one scale; the other axis is known to stay.
  EXPECT(type_of_output(from_data) ==
         R"(f32[2, select("#1" < 1025, ("#0"*N) floordiv "#1", (2*"#0"*N + N) floordiv (2*"#1"))])");
  const auto x = HostTensor::of<float>({2, 5}, {1, 2, 3, 4, 5, -1, 8, 0.5F, 7, std::nanf("")});
  const auto scale = [](float value) { return HostTensor::of<float>({1}, {value}); };
  for (const float by : {2.0F, 0.7F, 1.0F, 1.3F, 0.2F, 3.25F}) {
    GraphSpec constant = graph;
    constant.inputs.pop_back();
    constant.initializers.push_back(float_tensor("s", {1}, {by}));
    EXPECT(run(from_data, {x, scale(by)}).same_bits(run(imported(import(constant)), {x})));
  }
  for (const float by :
       {0.0F, -1.0F, std::nanf(""), std::numeric_limits<float>::infinity(), 0x1p-18F, 0x1p18F})
    EXPECT_FALSE(interpret(from_data.graph, std::vector{x, scale(by)}, Arithmetic::typed).has_value());
}

TEST_CASE("types narrower than a dtype lie in a byte each: integers as numbers, floats as codes") {
  const auto cast = [](std::int64_t from, std::int64_t to, std::optional<std::int64_t> saturate = {}) {
    Message node_to = node("Cast", {"x"}, {"z"}, {int_attribute("to", to)});
    if (saturate)
      node_to = node("Cast", {"x"}, {"z"}, {int_attribute("to", to), int_attribute("saturate", *saturate)});
    return imported(import(GraphSpec{.nodes = {std::move(node_to)},
                                     .inputs = {tensor_info("x", from, {std::int64_t{6}})},
                                     .outputs = {tensor_info("z", to, {std::int64_t{6}})}},
                           21));
  };
  constexpr std::int64_t kE4m3fn = 17, kUint4 = 21, kInt4 = 22;
  const float infinity = std::numeric_limits<float>::infinity();
  const auto reals = HostTensor::of<float>({6}, {-20, -3.9F, 0.5F, 7, 9, infinity});
  EXPECT(run(cast(kFloat, kInt4), {reals}).same_bits(HostTensor::of<std::int8_t>({6}, {-8, -3, 0, 7, 7, 7})));
  EXPECT(
      run(cast(kFloat, kUint4), {reals}).same_bits(HostTensor::of<std::uint8_t>({6}, {0, 0, 0, 7, 9, 15})));
  const auto whole = HostTensor::of<std::int64_t>({6}, {-20, -9, -8, 7, 8, 16});
  EXPECT(
      run(cast(kInt64, kInt4), {whole}).same_bits(HostTensor::of<std::int8_t>({6}, {-4, 7, -8, 7, -8, 0})));
  EXPECT(
      run(cast(kInt64, kUint4), {whole}).same_bits(HostTensor::of<std::uint8_t>({6}, {12, 7, 8, 7, 8, 0})));
  // 17 lies between 16 and 18, 464 between 448 and what would be 480: ties to even.
  const auto large = HostTensor::of<float>({6}, {17, -19, 464, 465, -infinity, std::nanf("")});
  EXPECT(run(cast(kFloat, kE4m3fn), {large})
             .same_bits(HostTensor::of<std::uint8_t>({6}, {0x58, 0xda, 0x7e, 0x7e, 0xfe, 0x7f})));
  EXPECT(run(cast(kFloat, kE4m3fn, 0), {large})
             .same_bits(HostTensor::of<std::uint8_t>({6}, {0x58, 0xda, 0x7e, 0x7f, 0xff, 0x7f})));
  const auto codes = HostTensor::of<std::uint8_t>({6}, {0x58, 0xda, 0x7e, 0x01, 0x80, 0x00});
  EXPECT(run(cast(kE4m3fn, kFloat), {codes})
             .same_bits(HostTensor::of<float>({6}, {16, -20, 448, 0x1p-9F, -0.0F, 0})));
}

TEST_CASE("absent optional inputs, empty names and dropped outputs") {
  GraphSpec graph{.nodes = {node("Slice", {"x", "zero", "two", "", "step", ""}, {"z", ""})},
                  .initializers = {int_tensor("zero", {0}), int_tensor("two", {2}), int_tensor("step", {1})},
                  .inputs = {tensor_info("x", kFloat, {std::int64_t{5}})},
                  .outputs = {tensor_info("z", kFloat, {std::int64_t{2}})}};
  EXPECT(type_of_output(imported(import(graph))) == "f32[2]");
}

TEST_CASE("an output may be an input, a weight or the same value under two names") {
  const GraphSpec graph{
      .initializers = {float_tensor("w", {1}, {7})},
      .inputs = {tensor_info("x", kFloat, {std::int64_t{2}})},
      .outputs = {tensor_info("w", kFloat, {std::int64_t{1}}), tensor_info("x", kFloat, {std::int64_t{2}})}};
  const ImportedModel model = imported(import(graph));
  EXPECT(model.graph.outputs().size() == 2);
  EXPECT(model.graph.nodes().empty());
}

TEST_CASE("the default domain has two names, unused domains are not looked at") {
  const GraphSpec graph =
      small_graph({node("Add", {"x", "y"}, {"z"}).text(onnx::NodeFields::domain, "ai.onnx")});
  Message model;
  model.integer(onnx::ModelFields::ir_version, 3).message(onnx::ModelFields::graph, graph.message());
  model.message(onnx::ModelFields::opset_import, opset("ai.onnx", 13));
  model.message(onnx::ModelFields::opset_import, opset("", 13));
  model.message(onnx::ModelFields::opset_import, opset("com.unheard.of", 1));
  EXPECT(imported(import(model)).opset == 13);
}

TEST_CASE("a wrong declared shape is a warning, a wrong name for a size is nothing") {
  set_log_level(LogLevel::error);
  GraphSpec graph = small_graph({node("Add", {"x", "y"}, {"z"})});
  graph.outputs = {tensor_info("z", kFloat, {std::string_view("M"), std::int64_t{5}})};
  ImportedModel model = imported(import(graph));
  REQUIRE(model.warnings.size() == 1);
  EXPECT(model.warnings[0].find("'z' is declared as [M, 5] and is f32[N, 4]") != std::string::npos);
  graph.outputs = {tensor_info("z", kFloat, {std::int64_t{4}})};
  EXPECT(imported(import(graph)).warnings.size() == 1);
  graph.outputs = {tensor_info("z", kFloat, {std::string_view("M"), {}})};
  EXPECT(imported(import(graph)).warnings.empty());
  set_log_level(LogLevel::warning);
}

TEST_CASE("the magika model" * doctest::skip(std::getenv("DIJI_TEST_MAGIKA") == nullptr)) {
  const ImportedModel model = imported(read_onnx(std::getenv("DIJI_TEST_MAGIKA")));
  REQUIRE(model.graph.symbols().size() == 1);
  const std::string batch = model.graph.symbols().begin()->first;
  EXPECT(type_of_output(model) == fmt::format("f32[{}, 214]", Dim::symbol(batch).text()));
  EXPECT(model.opset == 15);
  EXPECT(model.warnings.empty());
}

}  // namespace
}  // namespace diji::test
