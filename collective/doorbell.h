// How a rank sleeps until a peer has something for it, and how a peer wakes it without a system call when it
// does not.
#pragma once

#include "collective/processor.h"

#include <atomic>
#include <cstdint>

namespace diji::collective {

/// Lies in memory shared by processes. The protocol (Dekker's, as in every eventcount): a sleeper announces
/// itself, looks once more, then sleeps; a ringer publishes, then looks whether anybody sleeps. Of the two
/// looks at least one sees the other's store, because a full fence stands between each store and the look
/// after it. `rings` needs no order of its own: a ring that the sleeper has counted before its fence follows
/// the ringer's fence, so the look after it sees what was published. `sleeping` only changes by
/// read-modify-writes: where the fence is one too (processor.h), a store between would part it from the
/// other's.
template <typename Machine>
struct alignas(64) BasicDoorbell {
  typename Machine::template Atomic<std::uint32_t> rings = 0;  ///< a futex word
  typename Machine::template Atomic<std::uint32_t> sleeping = 0;

  /// After what the sleeper waits for was published (with release order).
  void ring() {
    Machine::full_fence(sleeping);
    if (sleeping.load(std::memory_order_relaxed) == 0) return;
    rings.fetch_add(1, std::memory_order_relaxed);
    Machine::wake(rings);
  }
  /// Announces that the owner is about to sleep; what it waits for must be looked at again before sleep().
  std::uint32_t announce() {
    const std::uint32_t before = rings.load(std::memory_order_relaxed);
    sleeping.exchange(1, std::memory_order_relaxed);
    Machine::full_fence(sleeping);
    return before;
  }
  /// Until a ring after announce(), or for `timeout_us`. Spurious returns are allowed.
  void sleep(std::uint32_t announced, std::int64_t timeout_us) {
    Machine::wait(rings, announced, timeout_us);
  }
  /// The owner is awake again.
  void withdraw() { sleeping.exchange(0, std::memory_order_relaxed); }
};
using Doorbell = BasicDoorbell<Processor>;

/// How eagerly a rank looks before it sleeps: cores that no rank of this host needs may be burnt for
/// microseconds, others never.
struct Patience {
  int spins = 0;   ///< looks with a pause
  int yields = 0;  ///< looks after giving the core away
};
/// For `ranks` that share this host's usable cores.
Patience patience_for(int ranks, int cores);

/// A hint to the processor that this is a waiting loop.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace diji::collective
