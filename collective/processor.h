// What a rank's memory protocol stands on besides std::atomic: fences and the kernel's futex.
#pragma once

#include <atomic>
#include <cstdint>

#ifdef __SANITIZE_THREAD__  // GCC's way to tell
#define DIJI_SANITIZES_THREADS
#elif defined(__has_feature)  // Clang's
#if __has_feature(thread_sanitizer)
#define DIJI_SANITIZES_THREADS
#endif
#endif

namespace diji::collective {

/// The machine that the protocol's templates run on. Their tests (tests/unit/memory_model) give them another
/// one, whose loads return each value in turn that the C++ memory model permits.
struct Processor {
  template <typename T>
  using Atomic = std::atomic<T>;

  /// Between a store to `word` and a load of something else, each of two threads: at least one of the loads
  /// sees the other thread's store.
  static void full_fence(std::atomic<std::uint32_t>& word) {
#ifdef DIJI_SANITIZES_THREADS
    // ThreadSanitizer does not know fences: there, the order comes from a read-modify-write of the word
    // itself.
    word.fetch_add(0, std::memory_order_acq_rel);
#else
    static_cast<void>(word);
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }
  /// Before looks that must not be older than what was read so far.
  static void acquire_fence() { std::atomic_thread_fence(std::memory_order_acquire); }
  /// Puts stores that went past the caches before all that this thread stores later. They are not ordered
  /// even with a store of release order.
  static void streaming_fence() {
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }

  /// Sleeps until wake(word), or for `timeout_us`, unless the word's value is no longer `value`.
  static void wait(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t timeout_us);
  static void wake(std::atomic<std::uint32_t>& word);
};

}  // namespace diji::collective
