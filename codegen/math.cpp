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
// 2^-56 · r.
constexpr std::array kTaylor = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                1.0 / 120,        1.0 / 24,        1.0 / 6,        1.0 / 2};

// Minimax coefficients of (exp(r) - 1 - r) / r^2 on |r| ≤ ln2/2 (Cephes, expf).
constexpr std::array kExpF32 = {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
                                4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1};

struct ReducedArgument {
  Reg power;      // n, a whole number
  Reg remainder;  // x - n·ln2
};

// ln2 = high + low with zeros at the end of `high`, so that n · high is exact with or without a fused
// multiply-add.
ReducedArgument reduce_by_ln2(NestBuilder& b, Reg x) {
  const bool single = b.type(x).dtype == DType::f32;
  const double high = single ? 0.693359375 : 6.93147180369123816490e-01;
  const double low = single ? -2.12194440e-4 : 1.90821492927058770002e-10;
  const auto real = [&](double value) { return b.real(value, b.type(x)); };
  const Reg n = b.unary(NestOp::round_even, b.multiply(x, real(1.44269504088896340736)));
  const Reg first = b.multiply_add(n, real(-high), x);
  return {n, b.multiply_add(n, real(-low), first)};
}

// 2^n for a whole number n within the normal range, by its exponent bits.
Reg power_of_two(NestBuilder& b, Reg n, DType dtype) {
  const bool single = dtype == DType::f32;
  const LaneType integer{single ? DType::i32 : DType::i64, b.type(n).lanes};
  const auto number = [&](std::int64_t value) { return b.integer(value, integer.dtype, integer.lanes); };
  const Reg biased = b.add(n, number(single ? 127 : 1023));
  return b.bitcast(b.binary(NestOp::shift_left, biased, number(single ? 23 : 52)), dtype);
}

Reg clamp(NestBuilder& b, Reg x, double low, double high) {
  return b.minimum(b.maximum(x, b.real(low, b.type(x))), b.real(high, b.type(x)));
}

// exp(r) - 1 to full double precision.
Reg expm1_small(NestBuilder& b, Reg r) {
  return b.multiply_add(b.multiply(r, r), polynomial(b, r, kTaylor), r);
}

}  // namespace

Reg emit_exp(NestBuilder& b, Reg x) {
  const bool single = b.type(x).dtype == DType::f32;
  // Beyond these ends the result is 0 or infinity, which the scaling below produces by itself.
  const Reg clamped = single ? clamp(b, x, -105, 90) : clamp(b, x, -747, 711);
  const auto [n, r] = reduce_by_ln2(b, clamped);
  const Reg tail =
      single ? b.multiply_add(b.multiply(r, r), polynomial(b, r, kExpF32), r) : expm1_small(b, r);
  const Reg mantissa = b.add(tail, b.real(1, b.type(x)));
  // 2^n leaves the normal range where results are subnormal or infinite: two factors of half the power never
  // do.
  const Reg whole = b.convert(n, single ? DType::i32 : DType::i64);
  const LaneType integer = b.type(whole);
  const Reg half = b.binary(NestOp::shift_right, whole, b.integer(1, integer.dtype, integer.lanes));
  const Reg first = b.multiply(mantissa, power_of_two(b, half, b.type(x).dtype));
  return b.multiply(first, power_of_two(b, b.subtract(whole, half), b.type(x).dtype));
}

Reg emit_tanh(NestBuilder& b, Reg x) {
  // tanh x = t / (t + 2) with t = exp(2x) - 1 = 2^n · (exp(r) - 1) + (2^n - 1): no cancellation anywhere.
  const Reg wide = b.convert(x, DType::f64);
  const auto real = [&](double value) { return b.real(value, b.type(wide)); };
  const Reg z = clamp(b, b.multiply(wide, real(2)), -40, 40);  // tanh 20 is 1 in double
  const auto [n, r] = reduce_by_ln2(b, z);
  const Reg scale = power_of_two(b, b.convert(n, DType::i64), DType::f64);
  const Reg t = b.multiply_add(scale, expm1_small(b, r), b.subtract(scale, real(1)));
  const Reg result = b.convert(b.divide(t, b.add(t, real(2))), b.type(x).dtype);
  return b.select(b.equal(x, b.real(0, b.type(x))), x, result);  // keeps the sign of zero
}

}  // namespace diji
