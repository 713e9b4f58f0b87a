// Who is to blame for a call that does not go on, and the sentence that says so.
#include "collective/communicator.h"

#include <algorithm>

namespace diji::collective {

std::string Communicator::who(int rank) const {
  const Member& member = group_.members[static_cast<std::size_t>(rank)];
  return fmt::format("rank {} on {} (pid {})", rank, member.host, member.pid);
}

Error Communicator::mismatch(const Disagreement& disagreement, const Call& call) {
  const auto [peer, number] = disagreement;
  compare(disagreement);
  Error error;
  error.code = ErrorCode::call_mismatch;
  error.peer.rank = peer;
  const auto theirs = call_of(peer, number);
  error.peer.peer_args = theirs ? text_of(*theirs) : "something else";
  // A call of which this rank had to hear nothing was over before the difference could show.
  std::string own = text_of(call);
  for (const CallRecord& record : own_board().recorder.all()) {
    if (record.sequence == number && !is_point_to_point(record.operation)) own = text_of(record);
  }
  error.message = fmt::format("rank {} calls {}, but {} calls {} (#{})", rank(), own, who(peer),
                              error.peer.peer_args, number);
  return error;
}

// A peer may itself wait for another: who is at the end of the chain. Where that goes in a circle (all are
// about to move), the peer.
int Communicator::cause(int peer) const {
  int last = peer;
  for (int hop = 0; hop < world(); ++hop) {
    if (is_here(last) && is_silent(last)) return last;
    const auto record = latest_call_of(last);
    if (!record || record->end_us != 0 || record->waits_for < 0) return last;
    last = record->waits_for;
  }
  return peer;
}

// Between two sleeps a rank waits for nobody, be it that it looks again or that it is stuck: only the latter
// lasts.
int Communicator::settled_cause(int peer) const {
  constexpr std::int64_t kAwakeUs = 200'000;  // a sleep, and what a busy machine may put between two
  constexpr std::int64_t kLookAgainUs = 1'000;
  const std::int64_t until_us = options_.clock.now_us() + kAwakeUs;
  std::vector<pollfd> none;
  int found = cause(peer);
  while (is_here(found) && !is_silent(found) && options_.clock.now_us() < until_us) {
    const auto record = latest_call_of(found);
    if (!record || record->end_us != 0 || record->waits_for >= 0) break;
    options_.clock.poll(none, kLookAgainUs);
    found = cause(peer);
  }
  return found;
}

bool Communicator::is_silent(int rank) const {
  constexpr std::int64_t kSilentUs = 4 * Watcher::kHeartbeatUs;
  return group_.watcher &&
         options_.clock.now_us() - board(rank).heartbeat_us.load(std::memory_order_relaxed) > kSilentUs;
}

// Alive and elsewhere, stopped, or not there yet: what the peer's board says.
Error Communicator::late(const Progress& execution, const Call& call, std::int64_t waited_us) const {
  const int peer = settled_cause(std::max(execution.waits_for(), 0));
  Error error;
  error.code = ErrorCode::deadline;
  error.peer.rank = peer;
  error.peer.missing = {peer};
  std::string state;
  const auto last = latest_call_of(peer);
  if (is_here(peer) && is_silent(peer)) {
    const std::int64_t silent_us =
        options_.clock.now_us() - board(peer).heartbeat_us.load(std::memory_order_relaxed);
    state = fmt::format("shows no sign of life for {:.1f} s (stopped, or its host is)",
                        static_cast<double>(silent_us) / 1e6);
  } else if (!last) {
    state = is_here(peer) ? "is alive and has not called anything yet" : "has not come";
  } else if (last->end_us != 0) {
    state = fmt::format("is alive and outside of calls; its last was #{} {}", last->sequence, text_of(*last));
  } else if (last->waits_for >= 0) {
    state =
        fmt::format("is in #{} {} and waits for rank {}", last->sequence, text_of(*last), last->waits_for);
  } else {
    state = fmt::format("is in #{} {}", last->sequence, text_of(*last));
  }
  if (last && !is_here(peer)) state = fmt::format("said last that it {}", state);
  error.message = fmt::format("{} waits {:.1f} s for {}, which {}", text_of(call),
                              static_cast<double>(waited_us) / 1e6, who(peer), state);
  return error;
}

}  // namespace diji::collective
