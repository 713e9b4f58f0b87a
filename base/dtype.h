// The element types: one table row each, and a visitor that turns a DType into a C++ type.
#pragma once

#include "base/check.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace diji {

enum class DType : std::uint8_t { f64, f32, f16, bf16, i8, u8, i16, u16, i32, u32, i64, u64, boolean };
inline constexpr std::size_t kDTypeCount = 13;

enum class DTypeClass : std::uint8_t { floating, signed_integer, unsigned_integer, boolean };

struct DTypeInfo {
  std::string_view name;  ///< "f32", as printed and parsed everywhere
  std::int64_t bytes;     ///< storage of one element
  DTypeClass dtype_class;
  int mantissa_bits;  ///< of a float: stored bits, so that one ULP at 1 is 2^-mantissa_bits; else 0
};

const DTypeInfo& info(DType dtype);
inline std::string_view name_of(DType dtype) { return info(dtype).name; }
inline std::int64_t bytes_of(DType dtype) { return info(dtype).bytes; }
inline bool is_floating(DType dtype) { return info(dtype).dtype_class == DTypeClass::floating; }
inline bool is_integer(DType dtype) {
  return info(dtype).dtype_class == DTypeClass::signed_integer ||
         info(dtype).dtype_class == DTypeClass::unsigned_integer;
}
inline bool is_signed_integer(DType dtype) { return info(dtype).dtype_class == DTypeClass::signed_integer; }
std::optional<DType> parse_dtype(std::string_view name);

/// Storage-only 16-bit floats: arithmetic happens in float or double. Conversions round once, to nearest
/// even.
struct Float16 {
  std::uint16_t bits = 0;
  Float16() = default;
  explicit Float16(double value);
  explicit operator double() const;
};
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(double value);
  explicit operator double() const;
};

template <typename T>
struct TypeTag {
  using type = T;
};

/// Calls `visitor(TypeTag<T>{})` with the C++ storage type of `dtype` (bool for boolean).
template <typename Visitor>
decltype(auto) visit_dtype(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::f64: return visitor(TypeTag<double>{});
    case DType::f32: return visitor(TypeTag<float>{});
    case DType::f16: return visitor(TypeTag<Float16>{});
    case DType::bf16: return visitor(TypeTag<BFloat16>{});
    case DType::i8: return visitor(TypeTag<std::int8_t>{});
    case DType::u8: return visitor(TypeTag<std::uint8_t>{});
    case DType::i16: return visitor(TypeTag<std::int16_t>{});
    case DType::u16: return visitor(TypeTag<std::uint16_t>{});
    case DType::i32: return visitor(TypeTag<std::int32_t>{});
    case DType::u32: return visitor(TypeTag<std::uint32_t>{});
    case DType::i64: return visitor(TypeTag<std::int64_t>{});
    case DType::u64: return visitor(TypeTag<std::uint64_t>{});
    case DType::boolean: return visitor(TypeTag<bool>{});
  }
  check_failed("dtype", "a DType outside its enumeration");
}

/// The DType of a C++ storage type.
template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<Float16>() {
  return DType::f16;
}
template <>
constexpr DType dtype_of<BFloat16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<std::int8_t>() {
  return DType::i8;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::u8;
}
template <>
constexpr DType dtype_of<std::int16_t>() {
  return DType::i16;
}
template <>
constexpr DType dtype_of<std::uint16_t>() {
  return DType::u16;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<std::uint32_t>() {
  return DType::u32;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_of<std::uint64_t>() {
  return DType::u64;
}
template <>
constexpr DType dtype_of<bool>() {
  return DType::boolean;
}

}  // namespace diji
