// Rank 0's listening loop and the callers' side. All numbers little endian.
#include "collective/rendezvous.h"

#include "base/log.h"
#include "base/reader.h"
#include "collective/clock.h"
#include "collective/handshake.h"
#include "collective/socket_address.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

namespace diji::collective {
namespace {

constexpr std::string_view kMagic = "dijimeet";
constexpr std::size_t kVersionBytes = 24;
constexpr std::size_t kWordsMax = 64 << 10;
constexpr std::size_t kAnswerMax = std::size_t{1} << 26;
constexpr std::int64_t kTalkUs = 5'000'000;  // a caller that has not said all by then is dropped

std::string version_field() {
  std::string version = DIJI_VERSION;
  version.resize(kVersionBytes);
  return version;
}
// hello (server): magic, version, nonce. call (client): magic, version, nonce, proof, then what the proof
// covers: rank u32, world u32, length u32; and the words. answer (server): proof, length u32, then status u8,
// id u64 and either each rank's words (length u32 before each) or a sentence.
constexpr std::size_t kHelloBytes = kMagic.size() + kVersionBytes + kNonceBytes;
constexpr std::size_t kCallHead = kHelloBytes + sizeof(Digest) + 12;
constexpr std::size_t kAnswerHead = sizeof(Digest) + 4;
enum Status : std::uint8_t { kWelcome, kUsage, kVersion, kDeadline };

ErrorCode code_of(Status status) {
  return status == kVersion    ? ErrorCode::no_device
         : status == kDeadline ? ErrorCode::deadline
                               : ErrorCode::usage;
}

std::int64_t deadline_of(const RendezvousOptions& options) {
  return options.deadline_us > 0 ? options.deadline_us : now_us() + options.timeout_us;
}

class Host {
 public:
  Host(const RendezvousOptions& options, const std::string& words)
      : options_(options), words_(static_cast<std::size_t>(options.world)), callers_(words_.size()) {
    words_[0] = words;
    arrived_ = 1;
  }

  Result<Introduction> meet() {
    deadline_us_ = deadline_of(options_);
    const Socket listener(TRY(listen_at(options_.address)));
    while (arrived_ < options_.world && failure_.empty()) {
      if (now_us() >= deadline_us_) {
        fail_all(kDeadline, missing_ranks());
        break;
      }
      look(listener.descriptor());
    }
    Introduction introduction;
    const Bytes id = random_bytes(8);
    introduction.id = number_at(id, 0, 8);
    introduction.words = words_;
    answer_all(introduction);
    if (!failure_.empty()) return std::unexpected(error());
    return introduction;
  }

 private:
  struct Caller {
    Socket socket{-1};
    Bytes nonce;  ///< ours, then the caller's
    Bytes heard;
    std::int64_t until_us = 0;
  };

  std::string missing_ranks() const {
    std::vector<int> missing;
    for (int rank = 1; rank < options_.world; ++rank) {
      if (!callers_[static_cast<std::size_t>(rank)]) missing.push_back(rank);
    }
    return fmt::format("{} {} never arrived at {} within {} s", missing.size() == 1 ? "rank" : "ranks",
                       fmt::join(missing, ", "), options_.address, options_.timeout_us / 1'000'000);
  }
  Error error() const {
    Error error = fail(code_of(status_), "start-up of {} ranks: {}", options_.world, failure_).error();
    for (int rank = 1; status_ == kDeadline && rank < options_.world; ++rank) {
      if (!callers_[static_cast<std::size_t>(rank)]) error.peer.missing.push_back(rank);
    }
    return error;
  }
  void fail_all(Status status, std::string why) {
    if (!failure_.empty()) return;
    status_ = status;
    failure_ = std::move(why);
  }

  void look(int listener) {
    std::vector<pollfd> descriptors = {{listener, POLLIN, 0}};
    for (const auto& caller : talking_) descriptors.push_back({caller->socket.descriptor(), POLLIN, 0});
    poll(descriptors.data(), descriptors.size(), 20);
    for (std::size_t i = 1; i < descriptors.size(); ++i) {
      if (descriptors[i].revents != 0) hear(*talking_[i - 1]);
    }
    std::erase_if(talking_, [](const auto& caller) { return !caller || caller->until_us < now_us(); });
    if (descriptors[0].revents == 0) return;
    const int accepted = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted < 0) return;
    auto caller = std::make_unique<Caller>();
    caller->socket = Socket(accepted);
    caller->nonce = random_bytes(kNonceBytes);
    caller->until_us = now_us() + kTalkUs;
    Bytes hello;
    put(hello, kMagic);
    put(hello, version_field());
    hello.insert(hello.end(), caller->nonce.begin(), caller->nonce.end());
    if (send_all(accepted, hello, now_us() + kTalkUs)) talking_.push_back(std::move(caller));
  }

  void drop(Caller& caller, std::string_view why) {
    caller.until_us = 0;
    if (!std::exchange(warned_, true))
      warn("rendezvous at {}: a caller was dropped: {}", options_.address, why);
  }

  // The words' length is believed only after the proof, which covers it.
  void hear(Caller& caller) {
    if (!receive_some(caller.socket.descriptor(), caller.heard, kCallHead)) return drop(caller, "it hung up");
    if (caller.heard.size() < kCallHead) return;
    const std::size_t nonce_at = kMagic.size() + kVersionBytes;
    if (caller.nonce.size() == kNonceBytes) {
      if (!std::equal(kMagic.begin(), kMagic.end(), caller.heard.begin()))
        return drop(caller, "it does not speak this protocol");
      caller.nonce.insert(caller.nonce.end(), caller.heard.begin() + static_cast<std::ptrdiff_t>(nonce_at),
                          caller.heard.begin() + static_cast<std::ptrdiff_t>(kHelloBytes));
      Digest said;
      std::copy_n(caller.heard.begin() + static_cast<std::ptrdiff_t>(kHelloBytes), said.size(), said.begin());
      const Bytes covered(caller.heard.begin() + static_cast<std::ptrdiff_t>(kHelloBytes + said.size()),
                          caller.heard.end());
      if (!equal_digests(said, proof(options_.token, "caller", caller.nonce, covered)))
        return drop(caller, "it has another token");
    }
    const std::size_t length = number_at(caller.heard, kCallHead - 4, 4);
    if (length > kWordsMax) return drop(caller, "it has too much to say");
    if (!receive_some(caller.socket.descriptor(), caller.heard, kCallHead + length))
      return drop(caller, "it hung up");
    if (caller.heard.size() == kCallHead + length) arrive(caller);
  }

  void arrive(Caller& caller) {
    const auto rank = static_cast<int>(number_at(caller.heard, kCallHead - 12, 4));
    const auto world = static_cast<int>(number_at(caller.heard, kCallHead - 8, 4));
    const std::string version(caller.heard.begin() + kMagic.size(),
                              caller.heard.begin() + kMagic.size() + kVersionBytes);
    const auto mine =
        std::ranges::find_if(talking_, [&](const auto& other) { return other.get() == &caller; });
    if (world != options_.world) {
      fail_all(kUsage, fmt::format("rank {} was started for a world of {}, rank 0 for {}", rank, world,
                                   options_.world));
    } else if (version != version_field()) {
      fail_all(kVersion, fmt::format("rank 0 runs diji {}, rank {} diji {}: all must be of one version",
                                     DIJI_VERSION, rank, version.c_str()));
    } else if (rank < 1 || rank >= world || callers_[static_cast<std::size_t>(rank)]) {
      fail_all(kUsage, fmt::format("two processes say that they are rank {} of {}", rank, world));
    }
    if (rank >= 1 && rank < options_.world && !callers_[static_cast<std::size_t>(rank)]) {
      words_[static_cast<std::size_t>(rank)].assign(caller.heard.begin() + kCallHead, caller.heard.end());
      callers_[static_cast<std::size_t>(rank)] = std::move(*mine);
      ++arrived_;
    } else {
      refused_.push_back(std::move(*mine));
    }
  }

  void answer_all(const Introduction& introduction) {
    Bytes body;
    put_number(body, failure_.empty() ? kWelcome : status_, 1);
    put_number(body, introduction.id, 8);
    if (failure_.empty()) {
      for (const std::string& words : introduction.words) {
        put_number(body, words.size(), 4);
        put(body, words);
      }
    } else {
      put(body, failure_);
    }
    for (auto* group : {&callers_, &refused_}) {
      for (const auto& caller : *group) {
        if (!caller) continue;
        const Digest digest = proof(options_.token, "host", caller->nonce, body);
        Bytes message(digest.begin(), digest.end());
        put_number(message, body.size(), 4);
        message.insert(message.end(), body.begin(), body.end());
        send_all(caller->socket.descriptor(), message, now_us() + kTalkUs);
      }
    }
  }

  const RendezvousOptions& options_;
  std::int64_t deadline_us_ = 0;
  std::vector<std::string> words_;
  std::vector<std::unique_ptr<Caller>> talking_;
  std::vector<std::unique_ptr<Caller>> callers_;  ///< by rank, those who arrived
  std::vector<std::unique_ptr<Caller>> refused_;
  int arrived_ = 0;
  Status status_ = kWelcome;
  std::string failure_;
  bool warned_ = false;
};

class Guest {
 public:
  Guest(const RendezvousOptions& options, const std::string& words) : options_(options), words_(words) {}

  Result<Introduction> meet() {
    deadline_us_ = deadline_of(options_);
    while (true) {
      const std::optional<Socket> socket = TRY(call());
      if (!socket) return never("did not answer");
      if (const auto introduction = TRY(talk(socket->descriptor()))) return *introduction;
      if (now_us() >= deadline_us_) return never("hung up");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

 private:
  std::unexpected<Error> never(std::string_view what) const {
    auto error = fail(ErrorCode::deadline, "start-up of rank {} of {}: rank 0 at {} {} within {} s",
                      options_.rank, options_.world, options_.address, what, options_.timeout_us / 1'000'000);
    error.error().peer.rank = 0;
    error.error().peer.missing = {0};
    return error;
  }

  Result<std::optional<Socket>> call() {
    while (now_us() < deadline_us_) {
      const int socket = TRY(connect_to(options_.address, std::min(deadline_us_, now_us() + 1'000'000)));
      if (socket >= 0) return Socket(socket);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return std::nullopt;
  }

  bool hear(int socket, Bytes& heard, std::size_t wanted) const {
    while (heard.size() < wanted) {
      if (!receive_some(socket, heard, wanted)) return false;
      if (heard.size() >= wanted) break;
      if (now_us() >= deadline_us_ + kTalkUs) return false;  // rank 0 says at its own deadline who is missing
      pollfd ready{socket, POLLIN, 0};
      poll(&ready, 1, 50);
    }
    return true;
  }

  // Nothing: the other side went away, which a stranger at that address may do; call again.
  Result<std::optional<Introduction>> talk(int socket) {
    Bytes hello;
    if (!hear(socket, hello, kHelloBytes)) return std::nullopt;
    if (!std::equal(kMagic.begin(), kMagic.end(), hello.begin())) {
      return fail(ErrorCode::usage, "whoever listens at {} is no rank 0 of a job of diji", options_.address);
    }
    Bytes nonces(hello.end() - kNonceBytes, hello.end());
    const Bytes own = random_bytes(kNonceBytes);
    nonces.insert(nonces.end(), own.begin(), own.end());
    Bytes covered;
    put_number(covered, static_cast<std::uint64_t>(options_.rank), 4);
    put_number(covered, static_cast<std::uint64_t>(options_.world), 4);
    put_number(covered, words_.size(), 4);
    Bytes message;
    put(message, kMagic);
    put(message, version_field());
    message.insert(message.end(), own.begin(), own.end());
    const Digest digest = proof(options_.token, "caller", nonces, covered);
    message.insert(message.end(), digest.begin(), digest.end());
    message.insert(message.end(), covered.begin(), covered.end());
    put(message, words_);
    if (!send_all(socket, message, deadline_us_)) return std::nullopt;
    Bytes head;
    if (!hear(socket, head, kAnswerHead)) return std::nullopt;
    const std::size_t length = number_at(head, sizeof(Digest), 4);
    if (length < 9 || length > kAnswerMax)
      return fail(ErrorCode::corrupted, "rank 0 at {} answers {} bytes", options_.address, length);
    Bytes body;
    if (!hear(socket, body, length)) return std::nullopt;
    Digest said;
    std::copy_n(head.begin(), said.size(), said.begin());
    if (!equal_digests(said, proof(options_.token, "host", nonces, body))) {
      return fail(ErrorCode::usage, "whoever listens at {} does not know the job's token", options_.address);
    }
    return TRY(read(body));
  }

  Result<Introduction> read(const Bytes& body) const {
    Reader reader({reinterpret_cast<const std::byte*>(body.data()), body.size()}, "rank 0's answer");
    const auto status = static_cast<Status>(TRY(reader.number<std::uint8_t>("status")));
    Introduction introduction;
    introduction.id = TRY(reader.number<std::uint64_t>("id"));
    if (status != kWelcome) {
      return fail(code_of(status), "start-up of {} ranks: {}", options_.world,
                  TRY(reader.text(reader.remaining(), "reason")));
    }
    for (int rank = 0; rank < options_.world; ++rank) {
      const auto length = TRY(reader.number<std::uint32_t>("length"));
      introduction.words.emplace_back(TRY(reader.text(length, "words")));
    }
    return introduction;
  }

  const RendezvousOptions& options_;
  const std::string& words_;
  std::int64_t deadline_us_ = 0;
};

}  // namespace

Result<Introduction> introduce(const RendezvousOptions& options, const std::string& words) {
  if (options.rank < 0 || options.rank >= options.world) {
    return fail(ErrorCode::usage, "rank {} of {} ranks", options.rank, options.world);
  }
  if (options.world == 1) return Introduction{.id = number_at(random_bytes(8), 0, 8), .words = {words}};
  if (options.token.empty() && !TRY(is_loopback(options.address))) {
    return fail(ErrorCode::usage,
                "{} can be reached from other hosts: a job there needs a token (DIJI_TOKEN_FILE)",
                options.address);
  }
  return options.rank == 0 ? Host(options, words).meet() : Guest(options, words).meet();
}

}  // namespace diji::collective
