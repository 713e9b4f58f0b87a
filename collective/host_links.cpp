// hello (who is called): magic, nonce. call: magic, nonce, proof, then what the proof covers: job u64, from
// u32, to u32. answer: proof of the same. All of fixed length, so nothing is believed before it is proved.
#include "collective/host_links.h"

#include "collective/clock.h"
#include "collective/socket_address.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace diji::collective {
namespace {

constexpr std::string_view kMagic = "dijilink";
constexpr std::size_t kHelloBytes = kMagic.size() + kNonceBytes;
constexpr std::size_t kCoveredBytes = 16;
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

Bytes covered_by(const LinkOptions& options, int from, int to) {
  Bytes covered;
  put_number(covered, options.id, 8);
  put_number(covered, static_cast<std::uint64_t>(from), 4);
  put_number(covered, static_cast<std::uint64_t>(to), 4);
  return covered;
}

// The rest of a call whose other side has something to say; nothing where that is no answer.
std::optional<Socket> take_up(const LinkOptions& options, int to, Socket socket) {
  const std::int64_t until_us = std::min(options.deadline_us, now_us() + kTalkUs);
  Bytes hello;
  if (!receive_all(socket.descriptor(), hello, kHelloBytes, until_us) || !has_magic(hello))
    return std::nullopt;
  Bytes nonces = slice(hello, kMagic.size(), kNonceBytes);
  const Bytes own = random_bytes(kNonceBytes);
  nonces.insert(nonces.end(), own.begin(), own.end());
  const Bytes covered = covered_by(options, options.rank, to);
  Bytes message;
  put(message, kMagic);
  message.insert(message.end(), own.begin(), own.end());
  const Digest digest = proof(options.token, "link caller", nonces, covered);
  message.insert(message.end(), digest.begin(), digest.end());
  message.insert(message.end(), covered.begin(), covered.end());
  Bytes answer;
  if (!send_all(socket.descriptor(), message, until_us) ||
      !receive_all(socket.descriptor(), answer, sizeof(Digest), until_us) ||
      !is_proof(answer, 0, proof(options.token, "link called", nonces, covered))) {
    return std::nullopt;
  }
  return socket;
}

// The rank that called; nothing where a stranger did.
std::optional<std::pair<int, Socket>> answer(const LinkOptions& options, int listener) {
  Socket socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.descriptor() < 0) return std::nullopt;
  const std::int64_t until_us = std::min(options.deadline_us, now_us() + kTalkUs);
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
  const auto from = static_cast<int>(number_at(covered, 8, 4));
  if (!is_proof(said, kHelloBytes, proof(options.token, "link caller", nonces, covered)) ||
      covered != covered_by(options, from, options.rank)) {
    return std::nullopt;
  }
  const Digest digest = proof(options.token, "link called", nonces, covered);
  if (!send_all(socket.descriptor(), Bytes(digest.begin(), digest.end()), until_us)) return std::nullopt;
  return std::pair(from, std::move(socket));
}

// Ranks with an address and no link.
std::vector<int> missing(std::span<const std::string> addresses, const std::vector<Socket>& links) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    if (!addresses[rank].empty() && links[rank].descriptor() < 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

Error not_linked(const LinkOptions& options, std::span<const std::string> addresses, std::vector<int> ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks)
    names.push_back(fmt::format("{} at {}", rank, addresses[static_cast<std::size_t>(rank)]));
  Error error;
  error.code = ErrorCode::deadline;
  error.message = fmt::format(
      "start-up: rank {} has no link to rank {} (an interface that leads there: DIJI_SOCKET_IFNAME)",
      options.rank, fmt::join(names, ", "));
  error.peer.rank = ranks[0];
  error.peer.missing = std::move(ranks);
  return error;
}

}  // namespace

Result<LinkListener> listen_for_links(const std::string& rendezvous, const std::string& interface,
                                      bool has_token) {
  const std::string own =
      TRY(interface.empty() ? own_address_towards(rendezvous) : address_of_interface(interface));
  if (!has_token && !TRY(is_loopback(own))) {
    return fail(ErrorCode::usage,
                "{} can be reached from other hosts: a job there needs a token (DIJI_TOKEN_FILE)", own);
  }
  LinkListener listener;
  listener.socket = Socket(TRY(listen_at(own)));
  listener.address = own_address_of(listener.socket.descriptor());
  return listener;
}

// All higher ranks are called at once, and whoever of all these and of the callers speaks is heard: a rank
// that is silent holds up nobody. Whoever hears another waits for him; waits go from higher ranks to lower
// ones, so never in a circle.
HostLinks connect_links(const LinkOptions& options, const LinkListener& listener,
                        std::span<const std::string> addresses) {
  constexpr std::int64_t kConnectUs = 200'000;
  constexpr int kPauseMs = 10;
  std::vector<Socket> links;
  std::vector<Socket> calls;
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    links.emplace_back(-1);
    calls.emplace_back(-1);
  }
  std::vector<int> left;
  while (!(left = missing(addresses, links)).empty() && now_us() < options.deadline_us) {
    std::vector<pollfd> ready{{listener.socket.descriptor(), POLLIN, 0}};
    for (const int rank : left) {
      const auto at = static_cast<std::size_t>(rank);
      if (rank > options.rank && calls[at].descriptor() < 0) {
        const auto until_us = std::min(options.deadline_us, now_us() + kConnectUs);
        calls[at] = Socket(connect_to(addresses[at], until_us).value_or(-1));
      }
      ready.push_back({calls[at].descriptor(), POLLIN, 0});
    }
    if (poll(ready.data(), ready.size(), kPauseMs) <= 0) continue;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const auto at = static_cast<std::size_t>(left[i]);
      if (ready[i + 1].revents == 0) continue;
      if (auto socket = take_up(options, left[i], std::exchange(calls[at], Socket(-1))))
        links[at] = std::move(*socket);
    }
    if (ready[0].revents == 0) continue;
    auto caller = answer(options, listener.socket.descriptor());
    if (!caller || caller->first < 0 || caller->first >= options.rank) continue;
    const auto from = static_cast<std::size_t>(caller->first);
    // One that calls again did not hear the answer to its first call.
    if (!addresses[from].empty()) links[from] = std::move(caller->second);
  }
  HostLinks linked;
  if (!left.empty()) linked.failure = not_linked(options, addresses, std::move(left));
  for (Socket& link : links) linked.sockets.push_back(link.release());
  return linked;
}

}  // namespace diji::collective
