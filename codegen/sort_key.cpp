// Order-preserving maps from every dtype to signed integers.
#include "codegen/sort_key.h"

#include <limits>

namespace diji {
namespace {

std::int64_t smallest(DType dtype) {
  return dtype == DType::i64 ? std::numeric_limits<std::int64_t>::min()
                             : std::numeric_limits<std::int32_t>::min();
}

// The bits of a float as a signed integer are in order above zero; below, their distance from the smallest
// integer is.
Reg float_key(NestBuilder& b, Reg value, DType key, bool nan_lowest) {
  const LaneType type = b.type(value);
  const auto number = [&](std::int64_t n) { return b.integer(n, key, type.lanes); };
  const Reg bits = b.bitcast(b.add(value, b.real(0, type)), key);  // -0 + 0 is +0
  const Reg mirrored = b.subtract(number(smallest(key)), bits);
  const Reg ordered = b.select(b.less(bits, number(0)), mirrored, bits);
  const Reg nan = number(nan_lowest ? smallest(key) : -1 - smallest(key));
  return b.select(b.equal(value, value), ordered, nan);
}

}  // namespace

DType key_dtype(DType dtype) { return bytes_of(dtype) == 8 ? DType::i64 : DType::i32; }

Reg order_key(NestBuilder& b, Reg value, DType dtype, bool nan_lowest) {
  const DType key = key_dtype(dtype);
  if (is_floating(dtype)) return float_key(b, value, key, nan_lowest);
  if (dtype == DType::u32 || dtype == DType::u64) {
    return b.add(b.convert(value, key), b.integer(smallest(key), key, b.type(value).lanes));
  }
  return b.convert(value, key);
}

Reg reversed_key(NestBuilder& b, Reg key) {
  const LaneType type = b.type(key);
  return b.subtract(b.integer(-1, type.dtype, type.lanes), key);
}

Reg smallest_key(NestBuilder& b, LaneType type) {
  return b.integer(smallest(type.dtype), type.dtype, type.lanes);
}

}  // namespace diji
