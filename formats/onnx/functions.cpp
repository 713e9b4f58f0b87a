// Keys, defaults and references.
#include "formats/onnx/functions.h"

#include "formats/onnx/names.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace diji::onnx {
namespace {

bool declares(const FunctionProto& function, std::string_view name) {
  return std::ranges::find(function.attributes, name) != function.attributes.end() ||
         std::ranges::find(function.defaults, name, &AttributeProto::name) != function.defaults.end();
}

std::string hint_for(const FunctionProto& function, std::string_view name) {
  std::vector<std::string> names(function.attributes.begin(), function.attributes.end());
  for (const AttributeProto& attribute : function.defaults) names.emplace_back(attribute.name);
  return nearest_hint(name, names);
}

bool is_graph(const AttributeProto& attribute) {
  return attribute.type == AttributeType::graph || attribute.type == AttributeType::graphs;
}

}  // namespace

Result<FunctionTable> FunctionTable::of(const Model& model) {
  FunctionTable table;
  for (const FunctionProto& function : model.functions) {
    const Key key(domain_of(function.domain), function.name, function.overload);
    if (!table.functions_.emplace(key, &function).second) {
      return fail_at(ErrorCode::malformed, model.file, function.body.offset, "the function '{}' stands twice",
                     name_of(function));
    }
  }
  return table;
}

const FunctionProto* FunctionTable::find(const NodeProto& node) const {
  const auto found = functions_.find({domain_of(node.domain), node.op_type, node.overload});
  return found == functions_.end() ? nullptr : found->second;
}

std::string name_of(const FunctionProto& function) {
  const std::string_view domain = domain_of(function.domain);
  std::string name =
      domain.empty() ? shown(function.name) : fmt::format("{}.{}", shown(domain), shown(function.name));
  if (!function.overload.empty()) name += fmt::format(":{}", shown(function.overload));
  return name;
}

Result<FunctionCall> bind_attributes(const FunctionProto& function, const NodeProto& node,
                                     std::string_view file) {
  FunctionCall call{.function = function, .attributes = {}};
  for (const AttributeProto& attribute : function.defaults) call.attributes[attribute.name] = &attribute;
  for (const AttributeProto& attribute : node.attributes) {
    if (!declares(function, attribute.name)) {
      auto error = fail(ErrorCode::malformed, "the function has no attribute '{}'{}", shown(attribute.name),
                        hint_for(function, attribute.name));
      return at_node(file, node, std::move(error).error());
    }
    if (is_graph(attribute)) {
      auto error =
          fail(ErrorCode::unsupported, "attribute '{}' is a graph; for functions that is not built yet",
               shown(attribute.name));
      return at_node(file, node, std::move(error).error());
    }
    call.attributes[attribute.name] = &attribute;
  }
  return call;
}

bool has_references(const NodeProto& node) {
  return std::ranges::any_of(node.attributes, [](const AttributeProto& a) { return !a.reference.empty(); });
}

Result<NodeProto> resolve_references(const NodeProto& node, const FunctionCall& call, std::string_view file) {
  NodeProto resolved = node;
  resolved.attributes.clear();
  for (const AttributeProto& attribute : node.attributes) {
    if (attribute.reference.empty()) {
      resolved.attributes.push_back(attribute);
      continue;
    }
    if (!declares(call.function, attribute.reference)) {
      auto error = fail(ErrorCode::malformed,
                        "attribute '{}' stands for '{}', which the function '{}' does not have{}",
                        shown(attribute.name), shown(attribute.reference), name_of(call.function),
                        hint_for(call.function, attribute.reference));
      return at_node(file, node, std::move(error).error());
    }
    const auto given = call.attributes.find(attribute.reference);
    if (given == call.attributes.end()) continue;
    const AttributeProto& value = *given->second;
    if (attribute.type != AttributeType::undefined && attribute.type != value.type) {
      auto error = fail(ErrorCode::malformed, "attribute '{}' is of type {}, '{}' of the function '{}' is {}",
                        shown(attribute.name), kAttributeTypeNames[static_cast<std::size_t>(attribute.type)],
                        shown(attribute.reference), name_of(call.function),
                        kAttributeTypeNames[static_cast<std::size_t>(value.type)]);
      return at_node(file, node, std::move(error).error());
    }
    resolved.attributes.push_back(value);
    resolved.attributes.back().name = attribute.name;
  }
  return resolved;
}

}  // namespace diji::onnx
