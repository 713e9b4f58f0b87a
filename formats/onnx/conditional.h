// If: two bodies, or one where the condition is known.
#pragma once

#include "formats/onnx/nodes.h"
#include "formats/onnx/order.h"
#include "formats/onnx/proto.h"
#include "formats/onnx/scope.h"

#include <cstddef>

namespace diji::onnx {

/// Imports node number order.nodes[position] of the graph, an If. True: its results differ in rank between
/// the branches, so that all nodes behind it are imported already, those that need its results into both of
/// them.
Result<bool> add_conditional(NodeImporter& importer, const GraphProto& graph, const NodeOrder& order,
                             std::size_t position, Scope& scope);

}  // namespace diji::onnx
