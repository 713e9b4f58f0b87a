// PMI-1's wire protocol (MPICH, "PMI v1.1"): a line of key=value words each way, one answer to each request.
#include "collective/clock.h"
#include "collective/key_values.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <string_view>

namespace diji::collective {
namespace {

constexpr std::size_t kAnswerMax =
    4096;  // a key-value space's name (256), a value (1024) and the words around
constexpr std::size_t kNameMax = 256;
constexpr std::string_view kKey = "diji-rendezvous";
constexpr std::int64_t kGoodbyeUs = 1'000'000;

// A stranger's bytes, for people.
std::string shown(std::string_view bytes) {
  std::string text(bytes.substr(0, 80));
  std::ranges::replace_if(text, [](char byte) { return byte < ' ' || byte > '~'; }, '?');
  return text;
}

using Words = std::map<std::string, std::string>;

class Conversation {
 public:
  explicit Conversation(int descriptor) : descriptor_(descriptor) {}

  // The words of the answer, which is a `wanted`. Errors: deadline, peer_lost, corrupted, io (a refusal).
  Result<Words> ask(const std::string& request, std::string_view wanted, std::int64_t deadline_us) {
    if (broken_) return fail(ErrorCode::io, "PMI: this session is broken");
    broken_ = true;
    TRY(send_line(request + "\n", deadline_us));
    const std::string line = TRY(receive_line(request, deadline_us));
    Words words = TRY(parse(line));
    if (words["cmd"] != wanted)
      return fail(ErrorCode::corrupted, "PMI: '{}' is answered with '{}'", shown(request), shown(line));
    broken_ = false;
    if (words.contains("rc") && words["rc"] != "0")
      return fail(ErrorCode::io, "PMI: the launcher refuses '{}': '{}'", shown(request), shown(line));
    return words;
  }

  Result<void> begin(std::int64_t deadline_us) {
    TRY(ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline_us));
    begun_ = true;
    const Words maxes = TRY(ask("cmd=get_maxes", "maxes", deadline_us));
    for (const auto& [word, least] : {std::pair("keylen_max", kKey.size()), {"vallen_max", kLineMax}}) {
      const auto found = maxes.find(word);
      std::size_t number = 0;
      if (found != maxes.end())
        std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
      if (number <= least)
        return fail(ErrorCode::corrupted, "PMI: {} of {} is more than {} bytes", word, number, least);
    }
    const Words space = TRY(ask("cmd=get_my_kvsname", "my_kvsname", deadline_us));
    const auto name = space.find("kvsname");
    if (name == space.end() || name->second.empty() || name->second.size() > kNameMax)
      return fail(ErrorCode::corrupted, "PMI: the key-value space has no name");
    space_ = name->second;
    return {};
  }

  Result<void> leave(const std::string& line, std::int64_t deadline_us) {
    TRY(ask(fmt::format("cmd=put kvsname={} key={} value={}", space_, kKey, line), "put_result",
            deadline_us));
    return barrier(deadline_us);
  }

  Result<std::string> find(std::int64_t deadline_us) {
    TRY(barrier(deadline_us));
    Words found = TRY(ask(fmt::format("cmd=get kvsname={} key={}", space_, kKey), "get_result", deadline_us));
    return found["value"];
  }

  // MPICH's launcher takes a rank that ends without these words for one that was lost, and ends the job.
  ~Conversation() {
    if (begun_) static_cast<void>(ask("cmd=finalize", "finalize_ack", now_us() + kGoodbyeUs));
  }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

 private:
  // PMI has no get that waits.
  Result<void> barrier(std::int64_t deadline_us) {
    const auto passed = ask("cmd=barrier_in", "barrier_out", deadline_us);
    if (passed) return {};
    if (passed.error().code != ErrorCode::deadline) return std::unexpected(passed.error());
    return fail(ErrorCode::deadline,
                "not all ranks came to the launcher's barrier in time, and PMI does not say which");
  }

  static std::unexpected<Error> hung_up(std::string_view request) {
    return fail(ErrorCode::peer_lost,
                "PMI: the launcher hung up at '{}' (a rank may start once in a process's life)",
                shown(request.substr(0, request.find('\n'))));
  }

  Result<void> send_line(std::string_view line, std::int64_t deadline_us) const {
    while (!line.empty()) {
      const ssize_t sent = send(descriptor_, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        line.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno != EAGAIN && errno != EINTR) {
        return hung_up(line);
      } else {
        TRY(wait_for(POLLOUT, line, deadline_us));
      }
    }
    return {};
  }

  Result<std::string> receive_line(std::string_view request, std::int64_t deadline_us) const {
    std::string line;
    while (!line.ends_with('\n')) {
      std::array<char, kAnswerMax> part;
      const ssize_t count = recv(descriptor_, part.data(), part.size(), MSG_DONTWAIT);
      if (count > 0) {
        line.append(part.data(), static_cast<std::size_t>(count));
        if (line.size() > kAnswerMax || line.find('\n') < line.size() - 1) {
          return fail(ErrorCode::corrupted, "PMI: '{}' is answered with more than one line of {} bytes: '{}'",
                      shown(request), kAnswerMax, shown(line));
        }
      } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        return hung_up(request);
      } else {
        TRY(wait_for(POLLIN, request, deadline_us));
      }
    }
    line.pop_back();
    return line;
  }

  Result<void> wait_for(short what, std::string_view request, std::int64_t deadline_us) const {
    const std::int64_t left_us = deadline_us - now_us();
    if (left_us <= 0)
      return fail(ErrorCode::deadline, "PMI: the launcher did not answer '{}' in time", shown(request));
    pollfd ready{descriptor_, what, 0};
    poll(&ready, 1, static_cast<int>(std::clamp<std::int64_t>(left_us / 1000, 1, 1000)));
    return {};
  }

  static Result<Words> parse(const std::string& line) {
    Words words;
    std::string_view rest = line;
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      if (word.empty()) continue;
      const std::size_t equals = word.find('=');
      const bool graphic = std::ranges::all_of(word, [](char byte) { return byte > ' ' && byte <= '~'; });
      if (equals == std::string_view::npos || equals == 0 || !graphic) {
        return fail(ErrorCode::corrupted, "PMI: '{}' in '{}' is no key=value", shown(word), shown(line));
      }
      words.emplace(word.substr(0, equals), word.substr(equals + 1));
    }
    return words;
  }

  int descriptor_;
  std::string space_;
  bool begun_ = false;
  bool broken_ = false;  ///< the next line may be the answer to something else
};

// An MPI that this process has begun talks over the same socket, and two cannot.
bool has_mpi() {
  void* symbol = dlsym(RTLD_DEFAULT, "MPI_Initialized");
  int begun = 0;
  return symbol != nullptr && reinterpret_cast<int (*)(int*)>(symbol)(&begun) == 0 && begun != 0;
}

}  // namespace

Result<KeyValues> key_values_of_pmi(int descriptor, int rank, int world, std::int64_t deadline_us) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0 || !S_ISSOCK(status.st_mode)) {
    return fail(
        ErrorCode::usage,
        "PMI_FD={} is no open socket: whatever started this program closed it, or the variable is left "
        "over (then DIJI_LAUNCHER=alone)",
        descriptor);
  }
  if (has_mpi()) {
    return fail(
        ErrorCode::usage,
        "this process has begun MPI, which talks to the launcher over PMI_FD for good: give each rank "
        "DIJI_RANK, DIJI_WORLD_SIZE, DIJI_RENDEZVOUS and DIJI_TOKEN_FILE");
  }
  const auto conversation = std::make_shared<Conversation>(descriptor);
  TRY(conversation->begin(deadline_us));
  return KeyValues{.rank = rank,
                   .world = world,
                   .leave = [=](const std::string& line) { return conversation->leave(line, deadline_us); },
                   .find = [=] { return conversation->find(deadline_us); },
                   .session = conversation};
}

}  // namespace diji::collective
