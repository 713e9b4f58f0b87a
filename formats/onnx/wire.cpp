// Tags, lengths and wire types of protocol buffers.
#include "formats/onnx/wire.h"

#include <bit>
#include <limits>

namespace diji::onnx {
namespace {

// Field numbers have 29 bits (protobuf encoding guide).
constexpr std::uint64_t kFieldNumberMax = (1U << 29) - 1;

// The number of continuation bytes that follow this lead byte, and the smallest code point that needs them;
// -1 for a byte that cannot lead.
struct Lead {
  int following;
  std::uint32_t code_min;
  std::uint32_t bits;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {0, 0, byte};
  if (byte >= 0xc2 && byte < 0xe0) return {1, 0x80, byte & 0x1fU};
  if (byte >= 0xe0 && byte < 0xf0) return {2, 0x800, byte & 0x0fU};
  if (byte >= 0xf0 && byte < 0xf5) return {3, 0x10000, byte & 0x07U};
  return {-1, 0, 0};
}

}  // namespace

std::string_view name_of(WireType type) {
  switch (type) {
    case WireType::varint: return "varint";
    case WireType::fixed64: return "fixed64";
    case WireType::bytes: return "bytes";
    case WireType::fixed32: return "fixed32";
  }
  return "unknown";
}

std::unexpected<Error> Field::wrong_type(std::string_view what, WireType wanted) const {
  return payload.malformed_at(offset, fmt::format("{} is stored as {} where the schema has {}", what,
                                                  name_of(type), name_of(wanted)));
}

Result<std::int64_t> Field::integer(std::string_view what) const {
  if (type != WireType::varint) return wrong_type(what, WireType::varint);
  return static_cast<std::int64_t>(bits);
}

Result<std::int32_t> Field::integer32(std::string_view what) const {
  const std::int64_t value = TRY(integer(what));
  const bool fits = value >= std::numeric_limits<std::int32_t>::min() &&
                    value <= std::int64_t{std::numeric_limits<std::uint32_t>::max()};
  if (!fits) return payload.malformed_at(offset, fmt::format("{} is {}: not an int32", what, value));
  return static_cast<std::int32_t>(value);
}

Result<float> Field::real(std::string_view what) const {
  if (type != WireType::fixed32) return wrong_type(what, WireType::fixed32);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

Result<Reader> Field::message(std::string_view what) const {
  if (type != WireType::bytes) return wrong_type(what, WireType::bytes);
  return payload;
}

Result<std::string_view> Field::text(std::string_view what, std::uint64_t bytes_max) const {
  Reader reader = TRY(message(what));
  if (reader.remaining() > bytes_max) {
    return payload.malformed_at(offset, fmt::format("{} has {} bytes, more than the limit of {}", what,
                                                    reader.remaining(), bytes_max));
  }
  const std::string_view text = TRY(reader.text(reader.remaining(), what));
  if (!is_utf8(text)) return payload.malformed_at(offset, fmt::format("{} is not UTF-8 text", what));
  return text;
}

Result<std::string_view> Field::name(std::string_view what, std::uint64_t bytes_max) const {
  const std::string_view text = TRY(this->text(what, bytes_max));
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) continue;
    return payload.malformed_at(offset, fmt::format("{} has a control character in it", what));
  }
  return text;
}

Result<std::uint64_t> Field::read_number(Reader& reader, WireType type, std::string_view what) {
  if (type == WireType::fixed32) return TRY(reader.number<std::uint32_t>(what));
  if (type == WireType::fixed64) return reader.number<std::uint64_t>(what);
  return reader.varint(what);
}

Result<std::optional<Field>> Fields::next() {
  if (rest_.at_end()) return std::nullopt;
  const std::int64_t offset = rest_.offset();
  const std::uint64_t tag = TRY(rest_.varint("a field's tag"));
  const std::uint64_t number = tag >> 3;
  if (number == 0 || number > kFieldNumberMax) {
    return rest_.malformed_at(offset,
                              fmt::format("{} is no field number: this is not a protobuf message", number));
  }
  Field field{static_cast<std::uint32_t>(number), static_cast<WireType>(tag & 7), offset, 0, rest_};
  switch (field.type) {
    case WireType::varint: field.bits = TRY(rest_.varint("a field")); break;
    case WireType::fixed64: field.bits = TRY(rest_.number<std::uint64_t>("a field")); break;
    case WireType::fixed32: field.bits = TRY(rest_.number<std::uint32_t>("a field")); break;
    case WireType::bytes: {
      const std::uint64_t length = TRY(rest_.varint("a field's length"));
      field.payload = TRY(rest_.part(length, "the content of a field"));
      break;
    }
    default: return rest_.malformed_at(offset, fmt::format("wire type {} is not in ONNX files", tag & 7));
  }
  return field;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i++]);
    const Lead lead = lead_of(byte);
    if (lead.following < 0) return false;
    std::uint32_t code = lead.bits;
    for (int k = 0; k < lead.following; ++k, ++i) {
      if (i == text.size() || (static_cast<unsigned char>(text[i]) & 0xc0U) != 0x80) return false;
      code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3fU);
    }
    if (code < lead.code_min || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  }
  return true;
}

}  // namespace diji::onnx
