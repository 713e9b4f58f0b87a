// Inputs for conformance runs: deterministic, and mean on purpose.
#pragma once

#include "base/host_tensor.h"
#include "graph/op_def.h"

#include <string>
#include <vector>

namespace diji {

enum class Fill : std::uint8_t {
  normal,    ///< around 0, both signs; integers small
  positive,  ///< above 0, no cancellation
  wide,      ///< magnitudes from tiny to large, adversarial for sums
  special,   ///< floats: NaN, ±Inf, ±0, subnormals, the largest; integers: the ends of the range
};

/// Values depend on (dtype, shape, fill, seed) only.
HostTensor sample_tensor(DType dtype, StaticShape shape, Fill fill, std::uint64_t seed = 1);
/// An i64 vector.
HostTensor ints(std::initializer_list<std::int64_t> values);

/// Shapes that catch tails: empty, scalar, one vector, odd sizes, several axes.
std::vector<Sample> unary_samples(DType dtype);
/// The same with broadcasting in each direction.
std::vector<Sample> binary_samples(DType dtype);
/// Binary with divisors away from zero for integers.
std::vector<Sample> divide_samples(DType dtype);

}  // namespace diji
