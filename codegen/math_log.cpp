// log and what is made of it: log1p, the inverse hyperbolic functions, power.
#include "codegen/math.h"

#include <array>
#include <bit>
#include <limits>

namespace diji {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLn2 = 0x1.62e42fefa39efp-1, kLn2Rest = 0x1.abc9e3b39803fp-56;
// ln2 in two parts, the first with zeros at its end so that k · high is exact.
constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;

// x = 2^k · (1 + f) for x > 0 and finite, 1 + f in [√½, √2).
struct Parts {
  Real k, f;
};

Parts split(Real x, Precision precision) {
  constexpr std::uint64_t kRootHalf = 0x3fe6a09e667f3bcd, kOne = 0x3ff0000000000000;
  // What has been an f32 is never subnormal here.
  const bool full = precision == Precision::full;
  const Mask subnormal = x < 0x1p-1022;
  const Bits all = bits(full ? select(subnormal, x * 0x1p54, x) : x);
  // The exponent of x/√½, still biased by 1023: what is above the mantissa of this sum.
  const Bits above = all + (kOne - kRootHalf);
  // As the low bits of 2^52 it is a number at once.
  const Real biased = real((above >> 52) | std::bit_cast<std::uint64_t>(0x1p52)) - (0x1p52 + 1023);
  const Real k = full ? biased - select(subnormal, 54.0, x.like(0)) : biased;
  const Bits mantissa = (all - (above & 0xfff0000000000000)) + kOne;
  return {k, real(mantissa) - 1.0};
}

// 2·atanh(s) = 2s + s³ · R(s²), s = f / (2 + f), |s| ≤ 0.172: R on s² ≤ 0.0295 is off by 2^-29 (single) and
// 2^-51 of itself, s³·R being at most 2^-6.7 of the sum.
Real series(Real z, Precision precision) {
  static constexpr std::array kSingle = {0x1.ddced7078ddc5p-3, 0x1.245c438323e96p-2, 0x1.9999eb5d84f14p-2,
                                         0x1.5555554bb2b2cp-1};
  static constexpr std::array kFull = {0x1.2b584aae78afbp-3, 0x1.39fe606542dcep-3, 0x1.7462b4ab2ef6bp-3,
                                       0x1.c71c62e5800a1p-3, 0x1.2492492df148dp-2, 0x1.99999999952e2p-2,
                                       0x1.5555555555558p-1};
  return precision == Precision::single ? polynomial(z, kSingle) : polynomial(z, kFull);
}

// log(2^k · (1 + f)) + correction, the correction being tiny.
Real log_of(Parts parts, Real correction, Precision precision) {
  const auto [k, f] = parts;
  const Real s = f / (f + 2.0), z = s * s;
  if (precision == Precision::single)
    return multiply_add(k, kLn2, multiply_add(s * z, series(z, precision), s + s) + correction);
  // log(1 + f) = f - (f²/2 - s · (f²/2 + z · R(z))): f is exact where s is not (FreeBSD's e_log.c).
  const Real half_square = 0.5 * f * f;
  const Real small = multiply_add(
      k, kLn2Low, multiply_add(s, multiply_add(z, series(z, precision), half_square), correction));
  return multiply_add(k, kLn2High, f - (half_square - small));
}

// IEEE's answers outside (0, ∞): u is what the logarithm is taken of.
Real with_special_values(Real u, Real result) {
  const Real special = select(u == 0.0, -kInfinity, select(u == kInfinity, u, kNaN));
  return select((0.0 < u) & (u < kInfinity), result, special);
}

// log(1 + y): what 1 + y loses comes back as a correction.
Real log1p_of(Real y, Precision precision) {
  const Pair u = two_sum(y.like(1), y);
  return with_special_values(u.high, log_of(split(u.high, precision), u.low / u.high, precision));
}

// log1p(small), or where x is beyond 2^60 (its square may overflow, and 1 + x is x), log(2x).
Real log1p_or_log_of_twice(Real small, Real x, Precision precision) {
  if (precision == Precision::single) return log1p_of(small, precision);  // squares of f32 do not overflow
  const Mask beyond = 0x1p60 < x;
  const Real y = select(beyond, x, small);
  const Pair u = two_sum(y.like(1), y);
  Parts parts = split(u.high, precision);
  parts.k = parts.k + select(beyond, 1.0, x.like(0));
  return with_special_values(u.high, log_of(parts, u.low / u.high, precision));
}

}  // namespace

Real emit_log(Real x, Precision precision) {
  return with_special_values(x, log_of(split(x, precision), x.like(0), precision));
}

Real emit_log1p(Real x, Precision precision) { return select(x == 0.0, x, log1p_of(x, precision)); }

Real emit_asinh(Real x, Precision precision) {
  // asinh a = log1p(a + a² / (1 + √(1 + a²)))
  const Real a = absolute(x), square = a * a;
  const Real y = a + square / (square_root(square + 1.0) + 1.0);
  // A square that is infinite makes y NaN, and is beyond.
  return copy_sign(log1p_or_log_of_twice(select(a == kInfinity, a, y), a, precision), x);
}

Real emit_acosh(Real x, Precision precision) {
  // acosh x = log1p(t + √(2t + t²)), t = x - 1
  const Real t = x - 1.0;
  const Real y = t + square_root(multiply_add(t, t, t + t));
  return select(1.0 <= x, log1p_or_log_of_twice(y, x, precision), kNaN);
}

Real emit_atanh(Real x, Precision precision) {
  // atanh a = log1p(2a / (1 - a)) / 2; beyond 1 the argument is below -1
  const Real a = absolute(x);
  return copy_sign(0.5 * log1p_of((a + a) / (1.0 - a), precision), x);
}

namespace {

// log x to about 64 bits, for x > 0 and finite: y · log x must be good to 2^-54 absolutely where it is 700.
Pair precise_log(Real x) {
  // 2·atanh(s) = 2s · (1 + z/3 + z² · T(z)), z = s²; T is off by 2^-57 of itself and z²·T below 2^-12.
  static constexpr std::array kTail = {0x1.e02d197ef0fadp-5, 0x1.df7ce9a669cd5p-5, 0x1.1118c7482577bp-4,
                                       0x1.3b1395d4f9db7p-4, 0x1.745d177a8f202p-4, 0x1.c71c71c6eaa8dp-4,
                                       0x1.2492492492521p-3, 0x1.999999999999ap-3};
  const auto [k, f] = split(x, Precision::full);
  // s = f / (2 + f): the quotient and what it leaves.
  const Pair divisor = two_sum(f.like(2), f);
  const Real s = f / divisor.high;
  const Real s_low = (fused(0.0 - s, divisor.high, f) - s * divisor.low) / divisor.high;
  const Pair z = two_product(s, s);
  const Real z_low = multiply_add(s + s, s_low, z.low);
  // 1 + w: z/3 in two parts, the rest of the series in the lower one.
  constexpr double kThird = 1.0 / 3, kThirdRest = 0x1.5555555555555p-56;
  const Pair third = two_product(z.high, z.high.like(kThird));
  const Real third_low =
      third.low + (z.high * kThirdRest + z_low * kThird) + z.high * z.high * polynomial(z.high, kTail);
  const Pair w = fast_two_sum(third.high, third_low);
  // 2s · (1 + w) = 2s + 2s·w
  const Real twice = s + s, twice_low = s_low + s_low;
  const Pair product = two_product(twice, w.high);
  const Pair sum = fast_two_sum(twice, product.high);
  const Real sum_low = sum.low + (product.low + (twice * w.low + (twice_low + twice_low * w.high)));
  // + k·ln2
  const Pair scaled = two_product(k, k.like(kLn2));
  const Pair total = two_sum(scaled.high, sum.high);
  return fast_two_sum(total.high, total.low + (scaled.low + multiply_add(k, kLn2Rest, sum_low)));
}

// IEEE 754's special cases, given |x|^y.
Real power_with_special_values(Real x, Real y, Real magnitude) {
  const Real a = absolute(x), half = 0.5 * y;
  const Mask whole = floor(y) == y, even = floor(half) == half;  // infinities are even
  // NaN for a negative finite base to a fraction, the sign of x for an odd exponent.
  const Real signed_magnitude = select(whole, select(even, magnitude, copy_sign(magnitude, x)), magnitude);
  const Mask fraction = (x < 0.0) & (a < kInfinity);
  const Real negative = select(fraction, select(whole, signed_magnitude, kNaN), signed_magnitude);
  const Mask one = (x == 1.0) | (y == 0.0) | ((a == 1.0) & (absolute(y) == kInfinity));
  return select(one, 1.0, negative);
}

// y · log|x| in two parts, where log|x| is 0, infinite or NaN too.
Pair exponent_of(Real x, Real y) {
  const Real a = absolute(x);
  const Mask ordinary = (0.0 < a) & (a < kInfinity);
  const Pair log = precise_log(select(ordinary, a, 1.0));
  const Real special = select(a == 0.0, -kInfinity, a);  // log ∞ = ∞, log NaN = NaN
  const Real high = select(ordinary, log.high, special);
  const Real product = y * high;
  // Far beyond the range of exp the low part is of no use, and may be NaN.
  const Real low = multiply_add(y, log.low, fused(y, high, 0.0 - product));
  return {product, select(absolute(product) < 1000.0, low, x.like(0))};
}

}  // namespace

Real emit_power(Real x, Real y, Precision precision) {
  if (precision == Precision::single) {
    // log to 2^-50 of itself: y·log|x| is below 128 where the result is no overflow.
    const Real log = emit_log(absolute(x), Precision::full);
    return power_with_special_values(x, y, emit_exp(y * log, Precision::single));
  }
  return power_with_special_values(x, y, emit_exp_of(exponent_of(x, y)));
}

}  // namespace diji
