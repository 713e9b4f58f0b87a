// A dense row-major tensor in host memory: what files, the interpreter and users exchange.
#pragma once

#include "base/dtype.h"
#include "base/error.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace diji {

/// Sizes that are known now, as opposed to Shape, whose sizes may be expressions.
using StaticShape = std::vector<std::int64_t>;

/// "[2, 3]"
std::string text_of(std::span<const std::int64_t> shape);

/// {dtype, shape, bytes, shared owner}. Copies share the bytes; the owner may also be a mapped file. Not
/// thread-safe while somebody writes through mutable_bytes().
class HostTensor {
 public:
  HostTensor() = default;

  /// Zero-filled. Errors: a negative size, a product that overflows (malformed), no memory (out_of_memory).
  static Result<HostTensor> allocate(DType dtype, StaticShape shape);
  /// Bytes that somebody else keeps (a mapped file, a model's weights). CHECKs that the size fits.
  static HostTensor view(DType dtype, StaticShape shape, std::span<const std::byte> bytes,
                         std::shared_ptr<const void> owner);
  /// A view where the bytes lie as the dtype wants them, since elements are read in place; else a copy.
  /// CHECKs as view(); errors of allocate().
  static Result<HostTensor> view_or_copy(DType dtype, StaticShape shape, std::span<const std::byte> bytes,
                                         std::shared_ptr<const void> owner);
  /// From a list of values of the storage type; CHECKs that the count fits.
  template <typename T>
  static HostTensor of(StaticShape shape, std::span<const T> values) {
    HostTensor tensor = allocate(dtype_of<T>(), std::move(shape)).value();
    CHECK(std::ssize(values) == tensor.count(), "as many values as the shape has elements");
    std::copy(values.begin(), values.end(), tensor.mutable_values<T>().begin());
    return tensor;
  }
  template <typename T>
  static HostTensor of(StaticShape shape, std::initializer_list<T> values) {
    return of<T>(std::move(shape), std::span<const T>(values.begin(), values.size()));
  }

  DType dtype() const { return dtype_; }
  const StaticShape& shape() const { return shape_; }
  std::int64_t rank() const { return std::ssize(shape_); }
  std::int64_t count() const { return count_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// CHECKs that this tensor allocated its bytes itself.
  std::span<std::byte> mutable_bytes();

  template <typename T>
  std::span<const T> values() const {
    CHECK(dtype_ == dtype_of<T>(), "values<T> of the tensor's own dtype");
    return {reinterpret_cast<const T*>(bytes_.data()), static_cast<std::size_t>(count_)};
  }
  template <typename T>
  std::span<T> mutable_values() {
    CHECK(dtype_ == dtype_of<T>(), "values<T> of the tensor's own dtype");
    return {reinterpret_cast<T*>(mutable_bytes().data()), static_cast<std::size_t>(count_)};
  }

  /// Element i as a double (bool as 0 or 1; 64-bit integers beyond 2^53 round): for printing and for
  /// comparing.
  double as_double(std::int64_t i) const;
  /// All elements of an integer or bool tensor as int64; CHECKs that it is one.
  std::vector<std::int64_t> as_int64() const;
  /// The same elements under another shape of equal count (CHECKed); shares the bytes.
  HostTensor reshaped(StaticShape shape) const;
  /// Same dtype, shape and bytes (so NaN equals the same NaN, and 0 differs from -0).
  bool same_bits(const HostTensor& other) const;

 private:
  DType dtype_ = DType::f32;
  StaticShape shape_ = {0};
  std::int64_t count_ = 0;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  bool writable_ = false;
};

}  // namespace diji
