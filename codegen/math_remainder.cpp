// The floating remainder: exact, by long division with many bits a step.
#include "codegen/math.h"

#include <limits>

namespace diji {
namespace {

// The exponent e of a positive finite number, 2^e ≤ x < 2^(e+1), as an i64: subnormal numbers are scaled
// into the normal ones first.
Reg exponent_of(Real x, Precision precision) {
  NestBuilder& b = *x.b;
  const int lanes = x.type().lanes;
  const auto exponent = [&](Real y, std::int64_t bias) {
    const Reg field = b.bitcast((bits(y) >> 52).reg, DType::i64);
    return b.binary(NestOp::subtract, field, b.integer(bias, DType::i64, lanes));
  };
  if (precision == Precision::single) return exponent(x, 1023);
  const Mask subnormal = x < 0x1p-1022;
  return b.select(subnormal.reg, exponent(x * 0x1p54, 1023 + 54), exponent(x, 1023));
}

// x · 2^n for 0 ≤ n, where nothing overflows.
Real scale_up(Real x, Reg n, Precision precision) {
  NestBuilder& b = *x.b;
  const int lanes = x.type().lanes;
  const Bits all{&b, b.bitcast(n, DType::u64)};
  if (precision == Precision::single) return x * power_of_two(all);
  // Up to 2^2098, from the smallest to the largest number: three factors.
  const auto number = [&](std::int64_t value) { return b.integer(value, DType::i64, lanes); };
  const Reg first = b.binary(NestOp::minimum, n, number(1000)), after = b.binary(NestOp::subtract, n, first),
            second = b.binary(NestOp::minimum, after, number(1000)),
            third = b.binary(NestOp::subtract, after, second);
  const auto factor = [&](Reg power) { return power_of_two({&b, b.bitcast(power, DType::u64)}); };
  return x * factor(first) * factor(second) * factor(third);
}

// One step of the division: r less a multiple of y · 2^n such that what is left is below y · 2^n, where n is
// so large that the quotient has at most `width` + 2 bits.
Real step(Real r, Real y, Reg exponent_of_y, int width, Precision precision) {
  NestBuilder& b = *r.b;
  const int lanes = r.type().lanes;
  const auto number = [&](std::int64_t value) { return b.integer(value, DType::i64, lanes); };
  const Reg apart = b.binary(NestOp::subtract, exponent_of(r, precision), exponent_of_y);
  const Reg n = b.binary(NestOp::maximum, b.binary(NestOp::subtract, apart, number(width)), number(0));
  const Real divisor = scale_up(y, n, precision);
  const Real quotient = floor(r / divisor);
  // The quotient may be one too large, having been rounded up; the products are exact.
  const Real less = precision == Precision::single ? multiply_add(0.0 - quotient, divisor, r)
                                                   : fused(0.0 - quotient, divisor, r);
  return select(less < 0.0, less + divisor, less);
}

}  // namespace

Real emit_remainder(Real x, Real y, Precision precision) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  NestBuilder& b = *x.b;
  const int lanes = x.type().lanes;
  const Real a = absolute(x), d = absolute(y);
  const Mask ordinary = (0.0 < a) & (a < kInfinity) & (0.0 < d) & (d < kInfinity);
  const Real start = select(ordinary, a, 1.0), divisor = select(ordinary, d, 1.0);
  // Bits a step: a quotient of 24 + 2 bits times the 24 of an f32 is exact without a fused multiply-add.
  const int width = precision == Precision::single ? 24 : 50;
  const Reg exponent = exponent_of(divisor, precision);
  const Reg apart = b.binary(NestOp::subtract, exponent_of(start, precision), exponent);
  const Reg furthest = lanes == 1 ? apart : b.fold(NestOp::fold_maximum, apart);
  // Each step takes `width` bits off the distance of the exponents; one of 0 still needs one.
  const Reg steps =
      b.divide(b.binary(NestOp::maximum, b.add(furthest, b.integer(width)), b.integer(0)), b.integer(width));
  const auto rest = b.loop(b.integer(0), steps, b.integer(1), {start.reg},
                           [&](Reg, std::span<const Reg> carried) -> std::vector<Reg> {
                             const Real r{&b, carried[0]};
                             // A remainder of 0 has no exponent; it stays 0.
                             const Real left =
                                 step(select(r == 0.0, divisor, r), divisor, exponent, width, precision);
                             return {select(r == 0.0, r, left).reg};
                           });
  // 0 % y and x % infinity are x; everything else that is not ordinary is NaN.
  const Mask unchanged = (a < kInfinity) & ((d == kInfinity) | ((a == 0.0) & (0.0 < d)));
  const Real special = select(unchanged, x, std::numeric_limits<double>::quiet_NaN());
  return select(ordinary, copy_sign({&b, rest[0]}, x), special);
}

}  // namespace diji
