// The interpreter: runs any graph on the host, slowly and exactly. The truth for tests, and the constant
// folder.
#pragma once

#include "base/host_tensor.h"
#include "graph/graph.h"

#include <span>
#include <vector>

namespace diji {

enum class Arithmetic : std::uint8_t {
  oracle,  ///< floats stay double throughout: the truth a kernel is measured against
  typed,   ///< floats are rounded to their dtype after each primitive: what constant folding may use
};

/// Outputs in the order of graph.outputs(). In oracle arithmetic floating outputs are f64. Composed operators
/// run by their decomposition. Errors: sizes or dtypes that do not fit, data (a zero divisor), no memory.
Result<std::vector<HostTensor>> interpret(const Graph& graph, std::span<const HostTensor> inputs,
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

}  // namespace diji
