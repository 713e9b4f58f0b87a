// ModelProto out of one node. The record's own form is the newest that it understands of ONNX's.
#include "formats/node_model.h"

#include "formats/onnx/schema.h"
#include "formats/onnx/tensor.h"
#include "formats/onnx/wire_writer.h"
#include "formats/tensor_pb.h"

#include <algorithm>

namespace diji {
namespace {

using onnx::WireWriter;

constexpr std::uint64_t kIrVersion = 10;
// Which engines of the day have; an operator that is younger names its own.
constexpr std::int64_t kOpset = 22;

std::unexpected<Error> no_word(const Node& node, std::string_view what) {
  return fail(ErrorCode::unsupported, "{}: {}", node.op->name, what);
}

Result<WireWriter> attribute_of(const Node& node, const std::string& name, const Attribute& attribute) {
  using Fields = onnx::AttributeFields;
  WireWriter out;
  out.text(Fields::name, name);
  const auto type = [&](onnx::AttributeType kind) {
    out.integer(Fields::type, static_cast<std::uint64_t>(kind));
  };
  if (const auto* integer = std::get_if<std::int64_t>(&attribute)) {
    out.integer(Fields::i, static_cast<std::uint64_t>(*integer));
    type(onnx::AttributeType::integer);
  } else if (const auto* dtype = std::get_if<DType>(&attribute)) {
    out.integer(Fields::i, static_cast<std::uint64_t>(onnx::data_type_of(*dtype)));
    type(onnx::AttributeType::integer);
  } else if (const auto* real = std::get_if<double>(&attribute)) {
    out.real(Fields::f, static_cast<float>(*real));
    type(onnx::AttributeType::real);
  } else if (const auto* text = std::get_if<std::string>(&attribute)) {
    out.text(Fields::s, *text);
    type(onnx::AttributeType::string);
  } else if (const auto* integers = std::get_if<Ints>(&attribute)) {
    for (const std::int64_t one : *integers) out.integer(Fields::ints, static_cast<std::uint64_t>(one));
    type(onnx::AttributeType::integers);
  } else if (const auto* reals = std::get_if<Floats>(&attribute)) {
    for (const double one : *reals) out.real(Fields::floats, static_cast<float>(one));
    type(onnx::AttributeType::reals);
  } else if (const auto* tensor = std::get_if<HostTensor>(&attribute)) {
    out.bytes(Fields::t, tensor_pb_bytes(*tensor, ""));
    type(onnx::AttributeType::tensor);
  } else {
    return no_word(node, fmt::format("attribute '{}' has no form in ONNX", name));
  }
  return out;
}

Result<WireWriter> port_of(const Graph& graph, const Node& node, const Port& port) {
  WireWriter shape;
  for (const Dim& dim : graph.type(port.value).shape) {
    const auto size = dim.constant();
    if (!size) return no_word(node, fmt::format("'{}' has a size that is a symbol", port.name));
    WireWriter dimension;
    dimension.integer(onnx::DimensionFields::dim_value, static_cast<std::uint64_t>(*size));
    shape.message(onnx::TensorShapeFields::dim, std::move(dimension));
  }
  WireWriter tensor_type, type, info;
  tensor_type.integer(onnx::TensorTypeFields::elem_type,
                      static_cast<std::uint64_t>(onnx::data_type_of(graph.type(port.value).dtype)));
  tensor_type.message(onnx::TensorTypeFields::shape, std::move(shape));
  type.message(onnx::TypeFields::tensor_type, std::move(tensor_type));
  info.text(onnx::ValueInfoFields::name, port.name);
  info.message(onnx::ValueInfoFields::type, std::move(type));
  return info;
}

// Inputs by their ports, the others by number; "" is absent.
std::string operand_name(const Graph& graph, ValueId id) {
  if (id == ValueId::none) return "";
  const auto port = std::ranges::find(graph.inputs(), id, &Port::value);
  return port != graph.inputs().end() ? port->name : fmt::format("v{}", static_cast<std::uint32_t>(id));
}

Result<WireWriter> node_of(const Graph& graph, const Node& node, std::string_view type,
                           std::string_view domain) {
  WireWriter out;
  for (const ValueId id : node.inputs) out.text(onnx::NodeFields::input, operand_name(graph, id));
  for (const ValueId id : node.outputs) out.text(onnx::NodeFields::output, operand_name(graph, id));
  out.text(onnx::NodeFields::op_type, type);
  out.text(onnx::NodeFields::domain, domain);
  for (const auto& [name, attribute] : node.attributes.items())
    out.message(onnx::NodeFields::attribute, TRY(attribute_of(node, name, attribute)));
  return out;
}

}  // namespace

Result<std::vector<std::byte>> node_model(const Graph& graph) {
  if (graph.nodes().size() != 1) return fail(ErrorCode::unsupported, "{} is not one node", graph.name);
  const Node& node = graph.nodes()[0];
  const OnnxName& name = node.op->onnx;
  if (name.type.empty()) return no_word(node, "ONNX has no such operator");
  const std::size_t dot = name.type.rfind('.');
  const std::string_view domain = dot == std::string_view::npos ? "" : name.type.substr(0, dot);
  const std::string_view type = domain.empty() ? name.type : name.type.substr(dot + 1);
  const std::int64_t first = name.versions.empty() ? 1 : name.versions[0];
  WireWriter inside;
  inside.message(onnx::GraphFields::node, TRY(node_of(graph, node, type, domain)));
  inside.text(onnx::GraphFields::name, graph.name);
  for (const ValueId id : node.inputs) {
    if (id == ValueId::none || graph.value(id).constant == nullptr) continue;
    inside.bytes(onnx::GraphFields::initializer,
                 tensor_pb_bytes(*graph.value(id).constant, operand_name(graph, id)));
  }
  for (const Port& port : graph.inputs())
    inside.message(onnx::GraphFields::input, TRY(port_of(graph, node, port)));
  for (const Port& port : graph.outputs()) {
    WireWriter info;  // whose type follows
    info.text(onnx::ValueInfoFields::name, operand_name(graph, port.value));
    inside.message(onnx::GraphFields::output, std::move(info));
  }
  WireWriter model;
  model.integer(onnx::ModelFields::ir_version, kIrVersion);
  model.message(onnx::ModelFields::graph, std::move(inside));
  const auto import = [&](std::string_view name, std::int64_t version) {
    WireWriter set;
    set.text(onnx::OperatorSetIdFields::domain, name);
    set.integer(onnx::OperatorSetIdFields::version, static_cast<std::uint64_t>(version));
    model.message(onnx::ModelFields::opset_import, std::move(set));
  };
  import("", domain.empty() ? std::max(kOpset, first) : kOpset);
  if (!domain.empty()) import(domain, 1);
  return model.take();
}

}  // namespace diji
