// Scalar maps: instructions where there is one, formulas for functions, guarded integer arithmetic.
#include "codegen/map_step.h"

#include "base/check.h"
#include "codegen/conversion.h"
#include "codegen/math.h"
#include "codegen/scalar.h"

#include <optional>

namespace diji {
namespace {

void report_zero_divisor(NestBuilder& b, Reg bad, Reg mask) {
  if (mask != Reg::none) bad = b.binary(NestOp::bit_and, bad, mask);
  b.report_error(b.any(bad), kErrorDivisionByZero, b.integer(0));
}

// Quotient or remainder. No lane divides by 0, nor the smallest number by -1, which traps on some machines.
Reg integer_divide(NestBuilder& b, Primitive map, Reg x, Reg divisor, Reg mask) {
  const LaneType type = b.type(x);
  const NestOp op = map == Primitive::divide ? NestOp::divide : NestOp::remainder;
  const Reg zero = b.number(0, type), one = b.number(1, type);
  const Reg bad = b.equal(divisor, zero);
  report_zero_divisor(b, bad, mask);
  const Reg safe = b.select(bad, one, divisor);
  if (!is_signed_integer(type.dtype)) return b.binary(op, x, safe);
  const Reg by_minus_one = b.equal(safe, b.integer(-1, type.dtype, type.lanes));
  const Reg result = b.binary(op, x, b.select(by_minus_one, one, safe));
  // Negation wraps as the operator says.
  return b.select(by_minus_one, map == Primitive::divide ? b.binary(NestOp::subtract, zero, x) : zero,
                  result);
}

// How many binary digits the largest lane has, as an i64; one more where it rounds up to a power of two.
Reg digits_of_largest(NestBuilder& b, Reg x) {
  const Reg largest = b.type(x).lanes == 1 ? x : b.fold(NestOp::fold_maximum, x);
  const Reg number = b.bitcast(b.convert(largest, DType::f64), DType::i64);
  return b.subtract(b.binary(NestOp::shift_right, number, b.integer(52)), b.integer(1022));
}

// Repeated squaring, as many times as the largest exponent has digits.
Reg integer_power(NestBuilder& b, Reg x, Reg exponent, Reg mask) {
  const LaneType type = b.type(x);
  const Reg zero = b.number(0, type), one = b.number(1, type);
  const bool has_negative = is_signed_integer(type.dtype);
  const Reg negative = has_negative ? b.less(exponent, zero) : Reg::none;
  const Reg from = has_negative ? b.select(negative, zero, exponent) : exponent;
  const auto is_odd = [&](Reg n) { return b.equal(b.binary(NestOp::bit_and, n, one), one); };
  const auto power = b.loop(b.integer(0), digits_of_largest(b, from), b.integer(1), {one, x, from},
                            [&](Reg, std::span<const Reg> carried) -> std::vector<Reg> {
                              const Reg product = b.binary(NestOp::multiply, carried[0], carried[1]);
                              return {b.select(is_odd(carried[2]), product, carried[0]),
                                      b.binary(NestOp::multiply, carried[1], carried[1]),
                                      b.binary(NestOp::shift_right, carried[2], one)};
                            })[0];
  if (!has_negative) return power;
  // 1 / x^n, truncated: of all integers only 1 and -1 leave something.
  report_zero_divisor(b, b.binary(NestOp::bit_and, negative, b.equal(x, zero)), mask);
  const Reg minus_one = b.integer(-1, type.dtype, type.lanes);
  const Reg sign = b.select(is_odd(exponent), minus_one, one);
  const Reg reciprocal = b.select(b.equal(x, minus_one), sign, b.select(b.equal(x, one), one, zero));
  return b.select(negative, reciprocal, power);
}

DType unsigned_of(DType dtype) {
  switch (bytes_of(dtype)) {
    case 1: return DType::u8;
    case 2: return DType::u16;
    case 4: return DType::u32;
    default: return DType::u64;
  }
}

// A count that is negative or too large shifts everything out; the instruction leaves it undefined.
Reg shift(NestBuilder& b, Primitive map, Reg x, Reg count) {
  const LaneType type = b.type(x);
  const DType bits = unsigned_of(type.dtype);
  const std::int64_t width = bytes_of(type.dtype) * 8;
  const Reg inside = b.less(b.bitcast(count, bits), b.integer(width, bits, type.lanes));
  const Reg zero = b.number(0, type);
  if (map == Primitive::shift_right && is_signed_integer(type.dtype)) {
    const Reg most = b.integer(width - 1, type.dtype, type.lanes);  // leaves the sign in every bit
    return b.binary(NestOp::shift_right, x, b.select(inside, count, most));
  }
  const NestOp op = map == Primitive::shift_left ? NestOp::shift_left : NestOp::shift_right;
  return b.select(inside, b.binary(op, x, b.select(inside, count, zero)), zero);
}

Reg absolute_value(NestBuilder& b, Reg x) {
  const LaneType type = b.type(x);
  if (is_floating(type.dtype)) return b.unary(NestOp::absolute, x);
  if (!is_signed_integer(type.dtype)) return x;
  const Reg zero = b.number(0, type);
  return b.select(b.less(x, zero), b.binary(NestOp::subtract, zero, x), x);
}

// 16-bit floats go through f64, so that the one rounding to 16 bits is the only one that counts.
Reg rounded(NestBuilder& b, Reg wide, DType dtype) {
  return register_dtype(dtype) == dtype ? b.convert(wide, dtype) : round_to_odd(b, wide);
}

using Function = Real (*)(Real, Precision);

Function function_of(Primitive map) {
  switch (map) {
    case Primitive::exp: return emit_exp;
    case Primitive::expm1: return emit_expm1;
    case Primitive::log: return emit_log;
    case Primitive::log1p: return emit_log1p;
    case Primitive::erf: return emit_erf;
    case Primitive::sin: return emit_sin;
    case Primitive::cos: return emit_cos;
    case Primitive::tan: return emit_tan;
    case Primitive::asin: return emit_asin;
    case Primitive::acos: return emit_acos;
    case Primitive::atan: return emit_atan;
    case Primitive::sinh: return emit_sinh;
    case Primitive::cosh: return emit_cosh;
    case Primitive::tanh: return emit_tanh;
    case Primitive::asinh: return emit_asinh;
    case Primitive::acosh: return emit_acosh;
    case Primitive::atanh: return emit_atanh;
    default: check_failed("primitive", "a scalar map");
  }
}

Reg function(NestBuilder& b, Primitive map, DType dtype, std::span<const Reg> x) {
  const auto wide = [&](std::size_t i) { return Real{&b, b.convert(x[i], DType::f64)}; };
  const Precision precision = dtype == DType::f32 ? Precision::single : Precision::full;
  // Exact, so that what is computed as for f32 does for 16 bits too.
  if (map == Primitive::remainder) {
    const Precision bits = dtype == DType::f64 ? Precision::full : Precision::single;
    return b.convert(emit_remainder(wide(0), wide(1), bits).reg, register_dtype(dtype));
  }
  if (map == Primitive::power) return rounded(b, emit_power(wide(0), wide(1), precision).reg, dtype);
  return rounded(b, function_of(map)(wide(0), precision).reg, dtype);
}

std::optional<NestOp> instruction_of(Primitive map) {
  switch (map) {
    case Primitive::add: return NestOp::add;
    case Primitive::subtract: return NestOp::subtract;
    case Primitive::multiply: return NestOp::multiply;
    case Primitive::minimum: return NestOp::minimum;
    case Primitive::maximum: return NestOp::maximum;
    case Primitive::bit_and: return NestOp::bit_and;
    case Primitive::bit_or: return NestOp::bit_or;
    case Primitive::bit_xor: return NestOp::bit_xor;
    case Primitive::floor: return NestOp::floor;
    case Primitive::ceil: return NestOp::ceil;
    case Primitive::round_even: return NestOp::round_even;
    case Primitive::sqrt: return NestOp::sqrt;
    default: return std::nullopt;
  }
}

}  // namespace

Reg map_step(NestBuilder& b, const ScalarStep& step, DType operand_dtype, std::span<const Reg> operands,
             Reg mask) {
  const Reg x = operands[0];
  const bool floating = is_floating(b.type(x).dtype);
  if (const auto op = instruction_of(step.primitive))
    return operands.size() == 1 ? b.unary(*op, x) : b.binary(*op, x, operands[1]);
  switch (step.primitive) {
    case Primitive::divide:
      if (floating) return b.binary(NestOp::divide, x, operands[1]);
      return integer_divide(b, step.primitive, x, operands[1], mask);
    case Primitive::remainder:
      if (!floating) return integer_divide(b, step.primitive, x, operands[1], mask);
      break;
    case Primitive::power:
      if (!floating) return integer_power(b, x, operands[1], mask);
      break;
    case Primitive::shift_left:
    case Primitive::shift_right: return shift(b, step.primitive, x, operands[1]);
    case Primitive::equal: return b.equal(x, operands[1]);
    case Primitive::less: return b.less(x, operands[1]);
    case Primitive::select: return b.select(x, operands[1], operands[2]);
    case Primitive::absolute: return absolute_value(b, x);
    case Primitive::convert: return convert_step(b, x, operand_dtype, step.dtype);
    default: break;
  }
  return function(b, step.primitive, step.dtype, operands);
}

}  // namespace diji
