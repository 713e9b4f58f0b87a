// Counted by the C library's hook for children.
#include "collective/forks.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace diji::collective {
namespace {

std::atomic<std::uint32_t> forks = 0;
std::once_flag installed;

}  // namespace

std::uint32_t forks_of_this_process() {
  std::call_once(installed, [] {
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  });
  return forks.load(std::memory_order_relaxed);
}

}  // namespace diji::collective
