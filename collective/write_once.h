// Something that one of several ranks writes, once, and all read.
#pragma once

#include <atomic>
#include <cstdint>

namespace diji::collective {

/// Stands beside what it guards, in shared memory. Who dies after claim() leaves it claimed for good.
template <template <typename> typename Atomic>
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

 private:
  enum State : std::uint32_t { kNone, kClaimed, kPublished };
  Atomic<std::uint32_t> state_ = kNone;
};
using WriteOnce = BasicWriteOnce<std::atomic>;

}  // namespace diji::collective
