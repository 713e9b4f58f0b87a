// Values of a tensor between its cells: weighted sums of cells around computed positions.
#pragma once

#include "graph/builder.h"

#include <array>
#include <vector>

namespace diji {

/// A cell of one axis and what it counts.
struct Tap {
  ValueId cell, weight;
};
using Taps = std::vector<Tap>;

/// floor(x) as i64 and x − floor(x) in dtype `weights`.
struct Split {
  ValueId cell, rest;
};
Split split(Builder& b, ValueId x, DType weights);

/// The cells around cell + rest: two with weights 1 − rest and rest.
Taps linear_taps(Builder& b, const Split& at);
/// Four, by cubic convolution with parameter a (Keys 1981).
Taps cubic_taps(Builder& b, const Split& at, double a);
/// Keys' kernel of a distance.
ValueId cubic_kernel(Builder& b, ValueId distance, double a);

/// Every product of one tap an axis: x[lead..., cells...] times the product of the weights.
Values tap_terms(Builder& b, ValueId x, const Values& lead, const std::vector<Taps>& axes, bool zero_outside);
/// Their sum.
ValueId sum_taps(Builder& b, ValueId x, const Values& lead, const std::vector<Taps>& axes, bool zero_outside);

}  // namespace diji
