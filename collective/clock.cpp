// The machine's clocks, and where they give way to a simulator's.
#include "collective/clock.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <ctime>

namespace diji::collective {

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::int64_t coarse_now_us() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1'000;
}

void Clock::yield() const {
  if (time_ != nullptr) return time_->yield();
  sched_yield();
}

void Clock::sleep(Doorbell& bell, std::uint32_t announced, std::int64_t longest_us) const {
  if (time_ != nullptr) return time_->sleep(bell, announced, longest_us);
  bell.sleep(announced, longest_us);
}

void Clock::poll(std::vector<pollfd>& descriptors, std::int64_t longest_us) const {
  const auto longest_ms = std::max<std::int64_t>(longest_us / 1000, 1);
  if (time_ != nullptr) return time_->poll(descriptors, longest_ms * 1000);
  ::poll(descriptors.data(), descriptors.size(), static_cast<int>(longest_ms));
}

}  // namespace diji::collective
