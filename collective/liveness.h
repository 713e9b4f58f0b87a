// Who of the ranks of this host is alive, what may say so, and the first failure, which all of them see.
#pragma once

#include "base/error.h"
#include "collective/host_segment.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace diji::collective {

/// Watches processes of this host and shows this one's heartbeat.
class Watcher {
 public:
  Watcher() = default;
  virtual ~Watcher() = default;
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// Calls `died` once, from the watcher's thread, when the process has ended. Errors: peer_lost when it
  /// already has, io where it cannot be watched.
  virtual Result<void> watch(int pid, std::function<void()> died) = 0;
  /// Called about every kHeartbeatUs, from the watcher's thread, until the returned handle is gone.
  virtual std::shared_ptr<void> beat(std::function<void()> heartbeat) = 0;
  static constexpr std::int64_t kHeartbeatUs = 500'000;
};

/// Through their pidfds, from one thread that sleeps in poll. Only the kernel says that a process is dead: a
/// closed socket does not (a forked child keeps it open), nor does silence (a stopped process is alive).
class ProcessWatcher final : public Watcher {
 public:
  ProcessWatcher();
  ~ProcessWatcher() override;
  Result<void> watch(int pid, std::function<void()> died) override;
  std::shared_ptr<void> beat(std::function<void()> heartbeat) override;

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
