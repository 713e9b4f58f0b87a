// From the shapes of real inputs to the value of every symbol: the check that stands before every run.
#pragma once

#include "base/host_tensor.h"
#include "graph/graph.h"

#include <span>
#include <string_view>

namespace diji {

/// Ranks and sizes of the inputs, in the order of graph.inputs(), against their declared shapes; symbols get
/// their values; assumptions (graph.constraints()) are checked. Errors: mismatch, naming the input, the axis,
/// what it is, what it may be, and for a symbol where its other value came from.
Result<Bindings> bind_symbols(const Graph& graph, std::span<const StaticShape> shapes);

/// The assumptions of a graph under given sizes. Errors: mismatch, with both sides and the reason.
Result<void> check_constraints(const Graph& graph, const Bindings& bindings);

/// One input's dtype against the declared one; the sentence names both.
Result<void> check_dtype(const Port& port, DType declared, DType given);

}  // namespace diji
