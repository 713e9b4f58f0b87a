// Integer arithmetic that says when it overflows: for sizes and offsets that come from files and users.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace diji {

template <typename T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) {
  T result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <typename T>
[[nodiscard]] constexpr std::optional<T> checked_sub(T a, T b) {
  T result;
  if (__builtin_sub_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <typename T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) {
  T result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// The number of elements of a shape; nothing when a size is negative or the product does not fit. A zero
/// anywhere gives zero, whatever the other sizes are.
[[nodiscard]] constexpr std::optional<std::int64_t> checked_product(std::span<const std::int64_t> sizes) {
  bool empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    empty |= size == 0;
  }
  if (empty) return 0;
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    if (__builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return product;
}

}  // namespace diji
