// Who defines which value of a graph, and an order of its nodes in which everything is defined before it is
// used.
#pragma once

#include "formats/onnx/proto.h"

#include <cstddef>
#include <string_view>
#include <vector>

namespace diji::onnx {

struct NodeOrder {
  std::vector<std::size_t> nodes;  ///< indices into graph.nodes
  bool was_sorted = true;
};

/// Keeps the file's order wherever it can. Errors (malformed, with byte and names): a value defined twice (an
/// initializer may stand among the inputs too), one that nobody defines, a cycle.
Result<NodeOrder> order_nodes(const GraphProto& graph, std::string_view file);

}  // namespace diji::onnx
