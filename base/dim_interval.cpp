// Interval arithmetic over 128-bit integers with clamped ends.
#include "base/dim_interval.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

namespace diji {
namespace {

Wide clamped(Wide value) { return std::clamp(value, -kUnbounded, kUnbounded); }

// An open end divided stays open: kUnbounded only stands for "no bound".
Wide end_quotient(Wide a, Wide b) {
  if (a >= kUnbounded) return b > 0 ? kUnbounded : -kUnbounded;
  if (a <= -kUnbounded) return b > 0 ? -kUnbounded : kUnbounded;
  return floor_quotient(a, b);
}

Interval around(std::initializer_list<Wide> corners) { return {std::min(corners), std::max(corners)}; }

// For divisors of one sign, the quotient is monotone in each argument, so the corners bound it.
Interval quotient_of_one_sign(const Interval& a, const Interval& b) {
  return around({end_quotient(a.min, b.min), end_quotient(a.min, b.max), end_quotient(a.max, b.min),
                 end_quotient(a.max, b.max)});
}

// The remainder has the divisor's sign and is smaller in magnitude.
Interval remainder_of_one_sign(const Interval& a, const Interval& b) {
  const Interval quotient = quotient_of_one_sign(a, b);
  if (quotient.min == quotient.max && quotient.max < kUnbounded && quotient.min > -kUnbounded) {
    return sum(a, product(single(-quotient.min), b));
  }
  if (b.min > 0) return {0, a.min >= 0 ? std::min(a.max, b.max - 1) : b.max - 1};
  return {a.max <= 0 ? std::max(a.min, b.min + 1) : b.min + 1, 0};
}

template <typename OfOneSign>
Interval by_sign(const Interval& a, const Interval& b, OfOneSign of_one_sign) {
  const Interval negative = {b.min, std::min<Wide>(b.max, -1)};
  const Interval positive = {std::max<Wide>(b.min, 1), b.max};
  if (negative.min > negative.max && positive.min > positive.max) return {-kUnbounded, kUnbounded};
  if (negative.min > negative.max) return of_one_sign(a, positive);
  if (positive.min > positive.max) return of_one_sign(a, negative);
  return hull(of_one_sign(a, negative), of_one_sign(a, positive));
}

}  // namespace

std::optional<std::int64_t> narrow(Wide value) {
  if (value < std::numeric_limits<std::int64_t>::min() || value > std::numeric_limits<std::int64_t>::max()) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(value);
}

Wide floor_quotient(Wide a, Wide b) {
  const Wide quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Wide floor_remainder(Wide a, Wide b) {
  const Wide remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

Wide clamped_sum(Wide a, Wide b) { return clamped(a + b); }

Wide clamped_product(Wide a, Wide b) {
  if (a == 0 || b == 0) return 0;
  if (!narrow(a) || !narrow(b)) {  // else the product has at most 126 bits
    const Wide limit = kUnbounded / (b < 0 ? -b : b);
    if (a > limit || a < -limit) return (a < 0) == (b < 0) ? kUnbounded : -kUnbounded;
  }
  return clamped(a * b);
}

std::optional<std::int64_t> only_value(const Interval& a) {
  return a.min == a.max ? narrow(a.min) : std::nullopt;
}

Interval sum(const Interval& a, const Interval& b) {
  // An open end stays open whatever is added.
  const bool open_below = a.min <= -kUnbounded || b.min <= -kUnbounded;
  const bool open_above = a.max >= kUnbounded || b.max >= kUnbounded;
  return {open_below ? -kUnbounded : clamped_sum(a.min, b.min),
          open_above ? kUnbounded : clamped_sum(a.max, b.max)};
}

Interval product(const Interval& a, const Interval& b) {
  return around({clamped_product(a.min, b.min), clamped_product(a.min, b.max), clamped_product(a.max, b.min),
                 clamped_product(a.max, b.max)});
}

Interval floor_quotient(const Interval& a, const Interval& b) { return by_sign(a, b, quotient_of_one_sign); }
Interval floor_remainder(const Interval& a, const Interval& b) {
  return by_sign(a, b, remainder_of_one_sign);
}

Interval hull(const Interval& a, const Interval& b) {
  return {std::min(a.min, b.min), std::max(a.max, b.max)};
}

}  // namespace diji
