// The threads and handles of calls that are handed over.
#include "collective/work.h"

#include "base/host_memory.h"

#include <chrono>

namespace diji::collective {

OwnedCall::OwnedCall(const Call& call) : call_(call), algorithm_(call.algorithm) {
  call_.algorithm = algorithm_;
  std::span<const std::int64_t>* const spans[] = {&call_.counts, &call_.displacements, &call_.receive_counts,
                                                  &call_.receive_displacements};
  for (std::size_t i = 0; i < std::size(lists_); ++i) {
    lists_[i].assign(spans[i]->begin(), spans[i]->end());
    *spans[i] = lists_[i];
  }
}

std::shared_ptr<Work> Work::of(std::span<const Call> calls) {
  auto work = std::make_shared<Work>();
  for (const Call& call : calls) work->calls_.push_back(std::make_unique<OwnedCall>(call));
  return work;
}

Result<void> Work::wait(std::int64_t timeout_us) const {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return done(); };
  if (timeout_us < 0) {
    over_.wait(lock, over);
  } else if (!over_.wait_for(lock, std::chrono::microseconds(timeout_us), over)) {
    return fail(ErrorCode::deadline, "the call is not over after {:.3f} s; it goes on",
                static_cast<double>(timeout_us) / 1e6);
  }
  return result_;
}

void Work::finish(Result<void> result) {
  {
    const std::scoped_lock lock(mutex_);
    result_ = std::move(result);
    done_.store(true, std::memory_order_release);
  }
  over_.notify_all();
}

WorkQueue::WorkQueue(std::function<Result<void>(Work&)> perform)
    : perform_(std::move(perform)), thread_([this] { work_off(); }) {}

WorkQueue::~WorkQueue() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  come_.notify_one();
  thread_.join();
}

void WorkQueue::add(std::shared_ptr<Work> work) {
  pending_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(work));
  }
  come_.notify_one();
}

void WorkQueue::work_off() {
  while (true) {
    std::shared_ptr<Work> work;
    {
      std::unique_lock lock(mutex_);
      come_.wait(lock, [this] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    Result<void> result = with_host_memory([&] { return perform_(*work); });
    // Before it counts as done: whoever waited for it may make the next call himself.
    pending_.fetch_sub(1, std::memory_order_release);
    work->finish(std::move(result));
  }
}

}  // namespace diji::collective
