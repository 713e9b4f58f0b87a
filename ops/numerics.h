// Pieces of formulas that several families share: wide arithmetic, means, softmax, expressions of sizes.
#pragma once

#include "graph/builder.h"
#include "ops/formula.h"

namespace diji {

/// What sums and quotients run in: f32, or f64 for f64. A 16-bit float holds neither large counts nor large
/// sums.
inline DType wide(DType dtype) { return dtype == DType::f64 ? dtype : DType::f32; }

/// A vector's elements along `axis` of a tensor of this rank: [n] -> [1..., n, 1...].
ValueId along_axis(Builder& b, ValueId vector, std::int64_t axis, std::int64_t rank);
/// All axes from `first` on.
Ints axes_from(std::int64_t first, std::int64_t rank);

/// Sum divided by count; the folded axes stay as size 1. NaN over nothing.
ValueId mean_keeping(Builder& b, ValueId x, const Ints& axes);

struct Moments {
  ValueId mean, centred, variance;  ///< centred = x - mean; mean and variance keep the axes as size 1
};
/// Population variance in two passes: the mean of (x - mean)^2 does not cancel.
Moments moments(Builder& b, ValueId x, const Ints& axes);

/// exp(x - max) / sum over the axes; a row of only -inf is NaN. 16-bit floats go through f32.
ValueId softmax(Builder& b, ValueId x, const Ints& axes);
/// What the catalogue's operator of one operand makes of x.
ValueId apply(Builder& b, std::string_view op, ValueId x, const Attributes& attributes = {});

/// The integer constant that a value repeats: seen through reshape, broadcast and convert. Null: none.
const HostTensor* repeated_constant(const Graph& graph, ValueId id);
/// True where a value is integers of only zeros: what a zero point that does nothing looks like.
bool is_zero_constant(Builder& b, ValueId id);

}  // namespace diji
