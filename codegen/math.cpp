// exp and tanh by argument reduction and polynomials.
#include "codegen/math.h"

#include <array>
#include <span>

namespace diji {
namespace {

// Horner's rule, highest coefficient first.
Reg polynomial(NestBuilder& b, Reg x, std::span<const double> coefficients) {
  Reg sum = b.real(coefficients[0], b.type(x));
  for (const double c : coefficients.subspan(1)) sum = b.multiply_add(sum, x, b.real(c, b.type(x)));
  return sum;
}

// 1/n!, from 1/13! down to 1/2!: the Taylor series of exp. On |r| ≤ ln2/2 the first term left out is below
// 2^-56 · r; for a result that is rounded to f32, the last seven leave 2^-31 · r.
constexpr std::array kTaylor = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                1.0 / 120,        1.0 / 24,        1.0 / 6,        1.0 / 2};
constexpr std::size_t kTermsForF32 = 7;

struct ReducedArgument {
  Reg power;      // n, a whole number
  Reg remainder;  // x - n·ln2
};

// ln2 = high + low with zeros at the end of `high`, so that n · high is exact with or without a fused
// multiply-add.
ReducedArgument reduce_by_ln2(NestBuilder& b, Reg x) {
  constexpr double kHigh = 6.93147180369123816490e-01, kLow = 1.90821492927058770002e-10;
  const auto real = [&](double value) { return b.real(value, b.type(x)); };
  const Reg n = b.unary(NestOp::round_even, b.multiply(x, real(1.44269504088896340736)));
  const Reg first = b.multiply_add(n, real(-kHigh), x);
  return {n, b.multiply_add(n, real(-kLow), first)};
}

// 2^n as f64 for an i64 n within the normal range, by its exponent bits.
Reg power_of_two(NestBuilder& b, Reg n) {
  const auto number = [&](std::int64_t value) { return b.integer(value, DType::i64, b.type(n).lanes); };
  return b.bitcast(b.binary(NestOp::shift_left, b.add(n, number(1023)), number(52)), DType::f64);
}

Reg clamp(NestBuilder& b, Reg x, double low, double high) {
  return b.minimum(b.maximum(x, b.real(low, b.type(x))), b.real(high, b.type(x)));
}

// exp(r) - 1, to what a result of `dtype` needs.
Reg expm1_small(NestBuilder& b, Reg r, DType dtype) {
  const auto terms = std::span(kTaylor).last(dtype == DType::f64 ? kTaylor.size() : kTermsForF32);
  return b.multiply_add(b.multiply(r, r), polynomial(b, r, terms), r);
}

}  // namespace

// Both compute in f64 whatever the dtype: an f32 result is then off by little more than its one rounding. (In
// f32 throughout, exp was measured at 1.0104 ULP over all values: not within 1.)

Reg emit_exp(NestBuilder& b, Reg x) {
  const DType dtype = b.type(x).dtype;
  // Beyond these ends the result is 0 or infinity, which the scaling below produces by itself.
  const bool single = dtype == DType::f32;
  const Reg wide = clamp(b, b.convert(x, DType::f64), single ? -150 : -747, single ? 130 : 711);
  const auto [n, r] = reduce_by_ln2(b, wide);
  const Reg mantissa = b.add(expm1_small(b, r, dtype), b.real(1, b.type(r)));
  const Reg whole = b.convert(n, DType::i64);
  if (single) return b.convert(b.multiply(mantissa, power_of_two(b, whole)), dtype);
  // 2^n leaves the normal range where results are subnormal or infinite: two factors of half the power never
  // do.
  const Reg half = b.binary(NestOp::shift_right, whole, b.integer(1, DType::i64, b.type(x).lanes));
  const Reg first = b.multiply(mantissa, power_of_two(b, half));
  return b.multiply(first, power_of_two(b, b.subtract(whole, half)));
}

Reg emit_tanh(NestBuilder& b, Reg x) {
  // tanh x = t / (t + 2) with t = exp(2x) - 1 = 2^n · (exp(r) - 1) + (2^n - 1): no cancellation anywhere.
  const DType dtype = b.type(x).dtype;
  const Reg wide = b.convert(x, DType::f64);
  const auto real = [&](double value) { return b.real(value, b.type(wide)); };
  const Reg z = clamp(b, b.multiply(wide, real(2)), -40, 40);  // tanh 20 is 1 in double
  const auto [n, r] = reduce_by_ln2(b, z);
  const Reg scale = power_of_two(b, b.convert(n, DType::i64));
  const Reg t = b.multiply_add(scale, expm1_small(b, r, dtype), b.subtract(scale, real(1)));
  const Reg result = b.convert(b.divide(t, b.add(t, real(2))), dtype);
  return b.select(b.equal(x, b.real(0, b.type(x))), x, result);  // keeps the sign of zero
}

}  // namespace diji
