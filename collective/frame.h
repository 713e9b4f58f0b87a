// What goes over a stream socket: frames with a checked header. The layout is written down here and nowhere
// else.
#pragma once

#include "base/error.h"
#include "collective/transport.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace diji::collective {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4) of `bytes` that follow what `before` is the CRC of.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
/// The same by tables, on any processor: what crc32c falls back to.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// Little endian, 32 bytes: magic u32, version u16, kind u8, flags u8 (bit 0: the payload has a CRC),
/// sequence u32, payload bytes u32, signature u64, CRC of the payload u32, CRC of the 28 bytes before u32.
/// The payload follows, and zeros up to the next multiple of 32, so that payloads begin on such multiples
/// and are read where they arrived.
struct FrameHeader {
  enum class Kind : std::uint8_t { data, abort, goodbye, call };
  Kind kind = Kind::data;
  bool has_payload_crc = false;
  std::uint32_t bytes = 0;
  CallTag tag;
  std::uint32_t payload_crc = 0;

  static constexpr std::size_t kBytes = 32;
  static constexpr std::int64_t kAbortBytesMax = 1024;
  static constexpr std::int64_t kCallBytes = 32;
  using Wire = std::array<std::byte, kBytes>;
  Wire encode() const;
  /// Errors: corrupted, with the reason alone ("bad magic 0x…"); also where the payload would be longer than
  /// its kind allows, `data_bytes_max` for data.
  static Result<FrameHeader> decode(std::span<const std::byte, kBytes> wire, std::int64_t data_bytes_max);
  /// Errors: corrupted, likewise.
  Result<void> check_payload(std::span<const std::byte> payload) const;
};

/// Zeros after a payload of `bytes`.
constexpr std::size_t padding_of(std::size_t bytes) {
  return (FrameHeader::kBytes - bytes % FrameHeader::kBytes) % FrameHeader::kBytes;
}

/// The payload of an abort: code u32, guilty i32, reporter i32, sequence i32, then the sentence, cut to what
/// fits.
std::vector<std::byte> encode_abort(const Abort& abort);
/// Errors: corrupted.
Result<Abort> decode_abort(std::span<const std::byte> payload);

/// The payload of a call, whose sequence and signature are the header's: operation u8, reduction u8, type u8,
/// whether it has ended u8, root i32, rank that it waits for i32, 4 zeros, count i64, 8 zeros. A clock is a
/// host's own: times do not travel.
std::array<std::byte, FrameHeader::kCallBytes> encode_call(const CallRecord& call);
/// Errors: corrupted.
Result<CallRecord> decode_call(CallTag tag, std::span<const std::byte> payload);

}  // namespace diji::collective
