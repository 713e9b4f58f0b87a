// libFuzzer target: any bytes from a peer give frames within their limits, or an error that says why; with a
// first byte that is odd, under checksums that fit.
#include "base/check.h"
#include "collective/tcp_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using diji::collective::FrameHeader;

constexpr std::int64_t kFragmentBytes = 4096;
constexpr std::size_t kHeader = FrameHeader::kBytes;

std::size_t whole(std::uint32_t payload) { return kHeader + payload + diji::collective::padding_of(payload); }

// Magic, version and both checksums of each frame, so that mutations get past them.
void repair(std::span<std::byte> stream) {
  while (stream.size() >= kHeader) {
    const auto good = FrameHeader{}.encode();
    std::copy_n(good.begin(), 6, stream.begin());
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, stream.data() + 12, sizeof bytes);
    const std::size_t all = std::min<std::size_t>(whole(bytes), stream.size());
    const std::uint32_t payload_crc =
        diji::collective::crc32c(stream.subspan(kHeader, std::min<std::size_t>(bytes, all - kHeader)));
    std::memcpy(stream.data() + 24, &payload_crc, sizeof payload_crc);
    const std::uint32_t crc = diji::collective::crc32c(stream.first(kHeader - 4));
    std::memcpy(stream.data() + kHeader - 4, &crc, sizeof crc);
    stream = stream.subspan(all);
  }
}

// What the link must hand on: data frames up to the first that is wrong, read a second way.
std::vector<std::span<const std::byte>> payloads_of(std::span<const std::byte> stream) {
  std::vector<std::span<const std::byte>> payloads;
  while (stream.size() >= kHeader) {
    const auto header = FrameHeader::decode(stream.first<kHeader>(), kFragmentBytes);
    if (!header) {
      CHECK(!header.error().message.empty(), "a refusal says why");
      break;
    }
    const auto again = FrameHeader::decode(header->encode(), kFragmentBytes);
    CHECK(again && again->tag == header->tag && again->bytes == header->bytes && again->kind == header->kind,
          "a header survives the round trip");
    if (stream.size() < whole(header->bytes)) break;
    const auto payload = stream.subspan(kHeader, header->bytes);
    if (!header->check_payload(payload)) break;
    if (header->kind == FrameHeader::Kind::abort && !diji::collective::decode_abort(payload)) break;
    if (header->kind == FrameHeader::Kind::call) {
      const auto call = diji::collective::decode_call(header->tag, payload);
      if (!call) break;
      const auto encoded = diji::collective::encode_call(*call);
      const auto call_again = diji::collective::decode_call(header->tag, encoded);
      CHECK(call_again && call_again->count == call->count && call_again->operation == call->operation,
            "a call survives the round trip");
    }
    if (header->kind == FrameHeader::Kind::data) payloads.push_back(payload);
    stream = stream.subspan(whole(header->bytes));
  }
  return payloads;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto given = std::as_bytes(std::span(data, size)).subspan(1);
  std::vector<std::byte> stream(given.begin(), given.end());
  if (data[0] % 2 == 1) repair(stream);
  const auto expected = payloads_of(stream);

  int ends[2] = {-1, -1};
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "a socket pair");
  const auto link =
      diji::collective::TcpLink::create(diji::collective::socket_stream(ends[0]), 1, "rank 1", kFragmentBytes)
          .value();
  std::size_t got = 0;
  // In two writes, so that frames are cut at any place.
  const std::size_t first = std::min<std::size_t>(data[0] * std::size_t{37}, stream.size());
  for (const auto part : {std::span(stream).first(first), std::span(stream).subspan(first)}) {
    CHECK(write(ends[1], part.data(), part.size()) == std::ssize(part), "the socket takes a small stream");
    link->fill();
    for (auto message = link->front(); message; message = link->front()) {
      CHECK(got < expected.size(), "no message but those that were sent");
      CHECK(std::ranges::equal(message->bytes, expected[got]), "as they were sent");
      ++got;
      link->pop();
    }
  }
  close(ends[1]);
  link->fill();
  CHECK(got == expected.size(), "all messages before the first fault");
  CHECK(link->has_ended() || link->failure(), "the link knows that nothing more comes");
  CHECK(!link->failure() || !link->failure()->message.empty(), "and why");
  return 0;
}
