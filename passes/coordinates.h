// Values made of coordinates: what costs less to compute where it is read than to keep.
#pragma once

#include "graph/primitives.h"

#include <vector>

namespace diji {

/// By node: whether its value is a cheap function of coordinates, sizes and single constants, with a
/// coordinate in it. An index of this kind stays an affine function of the loops, so that what it addresses
/// is read in order.
std::vector<bool> made_of_coordinates(const Graph& graph);

/// Maps that cost about as much as reading their result.
bool is_cheap(Primitive map);

}  // namespace diji
