// Finds out that two threads use at once what is made for one.
#pragma once

#include <atomic>

namespace diji::collective {

/// Holds the flag, unless somebody does already.
class Busy {
 public:
  explicit Busy(std::atomic<bool>& flag)
      : flag_(flag), mine_(!flag.exchange(true, std::memory_order_acquire)) {}
  ~Busy() {
    if (mine_) flag_.store(false, std::memory_order_release);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  bool mine() const { return mine_; }

 private:
  std::atomic<bool>& flag_;
  bool mine_;
};

}  // namespace diji::collective
