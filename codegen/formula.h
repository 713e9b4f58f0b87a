// Formulas over f64 vectors, written as formulas: each operator appends one instruction to a loop nest.
#pragma once

#include "codegen/nest_builder.h"

#include <span>

namespace diji {

/// How exact a function must be: enough to be rounded once to f32, or as a result in f64.
enum class Precision : std::uint8_t { single, full };

/// A vector of f64.
struct Real {
  NestBuilder* b;
  Reg reg;
  LaneType type() const { return b->type(reg); }
  Real like(double value) const { return {b, b->real(value, type())}; }
};
/// The same bits as u64: shifts are logical.
struct Bits {
  NestBuilder* b;
  Reg reg;
  Bits like(std::uint64_t value) const {
    return {b, b->integer(static_cast<std::int64_t>(value), DType::u64, b->type(reg).lanes)};
  }
};
/// One truth value a lane.
struct Mask {
  NestBuilder* b;
  Reg reg;
};

inline Real operator+(Real x, Real y) { return {x.b, x.b->binary(NestOp::add, x.reg, y.reg)}; }
inline Real operator-(Real x, Real y) { return {x.b, x.b->binary(NestOp::subtract, x.reg, y.reg)}; }
inline Real operator*(Real x, Real y) { return {x.b, x.b->binary(NestOp::multiply, x.reg, y.reg)}; }
inline Real operator/(Real x, Real y) { return {x.b, x.b->binary(NestOp::divide, x.reg, y.reg)}; }
inline Real operator+(Real x, double y) { return x + x.like(y); }
inline Real operator-(Real x, double y) { return x - x.like(y); }
inline Real operator*(Real x, double y) { return x * x.like(y); }
inline Real operator+(double x, Real y) { return y.like(x) + y; }
inline Real operator-(double x, Real y) { return y.like(x) - y; }
inline Real operator*(double x, Real y) { return y.like(x) * y; }
inline Real operator/(double x, Real y) { return y.like(x) / y; }

inline Bits operator+(Bits x, std::uint64_t y) {
  return {x.b, x.b->binary(NestOp::add, x.reg, x.like(y).reg)};
}
inline Bits operator-(Bits x, Bits y) { return {x.b, x.b->binary(NestOp::subtract, x.reg, y.reg)}; }
inline Bits operator&(Bits x, std::uint64_t y) {
  return {x.b, x.b->binary(NestOp::bit_and, x.reg, x.like(y).reg)};
}
inline Bits operator|(Bits x, std::uint64_t y) {
  return {x.b, x.b->binary(NestOp::bit_or, x.reg, x.like(y).reg)};
}
inline Bits operator^(Bits x, Bits y) { return {x.b, x.b->binary(NestOp::bit_xor, x.reg, y.reg)}; }
inline Bits operator<<(Bits x, unsigned y) {
  return {x.b, x.b->binary(NestOp::shift_left, x.reg, x.like(y).reg)};
}
inline Bits operator>>(Bits x, unsigned y) {
  return {x.b, x.b->binary(NestOp::shift_right, x.reg, x.like(y).reg)};
}

inline Mask operator<(Real x, Real y) { return {x.b, x.b->less(x.reg, y.reg)}; }
inline Mask operator<(Real x, double y) { return x < x.like(y); }
inline Mask operator<(double x, Real y) { return y.like(x) < y; }
inline Mask operator<=(double x, Real y) { return {y.b, y.b->less_equal(y.like(x).reg, y.reg)}; }
inline Mask operator==(Real x, Real y) { return {x.b, x.b->equal(x.reg, y.reg)}; }
inline Mask operator==(Real x, double y) { return x == x.like(y); }
inline Mask operator==(Bits x, std::uint64_t y) { return {x.b, x.b->equal(x.reg, x.like(y).reg)}; }
inline Mask operator&(Mask x, Mask y) { return {x.b, x.b->binary(NestOp::bit_and, x.reg, y.reg)}; }
inline Mask operator|(Mask x, Mask y) { return {x.b, x.b->binary(NestOp::bit_or, x.reg, y.reg)}; }

inline Real select(Mask condition, Real x, Real y) { return {x.b, x.b->select(condition.reg, x.reg, y.reg)}; }
inline Real select(Mask condition, Real x, double y) { return select(condition, x, x.like(y)); }
inline Real select(Mask condition, double x, Real y) { return select(condition, y.like(x), y); }
inline Bits select(Mask condition, Bits x, Bits y) { return {x.b, x.b->select(condition.reg, x.reg, y.reg)}; }

/// x·y + z, fused or not.
inline Real multiply_add(Real x, Real y, Real z) { return {x.b, x.b->multiply_add(x.reg, y.reg, z.reg)}; }
inline Real multiply_add(Real x, double y, Real z) { return multiply_add(x, x.like(y), z); }
inline Real multiply_add(Real x, double y, double z) { return multiply_add(x, x.like(y), x.like(z)); }
/// x·y + z with one rounding.
inline Real fused(Real x, Real y, Real z) { return {x.b, x.b->fused_multiply_add(x.reg, y.reg, z.reg)}; }
inline Real absolute(Real x) { return {x.b, x.b->unary(NestOp::absolute, x.reg)}; }
inline Real floor(Real x) { return {x.b, x.b->unary(NestOp::floor, x.reg)}; }
inline Real round_even(Real x) { return {x.b, x.b->unary(NestOp::round_even, x.reg)}; }
inline Real square_root(Real x) { return {x.b, x.b->unary(NestOp::sqrt, x.reg)}; }
inline Real copy_sign(Real magnitude, Real sign) {
  return {sign.b, sign.b->binary(NestOp::copy_sign, magnitude.reg, sign.reg)};
}
inline Bits bits(Real x) { return {x.b, x.b->bitcast(x.reg, DType::u64)}; }
inline Real real(Bits x) { return {x.b, x.b->bitcast(x.reg, DType::f64)}; }

/// Horner's rule, highest coefficient first.
Real polynomial(Real x, std::span<const double> coefficients);
/// x within [low, high]; NaN stays.
Real clamp(Real x, double low, double high);

/// A number to twice the precision: high + low, |low| at most half a unit in the last place of high.
struct Pair {
  Real high, low;
};
/// x + y exactly (Knuth's TwoSum).
Pair two_sum(Real x, Real y);
/// The same where |x| >= |y| or x is 0 (Dekker).
Pair fast_two_sum(Real x, Real y);
/// x · y exactly.
Pair two_product(Real x, Real y);

/// The nearest integer of |x| < 2^51: as a number, and in the low bits of `shifted`.
struct Nearest {
  Real n;
  Bits shifted;
};
Nearest nearest(Real x, double factor);

/// 2^n from the low bits of n + 1.5·2^52; 0 and infinity beyond the exponents -1023 and 1023.
Real power_of_two(Bits shifted);

}  // namespace diji
