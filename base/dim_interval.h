// Private to dim*.cpp: exact 128-bit integers and the interval arithmetic that decides what a Dim can be.
#pragma once

#include <cstdint>
#include <optional>

namespace diji {

/// Sizes are int64, but a sum of products may leave int64 on its way to a result that fits (A·B − A·C), and
/// bounds are wanted for what would not fit: so values and bounds are computed in 128 bits.
using Wide = __int128;

/// Beyond this a value is an overflow and a bound means "none". Six bits of room keep sums of two from
/// wrapping.
inline constexpr Wide kUnbounded = Wide{1} << 120;

/// Inclusive; an end at ±kUnbounded is open. Always contains every value that evaluates without overflow.
struct Interval {
  Wide min = 0;
  Wide max = 0;
};

std::optional<std::int64_t> narrow(Wide value);
/// Python's // and %. The divisor is not 0, the magnitudes at most kUnbounded.
Wide floor_quotient(Wide a, Wide b);
Wide floor_remainder(Wide a, Wide b);
/// Sum and product of values of at most kUnbounded, clamped to ±kUnbounded.
Wide clamped_sum(Wide a, Wide b);
Wide clamped_product(Wide a, Wide b);

inline Interval single(Wide value) { return {value, value}; }
inline bool excludes_zero(const Interval& a) { return a.min > 0 || a.max < 0; }
/// The value, when the interval holds only one that is an int64.
std::optional<std::int64_t> only_value(const Interval& a);

Interval sum(const Interval& a, const Interval& b);
Interval product(const Interval& a, const Interval& b);
/// Division by 0 has no value, so a 0 in `b` is left out.
Interval floor_quotient(const Interval& a, const Interval& b);
Interval floor_remainder(const Interval& a, const Interval& b);
/// The smallest interval around both.
Interval hull(const Interval& a, const Interval& b);

}  // namespace diji
