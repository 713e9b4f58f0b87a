// What a kernel is worth, for devices that keep a clock of their own and for shares of a machine's peak.
#pragma once

#include "graph/graph.h"

namespace diji {

/// Multiplications and additions of a fusion's body, one each; functions such as exp count as one.
Dim flops_of(const Graph& body);
/// Bytes of all inputs and of the output, each once.
Dim bytes_of_places(const Graph& body);

}  // namespace diji
