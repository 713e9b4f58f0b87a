// Collectives of a graph: their groups, the rule of their order, and what they mean.
#pragma once

#include "graph/reference.h"

#include <functional>
#include <map>
#include <span>
#include <string>

namespace diji {

/// The node is a collective, or a body of it has one.
bool has_collective(const Node& node);

/// The groups of a graph and its bodies, with their ranks. Errors: malformed, where the channels of a group
/// do not ascend through the nodes in their order (bodies stand where their node does), or where the group
/// has another number of ranks elsewhere.
Result<std::map<std::string, Dim, std::less<>>> groups_of(const Graph& graph);

/// "all_reduce in group 'data', channel 2", for messages.
std::string title_of_collective(const Node& node);

/// What rank `rank` of a group gets: `operands` are those of all its ranks, of one type; `call` has that
/// rank's result, and its inputs are not looked at. Floats are folded in double, by rank, and not rounded.
Array collective_reference(const ReferenceCall& call, std::span<const Array* const> operands,
                           std::size_t rank);
/// How far each element of that result may lie from the truth (graph/error_bound.h), given the bounds of the
/// operands: values may be combined in any order, floats in their dtype but at least in f32, and rounded to
/// the dtype once.
std::vector<double> collective_bound(const ReferenceCall& call, std::span<const Array* const> operands,
                                     std::span<const std::vector<double>* const> bounds, std::size_t rank,
                                     const Array& result);

}  // namespace diji
