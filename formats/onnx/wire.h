// Protocol-buffers wire format over base/Reader: fields, lengths, varints and packed lists, and nothing of a
// schema.
#pragma once

#include "base/error.h"
#include "base/reader.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace diji::onnx {

/// Groups (3 and 4) are of proto1 and in no ONNX file: they are refused.
enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
std::string_view name_of(WireType type);

/// One field of a message. The accessors refuse a wire type that the schema does not have there; `what` names
/// the field in the error.
struct Field {
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::int64_t offset = 0;  ///< of its tag in the file
  std::uint64_t bits = 0;   ///< of a varint, fixed32 or fixed64
  Reader payload;           ///< of bytes

  Result<std::int64_t> integer(std::string_view what) const;
  /// Errors: outside int32, also in the short form that leaves out the upper bits of a negative value.
  Result<std::int32_t> integer32(std::string_view what) const;
  Result<float> real(std::string_view what) const;
  /// A message or bytes.
  Result<Reader> message(std::string_view what) const;
  /// UTF-8 of at most `bytes_max` bytes: it may end up in JSON.
  Result<std::string_view> text(std::string_view what, std::uint64_t bytes_max) const;
  /// The same without control characters: it ends up in sentences on a terminal.
  Result<std::string_view> name(std::string_view what, std::uint64_t bytes_max) const;

  /// A repeated number, packed or not: calls `visit(bits, offset) -> Result<void>` for each element.
  template <typename Visitor>
  Result<void> each(WireType element, std::string_view what, const Visitor& visit) const {
    if (type == element) return visit(bits, offset);
    Reader rest = TRY(message(what));
    while (!rest.at_end()) {
      const std::int64_t at = rest.offset();
      const std::uint64_t value = TRY(read_number(rest, element, what));
      TRY(visit(value, at));
    }
    return {};
  }

 private:
  static Result<std::uint64_t> read_number(Reader& reader, WireType type, std::string_view what);
  std::unexpected<Error> wrong_type(std::string_view what, WireType wanted) const;
};

/// The fields of a message, in the order of the file.
class Fields {
 public:
  explicit Fields(Reader message) : rest_(message) {}
  /// Nothing at the end of the message.
  Result<std::optional<Field>> next();

 private:
  Reader rest_;
};

/// As RFC 3629 has it: no surrogates, nothing longer than needed.
bool is_utf8(std::string_view text);

}  // namespace diji::onnx
