// The one bounds-checked reader: every file format and cache entry is read through it, and every error it
// returns names the file and the byte.
#pragma once

#include "base/error.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace diji {

/// A cursor over bytes that somebody else keeps. Little endian. Reading past the end is an Error, never a
/// wild read.
class Reader {
 public:
  /// `base` is the offset of bytes[0] in `file`, so that a reader of a part still reports file offsets.
  Reader(std::span<const std::byte> bytes, std::string_view file, std::int64_t base = 0)
      : bytes_(bytes), file_(file), base_(base) {}

  std::int64_t offset() const { return base_ + static_cast<std::int64_t>(position_); }
  std::size_t remaining() const { return bytes_.size() - position_; }
  bool at_end() const { return position_ == bytes_.size(); }
  std::string_view file() const { return file_; }

  /// The next `count` bytes, without a copy. `what` names the thing in the error ("tensor data").
  Result<std::span<const std::byte>> take(std::uint64_t count, std::string_view what);
  /// A reader over the next `count` bytes, which this one skips.
  Result<Reader> part(std::uint64_t count, std::string_view what);
  Result<std::string_view> text(std::uint64_t count, std::string_view what);
  /// Protocol-buffers base-128 integer, at most ten bytes.
  Result<std::uint64_t> varint(std::string_view what);

  template <typename T>
    requires std::is_arithmetic_v<T>
  Result<T> number(std::string_view what) {
    const auto raw = TRY(take(sizeof(T), what));
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  /// A malformed-file error at the current byte.
  template <typename... Args>
  [[nodiscard]] std::unexpected<Error> malformed(fmt::format_string<Args...> format, Args&&... args) const {
    return malformed_at(offset(), fmt::format(format, std::forward<Args>(args)...));
  }
  [[nodiscard]] std::unexpected<Error> malformed_at(std::int64_t offset, std::string_view sentence) const;

 private:
  std::span<const std::byte> bytes_;
  std::string_view file_;
  std::int64_t base_ = 0;
  std::size_t position_ = 0;
};

static_assert(std::endian::native == std::endian::little, "files are little endian and are read in place");

}  // namespace diji
