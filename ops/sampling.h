// Values of a tensor between its cells: multilinear interpolation at computed coordinates.
#pragma once

#include "graph/builder.h"

#include <functional>

namespace diji {

/// Turns an integer position on a spatial axis into a cell; none: cells outside are 0.
using FoldIndex = std::function<ValueId(std::size_t axis, ValueId index)>;

/// floor(x) as i64 and x − floor(x) in `weights`.
struct Split {
  ValueId cell, rest;
};
Split split(Builder& b, ValueId x, DType weights);

/// x[lead..., at...] with at[i] a real position on axis lead + i: the 2^n cells around it, weighted. `lead`
/// and `at` broadcast together; weights and the sum are of x's dtype.
ValueId sample_linear(Builder& b, ValueId x, const Values& lead, const Values& at,
                      const FoldIndex& fold = {});

}  // namespace diji
