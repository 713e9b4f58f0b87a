// A graph of one operator as an ONNX model, for another engine to run.
#pragma once

#include "graph/graph.h"

#include <cstddef>
#include <vector>

namespace diji {

/// The graph's only node in ONNX's words, with its inputs, constants and outputs under their names. Errors:
/// unsupported, where it is not one node, its operator or an attribute of it has no word in ONNX, or a size
/// is a symbol.
Result<std::vector<std::byte>> node_model(const Graph& graph);

}  // namespace diji
