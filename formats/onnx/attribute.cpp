// Conversion of attributes, and the Constant node, which is nothing but one.
#include "formats/onnx/attribute.h"

#include "formats/onnx/names.h"
#include "formats/onnx/wire.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace diji::onnx {
namespace {

template <typename... Args>
std::unexpected<Error> refuse(ErrorCode code, const NodeProto& node, const AttributeProto& attribute,
                              std::string_view file, fmt::format_string<Args...> text, Args&&... args) {
  auto error = fail_at(code, file, attribute.offset, "{}: attribute '{}' {}", title_of(node),
                       shown(attribute.name), fmt::format(text, std::forward<Args>(args)...));
  return at_node(file, node, std::move(error).error());
}

std::string_view type_name(const AttributeProto& attribute) {
  return kAttributeTypeNames[static_cast<std::size_t>(attribute.type)];
}

// By the type the file has, for attributes that the record does not know.
Result<Attribute> plain_value(const NodeProto& node, const AttributeProto& attribute, Source& source) {
  switch (attribute.type) {
    case AttributeType::integer: return std::get<std::int64_t>(attribute.value);
    case AttributeType::real: return std::get<double>(attribute.value);
    case AttributeType::integers: return std::get<Ints>(attribute.value);
    case AttributeType::reals: return std::get<Floats>(attribute.value);
    case AttributeType::string: {
      const auto text = std::get<std::string_view>(attribute.value);
      if (is_utf8(text)) return std::string(text);
      return refuse(ErrorCode::malformed, node, attribute, source.file, "is not UTF-8 text");
    }
    case AttributeType::tensor: {
      const auto* tensor = std::get_if<std::shared_ptr<const TensorProto>>(&attribute.value);
      if (tensor == nullptr) break;
      auto value = tensor_value(**tensor, source);
      if (!value) return at_node(source.file, node, std::move(value).error());
      return *std::move(value);
    }
    default:
      return refuse(ErrorCode::unsupported, node, attribute, source.file,
                    "is of type {}, which is not built yet", type_name(attribute));
  }
  return refuse(ErrorCode::malformed, node, attribute, source.file, "says {} and has no value",
                type_name(attribute));
}

// A list of words is one text for operators: none of them takes words with a comma.
Result<Attribute> joined_words(const NodeProto& node, const AttributeProto& attribute, Source& source) {
  const auto* words = std::get_if<std::vector<std::string_view>>(&attribute.value);
  const std::string text = words == nullptr ? "" : fmt::format("{}", fmt::join(*words, ","));
  if (is_utf8(text)) return text;
  return refuse(ErrorCode::malformed, node, attribute, source.file, "is not UTF-8 text");
}

AttributeType wanted_type(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::integer:
    case AttributeKind::dtype: return AttributeType::integer;
    case AttributeKind::real: return AttributeType::real;
    case AttributeKind::text: return AttributeType::string;
    case AttributeKind::integers:
    case AttributeKind::dims: return AttributeType::integers;
    case AttributeKind::reals: return AttributeType::reals;
    case AttributeKind::tensor: return AttributeType::tensor;
  }
  return AttributeType::undefined;
}

Result<Attribute> known_value(const NodeProto& node, const AttributeProto& attribute, AttributeKind kind,
                              Source& source) {
  const AttributeType wanted = wanted_type(kind);
  if (kind == AttributeKind::text && attribute.type == AttributeType::strings)
    return joined_words(node, attribute, source);
  if (attribute.type != wanted) {
    return refuse(ErrorCode::malformed, node, attribute, source.file, "is of type {}, the operator has {}",
                  type_name(attribute), kAttributeTypeNames[static_cast<std::size_t>(wanted)]);
  }
  if (kind == AttributeKind::dtype) {
    const std::string what = fmt::format("{}: attribute '{}'", title_of(node), attribute.name);
    auto dtype =
        dtype_of_number(std::get<std::int64_t>(attribute.value), what, source.file, attribute.offset);
    if (!dtype) return at_node(source.file, node, std::move(dtype).error());
    return *dtype;
  }
  if (kind == AttributeKind::dims) {
    const Ints& sizes = std::get<Ints>(attribute.value);
    return Shape(sizes.begin(), sizes.end());
  }
  return plain_value(node, attribute, source);
}

HostTensor reals_tensor(StaticShape shape, const Floats& values) {
  std::vector<float> narrow;
  for (const double value : values)
    narrow.push_back(static_cast<float>(value));  // exact: the file has floats
  return HostTensor::of<float>(std::move(shape), narrow);
}

}  // namespace

Result<Attributes> read_attributes(const NodeProto& node, const OpDef& op, Source& source) {
  Attributes attributes;
  for (const AttributeProto& attribute : node.attributes) {
    if (!attribute.reference.empty()) {
      return refuse(ErrorCode::malformed, node, attribute, source.file,
                    "refers to a function's, outside of any");
    }
    const auto* const known = std::ranges::find(op.attributes, attribute.name, &AttributeDef::name);
    const bool is_known = known != op.attributes.end();
    attributes.set(attribute.name, is_known ? TRY(known_value(node, attribute, known->kind, source))
                                            : TRY(plain_value(node, attribute, source)));
  }
  return attributes;
}

Result<void> check_known(const NodeProto& node, const OpDef& op, const Attributes& attributes,
                         std::string_view file) {
  for (const auto& [name, value] : attributes.items()) {
    if (std::ranges::find(op.attributes, std::string_view(name), &AttributeDef::name) != op.attributes.end())
      continue;
    std::vector<std::string> names;
    for (const AttributeDef& known : op.attributes) names.emplace_back(known.name);
    const auto place = std::ranges::find(node.attributes, std::string_view(name), &AttributeProto::name);
    auto error = fail_at(
        ErrorCode::unsupported, file, place == node.attributes.end() ? node.offset : place->offset,
        "{}: the operator has no attribute '{}'{}", title_of(node), shown(name), nearest_hint(name, names));
    return at_node(file, node, std::move(error).error());
  }
  return {};
}

Result<HostTensor> constant_value(const NodeProto& node, Source& source) {
  if (node.attributes.size() != 1) {
    auto error = fail(ErrorCode::malformed, "{} attributes, a constant has one", node.attributes.size());
    return at_node(source.file, node, std::move(error).error());
  }
  const AttributeProto& attribute = node.attributes[0];
  constexpr std::array<std::pair<std::string_view, AttributeType>, 5> kKinds = {
      {{"value", AttributeType::tensor},
       {"value_float", AttributeType::real},
       {"value_floats", AttributeType::reals},
       {"value_int", AttributeType::integer},
       {"value_ints", AttributeType::integers}}};
  const auto* const kind =
      std::ranges::find(kKinds, attribute.name, &std::pair<std::string_view, AttributeType>::first);
  if (kind == kKinds.end()) {
    return refuse(ErrorCode::unsupported, node, attribute, source.file,
                  "is not built yet; value, value_float, value_floats, value_int and value_ints are");
  }
  if (!attribute.reference.empty() || attribute.type != kind->second) {
    return refuse(ErrorCode::malformed, node, attribute, source.file, "is of type {}, a constant has {}",
                  type_name(attribute), kAttributeTypeNames[static_cast<std::size_t>(kind->second)]);
  }
  const Attribute value = TRY(plain_value(node, attribute, source));
  if (const auto* real = std::get_if<double>(&value)) return reals_tensor({}, {*real});
  if (const auto* reals = std::get_if<Floats>(&value)) return reals_tensor({std::ssize(*reals)}, *reals);
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    return HostTensor::of<std::int64_t>({}, {*integer});
  if (const auto* integers = std::get_if<Ints>(&value)) {
    return HostTensor::of<std::int64_t>({std::ssize(*integers)}, std::span(*integers));
  }
  return std::get<HostTensor>(value);
}

}  // namespace diji::onnx
