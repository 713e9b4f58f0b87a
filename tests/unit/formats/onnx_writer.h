// Builds ONNX files in memory, by other means than the code under test: every test writes the model it needs.
#pragma once

#include "formats/onnx/import.h"
#include "formats/onnx/schema.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace diji::test {

using Bytes = std::vector<std::byte>;

/// A protobuf message under construction. Fields stand in the order of the calls.
class Message {
 public:
  Message& integer(std::uint32_t field, std::int64_t value) {
    return tag(field, 0).varint(static_cast<std::uint64_t>(value));
  }
  Message& real(std::uint32_t field, float value) { return tag(field, 5).number(value); }
  Message& text(std::uint32_t field, std::string_view value) {
    tag(field, 2).varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(std::uint32_t field, const Message& value) { return text(field, value.bytes_); }
  /// Anything: wrong wire types, cut lengths.
  Message& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  Message& tag(std::uint32_t field, std::uint32_t wire_type) { return varint((field << 3) | wire_type); }
  Message& varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  template <typename T>
  Message& number(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
    return *this;
  }

  const std::string& text() const { return bytes_; }
  Bytes bytes() const {
    const auto view = std::as_bytes(std::span(bytes_));
    return {view.begin(), view.end()};
  }

 private:
  std::string bytes_;
};

template <typename T>
std::string bytes_of_values(std::initializer_list<T> values) {
  Message message;
  for (const T value : values) message.number(value);
  return message.text();
}

/// A tensor without data.
inline Message tensor_head(std::string_view name, std::int64_t data_type,
                           std::initializer_list<std::int64_t> dims) {
  Message tensor;
  for (const std::int64_t size : dims) tensor.integer(onnx::TensorFields::dims, size);
  tensor.integer(onnx::TensorFields::data_type, data_type);
  return tensor.text(onnx::TensorFields::name, name);
}

inline Message raw_tensor(std::string_view name, std::int64_t data_type,
                          std::initializer_list<std::int64_t> dims, std::string_view raw) {
  return tensor_head(name, data_type, dims).text(onnx::TensorFields::raw_data, raw);
}

inline constexpr std::int64_t kFloat = 1, kInt32 = 6, kInt64 = 7, kString = 8;

inline Message float_tensor(std::string_view name, std::initializer_list<std::int64_t> dims,
                            std::initializer_list<float> values) {
  return raw_tensor(name, kFloat, dims, bytes_of_values(values));
}
inline Message int_tensor(std::string_view name, std::initializer_list<std::int64_t> values) {
  return raw_tensor(name, kInt64, {std::ssize(values)}, bytes_of_values(values));
}

/// A number, a name, or nothing.
using DimSpec = std::variant<std::monostate, std::int64_t, std::string_view>;

inline Message shape_of(std::initializer_list<DimSpec> dims) {
  Message shape;
  for (const DimSpec& spec : dims) {
    Message dim;
    if (const auto* size = std::get_if<std::int64_t>(&spec))
      dim.integer(onnx::DimensionFields::dim_value, *size);
    if (const auto* name = std::get_if<std::string_view>(&spec))
      dim.text(onnx::DimensionFields::dim_param, *name);
    shape.message(onnx::TensorShapeFields::dim, dim);
  }
  return shape;
}

inline Message value_info(std::string_view name, const Message& type) {
  return Message().text(onnx::ValueInfoFields::name, name).message(onnx::ValueInfoFields::type, type);
}
inline Message tensor_info(std::string_view name, std::int64_t data_type,
                           std::initializer_list<DimSpec> dims) {
  Message tensor;
  tensor.integer(onnx::TensorTypeFields::elem_type, data_type)
      .message(onnx::TensorTypeFields::shape, shape_of(dims));
  return value_info(name, Message().message(onnx::TypeFields::tensor_type, tensor));
}

inline Message attribute_head(std::string_view name, onnx::AttributeType type) {
  return Message()
      .text(onnx::AttributeFields::name, name)
      .integer(onnx::AttributeFields::type, static_cast<std::int64_t>(type));
}
inline Message int_attribute(std::string_view name, std::int64_t value) {
  return attribute_head(name, onnx::AttributeType::integer).integer(onnx::AttributeFields::i, value);
}
inline Message real_attribute(std::string_view name, float value) {
  return attribute_head(name, onnx::AttributeType::real).real(onnx::AttributeFields::f, value);
}
inline Message text_attribute(std::string_view name, std::string_view value) {
  return attribute_head(name, onnx::AttributeType::string).text(onnx::AttributeFields::s, value);
}
inline Message ints_attribute(std::string_view name, std::initializer_list<std::int64_t> values) {
  Message attribute = attribute_head(name, onnx::AttributeType::integers);
  for (const std::int64_t value : values) attribute.integer(onnx::AttributeFields::ints, value);
  return attribute;
}
inline Message tensor_attribute(std::string_view name, const Message& tensor) {
  return attribute_head(name, onnx::AttributeType::tensor).message(onnx::AttributeFields::t, tensor);
}

inline Message node(std::string_view op_type, std::initializer_list<std::string_view> inputs,
                    std::initializer_list<std::string_view> outputs,
                    std::initializer_list<Message> attributes = {}, std::string_view name = "") {
  Message result;
  for (const std::string_view input : inputs) result.text(onnx::NodeFields::input, input);
  for (const std::string_view output : outputs) result.text(onnx::NodeFields::output, output);
  result.text(onnx::NodeFields::op_type, op_type);
  for (const Message& attribute : attributes) result.message(onnx::NodeFields::attribute, attribute);
  if (!name.empty()) result.text(onnx::NodeFields::name, name);
  return result;
}

inline Message graph_attribute(std::string_view name, const Message& graph) {
  return attribute_head(name, onnx::AttributeType::graph).message(onnx::AttributeFields::g, graph);
}
/// An attribute that stands for one of the function around it.
inline Message reference_attribute(std::string_view name, onnx::AttributeType type, std::string_view to) {
  return attribute_head(name, type).text(onnx::AttributeFields::ref_attr_name, to);
}

/// A function of the domain "own", whose body is of operator set 17.
struct FunctionSpec {
  std::string_view name;
  std::vector<std::string_view> inputs, outputs, attributes;
  std::vector<Message> defaults, nodes;
  std::int64_t version = 17;

  Message message() const {
    using onnx::FunctionFields;
    Message function;
    function.text(FunctionFields::name, name).text(FunctionFields::domain, "own");
    for (const std::string_view input : inputs) function.text(FunctionFields::input, input);
    for (const std::string_view output : outputs) function.text(FunctionFields::output, output);
    for (const std::string_view attribute : attributes) function.text(FunctionFields::attribute, attribute);
    for (const Message& attribute : defaults) function.message(FunctionFields::attribute_proto, attribute);
    for (const Message& node : nodes) function.message(FunctionFields::node, node);
    for (const auto& [domain, set] : {std::pair<std::string_view, std::int64_t>("", version), {"own", 1}}) {
      function.message(FunctionFields::opset_import, Message()
                                                         .text(onnx::OperatorSetIdFields::domain, domain)
                                                         .integer(onnx::OperatorSetIdFields::version, set));
    }
    return function;
  }
};

struct GraphSpec {
  std::vector<Message> nodes, initializers, inputs, outputs;

  Message message() const {
    Message graph;
    for (const Message& node : nodes) graph.message(onnx::GraphFields::node, node);
    graph.text(onnx::GraphFields::name, "g");
    for (const Message& tensor : initializers) graph.message(onnx::GraphFields::initializer, tensor);
    for (const Message& info : inputs) graph.message(onnx::GraphFields::input, info);
    for (const Message& info : outputs) graph.message(onnx::GraphFields::output, info);
    return graph;
  }
};

inline Message opset(std::string_view domain, std::int64_t version) {
  return Message()
      .text(onnx::OperatorSetIdFields::domain, domain)
      .integer(onnx::OperatorSetIdFields::version, version);
}

inline Message model_of(const Message& graph, std::int64_t version = 17) {
  return Message()
      .integer(onnx::ModelFields::ir_version, 8)
      .message(onnx::ModelFields::graph, graph)
      .message(onnx::ModelFields::opset_import, opset("", version));
}
inline Message model_of(const GraphSpec& graph, std::int64_t version = 17) {
  return model_of(graph.message(), version);
}

inline Result<ImportedModel> import(const Message& model, const ImportOptions& options = {}) {
  return read_onnx_bytes(model.bytes(), "m.onnx", options);
}
inline Result<ImportedModel> import(const GraphSpec& graph, std::int64_t version = 17) {
  return import(model_of(graph, version));
}

inline Message own_node(std::string_view op_type, std::initializer_list<std::string_view> inputs,
                        std::initializer_list<std::string_view> outputs,
                        std::initializer_list<Message> attributes = {}) {
  return node(op_type, inputs, outputs, attributes).text(onnx::NodeFields::domain, "own");
}
inline Message model_with(const GraphSpec& graph, std::initializer_list<FunctionSpec> functions) {
  Message model = model_of(graph).message(onnx::ModelFields::opset_import, opset("own", 1));
  for (const FunctionSpec& function : functions)
    model.message(onnx::ModelFields::functions, function.message());
  return model;
}

/// x f32[N, 4], y f32[4], with `nodes` in between and `z` out.
inline GraphSpec small_graph(std::vector<Message> nodes) {
  return {.nodes = std::move(nodes),
          .initializers = {float_tensor("y", {4}, {1, 2, 3, 4})},
          .inputs = {tensor_info("x", kFloat, {std::string_view("N"), std::int64_t{4}})},
          .outputs = {tensor_info("z", kFloat, {std::string_view("N"), std::int64_t{4}})}};
}

/// A model that has every kind of thing the importer reads: for truncation and mutation.
inline Message rich_model() {
  using onnx::ModelFields;
  Message typed = tensor_head("half", 10, {2});  // f16 as bit patterns
  typed.integer(onnx::TensorFields::int32_data, 0x3c00).integer(onnx::TensorFields::int32_data, 0x4000);
  Message packed = tensor_head("shape", kInt64, {3});
  packed.text(onnx::TensorFields::int64_data,
              Message().varint(2).varint(2).varint(0xffffffffffffffff).text());
  GraphSpec graph;
  graph.nodes = {node("Add", {"x", "y"}, {"a"}, {}, "first"),
                 node("Constant", {}, {"c"}, {tensor_attribute("value", float_tensor("", {1}, {0.5F}))}),
                 node("Mul", {"a", "c"}, {"b"}),
                 node("Shape", {"b"}, {"s"}, {int_attribute("start", 0), int_attribute("end", 1)}),
                 node("Concat", {"s", "four"}, {"t"}, {int_attribute("axis", 0)}),
                 node("Reshape", {"b", "t"}, {"r"}),
                 node("Cast", {"half"}, {"h"}, {int_attribute("to", kFloat)}),
                 node("ReduceMax", {"r"}, {"m"}, {ints_attribute("axes", {1}), int_attribute("keepdims", 1)}),
                 node("Sub", {"r", "m"}, {"e"}),
                 node("Exp", {"e"}, {"z"}),
                 node("Transpose", {"z"}, {"w"}, {ints_attribute("perm", {1, 0})}),
                 node("Slice", {"w", "zero", "four"}, {"v"}),
                 node("Add", {"h", "h"}, {"hh"})};
  graph.initializers = {float_tensor("y", {4}, {1, 2, 3, 4}), int_tensor("four", {4}),
                        int_tensor("zero", {0}), typed, packed};
  graph.inputs = {tensor_info("x", kFloat, {std::string_view("N"), std::int64_t{4}})};
  graph.outputs = {tensor_info("z", kFloat, {std::string_view("N"), std::int64_t{4}}),
                   tensor_info("v", kFloat, {std::int64_t{4}, {}}),
                   tensor_info("hh", kFloat, {std::int64_t{2}})};
  Message entry;
  entry.text(onnx::StringStringEntryFields::key, "author").text(onnx::StringStringEntryFields::value, "t");
  Message model = model_of(graph);
  model.text(ModelFields::producer_name, "writer").message(ModelFields::metadata_props, entry);
  return model.message(ModelFields::opset_import, opset("ai.onnx.ml", 3));
}

/// A graph for an attribute: its inputs and outputs have no types.
inline Message body_of(std::vector<std::string_view> inputs, std::vector<Message> nodes,
                       std::vector<std::string_view> outputs, std::vector<Message> initializers = {}) {
  GraphSpec graph{.nodes = std::move(nodes), .initializers = std::move(initializers)};
  for (const std::string_view name : inputs) graph.inputs.push_back(value_info(name, {}));
  for (const std::string_view name : outputs) graph.outputs.push_back(value_info(name, {}));
  return graph.message();
}

/// The same for what nests: functions, branches, loops, sequences, packed constants.
inline Message nested_model() {
  const FunctionSpec scale{
      .name = "Scale",
      .inputs = {"p"},
      .outputs = {"r"},
      .attributes = {"by"},
      .nodes = {
          node("Constant", {}, {"k"}, {reference_attribute("value_float", onnx::AttributeType::real, "by")}),
          node("Mul", {"p", "k"}, {"r"})}};
  const Message higher = body_of({}, {node("Unsqueeze", {"s", "axes"}, {"t"})}, {"t"});
  const Message step =
      body_of({"i", "go", "a"},
              {node("Add", {"a", "y"}, {"b"}), node("Concat", {"b", "b"}, {"d"}, {int_attribute("axis", 0)}),
               node("Less", {"i", "n"}, {"on"})},
              {"on", "d", "i"});
  const Message scan = body_of({"state", "row"}, {node("Add", {"state", "row"}, {"next"})}, {"next", "next"});
  const Message each = body_of({"el"}, {node("Tanh", {"el"}, {"o"})}, {"o"});
  GraphSpec graph;
  graph.nodes = {
      own_node("Scale", {"x"}, {"s"}, {real_attribute("by", 2)}),
      node("Loop", {"n", "c", "s"}, {"last", "trips"}, {graph_attribute("body", step)}),
      node("Scan", {"y", "x"}, {"sum", "sums"},
           {graph_attribute("body", scan), int_attribute("num_scan_inputs", 1),
            ints_attribute("scan_input_directions", {1}), ints_attribute("scan_output_axes", {-1})}),
      node("SplitToSequence", {"x"}, {"pieces"}, {int_attribute("axis", 1)}),
      node("SequenceMap", {"pieces"}, {"mapped"}, {graph_attribute("body", each)}),
      node("SequenceInsert", {"mapped", "s", "at"}, {"more"}),
      node("ConcatFromSequence", {"more"}, {"joined"}, {int_attribute("axis", 1)}),
      node("Cast", {"q"}, {"wide"}, {int_attribute("to", kFloat)}),
      node("If", {"c"}, {"v"},
           {graph_attribute("then_branch", higher), graph_attribute("else_branch", body_of({}, {}, {"s"}))}),
      node("Exp", {"v"}, {"w"}),
      node("ReduceMax", {"w"}, {"z"}, {int_attribute("keepdims", 0)})};
  graph.initializers = {float_tensor("y", {4}, {1, 2, 3, 4}), int_tensor("axes", {0}), int_tensor("at", {1}),
                        raw_tensor("q", 22, {3}, "\x2f\x01")};
  graph.inputs = {tensor_info("x", kFloat, {std::string_view("N"), std::int64_t{4}}), tensor_info("c", 9, {}),
                  tensor_info("n", kInt64, {})};
  for (const std::string_view name : {"last", "trips", "sum", "sums", "joined", "wide", "z"})
    graph.outputs.push_back(value_info(name, {}));
  return model_with(graph, {scale});
}

}  // namespace diji::test
