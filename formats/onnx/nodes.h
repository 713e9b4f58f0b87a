// Nodes into a graph: catalogue operators, calls of the model's functions, and what exists at import only.
#pragma once

#include "formats/onnx/functions.h"
#include "formats/onnx/order.h"
#include "formats/onnx/proto.h"
#include "formats/onnx/scope.h"
#include "formats/onnx/tensor.h"

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji::onnx {

/// Bodies multiply: 20 functions that call the next one twice make a million nodes. A node costs 16, an
/// operand, an item of a sequence or 16 elements of an attribute 1; nodes of the model's own graph cost
/// nothing.
inline constexpr std::int64_t kExpansionMax = std::int64_t{1} << 22;

class NodeImporter {
 public:
  NodeImporter(const Model& model, Source& source, const FunctionTable& functions,
               std::span<const OpDef* const> custom_ops)
      : model_(model), source_(source), functions_(functions), custom_ops_(custom_ops) {}

  /// Nodes of a graph whose other values are in the scope already.
  Result<void> add_nodes(const GraphProto& graph, const NodeOrder& order, Scope& scope);

  /// A value of the model's own graph that has its place in the scope already, whichever node computes it.
  void keep_given(std::string_view name) { given_.insert(name); }

  /// A graph inside a node, or a function's body, with its inputs' values (none: absent); returns its
  /// outputs, which are values of scope.body. Errors: too many or too few inputs, nesting, expansion beyond
  /// the limit.
  Result<ImportedList> add_graph(const GraphProto& graph, ImportedList inputs, Scope& scope);

  /// Names the results of a node. Errors: fewer than wanted, sizes beyond 64 bits.
  Result<void> bind_outputs(const NodeProto& node, ImportedList outputs, Scope& scope) const;

  /// Errors: unsupported beyond kExpansionMax.
  Result<void> charge(std::int64_t cost);
  Result<void> charge(const NodeProto& node);

  const Model& model() const { return model_; }
  Source& source() { return source_; }
  /// Somewhere nodes were not in order.
  bool sorted() const { return sorted_; }

 private:
  bool is_given(std::string_view name, const Scope& scope) const;
  Result<void> add_node(const NodeProto& node, Scope& scope);
  Result<ImportedList> results_of(const NodeProto& node, Scope& scope);
  Result<ImportedList> call_function(const FunctionProto& function, const NodeProto& node,
                                     ImportedList inputs, Scope& scope);
  Result<ImportedList> call_operator(const NodeProto& node, ImportedList inputs, Scope& scope);

  const Model& model_;
  Source& source_;
  const FunctionTable& functions_;
  std::span<const OpDef* const> custom_ops_;
  std::set<std::string_view> given_;
  std::int64_t expansion_ = 0;
  bool sorted_ = false;
};

}  // namespace diji::onnx
