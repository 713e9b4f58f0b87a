// Something that one of several ranks writes, once, and all read.
#pragma once

#include "collective/processor.h"

#include <atomic>
#include <cstdint>

namespace diji::collective {

/// Stands beside what it guards, in shared memory. Who dies after claim() leaves it claimed for good.
template <typename Machine>
class BasicWriteOnce {
 public:
  /// Whether the caller is the one who writes, and then publishes. The claim orders nothing: nobody wrote
  /// before it.
  bool claim() {
    std::uint32_t none = kNone;
    return state_.compare_exchange_strong(none, kClaimed, std::memory_order_relaxed);
  }
  void publish() { state_.store(kPublished, std::memory_order_release); }
  /// Then what it guards may be read.
  bool is_published() const { return state_.load(std::memory_order_acquire) == kPublished; }
  bool is_claimed() const { return state_.load(std::memory_order_relaxed) != kNone; }
  /// Whether nobody had claimed it when what this thread has read so far was read: then it has seen nothing
  /// that a rank wrote after it had found it claimed and had made a full fence (as ring() does).
  bool was_unclaimed() const {
    Machine::acquire_fence();
    return !is_claimed();
  }

 private:
  enum State : std::uint32_t { kNone, kClaimed, kPublished };
  typename Machine::template Atomic<std::uint32_t> state_ = kNone;
};
using WriteOnce = BasicWriteOnce<Processor>;

}  // namespace diji::collective
