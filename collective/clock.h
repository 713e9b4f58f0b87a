// Time, and waiting for it: the machine's, or that of a simulator in which whole worlds of ranks run.
#pragma once

#include "collective/doorbell.h"

#include <cstdint>
#include <vector>

struct pollfd;

namespace diji::collective {

/// Microseconds of the monotonic clock, the same for all processes of a host.
std::int64_t now_us();
/// The same clock at its last tick, some milliseconds ago at most: costs next to nothing.
std::int64_t coarse_now_us();

/// What a simulator gives in place of the machine's time. Every wait of a communicator ends in one of these.
class VirtualTime {
 public:
  VirtualTime() = default;
  virtual ~VirtualTime() = default;
  VirtualTime(const VirtualTime&) = delete;
  VirtualTime& operator=(const VirtualTime&) = delete;

  virtual std::int64_t now_us() = 0;
  /// Lets others run.
  virtual void yield() = 0;
  /// As Doorbell::sleep.
  virtual void sleep(Doorbell& bell, std::uint32_t announced, std::int64_t longest_us) = 0;
  /// Until one of the descriptors (of a simulated Stream) is ready.
  virtual void poll(std::vector<pollfd>& descriptors, std::int64_t longest_us) = 0;
};

/// A value. Not itself virtual: a short call asks for the time twice, and may not pay for a simulator.
class Clock {
 public:
  Clock() = default;
  /// `time` outlives all that have the clock.
  explicit Clock(VirtualTime& time) : time_(&time) {}

  std::int64_t now_us() const { return time_ == nullptr ? collective::now_us() : time_->now_us(); }
  std::int64_t coarse_now_us() const {
    return time_ == nullptr ? collective::coarse_now_us() : time_->now_us();
  }
  void yield() const;
  void sleep(Doorbell& bell, std::uint32_t announced, std::int64_t longest_us) const;
  /// Milliseconds count: at least one, where there is nothing to do before.
  void poll(std::vector<pollfd>& descriptors, std::int64_t longest_us) const;

 private:
  VirtualTime* time_ = nullptr;
};

}  // namespace diji::collective
