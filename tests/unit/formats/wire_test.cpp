// The wire reader on what protobuf allows and on what it does not.
#include "formats/onnx/wire.h"

#include "tests/unit/formats/expect_error.h"
#include "tests/unit/formats/onnx_writer.h"

#include <optional>
#include <string>
#include <vector>

namespace diji::test {
namespace {

using onnx::Field;
using onnx::Fields;
using onnx::WireType;

// The first field; `text` must outlive it.
Result<std::optional<Field>> first_field(const std::string& text, std::int64_t base = 0) {
  return Fields(Reader(std::as_bytes(std::span(text)), "f", base)).next();
}

TEST_CASE("the four wire types are read with their offsets") {
  const std::string text = Message()
                               .integer(1, -1)
                               .tag(2, 1)
                               .number(2.5)
                               .text(3, "abc")
                               .real(4, 1.5F)
                               .integer(536870911, 7)
                               .text();
  Fields fields(Reader(std::as_bytes(std::span(text)), "f", 100));
  const Field integer = **fields.next();
  EXPECT(integer.number == 1);
  EXPECT(integer.offset == 100);
  EXPECT(*integer.integer("i") == -1);
  EXPECT(*integer.integer32("i") == -1);
  const Field fixed64 = **fields.next();
  EXPECT(fixed64.type == WireType::fixed64);
  EXPECT(std::bit_cast<double>(fixed64.bits) == 2.5);
  const Field bytes = **fields.next();
  EXPECT(*bytes.text("t", 10) == "abc");
  EXPECT(bytes.payload.offset() == bytes.offset + 2);
  EXPECT(*(**fields.next()).real("r") == 1.5F);
  EXPECT((**fields.next()).number == 536870911);
  EXPECT_FALSE(fields.next()->has_value());
  EXPECT_FALSE(fields.next()->has_value());
}

TEST_CASE("broken fields are malformed at their byte") {
  const auto refused = [](const std::string& text, std::string_view word, std::int64_t offset) {
    const auto field = first_field(text, 1000);
    expect_error(field, ErrorCode::malformed, {"f: byte", word});
    EXPECT(field.error().offset == offset);
    EXPECT(field.error().file == "f");
  };
  refused("\x0b", "wire type 3", 1000);
  refused("\x0c", "wire type 4", 1000);
  refused("\x0e", "wire type 6", 1000);
  refused("\x0f", "wire type 7", 1000);
  refused(std::string("\x00", 1), "0 is no field number", 1000);
  refused(Message().varint(std::uint64_t{1} << 32).text(), "no field number", 1000);
  refused("\x80", "cut off in the middle of an integer", 1000);
  refused(std::string(11, '\xff'), "more than 64 bits", 1000);
  refused("\x08", "cut off", 1001);
  refused("\x08\xff\xff", "cut off", 1001);
  refused(Message().tag(1, 1).raw("1234567").text(), "needs 8 bytes, 7 are left", 1001);
  refused(Message().tag(1, 5).raw("123").text(), "needs 4 bytes, 3 are left", 1001);
  refused(Message().tag(1, 2).varint(5).raw("1234").text(), "needs 5 bytes, 4 are left", 1002);
  for (const std::uint64_t length : {std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    refused(Message().tag(1, 2).varint(length).raw("1234").text(), "are left", 1011);
  }
}

TEST_CASE("the largest varint has ten bytes") {
  EXPECT((**first_field("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")).bits == ~std::uint64_t{0});
  expect_error(first_field("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), ErrorCode::malformed,
               {"more than 64"});
}

TEST_CASE("a wire type other than the schema's is refused by name") {
  const std::string integer = Message().integer(1, 5).text(), text = Message().text(1, "x").text();
  expect_error((**first_field(integer)).message("graph"), ErrorCode::malformed, {"graph", "varint", "bytes"});
  expect_error((**first_field(integer)).text("name", 9), ErrorCode::malformed, {"name", "varint"});
  expect_error((**first_field(integer)).real("f"), ErrorCode::malformed, {"varint", "fixed32"});
  expect_error((**first_field(text)).integer("i"), ErrorCode::malformed, {"bytes", "varint"});
  expect_error((**first_field(Message().integer(1, std::int64_t{1} << 32).text())).integer32("data_type"),
               ErrorCode::malformed, {"data_type", "4294967296", "int32"});
  EXPECT(*(**first_field(Message().integer(1, 0xfffffffe).text())).integer32("i") == -2);
}

Result<std::vector<std::uint64_t>> elements(const std::string& text, WireType type) {
  std::vector<std::uint64_t> result;
  const auto field = first_field(text);
  TRY((**field).each(type, "list", [&](std::uint64_t bits, std::int64_t) {
    result.push_back(bits);
    return Result<void>();
  }));
  return result;
}

TEST_CASE("repeated numbers are read packed and one by one") {
  using List = std::vector<std::uint64_t>;
  EXPECT(*elements(Message().integer(1, 300).text(), WireType::varint) == List{300});
  EXPECT(*elements(Message().text(1, Message().varint(1).varint(300).text()).text(), WireType::varint) ==
         List{1, 300});
  EXPECT(*elements(Message().text(1, bytes_of_values<std::uint32_t>({1, 2})).text(), WireType::fixed32) ==
         List{1, 2});
  EXPECT(*elements(Message().text(1, bytes_of_values<std::uint64_t>({9})).text(), WireType::fixed64) ==
         List{9});
  EXPECT(elements(Message().text(1, "").text(), WireType::varint)->empty());
  expect_error(elements(Message().text(1, "\x01\x80").text(), WireType::varint), ErrorCode::malformed,
               {"byte 3"});
  expect_error(elements(Message().text(1, "12345").text(), WireType::fixed32), ErrorCode::malformed,
               {"byte 6"});
  expect_error(elements(Message().integer(1, 5).text(), WireType::fixed32), ErrorCode::malformed, {"varint"});
}

TEST_CASE("names are UTF-8 without control characters, and short") {
  const auto name = [](std::string_view text) {
    const std::string bytes = Message().text(1, text).text();
    return (**first_field(bytes)).name("a name", 8).has_value();
  };
  EXPECT(name("Größe"));
  EXPECT(name("量"));
  EXPECT(name(""));
  EXPECT_FALSE(name("123456789"));
  EXPECT_FALSE(name("a\nb"));
  EXPECT_FALSE(name("\x1b[31m"));
  EXPECT_FALSE(name(std::string_view("a\0b", 3)));
  const std::string lines = Message().text(1, "a\nb").text();
  EXPECT(*(**first_field(lines)).text("a value", 8) == "a\nb");
}

TEST_CASE("UTF-8 is checked as RFC 3629 has it") {
  for (const char* good : {"", "a", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    CAPTURE(good);
    EXPECT(onnx::is_utf8(good));
  }
  // continuation first, overlong (2, 3, 4 bytes), surrogate, beyond U+10FFFF, cut off, bad continuation
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xff", "\xc3", "\xe2\x82", "\xc3(", "\xe2(\xa1"}) {
    EXPECT_FALSE(onnx::is_utf8(bad));
  }
}

}  // namespace
}  // namespace diji::test
