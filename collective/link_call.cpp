// hello (who is called): magic, nonce. call: magic, nonce, proof, then what the proof covers: id u64, from
// u32, to u32, lane u32. answer: proof of the same. All of fixed length, so nothing is believed before it is
// proved.
#include "collective/link_call.h"

#include "collective/clock.h"

#include <sys/socket.h>

#include <algorithm>
#include <string_view>

namespace diji::collective {
namespace {

constexpr std::string_view kMagic = "dijilink";
constexpr std::size_t kHelloBytes = kMagic.size() + kNonceBytes;
constexpr std::size_t kCoveredBytes = 20;
constexpr std::size_t kCallBytes = kHelloBytes + sizeof(Digest) + kCoveredBytes;
constexpr std::int64_t kTalkUs = 2'000'000;  // whoever calls has nothing else to do

Bytes slice(const Bytes& bytes, std::size_t at, std::size_t count) {
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

bool is_proof(const Bytes& said, std::size_t at, const Digest& wanted) {
  Digest digest;
  std::copy_n(said.begin() + static_cast<std::ptrdiff_t>(at), digest.size(), digest.begin());
  return equal_digests(digest, wanted);
}

bool has_magic(const Bytes& said) { return std::equal(kMagic.begin(), kMagic.end(), said.begin()); }

Bytes covered_by(const LinkCall& call) {
  Bytes covered;
  put_number(covered, call.id, 8);
  for (const int number : {call.from, call.to, call.lane})
    put_number(covered, static_cast<std::uint64_t>(number), 4);
  return covered;
}

}  // namespace

std::optional<Socket> take_up(const LinkCall& call, const std::string& token, Socket socket,
                              std::int64_t deadline_us) {
  const std::int64_t until_us = std::min(deadline_us, now_us() + kTalkUs);
  Bytes hello;
  if (!receive_all(socket.descriptor(), hello, kHelloBytes, until_us) || !has_magic(hello))
    return std::nullopt;
  Bytes nonces = slice(hello, kMagic.size(), kNonceBytes);
  const Bytes own = random_bytes(kNonceBytes);
  nonces.insert(nonces.end(), own.begin(), own.end());
  const Bytes covered = covered_by(call);
  Bytes message;
  put(message, kMagic);
  message.insert(message.end(), own.begin(), own.end());
  const Digest digest = proof(token, "link caller", nonces, covered);
  message.insert(message.end(), digest.begin(), digest.end());
  message.insert(message.end(), covered.begin(), covered.end());
  Bytes answer;
  if (!send_all(socket.descriptor(), message, until_us) ||
      !receive_all(socket.descriptor(), answer, sizeof(Digest), until_us) ||
      !is_proof(answer, 0, proof(token, "link called", nonces, covered))) {
    return std::nullopt;
  }
  return socket;
}

std::optional<std::pair<LinkCall, Socket>> answer(int listener, std::uint64_t id, int to,
                                                  const std::string& token, std::int64_t deadline_us) {
  Socket socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.descriptor() < 0) return std::nullopt;
  const std::int64_t until_us = std::min(deadline_us, now_us() + kTalkUs);
  Bytes nonces = random_bytes(kNonceBytes);
  Bytes hello;
  put(hello, kMagic);
  hello.insert(hello.end(), nonces.begin(), nonces.end());
  Bytes said;
  if (!send_all(socket.descriptor(), hello, until_us) ||
      !receive_all(socket.descriptor(), said, kCallBytes, until_us) || !has_magic(said)) {
    return std::nullopt;
  }
  const Bytes theirs = slice(said, kMagic.size(), kNonceBytes);
  nonces.insert(nonces.end(), theirs.begin(), theirs.end());
  const Bytes covered = slice(said, kCallBytes - kCoveredBytes, kCoveredBytes);
  const LinkCall call{.id = id,
                      .from = static_cast<int>(number_at(covered, 8, 4)),
                      .to = to,
                      .lane = static_cast<int>(number_at(covered, 16, 4))};
  if (!is_proof(said, kHelloBytes, proof(token, "link caller", nonces, covered)) ||
      covered != covered_by(call)) {
    return std::nullopt;
  }
  const Digest digest = proof(token, "link called", nonces, covered);
  if (!send_all(socket.descriptor(), Bytes(digest.begin(), digest.end()), until_us)) return std::nullopt;
  return std::pair(call, std::move(socket));
}

}  // namespace diji::collective
