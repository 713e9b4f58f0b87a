// Who of the ranks is alive: what may say so, and what a wait does about those who are not.
#pragma once

#include "base/error.h"
#include "collective/host_segment.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace diji::collective {

/// Microseconds of the monotonic clock, the same for all processes of a host.
std::int64_t now_us();
/// The same clock at its last tick, some milliseconds ago at most: costs next to nothing.
std::int64_t coarse_now_us();

/// Watches processes of this host through their pidfds and shows this one's heartbeat, from one thread that
/// sleeps in poll. Only the kernel says that a process is dead: a closed socket does not (a forked child
/// keeps it open), nor does silence (a stopped process is alive).
class Watcher {
 public:
  Watcher();
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// Calls `died` once, from the watcher's thread, when the process has ended. Errors: peer_lost when it
  /// already has, io where it cannot be watched.
  Result<void> watch(int pid, std::function<void()> died);
  /// Called about every kHeartbeatUs, from the watcher's thread, until the returned handle is gone.
  std::shared_ptr<void> beat(std::function<void()> heartbeat);
  static constexpr std::int64_t kHeartbeatUs = 500'000;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

/// Records `error` as the communicator's failure unless there is one already, and wakes every rank of the
/// host.
void report_failure(const HostSegment& segment, const Error& error, int reporter);
/// The communicator's failure, if there is one: error fields as far as the segment keeps them.
std::optional<Error> reported_failure(const HostSegment& segment);

}  // namespace diji::collective
