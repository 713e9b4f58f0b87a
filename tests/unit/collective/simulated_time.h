// Ranks as fibers of one thread under a clock of their own: who runs next, and when, follows from a seed.
#pragma once

#include "collective/clock.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <vector>

namespace diji::collective {

/// splitmix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// 0 … limit - 1; 0 where there is no other.
  std::int64_t below(std::int64_t limit);
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <typename T>
  const T& of(std::span<const T> values) {
    return values[static_cast<std::size_t>(below(std::ssize(values)))];
  }

 private:
  std::uint64_t state_;
};

class Fiber;

/// The clock stands still while a fiber runs and is set forward when none can: to the next event, or to where
/// the first of the waiting ones has waited enough.
class SimulatedTime final : public VirtualTime {
 public:
  explicit SimulatedTime(std::uint64_t seed);
  ~SimulatedTime() override;

  /// Fibers are numbered from 0. `ahead_us`: how much its clock differs from the others'.
  void start(std::int64_t ahead_us, std::function<void()> body);
  /// Outside of fibers, `after_us` from now.
  void later(std::int64_t after_us, std::function<void()> event);
  /// Until all fibers but the frozen ones have ended. False: something goes on after `most_steps`, or waits
  /// for nothing.
  bool run(std::int64_t most_steps);

  /// A frozen fiber does not run: its process is stopped, or dead.
  void freeze(int fiber);
  void thaw(int fiber);
  bool is_frozen(int fiber) const;
  /// -1: an event runs.
  int current() const { return current_; }
  /// Whose clock an event reads.
  void speak_as(int fiber) { speaker_ = fiber; }
  /// In a fiber: others may run now. Outside nothing happens.
  void maybe_switch();
  /// In a fiber: does something else for so long.
  void pause(std::int64_t us);
  /// The longest that a fiber which could run is left lying.
  void set_hiccup(std::int64_t us) { hiccup_us_ = us; }
  /// Bells wake nobody.
  void set_deaf(bool deaf) { deaf_ = deaf; }
  /// Whether a simulated descriptor is ready for poll's `events`.
  void set_readiness(std::function<bool(int descriptor, int events)> readiness) {
    readiness_ = std::move(readiness);
  }

  Random& random() { return random_; }
  /// Without anybody's difference.
  std::int64_t time_us() const { return now_us_; }
  /// Adds to the hash of all that happened.
  void note(std::uint64_t what);
  std::uint64_t trace() const { return trace_; }
  std::int64_t steps() const { return steps_; }

  std::int64_t now_us() override;
  void yield() override;
  void sleep(Doorbell& bell, std::uint32_t announced, std::int64_t longest_us) override;
  void poll(std::vector<pollfd>& descriptors, std::int64_t longest_us) override;

 private:
  struct Event {
    std::int64_t at_us;
    std::uint64_t number;
    std::function<void()> happen;
    bool operator>(const Event& other) const {
      return at_us != other.at_us ? at_us > other.at_us : number > other.number;
    }
  };
  void wait(Fiber& fiber);
  bool can_run(Fiber& fiber);
  void resume(int fiber);
  bool advance();
  Fiber& running();

  Random random_;
  std::int64_t now_us_ = 1'000'000;  // not 0, which means "never" in records
  std::int64_t hiccup_us_ = 0;
  bool deaf_ = false;
  std::int64_t steps_ = 0;
  std::uint64_t trace_ = 0;
  std::uint64_t events_made_ = 0;
  int current_ = -1;
  int speaker_ = -1;
  std::function<bool(int, int)> readiness_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<int> ready_;
};

}  // namespace diji::collective
