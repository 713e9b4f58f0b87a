// Bounds checks and error sentences of Reader.
#include "base/reader.h"

namespace diji {

std::unexpected<Error> Reader::malformed_at(std::int64_t offset, std::string_view sentence) const {
  auto error = fail(ErrorCode::malformed, "{}: byte {}: {}", file_, offset, sentence);
  error.error().file = std::string(file_);
  error.error().offset = offset;
  return error;
}

Result<std::span<const std::byte>> Reader::take(std::uint64_t count, std::string_view what) {
  if (count > remaining()) {
    return malformed("{} needs {} bytes, {} are left: the file is cut off or its lengths are wrong", what,
                     count, remaining());
  }
  const auto result = bytes_.subspan(position_, static_cast<std::size_t>(count));
  position_ += static_cast<std::size_t>(count);
  return result;
}

Result<Reader> Reader::part(std::uint64_t count, std::string_view what) {
  const std::int64_t start = offset();
  return Reader(TRY(take(count, what)), file_, start);
}

Result<std::string_view> Reader::text(std::uint64_t count, std::string_view what) {
  const auto raw = TRY(take(count, what));
  return std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size());
}

Result<std::uint64_t> Reader::varint(std::string_view what) {
  const std::int64_t start = offset();
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at_end()) return malformed_at(start, fmt::format("{} is cut off in the middle of an integer", what));
    const auto byte = static_cast<std::uint64_t>(bytes_[position_++]);
    if (shift == 63 && byte > 1) break;  // the tenth byte holds one bit
    value |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return malformed_at(start, fmt::format("{} is an integer of more than 64 bits", what));
}

}  // namespace diji
