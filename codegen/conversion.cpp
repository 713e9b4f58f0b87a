// Conversions between dtypes in registers, and between registers and memory.
#include "codegen/conversion.h"

#include "codegen/scalar.h"

namespace diji {
namespace {

Reg bf16_to_f32(NestBuilder& b, Reg bits) {
  const Reg wide = b.convert(bits, DType::u32);
  return b.bitcast(b.binary(NestOp::shift_left, wide, b.integer(16, DType::u32, b.type(wide).lanes)),
                   DType::f32);
}

// Round to nearest even by integer arithmetic: add half an ULP minus one, plus the lowest kept bit. NaN stays
// quiet NaN.
Reg f32_to_bf16(NestBuilder& b, Reg x) {
  const int lanes = b.type(x).lanes;
  const auto number = [&](std::int64_t value) { return b.integer(value, DType::u32, lanes); };
  const Reg bits = b.bitcast(x, DType::u32);
  const Reg lowest = b.binary(NestOp::bit_and, b.binary(NestOp::shift_right, bits, number(16)), number(1));
  const Reg rounded = b.binary(NestOp::shift_right, b.add(b.add(bits, number(0x7fff)), lowest), number(16));
  const Reg quiet = b.binary(NestOp::bit_or, b.binary(NestOp::shift_right, bits, number(16)), number(0x40));
  return b.convert(b.select(b.equal(x, x), rounded, quiet), DType::u16);
}

}  // namespace

DType memory_dtype(DType storage) { return storage == DType::bf16 ? DType::u16 : storage; }

Reg to_storage(NestBuilder& b, Reg value, DType storage) {
  if (storage != DType::bf16) return b.convert(value, storage);
  return f32_to_bf16(b, b.convert(value, DType::f32));
}

Reg from_storage(NestBuilder& b, Reg value, DType storage) {
  return storage == DType::bf16 ? bf16_to_f32(b, value) : b.convert(value, register_dtype(storage));
}

// f64 to f32 so that a further rounding to 16 bits gives what one rounding would have given: an inexact
// result gets an odd last bit, which is never a tie (Boldo and Melquiond, Emulation of FMA and correctly
// rounded sums, 2008).
Reg round_to_odd(NestBuilder& b, Reg wide) {
  const Reg near = b.convert(wide, DType::f32), back = b.convert(near, DType::f64);
  const LaneType integer{DType::i32, b.type(wide).lanes};
  const auto number = [&](std::int64_t value) { return b.integer(value, integer.dtype, integer.lanes); };
  const Reg bits = b.bitcast(near, DType::i32);
  const Reg zero = b.real(0, b.type(wide));
  // Toward the true value: magnitudes grow by adding to the bits, whatever the sign.
  const Reg too_small = b.select(b.less(zero, wide), b.less(back, wide), b.less(wide, back));
  const Reg neighbour = b.select(too_small, b.add(bits, number(1)), b.subtract(bits, number(1)));
  const Reg even = b.equal(b.binary(NestOp::bit_and, bits, number(1)), number(0));
  const Reg inexact = b.binary(NestOp::bit_or, b.less(back, wide), b.less(wide, back));
  return b.bitcast(b.select(b.binary(NestOp::bit_and, even, inexact), neighbour, bits), DType::f32);
}

namespace {

// A 64-bit integer to f64 with the bits that do not fit gathered in one sticky bit below those that 16-bit
// floats keep.
Reg sticky_double(NestBuilder& b, Reg x) {
  const LaneType type = b.type(x);
  const auto number = [&](std::int64_t value) { return b.integer(value, type.dtype, type.lanes); };
  const Reg low = b.binary(NestOp::bit_and, x, number(0x7ff)), zero = number(0);
  const Reg high = b.subtract(x, low);
  const Reg sticky = b.select(b.equal(low, zero), high, b.binary(NestOp::bit_or, high, number(0x400)));
  // Below 2^53 every integer is a double as it is.
  const Reg shifted = b.add(x, number(std::int64_t{1} << 53));
  const Reg fits = is_signed_integer(type.dtype) ? b.binary(NestOp::bit_and, b.less_equal(zero, shifted),
                                                            b.less(x, number(std::int64_t{1} << 53)))
                                                 : b.less(x, number(std::int64_t{1} << 53));
  return b.convert(b.select(fits, x, sticky), DType::f64);
}

Reg to_16_bits(NestBuilder& b, Reg x, DType from, DType to) {
  if (!is_floating(from) && bytes_of(from) == 8) x = sticky_double(b, x);
  if (!is_floating(from) && bytes_of(from) == 4) x = b.convert(x, DType::f64);
  return to_storage(b, b.type(x).dtype == DType::f64 ? round_to_odd(b, x) : b.convert(x, DType::f32), to);
}

}  // namespace

Reg convert_step(NestBuilder& b, Reg x, DType from, DType to) {
  if (to == DType::boolean) {
    const Reg zero = b.equal(x, b.number(0, b.type(x)));
    return b.equal(zero, b.number(0, b.type(zero)));
  }
  if (register_dtype(to) == to || from == to) return b.convert(x, register_dtype(to));
  return from_storage(b, to_16_bits(b, x, from, to), to);
}

}  // namespace diji
