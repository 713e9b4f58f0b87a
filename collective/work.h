// Calls that outlive the function that made them: kept whole, prepared once, or handed over to be done
// later.
#pragma once

#include "base/error.h"
#include "collective/call.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace diji::collective {

/// A call with lists and names of its own. Input and output stay the user's.
class OwnedCall {
 public:
  explicit OwnedCall(const Call& call);
  OwnedCall(const OwnedCall&) = delete;
  OwnedCall& operator=(const OwnedCall&) = delete;
  const Call& call() const { return call_; }

 private:
  Call call_;
  std::string algorithm_;
  std::vector<std::int64_t> lists_[4];
};

/// What follows from a call's arguments alone, and the memory it needs besides the user's.
struct ReadyCall {
  Call call;
  std::string algorithm;               ///< what call.algorithm refers to
  const PreparedPlan* plan = nullptr;  ///< null: not ready
  Regions regions;
  Arithmetic arithmetic;
  std::uint64_t signature = 0;
  CallMemory memory;
};

class Communicator;
class Work;

/// A persistent call (MPI_Allreduce_init): checked, planned and laid out once, run again and again on the
/// same memory. Made by Communicator::prepare; it must not outlive that communicator.
class PreparedCall {
 private:
  friend class Communicator;
  PreparedCall(const Communicator* owner, const Call& call) : owner_(owner), owned_(call) {}
  const Communicator* owner_;
  OwnedCall owned_;
  ReadyCall ready_;
  std::weak_ptr<Work> in_flight_;
};

/// A call that was handed over: the handle of it. Its buffers are borrowed until it is done.
class Work {
 public:
  /// Of one call, or of sends and receives that go together.
  static std::shared_ptr<Work> of(std::span<const Call> calls);
  /// Over, with or without success.
  bool done() const { return done_.load(std::memory_order_acquire); }
  /// The call's own result, once it is over; at the latest that is when the calls before it and its own
  /// deadline have passed. Errors: the call's; deadline (without a peer), where it is not over after
  /// `timeout_us` (-1: however long it takes): it goes on then. Any thread, any number of times.
  Result<void> wait(std::int64_t timeout_us = -1) const;

 private:
  friend class Communicator;
  friend class WorkQueue;
  void finish(Result<void> result);

  std::vector<std::unique_ptr<OwnedCall>> calls_;
  PreparedCall* prepared_ = nullptr;  ///< instead of calls_
  std::atomic<bool> done_ = false;
  mutable std::mutex mutex_;
  mutable std::condition_variable over_;
  Result<void> result_;
};

/// Does what is handed over, one after the other in that order, on a thread of its own.
class WorkQueue {
 public:
  explicit WorkQueue(std::function<Result<void>(Work&)> perform);
  /// After everything handed over is done.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void add(std::shared_ptr<Work> work);
  /// Nothing is waiting or being done; what was done is visible to the caller.
  bool idle() const { return pending_.load(std::memory_order_acquire) == 0; }

 private:
  void work_off();

  std::function<Result<void>(Work&)> perform_;
  std::atomic<int> pending_ = 0;
  std::mutex mutex_;
  std::condition_variable come_;
  std::deque<std::shared_ptr<Work>> queue_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace diji::collective
