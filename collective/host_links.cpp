// hello (who is called): magic, nonce. call: magic, nonce, proof, then what the proof covers: job u64, from
// u32, to u32. answer: proof of the same. All of fixed length, so nothing is believed before it is proved.
#include "collective/host_links.h"

#include "collective/clock.h"
#include "collective/socket_address.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

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

std::optional<Socket> call(const LinkOptions& options, int to, const std::string& address) {
  const std::int64_t until_us = options.deadline_us;
  const auto connected = connect_to(address, std::min(until_us, now_us() + kTalkUs));
  if (!connected || *connected < 0) return std::nullopt;
  Socket socket(*connected);
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

std::unexpected<Error> missing(const LinkOptions& options, std::span<const std::string> addresses,
                               const std::vector<Socket>& links) {
  std::vector<int> ranks;
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    if (addresses[rank].empty() || links[rank].descriptor() >= 0) continue;
    ranks.push_back(static_cast<int>(rank));
    names.push_back(fmt::format("{} at {}", rank, addresses[rank]));
  }
  auto error = fail(ErrorCode::deadline,
                    "start-up: rank {} has no link to rank {} (an interface that leads there: "
                    "DIJI_SOCKET_IFNAME)",
                    options.rank, fmt::join(names, ", "));
  error.error().peer.rank = ranks.empty() ? -1 : ranks[0];
  error.error().peer.missing = std::move(ranks);
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

// Higher ranks are called first, the highest of which has nobody to call and answers at once; so the calls of
// rank after rank end, whoever waits for whom.
Result<std::vector<int>> connect_links(const LinkOptions& options, const LinkListener& listener,
                                       std::span<const std::string> addresses) {
  std::vector<Socket> links;
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) links.emplace_back(-1);
  int to_answer = 0;
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    if (addresses[rank].empty()) continue;
    if (static_cast<int>(rank) < options.rank) ++to_answer;
    if (static_cast<int>(rank) <= options.rank) continue;
    while (true) {
      if (auto socket = call(options, static_cast<int>(rank), addresses[rank])) {
        links[rank] = std::move(*socket);
        break;
      }
      if (now_us() >= options.deadline_us) return missing(options, addresses, links);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  while (to_answer > 0) {
    if (now_us() >= options.deadline_us) return missing(options, addresses, links);
    pollfd ready{listener.socket.descriptor(), POLLIN, 0};
    if (poll(&ready, 1, 20) <= 0) continue;
    auto caller = answer(options, listener.socket.descriptor());
    if (!caller) continue;
    const auto& [from, socket] = *caller;
    if (from < 0 || from >= options.rank || addresses[static_cast<std::size_t>(from)].empty()) continue;
    // One that calls again did not hear the answer to its first call.
    if (links[static_cast<std::size_t>(from)].descriptor() < 0) --to_answer;
    links[static_cast<std::size_t>(from)] = std::move(caller->second);
  }
  std::vector<int> sockets;
  for (Socket& link : links) sockets.push_back(link.release());
  return sockets;
}

}  // namespace diji::collective
