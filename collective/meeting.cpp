// After the handshake of a link: who has come says how many are dead, u32, and which, u32 each. The leader
// answers with how many go on, u32 (0: too few came), and which, u32 each.
#include "collective/meeting.h"

#include "collective/clock.h"
#include "collective/link_call.h"
#include "collective/socket_address.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

namespace diji::collective {
namespace {

constexpr std::int64_t kTalkUs = 2'000'000;
constexpr std::int64_t kLookUs = 20'000;

void pause() { std::this_thread::sleep_for(std::chrono::microseconds(kLookUs)); }

bool holds(const std::vector<int>& ranks, int rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

Bytes encode(const std::vector<int>& ranks) {
  Bytes bytes;
  put_number(bytes, ranks.size(), 4);
  for (const int rank : ranks) put_number(bytes, static_cast<std::uint64_t>(rank), 4);
  return bytes;
}

// Nothing where the other side is gone, is late, or says what cannot be.
std::optional<std::vector<int>> receive_ranks(int socket, std::size_t world, std::int64_t deadline_us) {
  Bytes bytes;
  if (!receive_all(socket, bytes, 4, deadline_us)) return std::nullopt;
  const std::uint64_t count = number_at(bytes, 0, 4);
  if (count > world || !receive_all(socket, bytes, 4 + 4 * count, deadline_us)) return std::nullopt;
  std::vector<int> ranks;
  for (std::size_t i = 1; i <= count; ++i) {
    const std::uint64_t rank = number_at(bytes, 4 * i, 4);
    if (rank >= world) return std::nullopt;
    ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

Error partitioned(const std::string& why) {
  return fail(ErrorCode::peer_lost, "Partitioned: shrink {}", why).error();
}

class Meeting {
 public:
  Meeting(const MeetingOptions& options, std::span<const LinkListener> listeners,
          std::span<const Addresses> addresses)
      : options_(options), listeners_(listeners), addresses_(addresses), dead_(options.dead) {}

  Result<std::vector<int>> run() {
    const std::int64_t time_us = options_.deadline_us - options_.begin_us;
    std::int64_t until_us = options_.begin_us;
    std::int64_t share_us = time_us / 2;
    for (const int leader : leaders()) {
      if (leader == options_.rank) return lead();
      until_us += share_us;
      share_us /= 2;
      auto decision = follow(leader, until_us);
      if (!decision) continue;
      if (decision->empty()) return std::unexpected(partitioned("found too few ranks to go on"));
      if (!holds(*decision, options_.rank)) {
        return std::unexpected(partitioned(fmt::format(
            "goes on with ranks {}, without this one, which came too late", fmt::join(*decision, ", "))));
      }
      return *std::move(decision);
    }
    return fail(ErrorCode::deadline, "shrink: no rank led within the time");
  }

 private:
  std::vector<int> leaders() const {
    std::vector<int> order;
    std::vector<int> last;
    for (int rank = 0; rank < std::ssize(addresses_); ++rank) {
      if (!holds(dead_, rank)) (holds(options_.suspects, rank) ? last : order).push_back(rank);
    }
    order.insert(order.end(), last.begin(), last.end());
    return order;
  }

  const Addresses& of(int rank) const { return addresses_[static_cast<std::size_t>(rank)]; }

  // Whether its host says that no process listens any more for the rank.
  bool is_refused(int rank) const {
    return std::ranges::all_of(of(rank),
                               [](const std::string& address) { return nobody_listens_at(address); });
  }

  // What the leader decides; nothing where it does not lead by then, or ends.
  std::optional<std::vector<int>> follow(int leader, std::int64_t until_us) {
    const LinkCall call{.id = options_.id, .from = options_.rank, .to = leader};
    for (std::size_t turn = 0; now_us() < until_us; ++turn) {
      const std::string& address = of(leader)[turn % of(leader).size()];
      Socket socket(connect_to(address, until_us).value_or(-1));
      if (socket.descriptor() < 0) {
        if (is_refused(leader)) break;
        pause();
        continue;
      }
      pollfd ready{socket.descriptor(), POLLIN, 0};
      const std::int64_t wait_ms = std::max<std::int64_t>((until_us - now_us()) / 1000, 1);
      if (::poll(&ready, 1, static_cast<int>(wait_ms)) <= 0) break;
      auto talk = take_up(call, options_.token, std::move(socket), options_.deadline_us);
      if (!talk) {
        pause();
        continue;
      }
      if (!send_all(talk->descriptor(), encode(dead_), options_.deadline_us)) break;
      if (auto decided = receive_ranks(talk->descriptor(), addresses_.size(), options_.deadline_us))
        return decided;
      break;
    }
    return std::nullopt;
  }

  Result<std::vector<int>> lead() {
    const std::int64_t decide_us = options_.deadline_us - (options_.deadline_us - options_.begin_us) / 10;
    come_.resize(addresses_.size());
    while (now_us() < decide_us && !all_are_known()) {
      std::vector<pollfd> ready;
      for (const LinkListener& listener : listeners_)
        ready.push_back({listener.socket.descriptor(), POLLIN, 0});
      if (::poll(ready.data(), ready.size(), static_cast<int>(kLookUs / 1000)) <= 0) {
        look_for_the_dead();
        continue;
      }
      for (std::size_t i = 0; i < ready.size(); ++i) {
        if (ready[i].revents != 0) let_in(listeners_[i].socket.descriptor(), decide_us);
      }
    }
    return decide();
  }

  bool has_come(int rank) const {
    return rank == options_.rank || come_[static_cast<std::size_t>(rank)].has_value();
  }

  bool all_are_known() const {
    for (int rank = 0; rank < std::ssize(come_); ++rank) {
      if (!has_come(rank) && !holds(dead_, rank)) return false;
    }
    return true;
  }

  void let_in(int listener, std::int64_t decide_us) {
    auto caller = answer(listener, options_.id, options_.rank, options_.token, decide_us);
    if (!caller) return;
    const int rank = caller->first.from;
    if (rank < 0 || rank >= std::ssize(come_) || rank == options_.rank) return;
    const auto told = receive_ranks(caller->second.descriptor(), come_.size(), now_us() + kTalkUs);
    if (!told) return;
    for (const int one : *told) {
      if (!holds(dead_, one)) dead_.push_back(one);
    }
    come_[static_cast<std::size_t>(rank)] = std::move(caller->second);
  }

  void look_for_the_dead() {
    for (int rank = 0; rank < std::ssize(come_); ++rank) {
      if (!has_come(rank) && !holds(dead_, rank) && is_refused(rank)) dead_.push_back(rank);
    }
  }

  Result<std::vector<int>> decide() {
    std::vector<int> survivors;
    std::vector<int> alive;
    for (int rank = 0; rank < std::ssize(come_); ++rank) {
      auto& socket = come_[static_cast<std::size_t>(rank)];
      Bytes more;
      if (socket && !receive_some(socket->descriptor(), more, 1)) socket.reset();  // gone meanwhile
      if (has_come(rank)) survivors.push_back(rank);
      if (has_come(rank) || !holds(dead_, rank)) alive.push_back(rank);
    }
    const std::size_t twice = 2 * survivors.size();
    const bool enough = twice > alive.size() || (twice == alive.size() && survivors.front() == alive.front());
    const Bytes decision = encode(enough ? survivors : std::vector<int>{});
    for (const auto& socket : come_) {
      if (socket) send_all(socket->descriptor(), decision, now_us() + kTalkUs);
    }
    if (enough) return survivors;
    return std::unexpected(partitioned(fmt::format("found ranks {} of {} that are not known to be dead",
                                                   fmt::join(survivors, ", "), alive.size())));
  }

  const MeetingOptions& options_;
  std::span<const LinkListener> listeners_;
  std::span<const Addresses> addresses_;
  std::vector<int> dead_;
  std::vector<std::optional<Socket>> come_;  ///< by rank
};

}  // namespace

Result<std::vector<int>> meet(const MeetingOptions& options, std::span<const LinkListener> listeners,
                              std::span<const Addresses> addresses) {
  return Meeting(options, listeners, addresses).run();
}

}  // namespace diji::collective
