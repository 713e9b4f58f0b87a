// The futex under a doorbell: shared between processes, so without FUTEX_PRIVATE_FLAG.
#include "collective/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace diji::collective {
namespace {

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

// ThreadSanitizer does not know fences: there, the order comes from a read-modify-write of the word itself.
void full_fence(std::atomic<std::uint32_t>& word) {
#if defined(__SANITIZE_THREAD__) || (defined(__has_feature) && __has_feature(thread_sanitizer))
  word.fetch_add(0, std::memory_order_seq_cst);
#else
  static_cast<void>(word);
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

void Doorbell::ring() {
  full_fence(sleeping);
  if (sleeping.load(std::memory_order_relaxed) == 0) return;
  rings.fetch_add(1, std::memory_order_release);
  futex(rings, FUTEX_WAKE, INT_MAX, nullptr);
}

std::uint32_t Doorbell::announce() {
  const std::uint32_t before = rings.load(std::memory_order_acquire);
  sleeping.store(1, std::memory_order_relaxed);
  full_fence(sleeping);
  return before;
}

void Doorbell::sleep(std::uint32_t announced, std::int64_t timeout_us) {
  timespec timeout{};
  timeout.tv_sec = timeout_us / 1'000'000;
  timeout.tv_nsec = timeout_us % 1'000'000 * 1'000;
  futex(rings, FUTEX_WAIT, announced, &timeout);
}

Patience patience_for(int ranks, int cores) {
  // A pause takes 10-40 ns. With a core for each rank, looking goes on for some milliseconds, a time slice:
  // on a machine that does other work too, ranks that sleep sooner never run at the same time (measured: 0.3
  // us became 2 ms). With more ranks than cores the peer needs this core to answer at all.
  if (ranks <= cores) return {.spins = 100'000, .yields = 0};
  return {.spins = 20, .yields = 200};
}

}  // namespace diji::collective
