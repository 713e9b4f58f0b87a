// Who defines which value of a graph, and an order of its nodes in which everything is defined before it is
// used.
#pragma once

#include "formats/onnx/proto.h"

#include <cstddef>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

namespace diji::onnx {

struct NodeOrder {
  std::vector<std::size_t> nodes;  ///< indices into graph.nodes
  bool was_sorted = true;
};

/// Whether a graph around this one defines a value. Empty for a graph that sees no other.
using OuterNames = std::function<bool(std::string_view)>;

/// The values that a node needs: its operands, and what the graphs inside it take from around them.
std::set<std::string_view> names_read(const NodeProto& node);

/// Keeps the file's order wherever it can; what the graphs inside a node read, the node needs. Errors
/// (malformed, with byte and names): a value defined twice (an initializer may stand among the inputs too), a
/// node's output that has the name of an outer value (IR.md; inputs and initializers may), one that nobody
/// defines, a cycle.
Result<NodeOrder> order_nodes(const GraphProto& graph, std::string_view file, const OuterNames& outer = {});

}  // namespace diji::onnx
