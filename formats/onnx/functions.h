// The functions of a model: which one a node calls, and what their attribute references mean.
#pragma once

#include "formats/onnx/coverage.h"
#include "formats/onnx/proto.h"
#include "formats/onnx/scope.h"

#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace diji::onnx {

/// By (domain, name, overload). A function of the model goes before an operator of the catalogue of its name:
/// the file says what it means (onnx.proto leaves that to the runtime).
class FunctionTable {
 public:
  /// Errors: malformed (two functions of one key).
  static Result<FunctionTable> of(const Model& model);
  /// Null: the node calls none.
  const FunctionProto* find(const NodeProto& node) const;

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;
  std::map<Key, const FunctionProto*> functions_;
};

/// "own.grow"
std::string name_of(const FunctionProto& function);

/// The attributes of a call: the node's, and defaults for others. Errors at the node: an attribute that the
/// function does not have, a graph as attribute.
Result<FunctionCall> bind_attributes(const FunctionProto& function, const NodeProto& node,
                                     std::string_view file);

/// True when an attribute of the node stands for one of the function around it.
bool has_references(const NodeProto& node);
/// The node with those replaced; one that stands for an attribute that was not given is left out. Errors at
/// the node: no such attribute, one of another type.
Result<NodeProto> resolve_references(const NodeProto& node, const FunctionCall& call, std::string_view file);

}  // namespace diji::onnx
