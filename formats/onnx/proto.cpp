// From bytes to the parsed model: one function a message, each a switch over the fields we know.
#include "formats/onnx/proto.h"

#include "formats/onnx/names.h"
#include "formats/onnx/wire.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace diji::onnx {
namespace {

using Place = std::optional<Field>;

template <typename T>
Result<void> push(std::vector<T>& list, T item, std::size_t size_max, const Field& field,
                  std::string_view what) {
  if (list.size() == size_max) {
    return field.payload.malformed_at(field.offset, fmt::format("more than {} {}", size_max, what));
  }
  list.push_back(std::move(item));
  return {};
}

Result<std::string_view> name_of_field(const Field& field, std::string_view what) {
  return field.name(what, kNameBytesMax);
}

Result<void> push_name(std::vector<std::string_view>& list, const Field& field, std::string_view what) {
  const std::string_view name = TRY(name_of_field(field, "an operand's name"));
  return push(list, name, kOperandsMax, field, what);
}

Result<StringEntry> parse_entry(const Field& place) {
  const Reader message = TRY(place.message("an entry"));
  StringEntry entry{.offset = message.offset()};
  Fields fields(message);
  while (const Place field = TRY(fields.next())) {
    if (field->number == StringStringEntryFields::key) entry.key = TRY(name_of_field(*field, "a key"));
    if (field->number == StringStringEntryFields::value)
      entry.value = TRY(field->text("a value", kTextBytesMax));
  }
  return entry;
}

WireType element_type(std::uint32_t typed_field) {
  if (typed_field == TensorFields::float_data) return WireType::fixed32;
  if (typed_field == TensorFields::double_data) return WireType::fixed64;
  return typed_field == TensorFields::string_data ? WireType::bytes : WireType::varint;
}

// Counts the elements of one field of typed data; decoding waits until the count is known to fit.
Result<void> count_typed(TensorProto& tensor, const Field& field) {
  std::uint64_t count = 0;
  if (field.number == TensorFields::string_data) {
    TRY(field.message("string_data"));
    count = 1;
  } else {
    TRY(field.each(element_type(field.number), "typed tensor data", [&](std::uint64_t, std::int64_t) {
      ++count;
      return Result<void>();
    }));
  }
  if (count == 0) return {};
  if (tensor.typed_field != 0 && tensor.typed_field != field.number) {
    return field.payload.malformed_at(field.offset, "a tensor with typed data of two kinds");
  }
  tensor.typed_field = field.number;
  tensor.typed_count += count;
  return {};
}

Result<void> parse_tensor_field(TensorProto& tensor, const Field& field) {
  switch (field.number) {
    case TensorFields::name: tensor.name = TRY(name_of_field(field, "a tensor's name")); break;
    case TensorFields::data_type: tensor.data_type = TRY(field.integer32("data_type")); break;
    case TensorFields::dims:
      return field.each(WireType::varint, "dims", [&](std::uint64_t bits, std::int64_t) {
        return push(tensor.dims, static_cast<std::int64_t>(bits), kDimsMax, field, "axes of a tensor");
      });
    case TensorFields::raw_data:
      if (tensor.raw) return field.payload.malformed_at(field.offset, "a tensor with raw_data twice");
      tensor.raw = TRY(field.message("raw_data"));
      break;
    case TensorFields::float_data:
    case TensorFields::int32_data:
    case TensorFields::string_data:
    case TensorFields::int64_data:
    case TensorFields::double_data:
    case TensorFields::uint64_data: return count_typed(tensor, field);
    case TensorFields::external_data: {
      StringEntry entry = TRY(parse_entry(field));
      return push(tensor.external_data, entry, kExternalEntriesMax, field, "entries of external_data");
    }
    case TensorFields::data_location: {
      const std::int64_t location = TRY(field.integer("data_location"));
      if (location != kDataInModel && location != kDataExternal) {
        return field.payload.malformed_at(field.offset, fmt::format("data_location {} is unknown", location));
      }
      tensor.external = location == kDataExternal;
      break;
    }
    case TensorFields::segment: return field.payload.malformed_at(field.offset, "a tensor in segments");
    default: break;
  }
  return {};
}

Result<void> parse_dimension(std::vector<DimensionProto>& dims, const Field& place) {
  DimensionProto dim;
  Fields fields(TRY(place.message("a dimension")));
  while (const Place field = TRY(fields.next())) {
    if (field->number == DimensionFields::dim_value) dim.value = TRY(field->integer("dim_value"));
    if (field->number == DimensionFields::dim_param) dim.param = TRY(name_of_field(*field, "dim_param"));
  }
  return push(dims, dim, kDimsMax, place, "axes of a shape");
}

Result<void> parse_tensor_type(ValueInfoProto& info, const Field& place) {
  const Reader message = TRY(place.message("tensor_type"));
  Fields fields(message);
  while (const Place field = TRY(fields.next())) {
    if (field->number == TensorTypeFields::elem_type) info.data_type = TRY(field->integer32("elem_type"));
    if (field->number != TensorTypeFields::shape) continue;
    info.dims.emplace();
    Fields axes(TRY(field->message("a shape")));
    while (const Place axis = TRY(axes.next())) {
      if (axis->number == TensorShapeFields::dim) TRY(parse_dimension(*info.dims, *axis));
    }
  }
  return {};
}

// Of what is optional only tensors matter: sequences are refused as they are.
Result<void> parse_optional_type(ValueInfoProto& info, const Field& place) {
  info.kind = "optional";
  Fields fields(TRY(place.message("optional_type")));
  while (const Place field = TRY(fields.next())) {
    if (field->number != OptionalTypeFields::elem_type) continue;
    Fields types(TRY(field->message("elem_type")));
    while (const Place type = TRY(types.next())) {
      if (type->number != TypeFields::tensor_type) continue;
      info.kind = kOptionalTensor;
      TRY(parse_tensor_type(info, *type));
    }
  }
  return {};
}

Result<void> parse_type(ValueInfoProto& info, const Field& place) {
  const Reader message = TRY(place.message("a type"));
  Fields fields(message);
  while (const Place field = TRY(fields.next())) {
    switch (field->number) {
      case TypeFields::tensor_type:
        info.kind = "tensor";
        TRY(parse_tensor_type(info, *field));
        break;
      case TypeFields::sequence_type: info.kind = "sequence"; break;
      case TypeFields::map_type: info.kind = "map"; break;
      case TypeFields::opaque_type: info.kind = "opaque"; break;
      case TypeFields::sparse_tensor_type: info.kind = "sparse tensor"; break;
      case TypeFields::optional_type: TRY(parse_optional_type(info, *field)); break;
      default: break;
    }
  }
  return {};
}

Result<ValueInfoProto> parse_value_info(const Field& place, std::string_view what) {
  const Reader message = TRY(place.message("an input or output"));
  ValueInfoProto info{.offset = message.offset()};
  Fields fields(message);
  while (const Place field = TRY(fields.next())) {
    if (field->number == ValueInfoFields::name) info.name = TRY(name_of_field(*field, "a name"));
    if (field->number == ValueInfoFields::type) TRY(parse_type(info, *field));
  }
  if (info.name.empty()) return message.malformed("a graph's {} without a name", what);
  return info;
}

Result<GraphProto> parse_graph(const Field& place, int depth);

AttributeType type_of_field(std::uint32_t number) {
  switch (number) {
    case AttributeFields::f: return AttributeType::real;
    case AttributeFields::i: return AttributeType::integer;
    case AttributeFields::s: return AttributeType::string;
    case AttributeFields::t: return AttributeType::tensor;
    case AttributeFields::g: return AttributeType::graph;
    case AttributeFields::floats: return AttributeType::reals;
    case AttributeFields::ints: return AttributeType::integers;
    case AttributeFields::strings: return AttributeType::strings;
    case AttributeFields::tensors: return AttributeType::tensors;
    case AttributeFields::graphs: return AttributeType::graphs;
    case AttributeFields::tp: return AttributeType::type;
    case AttributeFields::type_protos: return AttributeType::types;
    case AttributeFields::sparse_tensor: return AttributeType::sparse_tensor;
    case AttributeFields::sparse_tensors: return AttributeType::sparse_tensors;
    default: return AttributeType::undefined;
  }
}

Result<TensorProto> tensor_in(const Field& place) {
  const Reader message = TRY(place.message("a tensor"));
  return parse_tensor(message);
}

// Bytes as they are: only an operator that knows the attribute can say whether they are text.
Result<std::string_view> parse_bytes(const Field& field) {
  Reader reader = TRY(field.message("s"));
  return reader.text(reader.remaining(), "s");
}

// The elements of a list attribute, appended.
template <typename T, typename Decode>
Result<void> append(AttributeProto& attribute, const Field& field, WireType element, const Decode& decode) {
  if (!std::holds_alternative<std::vector<T>>(attribute.value)) attribute.value = std::vector<T>();
  auto& list = std::get<std::vector<T>>(attribute.value);
  return field.each(element, "a list attribute", [&](std::uint64_t bits, std::int64_t) {
    return push(list, decode(bits), kAttributeItemsMax, field, "elements of an attribute");
  });
}

Result<void> parse_attribute_value(AttributeProto& attribute, const Field& field, int depth) {
  switch (type_of_field(field.number)) {
    case AttributeType::integer: attribute.value = TRY(field.integer("i")); break;
    case AttributeType::real: attribute.value = double{TRY(field.real("f"))}; break;
    case AttributeType::string: attribute.value = TRY(parse_bytes(field)); break;
    case AttributeType::tensor:
      attribute.value = std::make_shared<const TensorProto>(TRY(tensor_in(field)));
      break;
    case AttributeType::graph:
      attribute.value = std::make_shared<const GraphProto>(TRY(parse_graph(field, depth + 1)));
      break;
    case AttributeType::graphs: {
      using Graphs = std::vector<std::shared_ptr<const GraphProto>>;
      if (!std::holds_alternative<Graphs>(attribute.value)) attribute.value = Graphs();
      auto graph = std::make_shared<const GraphProto>(TRY(parse_graph(field, depth + 1)));
      return push(std::get<Graphs>(attribute.value), std::move(graph), kAttributesMax, field, "graphs");
    }
    case AttributeType::strings: {
      using Strings = std::vector<std::string_view>;
      if (!std::holds_alternative<Strings>(attribute.value)) attribute.value = Strings();
      return push(std::get<Strings>(attribute.value), TRY(parse_bytes(field)), kAttributesMax, field,
                  "strings");
    }
    case AttributeType::integers:
      return append<std::int64_t>(attribute, field, WireType::varint,
                                  [](std::uint64_t bits) { return static_cast<std::int64_t>(bits); });
    case AttributeType::reals:
      return append<double>(attribute, field, WireType::fixed32, [](std::uint64_t bits) {
        return double{std::bit_cast<float>(static_cast<std::uint32_t>(bits))};
      });
    default: break;
  }
  return {};
}

// What an attribute of a declared type is worth when its field is absent (proto defaults).
void set_default(AttributeProto& attribute) {
  if (attribute.type == AttributeType::integer) attribute.value = std::int64_t{0};
  if (attribute.type == AttributeType::real) attribute.value = 0.0;
  if (attribute.type == AttributeType::string) attribute.value = std::string_view();
  if (attribute.type == AttributeType::integers) attribute.value = std::vector<std::int64_t>();
  if (attribute.type == AttributeType::reals) attribute.value = std::vector<double>();
}

Result<AttributeProto> parse_attribute(const Field& place, int depth) {
  const Reader message = TRY(place.message("an attribute"));
  AttributeProto attribute{.offset = message.offset()};
  auto found = AttributeType::undefined;
  Fields fields(message);
  while (const Place field = TRY(fields.next())) {
    if (field->number == AttributeFields::name)
      attribute.name = TRY(name_of_field(*field, "an attribute's name"));
    if (field->number == AttributeFields::ref_attr_name)
      attribute.reference = TRY(name_of_field(*field, "a referenced attribute's name"));
    if (field->number == AttributeFields::type) {
      const std::int64_t type = TRY(field->integer("an attribute's type"));
      if (type < 0 || type >= std::ssize(kAttributeTypeNames)) {
        return message.malformed_at(field->offset, fmt::format("attribute type {} is unknown", type));
      }
      attribute.type = static_cast<AttributeType>(type);
    }
    const AttributeType type = type_of_field(field->number);
    if (type == AttributeType::undefined) continue;
    if (found != AttributeType::undefined && found != type) {
      return message.malformed_at(
          field->offset, fmt::format("attribute '{}' has values of two types", shown(attribute.name)));
    }
    found = type;
    TRY(parse_attribute_value(attribute, *field, depth));
  }
  if (attribute.name.empty()) return message.malformed("an attribute without a name");
  if (attribute.type == AttributeType::undefined)
    attribute.type = found;  // IR versions before 2 leave it out
  if (found == AttributeType::undefined) set_default(attribute);
  if (found != AttributeType::undefined && found != attribute.type) {
    return message.malformed("attribute '{}' says {} and has {}", shown(attribute.name),
                             kAttributeTypeNames[static_cast<std::size_t>(attribute.type)],
                             kAttributeTypeNames[static_cast<std::size_t>(found)]);
  }
  return attribute;
}

Result<void> push_attribute(std::vector<AttributeProto>& list, const Field& field, int depth) {
  AttributeProto attribute = TRY(parse_attribute(field, depth));
  if (std::ranges::find(list, attribute.name, &AttributeProto::name) != list.end()) {
    return field.payload.malformed_at(attribute.offset,
                                      fmt::format("attribute '{}' stands twice", shown(attribute.name)));
  }
  return push(list, std::move(attribute), kAttributesMax, field, "attributes of a node");
}

Result<NodeProto> parse_node(const Field& place, int depth) {
  const Reader message = TRY(place.message("a node"));
  NodeProto node{.offset = message.offset()};
  Fields fields(message);
  while (const Place field = TRY(fields.next())) {
    switch (field->number) {
      case NodeFields::input: TRY(push_name(node.inputs, *field, "inputs of a node")); break;
      case NodeFields::output: TRY(push_name(node.outputs, *field, "outputs of a node")); break;
      case NodeFields::name: node.name = TRY(name_of_field(*field, "a node's name")); break;
      case NodeFields::op_type: node.op_type = TRY(name_of_field(*field, "op_type")); break;
      case NodeFields::domain: node.domain = TRY(name_of_field(*field, "a node's domain")); break;
      case NodeFields::overload: node.overload = TRY(name_of_field(*field, "a node's overload")); break;
      case NodeFields::attribute: TRY(push_attribute(node.attributes, *field, depth)); break;
      default: break;
    }
  }
  if (node.op_type.empty()) return message.malformed("a node without an op_type");
  return node;
}

Result<void> parse_graph_field(GraphProto& graph, const Field& field, int depth) {
  switch (field.number) {
    case GraphFields::node: {
      NodeProto node = TRY(parse_node(field, depth));
      return push(graph.nodes, std::move(node), kNodesMax, field, "nodes");
    }
    case GraphFields::initializer: {
      TensorProto tensor = TRY(tensor_in(field));
      if (tensor.name.empty())
        return field.payload.malformed_at(tensor.offset, "an initializer without a name");
      return push(graph.initializers, std::move(tensor), kNodesMax, field, "initializers");
    }
    case GraphFields::input: {
      ValueInfoProto info = TRY(parse_value_info(field, "input"));
      return push(graph.inputs, std::move(info), kNodesMax, field, "inputs");
    }
    case GraphFields::output: {
      ValueInfoProto info = TRY(parse_value_info(field, "output"));
      return push(graph.outputs, std::move(info), kNodesMax, field, "outputs");
    }
    case GraphFields::name: graph.name = TRY(name_of_field(field, "the graph's name")); break;
    case GraphFields::sparse_initializer: graph.sparse_initializers = true; break;
    default: break;
  }
  return {};
}

Result<GraphProto> parse_graph(const Field& place, int depth) {
  const Reader message = TRY(place.message("a graph"));
  if (depth > kNestingMax) return message.malformed("graphs are nested deeper than {}", kNestingMax);
  GraphProto graph{.offset = message.offset()};
  Fields fields(message);
  while (const Place field = TRY(fields.next())) TRY(parse_graph_field(graph, *field, depth));
  return graph;
}

Result<OperatorSetId> parse_opset(const Field& place) {
  const Reader message = TRY(place.message("opset_import"));
  OperatorSetId opset{.offset = message.offset()};
  Fields fields(message);
  while (const Place field = TRY(fields.next())) {
    if (field->number == OperatorSetIdFields::domain) opset.domain = TRY(name_of_field(*field, "a domain"));
    if (field->number == OperatorSetIdFields::version)
      opset.version = TRY(field->integer("an operator set's version"));
  }
  return opset;
}

Result<void> push_port(std::vector<ValueInfoProto>& list, const Field& field, std::string_view what) {
  const ValueInfoProto port{.name = TRY(name_of_field(field, what)), .offset = field.offset};
  if (port.name.empty()) return field.payload.malformed_at(field.offset, fmt::format("{} is empty", what));
  return push(list, port, kOperandsMax, field, "inputs or outputs of a function");
}

Result<void> parse_function_field(FunctionProto& function, const Field& field) {
  GraphProto& body = function.body;
  switch (field.number) {
    case FunctionFields::domain: function.domain = TRY(name_of_field(field, "a function's domain")); break;
    case FunctionFields::name: function.name = TRY(name_of_field(field, "a function's name")); break;
    case FunctionFields::overload: function.overload = TRY(name_of_field(field, "an overload")); break;
    case FunctionFields::input: return push_port(body.inputs, field, "a function's input");
    case FunctionFields::output: return push_port(body.outputs, field, "a function's output");
    case FunctionFields::attribute: {
      const std::string_view name = TRY(name_of_field(field, "a function's attribute"));
      return push(function.attributes, name, kAttributesMax, field, "attributes of a function");
    }
    case FunctionFields::attribute_proto: return push_attribute(function.defaults, field, 0);
    case FunctionFields::node: {
      NodeProto node = TRY(parse_node(field, 0));
      return push(body.nodes, std::move(node), kNodesMax, field, "nodes");
    }
    case FunctionFields::opset_import: {
      const OperatorSetId opset = TRY(parse_opset(field));
      return push(function.opsets, opset, kEntriesMax, field, "operator sets");
    }
    default: break;
  }
  return {};
}

Result<FunctionProto> parse_function(const Field& place) {
  const Reader message = TRY(place.message("a function"));
  FunctionProto function;
  function.body.offset = message.offset();
  Fields fields(message);
  while (const Place field = TRY(fields.next())) TRY(parse_function_field(function, *field));
  if (function.name.empty()) return message.malformed("a function without a name");
  function.body.name = function.name;
  return function;
}

Result<void> parse_model_field(Model& model, const Field& field) {
  switch (field.number) {
    case ModelFields::ir_version: model.ir_version = TRY(field.integer("ir_version")); break;
    case ModelFields::producer_name:
      model.producer_name = TRY(field.text("producer_name", kTextBytesMax));
      break;
    case ModelFields::producer_version:
      model.producer_version = TRY(field.text("producer_version", kTextBytesMax));
      break;
    case ModelFields::graph:
      if (model.graph.offset != 0) return field.payload.malformed_at(field.offset, "a model with two graphs");
      model.graph = TRY(parse_graph(field, 0));
      break;
    case ModelFields::opset_import: {
      const OperatorSetId opset = TRY(parse_opset(field));
      return push(model.opsets, opset, kEntriesMax, field, "operator sets");
    }
    case ModelFields::metadata_props: {
      const StringEntry entry = TRY(parse_entry(field));
      return push(model.metadata, entry, kEntriesMax, field, "metadata entries");
    }
    case ModelFields::functions: {
      FunctionProto function = TRY(parse_function(field));
      return push(model.functions, std::move(function), kEntriesMax, field, "functions");
    }
    default: break;
  }
  return {};
}

}  // namespace

Result<TensorProto> parse_tensor(Reader message) {
  TensorProto tensor{.offset = message.offset(), .message = message};
  Fields fields(message);
  while (const Place field = TRY(fields.next())) TRY(parse_tensor_field(tensor, *field));
  return tensor;
}

namespace {

// What a file is whose first bytes no ONNX model has; empty where they may be one's. A model begins with the
// tag of a field, which is below a letter: 0x08 as it is written everywhere.
std::string_view other_kind_of(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 512));
  constexpr std::pair<std::string_view, std::string_view> kBeginnings[] = {
      {"PK\x03\x04", "a zip archive (PyTorch's .pt files are such)"},
      {"\x1f\x8b", "compressed by gzip"},
      {"\x89HDF", "HDF5 (Keras's .h5 files are such)"},
      {"\x93NUMPY", "an array of NumPy"},
      {"\x89PNG", "a picture"},
      {"\x7f"
       "ELF",
       "a program or shared object"},
      {"GGUF", "GGUF"},
      {"version https://git-lfs", "a pointer of Git LFS, not the file that it stands for"},
  };
  for (const auto& [beginning, kind] : kBeginnings) {
    if (text.starts_with(beginning)) return kind;
  }
  if (text.size() > 8 && text.substr(4, 4) == "TFL3") return "TensorFlow Lite";
  if (text.size() > 9 && text.substr(8, 2) == "{\"") return "safetensors: weights without a graph";
  const auto is_text = [](unsigned char c) { return c >= ' ' || c == '\n' || c == '\r' || c == '\t'; };
  return std::ranges::all_of(text, is_text) ? "text" : "";
}

Result<void> parse_fields(Model& model, const Reader& reader) {
  Fields fields(reader);
  while (const Place field = TRY(fields.next())) TRY(parse_model_field(model, *field));
  return {};
}

}  // namespace

Result<Model> parse_model(std::span<const std::byte> bytes, std::string_view file) {
  const Reader reader(bytes, file);
  if (bytes.empty()) return reader.malformed("the file is empty");
  Model model{.file = file};
  if (const auto parsed = parse_fields(model, reader); !parsed) {
    const std::string_view kind = other_kind_of(bytes);
    if (kind.empty()) return std::unexpected(parsed.error());
    return reader.malformed_at(0,
                               fmt::format("this is not an ONNX file but {}; diji reads what onnx.save or "
                                           "torch.onnx.export writes, and .txt files with a graph of its own",
                                           kind));
  }
  if (model.graph.offset == 0) {
    return reader.malformed_at(std::ssize(bytes),
                               "the file ends without a graph: it is cut off or no ONNX model");
  }
  return model;
}

}  // namespace diji::onnx
