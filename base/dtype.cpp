// The dtype table and the software conversions of the 16-bit floats.
#include "base/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace diji {
namespace {

constexpr std::array<DTypeInfo, kDTypeCount> kTable = {{
    {"f64", 8, DTypeClass::floating, 52},
    {"f32", 4, DTypeClass::floating, 23},
    {"f16", 2, DTypeClass::floating, 10},
    {"bf16", 2, DTypeClass::floating, 7},
    {"i8", 1, DTypeClass::signed_integer, 0},
    {"u8", 1, DTypeClass::unsigned_integer, 0},
    {"i16", 2, DTypeClass::signed_integer, 0},
    {"u16", 2, DTypeClass::unsigned_integer, 0},
    {"i32", 4, DTypeClass::signed_integer, 0},
    {"u32", 4, DTypeClass::unsigned_integer, 0},
    {"i64", 8, DTypeClass::signed_integer, 0},
    {"u64", 8, DTypeClass::unsigned_integer, 0},
    {"bool", 1, DTypeClass::boolean, 0},
}};

// Rounds a double once, to nearest even, to a binary16-like format with `exponent_bits` and `mantissa_bits`.
// Going through float first would round twice.
std::uint16_t round_to_bits(double value, int exponent_bits, int mantissa_bits) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 48) & 0x8000U);
  const auto exponent_all_ones = static_cast<std::uint16_t>(((1U << exponent_bits) - 1U) << mantissa_bits);
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>(sign | exponent_all_ones | (1U << (mantissa_bits - 1)));  // quiet
  }
  const double magnitude = std::fabs(value);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent_min = 1 - bias;
  if (magnitude == 0) return sign;
  // Scaled so that one unit is one ULP of the target; nearbyint rounds half to even.
  const int exponent = std::isinf(value) ? bias + 1 : std::max(std::ilogb(magnitude), exponent_min);
  if (exponent > bias) return static_cast<std::uint16_t>(sign | exponent_all_ones);
  const auto units =
      static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
  // The implicit bit carries into the exponent field by plain addition, for subnormals and on overflow alike.
  const std::uint32_t field = units + (static_cast<std::uint32_t>(exponent - exponent_min) << mantissa_bits);
  return static_cast<std::uint16_t>(sign | field);
}

double widen(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa != 0 ? std::copysign(std::nan(""), sign) : sign * HUGE_VAL;
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

}  // namespace

const DTypeInfo& info(DType dtype) { return kTable[static_cast<std::size_t>(dtype)]; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

Float16::Float16(double value) : bits(round_to_bits(value, 5, 10)) {}
Float16::operator double() const { return widen(bits, 5, 10); }
BFloat16::BFloat16(double value) : bits(round_to_bits(value, 8, 7)) {}
BFloat16::operator double() const { return widen(bits, 8, 7); }

}  // namespace diji
