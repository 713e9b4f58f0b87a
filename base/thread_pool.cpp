// The pool: one open job at a time, joined by whoever is awake, and closed when its blocks are all claimed.
//
// A launch opens the job and bumps `launches`; a worker that sees the new number joins the job by a
// compare-exchange that only succeeds while it is open. The caller claims blocks like everybody, then closes
// the job and waits for those that joined. So a worker that wakes too late costs the caller nothing, and
// nobody touches a job that has ended.
#include "base/thread_pool.h"

#include "base/check.h"
#include "base/log.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace diji {
namespace {

using Body = std::function<void(std::int64_t begin, std::int64_t end, int worker)>;

constexpr auto kSpinTime = std::chrono::microseconds(30);
constexpr std::uint32_t kOpen = std::uint32_t{1} << 31;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `word` differs from `value`: spinning for a while, as the next launch is often near, then on a
// futex.
std::uint32_t wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  constexpr int kLooksPerClock = 32;  // reading the clock costs about as much as ten pauses
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int look = 0; look < kLooksPerClock; ++look) {
      const std::uint32_t now = word.load(std::memory_order_acquire);
      if (now != value) return now;
      relax();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  std::uint32_t now = word.load(std::memory_order_acquire);
  while (now == value) {
    word.wait(value, std::memory_order_acquire);
    now = word.load(std::memory_order_acquire);
  }
  return now;
}

struct Job {
  const Body* body = nullptr;
  std::int64_t count = 0;
  std::int64_t grain = 1;

  std::int64_t blocks() const { return count / grain + (count % grain != 0 ? 1 : 0); }
  void run_block(std::int64_t block, int worker) const {
    const std::int64_t begin = block * grain;
    (*body)(begin, begin + std::min(grain, count - begin), worker);
  }
};

// The bodies that are running on this thread, innermost first: a call from inside one must not wait for the
// pool.
struct Frame {
  const void* pool;
  int worker;
  const Frame* outer;
};
thread_local const Frame* innermost_frame = nullptr;

class FrameScope {
 public:
  FrameScope(const void* pool, int worker) : frame_{pool, worker, innermost_frame} {
    innermost_frame = &frame_;
  }
  ~FrameScope() { innermost_frame = frame_.outer; }
  FrameScope(const FrameScope&) = delete;
  FrameScope& operator=(const FrameScope&) = delete;

 private:
  Frame frame_;
};

const Frame* frame_of(const void* pool) {
  const Frame* frame = innermost_frame;
  while (frame != nullptr && frame->pool != pool) frame = frame->outer;
  return frame;
}

}  // namespace

struct ThreadPool::State {
  std::mutex one_call;  ///< held by the caller whose job is served
  Job job;              ///< written only while nobody has joined

  // Written by many threads, so each on a cache line of its own.
  alignas(64) std::atomic<std::uint32_t> launches = 0;
  alignas(64) std::atomic<std::uint32_t> joined = 0;  ///< kOpen | number of workers inside the job
  alignas(64) std::atomic<std::int64_t> next_block = 0;
  std::atomic<bool> stopping = false;
  std::atomic<bool> failed = false;  ///< a body threw; the first one writes `failure`
  std::exception_ptr failure;        ///< read when all have left the job
  std::vector<std::thread> workers;

  ~State() {  // of a constructor that throws, too: a thread that is not joined ends the process
    stopping.store(true, std::memory_order_relaxed);
    announce();
    for (std::thread& worker : workers) worker.join();
  }

  void run_blocks(int worker) {
    const FrameScope scope(this, worker);
    const std::int64_t blocks = job.blocks();
    while (true) {
      const std::int64_t block = next_block.fetch_add(1, std::memory_order_relaxed);
      if (block >= blocks) return;
      try {
        job.run_block(block, worker);
      } catch (...) {
        if (!failed.exchange(true, std::memory_order_relaxed)) failure = std::current_exception();
        next_block.store(blocks, std::memory_order_relaxed);  // the rest is for nothing
      }
    }
  }

  void join_job(int worker) {
    std::uint32_t seen = joined.load(std::memory_order_relaxed);
    do {
      if ((seen & kOpen) == 0) return;
    } while (
        !joined.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire, std::memory_order_relaxed));
    run_blocks(worker);
    if (joined.fetch_sub(1, std::memory_order_release) == 1)
      joined.notify_all();  // closed, and the last one out
  }

  void work(int worker) {
    std::uint32_t seen = 0;
    while (true) {
      seen = wait_for_change(launches, seen);
      if (stopping.load(std::memory_order_relaxed)) return;
      join_job(worker);
    }
  }

  void announce() {
    launches.fetch_add(1, std::memory_order_release);
    launches.notify_all();
  }

  void run_job(const Job& next) {
    const std::lock_guard lock(one_call);
    job = next;
    next_block.store(0, std::memory_order_relaxed);
    if (workers.empty() || job.blocks() == 1) {
      run_blocks(0);
    } else {
      joined.store(kOpen, std::memory_order_release);
      announce();
      run_blocks(0);
      std::uint32_t inside = joined.fetch_and(~kOpen, std::memory_order_acquire) & ~kOpen;
      while (inside != 0) inside = wait_for_change(joined, inside);
    }
    if (failed.exchange(false, std::memory_order_relaxed))
      std::rethrow_exception(std::exchange(failure, nullptr));
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  CHECK(threads >= 1, "a pool has at least its caller");
  state_->workers.reserve(static_cast<std::size_t>(threads - 1));
  for (int worker = 1; worker < threads; ++worker) {
    try {
      state_->workers.emplace_back([state = state_.get(), worker] { state->work(worker); });
    } catch (const std::system_error& error) {
      warn("only {} of {} threads could be started: {}", worker, threads, error.what());
      return;  // fewer threads give the same bits
    }
  }
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  CHECK(count >= 0 && grain >= 1, "a count and a grain that make sense");
  if (count == 0) return;
  const Job job = {&body, count, grain};
  const Frame* frame = frame_of(state_.get());
  if (frame == nullptr) return state_->run_job(job);
  const std::int64_t blocks = job.blocks();
  for (std::int64_t block = 0; block < blocks; ++block) job.run_block(block, frame->worker);
}

}  // namespace diji
