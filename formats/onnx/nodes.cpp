// One node after the other: what it is, what it takes, what it gives.
#include "formats/onnx/nodes.h"

#include "base/checksum.h"
#include "formats/onnx/attribute.h"
#include "formats/onnx/conditional.h"
#include "formats/onnx/names.h"
#include "formats/onnx/narrow.h"
#include "formats/onnx/special.h"

#include <algorithm>
#include <array>
#include <utility>

namespace diji::onnx {
namespace {

// What the operators of the default domain make of constants whose packed elements were widened: the same
// numbers, or other types altogether. Everything else would compute as for i8 and u8, which is wrong.
constexpr std::array<std::string_view, 4> kUnpacking = {"Cast", "DequantizeLinear", "Shape", "Size"};
constexpr std::array<std::string_view, 11> kMoving = {"Concat",    "Flatten", "Gather",   "Identity",
                                                      "Reshape",   "Slice",   "Split",    "Squeeze",
                                                      "Transpose", "Tile",    "Unsqueeze"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& list, std::string_view type) {
  return std::ranges::find(list, type) != list.end();
}

std::int64_t cost_of(const NodeProto& node) {
  constexpr std::int64_t kNodeCost = 16, kElementsPerCost = 16;
  std::int64_t cost = kNodeCost + std::ssize(node.inputs) + std::ssize(node.outputs);
  for (const AttributeProto& attribute : node.attributes) {
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&attribute.value))
      cost += std::ssize(*list) / kElementsPerCost;
    if (const auto* list = std::get_if<std::vector<double>>(&attribute.value))
      cost += std::ssize(*list) / kElementsPerCost;
  }
  return cost;
}

Result<void> check_special_attributes(const NodeProto& node, const SpecialOp& op) {
  for (const AttributeProto& attribute : node.attributes) {
    if (std::ranges::find(op.attributes, attribute.name) != op.attributes.end()) continue;
    const std::vector<std::string> known(op.attributes.begin(), op.attributes.end());
    return fail(ErrorCode::unsupported, "the operator has no attribute '{}'{}", shown(attribute.name),
                nearest_hint(attribute.name, known));
  }
  return {};
}

// The key, and a stream of the node's own where it has no seed: its place in the model decides which.
void add_randomness(const OpDef& op, ForeignNode& call, Scope& scope) {
  call.inputs.resize(op.inputs.size(), ValueId::none);
  call.inputs.back() = scope.body.random_key();
  if (!call.attributes.has("stream")) {
    call.attributes.set("stream", static_cast<std::int64_t>(checksum_of(scope.path_within())));
  }
}

// Of a node in the model's own graph: the operands whose contents were wanted and are computed at run time.
std::unexpected<Error> with_deciding_values(const NodeProto& node, Scope& scope, Error error) {
  if (!error.contents_decide || scope.depth != 0) return std::unexpected(std::move(error));
  const Graph& graph = scope.body.builder.graph();
  for (const std::string_view input : node.inputs) {
    if (input.empty()) continue;
    const Imported operand = scope.find(input);
    const auto* tensor = std::get_if<Tensor>(&operand.value);
    if (tensor == nullptr || tensor->id == ValueId::none) continue;
    const Value& value = graph.value(tensor->id);
    const Type& type = graph.type(tensor->id);
    if (is_floating(type.dtype) || type.shape.size() > 1) continue;
    const bool is_known = value.constant != nullptr ||
                          (value.contents && std::ranges::all_of(*value.contents, [](const Dim& dim) {
                             return dim.constant().has_value();
                           }));
    if (!is_known) error.deciding_values.emplace_back(input);
  }
  return std::unexpected(std::move(error));
}

}  // namespace

Result<void> NodeImporter::charge(std::int64_t cost) {
  expansion_ += cost;
  if (expansion_ <= kExpansionMax) return {};
  return fail(ErrorCode::unsupported, "functions and bodies expand to more than the limit ({} nodes)",
              kExpansionMax / 16);
}

Result<void> NodeImporter::charge(const NodeProto& node) { return charge(cost_of(node)); }

Result<void> NodeImporter::add_nodes(const GraphProto& graph, const NodeOrder& order, Scope& scope) {
  sorted_ |= !order.was_sorted;
  for (std::size_t position = 0; position < order.nodes.size(); ++position) {
    const NodeProto& node = graph.nodes[order.nodes[position]];
    scope.at = node.outputs.empty() ? std::string_view() : node.outputs[0];
    const SpecialOp* special = functions_.find(node) == nullptr ? find_special(node) : nullptr;
    if (special == nullptr || special->import != nullptr) {
      auto added = add_node(node, scope);
      if (!added) return with_deciding_values(node, scope, std::move(added).error());
    } else {
      const auto is_last = add_conditional(*this, graph, order, position, scope);
      if (!is_last) return with_deciding_values(node, scope, is_last.error());
      if (*is_last) return {};
    }
  }
  return {};
}

bool NodeImporter::is_given(std::string_view name, const Scope& scope) const {
  return scope.depth == 0 && scope.outer() == nullptr && given_.contains(name);
}

Result<ImportedList> NodeImporter::add_graph(const GraphProto& graph, ImportedList inputs, Scope& scope) {
  if (scope.depth > kScopeDepthMax) {
    return fail(ErrorCode::unsupported, "functions and graphs are nested deeper than {}", kScopeDepthMax);
  }
  if (inputs.size() > graph.inputs.size()) {
    return fail(ErrorCode::malformed, "{} inputs for '{}', which has {}", inputs.size(), shown(graph.name),
                graph.inputs.size());
  }
  if (graph.sparse_initializers) return fail(ErrorCode::unsupported, "sparse initializers are not built yet");
  const auto outer = [&](std::string_view name) { return scope.outer()->sees(name); };
  const NodeOrder order =
      TRY(order_nodes(graph, model_.file, scope.outer() == nullptr ? OuterNames() : OuterNames(outer)));
  for (const TensorProto& tensor : graph.initializers) {
    const ValueId id = scope.body.builder.constant(TRY(tensor_value(tensor, source_)));
    scope.values[tensor.name] = {Tensor{id, packed_type(tensor.data_type)}};
  }
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::string_view name = graph.inputs[i].name;
    if (i < inputs.size()) {
      scope.values[name] = std::move(inputs[i]);
    } else {
      scope.values.emplace(name, Imported());  // absent, or an initializer's default
    }
  }
  for (const NodeProto& node : graph.nodes) TRY(charge(node));
  TRY(add_nodes(graph, order, scope));
  ImportedList outputs;
  for (const ValueInfoProto& output : graph.outputs) outputs.push_back(scope.find(output.name));
  return outputs;
}

Result<void> NodeImporter::add_node(const NodeProto& node, Scope& scope) {
  if (scope.call != nullptr && has_references(node)) {
    const NodeProto resolved = TRY(resolve_references(node, *scope.call, model_.file));
    TRY(charge(resolved));
    return bind_outputs(resolved, TRY(results_of(resolved, scope)), scope);
  }
  return bind_outputs(node, TRY(results_of(node, scope)), scope);
}

Result<ImportedList> NodeImporter::results_of(const NodeProto& node, Scope& scope) {
  ImportedList inputs;
  for (const std::string_view input : node.inputs)
    inputs.push_back(input.empty() ? Imported() : scope.find(input));
  if (const FunctionProto* function = functions_.find(node)) {
    auto results = call_function(*function, node, std::move(inputs), scope);
    if (!results) return at_node(model_.file, node, std::move(results).error());
    return results;
  }
  const SpecialOp* special = find_special(node);
  if (special == nullptr && !may_be_narrow(node)) return call_operator(node, std::move(inputs), scope);
  if (special == nullptr) {
    Site site{*this, node, scope, inputs};
    auto narrow = import_narrow(site);
    if (narrow) {
      if (!*narrow) return call_operator(node, std::move(inputs), scope);
      if (auto status = scope.body.builder.status(); !status) narrow = std::unexpected(status.error());
    }
    if (!narrow) return at_node(model_.file, node, std::move(narrow).error());
    return std::move(**narrow);
  }
  if (auto known = check_special_attributes(node, *special); !known)
    return at_node(model_.file, node, std::move(known).error());
  Site site{*this, node, scope, std::move(inputs)};
  auto results = special->import(site);
  if (!results) return at_node(model_.file, node, std::move(results).error());
  if (auto status = scope.body.builder.status(); !status)
    return at_node(model_.file, node, std::move(status).error());
  return results;
}

Result<ImportedList> NodeImporter::call_function(const FunctionProto& function, const NodeProto& node,
                                                 ImportedList inputs, Scope& scope) {
  const FunctionCall call = TRY(bind_attributes(function, node, model_.file));
  const Opsets opsets = TRY(read_opsets(function, model_.file));
  Scope own(scope.body, opsets);
  own.call = &call;
  own.depth = scope.depth + 1;
  own.path = scope.path_within();
  return add_graph(function.body, std::move(inputs), own);
}

Result<ImportedList> NodeImporter::call_operator(const NodeProto& node, ImportedList inputs, Scope& scope) {
  const Record record = find_record(node, scope.opsets, custom_ops_);
  const bool is_default = domain_of(node.domain).empty();
  ForeignNode call{.version = record.version,
                   .attributes = TRY(read_attributes(node, *record.op, source_)),
                   .outputs = node.outputs.size()};
  std::int32_t packed = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto* tensor = std::get_if<Tensor>(&inputs[i].value);
    if (tensor == nullptr) {
      auto error = fail(ErrorCode::mismatch, "input '{}' is a sequence or an optional, a tensor is wanted",
                        shown(node.inputs[i]));
      return at_node(model_.file, node, std::move(error).error());
    }
    call.inputs.push_back(tensor->id);
    if (tensor->packed == 0) continue;
    const bool moves = is_default && is_one_of(kMoving, node.op_type);
    if (!moves && !is_one_of(kUnpacking, node.op_type)) {
      auto error = refuse_packed(tensor->packed, fmt::format("input '{}'", shown(node.inputs[i])));
      return at_node(model_.file, node, std::move(error).error());
    }
    if (moves) packed = tensor->packed;
  }
  while (!call.inputs.empty() && call.inputs.back() == ValueId::none) call.inputs.pop_back();
  Builder& builder = scope.body.builder;
  if (record.op->onnx.adapt != nullptr) {
    if (auto adapted = record.op->onnx.adapt(builder, call); !adapted) {
      return at_node(model_.file, node, std::move(adapted).error());
    }
  }
  if (call.draws) add_randomness(*record.op, call, scope);
  TRY(check_known(node, *record.op, call.attributes, model_.file));
  const Values outputs =
      builder.call(*record.op, std::move(call.inputs), std::move(call.attributes), std::string(node.name));
  if (auto status = builder.status(); !status) return at_node(model_.file, node, std::move(status).error());
  ImportedList results;
  for (const ValueId id : outputs) results.push_back({Tensor{id, packed}});
  return results;
}

Result<void> NodeImporter::bind_outputs(const NodeProto& node, ImportedList outputs, Scope& scope) const {
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty() || is_given(node.outputs[i], scope)) continue;
    if (i >= outputs.size()) {
      auto error = fail(ErrorCode::unsupported, "output {} ('{}') is wanted, {} are built", i,
                        shown(node.outputs[i]), outputs.size());
      return at_node(model_.file, node, std::move(error).error());
    }
    for (const Tensor* tensor : tensors_of(outputs[i])) {
      if (std::ranges::all_of(scope.body.builder.shape(tensor->id), &Dim::is_valid)) continue;
      auto error = fail(ErrorCode::malformed, "a size of '{}' does not fit 64 bits", shown(node.outputs[i]));
      return at_node(model_.file, node, std::move(error).error());
    }
    scope.values[node.outputs[i]] = std::move(outputs[i]);
  }
  return {};
}

}  // namespace diji::onnx
