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

}  // namespace

void Processor::wait(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t timeout_us) {
  timespec timeout{};
  timeout.tv_sec = timeout_us / 1'000'000;
  timeout.tv_nsec = timeout_us % 1'000'000 * 1'000;
  futex(word, FUTEX_WAIT, value, &timeout);
}

void Processor::wake(std::atomic<std::uint32_t>& word) { futex(word, FUTEX_WAKE, INT_MAX, nullptr); }

Patience patience_for(int ranks, int cores) {
  // A pause takes 10-40 ns. With a core for each rank, looking goes on for some milliseconds, a time slice:
  // on a machine that does other work too, ranks that sleep sooner never run at the same time (measured: 0.3
  // us became 2 ms). With more ranks than cores the peer most likely needs this core to answer
  // at all: a second look before that costs more than it finds (8 ranks on 2 cores: 24 us became 12).
  if (ranks <= cores) return {.spins = 100'000, .yields = 0};
  return {.spins = 1, .yields = 200};
}

}  // namespace diji::collective
