// Numbers to bytes and back, and the two ways to a CRC.
#include "collective/frame.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace diji::collective {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little endian; swap here otherwise");

constexpr std::uint32_t kMagic = 0x66696a64;  // "djif" where the low byte comes first
constexpr std::uint16_t kVersion = 1;
constexpr std::uint8_t kHasPayloadCrc = 1;
constexpr std::size_t kCrcAt = FrameHeader::kBytes - 4;
constexpr std::uint32_t kCodeMax = static_cast<std::uint32_t>(ErrorCode::aborted);

template <typename T>
void store(std::span<std::byte> to, std::size_t at, T value) {
  std::memcpy(to.data() + at, &value, sizeof value);
}
template <typename T>
T load(std::span<const std::byte> from, std::size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

// Table k: the CRC of a byte with k zero bytes behind it (Kounavis and Berry 2005, slicing by 8).
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;
constexpr Tables make_tables() {
  constexpr std::uint32_t kPolynomial = 0x82f63b78;  // 0x1edc6f41 with its bits turned round
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 255];
  }
  return tables;
}
constexpr Tables kTables = make_tables();

#if defined(__x86_64__)
// The instruction takes three cycles and one can begin in each: three stretches at a time, whose CRCs are
// joined by moving the earlier ones over kStretch zero bytes (a linear map, by tables as above).
constexpr std::size_t kStretch = 1024;

constexpr std::array<std::array<std::uint32_t, 256>, 4> make_shift(std::size_t zeros) {
  std::array<std::array<std::uint32_t, 256>, 4> shift{};
  for (std::size_t k = 0; k < 4; ++k) {
    for (std::size_t bit = 1; bit < 256; bit *= 2) {
      std::uint32_t crc = static_cast<std::uint32_t>(bit) << (8 * k);
      for (std::size_t i = 0; i < zeros; ++i) crc = (crc >> 8) ^ kTables[0][crc & 255];
      for (std::size_t other = 0; other < bit; ++other) shift[k][bit + other] = shift[k][other] ^ crc;
    }
  }
  return shift;
}
constexpr auto kOver = make_shift(kStretch);

std::uint32_t over_stretch(std::uint64_t crc) {
  return kOver[0][crc & 255] ^ kOver[1][crc >> 8 & 255] ^ kOver[2][crc >> 16 & 255] ^
         kOver[3][crc >> 24 & 255];
}

__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(std::span<const std::byte> bytes,
                                                                      std::uint32_t before) {
  std::uint64_t crc = ~before;
  while (bytes.size() >= 3 * kStretch) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < kStretch; i += 8) {
      crc = _mm_crc32_u64(crc, load<std::uint64_t>(bytes, i));
      second = _mm_crc32_u64(second, load<std::uint64_t>(bytes, kStretch + i));
      third = _mm_crc32_u64(third, load<std::uint64_t>(bytes, 2 * kStretch + i));
    }
    crc = over_stretch(over_stretch(crc) ^ second) ^ third;
    bytes = bytes.subspan(3 * kStretch);
  }
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) crc = _mm_crc32_u64(crc, load<std::uint64_t>(bytes, 0));
  for (const std::byte byte : bytes)
    crc = _mm_crc32_u8(static_cast<std::uint32_t>(crc), static_cast<std::uint8_t>(byte));
  return ~static_cast<std::uint32_t>(crc);
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const std::uint64_t word = load<std::uint64_t>(bytes, 0) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][word >> (8 * k) & 255];
  }
  for (const std::byte byte : bytes)
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint8_t>(byte)) & 255];
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_by_instruction(bytes, before);
#endif
  return crc32c_by_table(bytes, before);
}

FrameHeader::Wire FrameHeader::encode() const {
  Wire wire{};
  store(wire, 0, kMagic);
  store(wire, 4, kVersion);
  store(wire, 6, kind);
  store(wire, 7, has_payload_crc ? kHasPayloadCrc : std::uint8_t{0});
  store(wire, 8, tag.sequence);
  store(wire, 12, bytes);
  store(wire, 16, tag.signature);
  store(wire, 24, payload_crc);
  store(wire, kCrcAt, crc32c(std::span(wire).first(kCrcAt)));
  return wire;
}

Result<FrameHeader> FrameHeader::decode(std::span<const std::byte, kBytes> wire,
                                        std::int64_t data_bytes_max) {
  if (load<std::uint32_t>(wire, 0) != kMagic)
    return fail(ErrorCode::corrupted, "bad magic {:#010x}", load<std::uint32_t>(wire, 0));
  const std::uint32_t crc = crc32c(wire.first(kCrcAt));
  if (load<std::uint32_t>(wire, kCrcAt) != crc) {
    return fail(ErrorCode::corrupted, "a header with CRC {:#010x} says {:#010x}", crc,
                load<std::uint32_t>(wire, kCrcAt));
  }
  if (load<std::uint16_t>(wire, 4) != kVersion) {
    return fail(ErrorCode::corrupted, "frames of version {}, this is {}", load<std::uint16_t>(wire, 4),
                kVersion);
  }
  const auto kind = load<std::uint8_t>(wire, 6);
  if (kind > static_cast<std::uint8_t>(Kind::call))
    return fail(ErrorCode::corrupted, "a frame of kind {}", kind);
  FrameHeader header;
  header.kind = static_cast<Kind>(kind);
  header.has_payload_crc = (load<std::uint8_t>(wire, 7) & kHasPayloadCrc) != 0;
  header.tag = {load<std::uint64_t>(wire, 16), load<std::uint32_t>(wire, 8)};
  header.bytes = load<std::uint32_t>(wire, 12);
  header.payload_crc = load<std::uint32_t>(wire, 24);
  const std::int64_t most = header.kind == Kind::data ? data_bytes_max : kAbortBytesMax;
  if (header.bytes > most)
    return fail(ErrorCode::corrupted, "a frame of {} bytes, of at most {}", header.bytes, most);
  return header;
}

Result<void> FrameHeader::check_payload(std::span<const std::byte> payload) const {
  if (!has_payload_crc) return {};
  const std::uint32_t crc = crc32c(payload);
  if (crc == payload_crc) return {};
  return fail(ErrorCode::corrupted, "{} bytes with CRC {:#010x} were sent with {:#010x}", payload.size(), crc,
              payload_crc);
}

constexpr std::size_t kAbortHead = 16;

std::vector<std::byte> encode_abort(const Abort& abort) {
  const std::size_t length =
      std::min(abort.error.message.size(), std::size_t{FrameHeader::kAbortBytesMax} - kAbortHead);
  std::vector<std::byte> bytes(kAbortHead + length);
  store(std::span(bytes), 0, static_cast<std::uint32_t>(abort.error.code));
  store(std::span(bytes), 4, static_cast<std::int32_t>(abort.error.peer.rank));
  store(std::span(bytes), 8, static_cast<std::int32_t>(abort.reporter));
  store(std::span(bytes), 12, static_cast<std::int32_t>(abort.error.peer.sequence));
  std::memcpy(bytes.data() + kAbortHead, abort.error.message.data(), length);
  return bytes;
}

Result<Abort> decode_abort(std::span<const std::byte> payload) {
  if (payload.size() < kAbortHead) return fail(ErrorCode::corrupted, "an abort of {} bytes", payload.size());
  const auto code = load<std::uint32_t>(payload, 0);
  if (code > kCodeMax) return fail(ErrorCode::corrupted, "an abort with error code {}", code);
  Abort abort{.reporter = load<std::int32_t>(payload, 8)};
  abort.error.code = static_cast<ErrorCode>(code);
  abort.error.peer.rank = load<std::int32_t>(payload, 4);
  abort.error.peer.sequence = load<std::int32_t>(payload, 12);
  abort.error.message.assign(reinterpret_cast<const char*>(payload.data()) + kAbortHead,
                             payload.size() - kAbortHead);
  return abort;
}

std::array<std::byte, FrameHeader::kCallBytes> encode_call(const CallRecord& call) {
  std::array<std::byte, FrameHeader::kCallBytes> bytes{};
  store(std::span(bytes), 0, call.operation);
  store(std::span(bytes), 1, call.reduction);
  store(std::span(bytes), 2, call.type);
  store(std::span(bytes), 3, static_cast<std::uint8_t>(call.end_us != 0));
  store(std::span(bytes), 4, call.root);
  store(std::span(bytes), 8, call.waits_for);
  store(std::span(bytes), 16, call.count);
  return bytes;
}

Result<CallRecord> decode_call(CallTag tag, std::span<const std::byte> payload) {
  if (std::ssize(payload) != FrameHeader::kCallBytes)
    return fail(ErrorCode::corrupted, "a call of {} bytes", payload.size());
  const auto operation = load<std::uint8_t>(payload, 0);
  const auto reduction = load<std::uint8_t>(payload, 1);
  const auto type = load<std::uint8_t>(payload, 2);
  if (operation >= kOperationCount || reduction >= kReductionCount || type >= kElementTypeCount) {
    return fail(ErrorCode::corrupted, "a call of operation {}, reduction {}, type {}", operation, reduction,
                type);
  }
  return CallRecord{.sequence = tag.sequence,
                    .operation = static_cast<Operation>(operation),
                    .reduction = static_cast<Reduction>(reduction),
                    .type = static_cast<ElementType>(type),
                    .root = load<std::int32_t>(payload, 4),
                    .count = load<std::int64_t>(payload, 16),
                    .signature = tag.signature,
                    .end_us = load<std::uint8_t>(payload, 3),
                    .waits_for = load<std::int32_t>(payload, 8)};
}

}  // namespace diji::collective
