// verify() proves the rules every graph keeps; passes are checked with it in tests and by conformance runs.
#pragma once

#include "graph/graph.h"

namespace diji {

/// Order, single assignment, operand counts and dtypes, inferred types, port names, constants' sizes, bodies.
/// The error names the node. A graph that fails is a bug of whoever built it.
Result<void> verify(const Graph& graph);

}  // namespace diji
