// The text form of a graph: what tests, dumps and bug reports show. parse(print(g)) is g.
#pragma once

#include "graph/graph.h"

#include <functional>
#include <string>
#include <string_view>

namespace diji {

/// One line a symbol, assumption, input, constant, node and output, in order:
///
///     graph "g" {
///       symbol N in [0, 1099511627776]
///       input %0 "x" : f32[N, 4]
///       %1 = constant f32[] {2.0}
///       %2 = prim.broadcast(%1) {shape = dims[N, 4]} : f32[N, 4]
///       output "y" = %2
///     }
///
/// Constants of more than 16 elements are printed as hex"…".
std::string print(const Graph& graph);

/// `find` gives operators of the catalogue by name (primitives are known); null for an unknown one. Types are
/// inferred anew and must agree with those written, where any are. Errors: malformed, with line and column in
/// the sentence.
Result<Graph> parse(std::string_view text, const std::function<const OpDef*(std::string_view)>& find = {});

}  // namespace diji
