// The interpreter: runs any graph on the host, slowly and exactly. The truth for tests, and the constant
// folder.
#pragma once

#include "base/host_tensor.h"
#include "graph/graph.h"
#include "graph/rank_meeting.h"

#include <span>
#include <vector>

namespace diji {

enum class Arithmetic : std::uint8_t {
  oracle,  ///< floats stay double throughout: the truth a kernel is measured against
  typed,   ///< floats are rounded to their dtype after each primitive: what constant folding may use
};

/// Outputs in the order of graph.outputs(). In oracle arithmetic floating outputs are f64. Composed operators
/// run by their decomposition. Errors: sizes or dtypes that do not fit, data (a zero divisor), no memory,
/// usage (collectives between several ranks: see interpret_ranks).
Result<std::vector<HostTensor>> interpret(const Graph& graph, std::span<const HostTensor> inputs,
                                          Arithmetic arithmetic);

/// The outputs of every rank of a mesh, whose axes are the graphs' groups: `graphs` are one for all ranks, or
/// one for each; `inputs` are by rank. Errors: those of interpret(), of the first rank that has one; usage, a
/// group that the mesh does not have or that is of another size there; call_mismatch, where ranks are at
/// different collectives, naming who is where.
Result<std::vector<std::vector<HostTensor>>> interpret_ranks(std::span<const Graph* const> graphs,
                                                             std::span<const MeshAxis> mesh,
                                                             std::span<const std::vector<HostTensor>> inputs,
                                                             Arithmetic arithmetic);

/// The truth and how far from it an implementation may lie.
struct BoundedTensor {
  HostTensor value;  ///< oracle arithmetic
  HostTensor bound;  ///< f64, same shape: |kernel − value| ≤ bound for every kernel that rounds as
                     ///< graph/error_bound.h says
};

/// Oracle arithmetic with the rounding errors of the dtypes propagated through every primitive. `known` are
/// the sizes of a body's surroundings. Errors: also unsupported, where a branch, a loop's end or a size
/// depends on rounding, so that there is no one truth.
Result<std::vector<BoundedTensor>> interpret_with_bounds(const Graph& graph,
                                                         std::span<const HostTensor> inputs,
                                                         const Bindings& known = {});

/// Both: interpret_ranks in oracle arithmetic, with bounds for every rank that combines values in any order.
Result<std::vector<std::vector<BoundedTensor>>> interpret_ranks_with_bounds(
    std::span<const Graph* const> graphs, std::span<const MeshAxis> mesh,
    std::span<const std::vector<HostTensor>> inputs);

}  // namespace diji
