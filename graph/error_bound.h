// How far from the truth a correct kernel may be: rounding errors propagated through each primitive, proved,
// not tuned.
#pragma once

#include "graph/reference.h"

#include <span>
#include <vector>

namespace diji {

/// Bounds on |kernel − truth| for every element of `result` (the oracle's), given bounds on the inputs.
///
/// The kernel is assumed to round like this, with u the unit roundoff of the dtype (2^-24 for f32):
///  - add, subtract, multiply, divide, sqrt, convert: correctly rounded, |error| ≤ u·|result|;
///  - minimum, maximum, select, absolute, floor, ceil, round_even, remainder: exact;
///  - functions (exp, log, erf, sin, power, …): within 1 ULP, |error| ≤ 2u·|result|, and ≤ 4u·|result| in
///  f64,
///    which leaves room for the reference's own function being a double too;
///  - sums and dot products of d terms, in any order, fused or not: |error| ≤ γ(d)·Σ|terms| with γ(d) =
///  d·u/(1 − d·u)
///    (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1 and theorem 4.2);
///    reductions and prefix scans sum and multiply in f64, dot products and convolutions in their dtype but
///    at least in f32, then round to it; a product of d factors errs as a sum of d terms does, relative to
///    itself;
///  - a scatter computes and rounds one update after the other; an index, a key or a mask that may differ
///  leaves
///    everything open that it may decide;
///  - a float that may have overflowed, or an integer that may have wrapped, bounds nothing computed from it;
///  an infinity
///    or NaN that follows from exact operands has the bound of the rest, one that may come from rounding has
///    none;
///  - results below the smallest normal number may lose the difference to a subnormal step.
/// The rule of each scalar map is in graph/map_error.h.
/// u is widened by 2^-53 because the oracle itself rounds to double. Integers have bound 0 unless they come
/// from floats.
Result<std::vector<double>> error_bound(const ReferenceCall& call,
                                        std::span<const std::vector<double>* const> input_bounds,
                                        const Array& result);

/// Unit roundoff of a floating dtype as used above.
double unit_roundoff(DType dtype);

}  // namespace diji
