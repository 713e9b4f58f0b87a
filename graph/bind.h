// From the shapes of real inputs to the value of every symbol: the check that stands before every run.
#pragma once

#include "base/host_tensor.h"
#include "graph/graph.h"

#include <span>
#include <string_view>

namespace diji {

/// Ranks and sizes of the inputs, in the order of graph.inputs(), against their declared shapes; symbols get
/// their values; assumptions (graph.constraints()) are checked as far as their sizes are known. `known` are
/// the sizes of a body's surroundings. Errors: mismatch, naming the input, the axis, what it is, what it may
/// be, and for a symbol where its other value came from.
Result<Bindings> bind_symbols(const Graph& graph, std::span<const StaticShape> shapes, Bindings known = {});

/// The real sizes of a node's results: what only the run tells (symbols_bound_by) gets its value, everything
/// else must be as declared. Assumptions that are known only now are checked. Errors: mismatch.
Result<void> bind_results(const Graph& graph, const Node& node, std::span<const StaticShape> shapes,
                          Bindings& bindings);

/// The same for an observe and what the host read. Errors: data, naming the element and what it may be.
Result<void> bind_observed(const Graph& graph, const Node& node, std::span<const std::int64_t> elements,
                           Bindings& bindings);

/// The assumptions of a graph under given sizes, but for those with a size that is not known yet. Errors:
/// mismatch, with both sides and the reason.
Result<void> check_constraints(const Graph& graph, const Bindings& bindings);

/// One input's dtype against the declared one; the sentence names both.
Result<void> check_dtype(const Port& port, DType declared, DType given);

}  // namespace diji
