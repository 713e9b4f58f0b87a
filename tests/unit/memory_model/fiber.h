// Several stacks in one thread: what the explorer runs the threads of a program on.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <functional>
#include <memory>

namespace diji::memory_model {

/// A body that can stop in its middle, go on later, or be given up there: then nothing on its stack is
/// destroyed, so only what needs no destructor may live there while it calls yield().
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Gives up what runs, if anything does; the next resume() begins `body`, which must outlive its run.
  void start(const std::function<void()>& body);
  /// Runs until the body yields or ends. From outside of it.
  void resume();
  /// Back to who resumed. From within the body.
  void yield();
  bool is_finished() const { return finished_; }

 private:
  static void enter();
  [[noreturn]] void run();

  static constexpr std::size_t kStackBytes = 64 << 10;
  std::unique_ptr<std::byte[]> stack_ = std::make_unique<std::byte[]>(kStackBytes);
  struct Birth;  ///< contexts that are needed once
  std::unique_ptr<Birth> birth_;
  const std::function<void()>* body_ = nullptr;
  bool finished_ = true;
  std::jmp_buf begin_;    ///< where a body begins
  std::jmp_buf inside_;   ///< where it has yielded
  std::jmp_buf outside_;  ///< who resumed it
  bool begins_ = true;
};

}  // namespace diji::memory_model
