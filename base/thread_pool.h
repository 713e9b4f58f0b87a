// One pool of threads for the whole process: kernels are spread over it, and so is compiling.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace diji {

/// The cores this process may use: affinity mask and cgroup quota (v1 and v2) respected, at least 1.
int usable_cores();

/// Workers spin for about 30 µs for the next job, then sleep on a futex: launches that follow each other are
/// cheap, and an idle pool costs nothing. Blocks are claimed dynamically, so which thread runs a block is not
/// fixed: bodies must give the same bits whoever runs them.
///
/// Thread-safe: several threads may call parallel_for; calls are served one after the other. A call from
/// inside a body runs its blocks on the calling thread.
class ThreadPool {
 public:
  /// `threads` counts the caller, so 1 means no worker at all.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  /// Calls body(begin, end, worker) for disjoint ranges that cover [0, count), `worker` in [0, threads()),
  /// and returns when all are done. At most `grain` blocks a call of the body. What a body throws (memory ran
  /// out) ends the call, not the process: when all are done, it is thrown again here.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t begin, std::int64_t end, int worker)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace diji
