// Reader: never past the end, varints to the last bit, and errors that name the byte.
#include "base/reader.h"

#include "tests/unit/expect.h"

#include <limits>
#include <vector>

namespace diji {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST_CASE("numbers are little endian and in order") {
  const auto bytes = bytes_of({1, 0x34, 0x12, 0, 0, 0x80, 0x3f, 0xff});
  Reader reader(bytes, "a.bin");
  EXPECT(reader.number<std::uint8_t>("flag") == 1);
  EXPECT(reader.number<std::uint16_t>("size") == 0x1234);
  EXPECT(reader.number<float>("scale") == 1.0F);
  EXPECT(reader.offset() == 7);
  EXPECT(reader.remaining() == 1);
  EXPECT(reader.number<std::int8_t>("bias") == -1);
  EXPECT(reader.at_end());
}

TEST_CASE("reading past the end is an error that names file, byte and sizes, and moves nothing") {
  const auto bytes = bytes_of({1, 2, 3});
  Reader reader(bytes, "a.bin", 100);
  REQUIRE(reader.take(1, "header"));
  for (const std::uint64_t count : {std::uint64_t{3}, std::numeric_limits<std::uint64_t>::max()}) {
    const auto taken = reader.take(count, "data");
    REQUIRE_FALSE(taken);
    EXPECT(taken.error().code == ErrorCode::malformed);
    EXPECT(taken.error().file == "a.bin");
    EXPECT(taken.error().offset == 101);
    EXPECT(taken.error().message ==
           fmt::format("a.bin: byte 101: data needs {} bytes, 2 are left: the file is cut "
                       "off or its lengths are wrong",
                       count));
  }
  EXPECT_FALSE(reader.number<std::uint32_t>("number"));
  EXPECT_FALSE(reader.text(3, "name"));
  EXPECT_FALSE(reader.part(3, "part"));
  EXPECT(reader.offset() == 101);
  EXPECT(reader.text(2, "name") == "\x02\x03");
  EXPECT(reader.take(0, "nothing").value().empty());
  EXPECT_FALSE(reader.number<std::uint8_t>("end"));
}

TEST_CASE("a part is skipped, ends where it should and reports the file's offsets") {
  const auto bytes = bytes_of({9, 1, 2, 3, 7});
  Reader reader(bytes, "a.bin");
  REQUIRE(reader.take(1, "tag"));
  auto part = reader.part(3, "message");
  REQUIRE(part);
  EXPECT(part->offset() == 1);
  REQUIRE(part->take(3, "body"));
  EXPECT(part->at_end());
  EXPECT(part->number<std::uint8_t>("more").error().offset == 4);
  EXPECT(reader.number<std::uint8_t>("tail") == 7);
}

TEST_CASE("varints: one to ten bytes, cut off, too long") {
  const auto varint = [](std::initializer_list<int> values) {
    const auto bytes = bytes_of(values);
    return Reader(bytes, "a.bin", 50).varint("key");
  };
  EXPECT(varint({0}) == 0);
  EXPECT(varint({0x7f}) == 127);
  EXPECT(varint({0x80, 1}) == 128);
  EXPECT(varint({0xac, 2, 0xff}) == 300);
  EXPECT(varint({0x80, 0x80, 0}) == 0);  // longer than needed, and allowed
  EXPECT(varint({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}) ==
         std::numeric_limits<std::uint64_t>::max());
  EXPECT(varint({0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}) == std::uint64_t{1} << 63);
  for (const auto& result : {varint({}), varint({0x80}), varint({0xff, 0xff})}) {
    REQUIRE_FALSE(result);
    EXPECT(result.error().message == "a.bin: byte 50: key is cut off in the middle of an integer");
  }
  for (const auto& result : {varint({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}),
                             varint({0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}),
                             varint({0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x81, 0})}) {
    REQUIRE_FALSE(result);
    EXPECT(result.error().message == "a.bin: byte 50: key is an integer of more than 64 bits");
    EXPECT(result.error().offset == 50);
  }
}

TEST_CASE("an error made by a format's reader names the current byte") {
  const auto bytes = bytes_of({1, 2});
  Reader reader(bytes, "m.onnx");
  REQUIRE(reader.take(1, "x"));
  EXPECT(reader.malformed("version {} is not known", 9).error().message ==
         "m.onnx: byte 1: version 9 is not known");
}

}  // namespace
}  // namespace diji
