// The text form of a graph: what tests, dumps and bug reports show. parse(print(g)) is g.
#pragma once

#include "graph/graph.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// Constants that a text names by number, `constant f32[768, 768] @3`, instead of having their elements in
/// it.
using ConstantList = std::vector<std::shared_ptr<const HostTensor>>;
/// Large constants go behind those of `apart`, each once.
std::string print(const Graph& graph, ConstantList& apart);

/// `find` gives operators of the catalogue by name (primitives are known); null for an unknown one. Types are
/// inferred anew and must agree with those written, where any are. Errors: malformed, with line and column in
/// the sentence. `apart` are the constants that the text names by number.
Result<Graph> parse(std::string_view text, const std::function<const OpDef*(std::string_view)>& find = {},
                    const ConstantList& apart = {});

}  // namespace diji
