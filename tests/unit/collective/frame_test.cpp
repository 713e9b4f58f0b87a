// The wire's layout and its checks.
#include "collective/frame.h"

#include "collective/call.h"
#include "tests/unit/expect.h"

#include <cstring>
#include <string_view>

namespace diji::collective {
namespace {

TEST_CASE("CRC-32C of the vectors of RFC 3720, by either way") {
  std::vector<std::byte> zeros(32);
  std::vector<std::byte> ones(32, std::byte{0xff});
  std::vector<std::byte> up(32);
  std::vector<std::byte> down(32);
  for (std::size_t i = 0; i < 32; ++i) up[i] = down[31 - i] = static_cast<std::byte>(i);
  const std::string_view text = "123456789";
  const auto digits = std::as_bytes(std::span(text.data(), text.size()));
  for (const auto crc : {&crc32c, &crc32c_by_table}) {
    EXPECT(crc(zeros, 0) == 0x8a9136aa);
    EXPECT(crc(ones, 0) == 0x62a8ab43);
    EXPECT(crc(up, 0) == 0x46dd794e);
    EXPECT(crc(down, 0) == 0x113fdb5c);
    EXPECT(crc(digits, 0) == 0xe3069283);
    EXPECT(crc(digits.subspan(4), crc(digits.first(4), 0)) == 0xe3069283);
  }
}

TEST_CASE("the instruction and the tables agree at every length around a stretch") {
  std::vector<std::byte> bytes(20'000);
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
  for (std::size_t length = 0; length < bytes.size(); length += length < 100 ? 1 : 491) {
    const auto part = std::span(bytes).subspan(length % 7).first(length - length % 7 * (length > 6));
    EXPECT(crc32c(part, 5) == crc32c_by_table(part, 5));
  }
}

TEST_CASE("a header is what was encoded; any other byte in it is noticed; lengths are limited") {
  FrameHeader header;
  header.bytes = 1000;
  header.tag = {.signature = 0x0123456789abcdef, .sequence = 77};
  header.has_payload_crc = true;
  header.payload_crc = 5;
  FrameHeader::Wire wire = header.encode();
  const auto read = FrameHeader::decode(wire, 1000);
  REQUIRE(read.has_value());
  EXPECT(read->tag == header.tag);
  EXPECT(read->bytes == 1000);
  EXPECT(read->payload_crc == 5);
  EXPECT(FrameHeader::decode(wire, 999).error().code == ErrorCode::corrupted);
  for (std::byte& byte : wire) {
    byte ^= std::byte{0x10};
    EXPECT(!FrameHeader::decode(wire, 1000).has_value());
    byte ^= std::byte{0x10};
  }
}

TEST_CASE("an abort arrives as it was told; a cut one does not") {
  Abort abort{.reporter = 3};
  abort.error.code = ErrorCode::call_mismatch;
  abort.error.peer.rank = 2;
  abort.error.peer.sequence = 9;
  abort.error.message = std::string(5000, 'x');
  const std::vector<std::byte> bytes = encode_abort(abort);
  EXPECT(std::ssize(bytes) == FrameHeader::kAbortBytesMax);
  const auto read = decode_abort(bytes);
  REQUIRE(read.has_value());
  EXPECT(read->reporter == 3);
  EXPECT(read->error.code == ErrorCode::call_mismatch);
  EXPECT(read->error.peer.rank == 2);
  EXPECT(read->error.peer.sequence == 9);
  EXPECT(read->error.message.size() == 1008);
  EXPECT(!decode_abort(std::span(bytes).first(15)).has_value());
}

TEST_CASE("a call arrives as it was told; one of another length or without meaning does not") {
  const CallRecord call{.sequence = 7,
                        .operation = Operation::reduce,
                        .reduction = Reduction::max,
                        .type = ElementType::bf16,
                        .root = 3,
                        .count = std::int64_t{1} << 40,
                        .signature = 99,
                        .end_us = 12345,
                        .waits_for = 2};
  auto bytes = encode_call(call);
  const auto read = decode_call({.signature = 99, .sequence = 7}, bytes);
  REQUIRE(read.has_value());
  EXPECT(text_of(*read) == text_of(call));
  EXPECT(read->sequence == 7);
  EXPECT(read->signature == 99);
  EXPECT(read->waits_for == 2);
  EXPECT(read->end_us != 0);
  EXPECT(!decode_call({}, std::span(bytes).first(31)).has_value());
  for (std::size_t i = 0; i < 3; ++i) {
    auto absurd = bytes;
    absurd[i] = std::byte{0xff};
    EXPECT(!decode_call({}, absurd).has_value());
  }
}

}  // namespace
}  // namespace diji::collective
