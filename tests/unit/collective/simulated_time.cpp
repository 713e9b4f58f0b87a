// Fibers by ucontext, which sanitizers are told of; a loop over who can run.
#include "tests/unit/collective/simulated_time.h"

#include "base/check.h"

#include <poll.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DIJI_ASAN_FIBERS 1
#include <sanitizer/common_interface_defs.h>
#endif
#if __has_feature(thread_sanitizer)
#define DIJI_TSAN_FIBERS 1
#include <sanitizer/tsan_interface.h>
#endif
#endif

namespace diji::collective {
namespace {

constexpr std::size_t kStackBytes = 1 << 20;  // sanitizers' frames are large; pages are taken when touched

// Stacks of fibers that have ended, for the next ones.
class Stacks {
 public:
  ~Stacks() {
    for (void* stack : free_) munmap(stack, kStackBytes);
  }
  void* take() {
    if (!free_.empty()) {
      void* stack = free_.back();
      free_.pop_back();
      return stack;
    }
    void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(stack != MAP_FAILED, "memory for a stack");
    return stack;
  }
  void give(void* stack) { free_.push_back(stack); }

 private:
  std::vector<void*> free_;
};

thread_local Stacks stacks;

}  // namespace

class Fiber {
 public:
  Fiber(std::int64_t ahead, std::function<void()> what) : ahead_us(ahead), body(std::move(what)) {
    stack_ = stacks.take();
    getcontext(&own_);
    own_.uc_stack.ss_sp = stack_;
    own_.uc_stack.ss_size = kStackBytes;
    own_.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
#if defined(DIJI_TSAN_FIBERS)
    own_tsan_ = __tsan_create_fiber(0);
    outer_tsan_ = __tsan_get_current_fiber();
#endif
  }
  ~Fiber() {
#if defined(DIJI_TSAN_FIBERS)
    __tsan_destroy_fiber(own_tsan_);
#endif
    stacks.give(stack_);
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // From outside, until it waits.
  void go() {
#if defined(DIJI_ASAN_FIBERS)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stack_, kStackBytes);
#elif defined(DIJI_TSAN_FIBERS)
    __tsan_switch_to_fiber(own_tsan_, 0);
#endif
    swapcontext(&outer_, &own_);
#if defined(DIJI_ASAN_FIBERS)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }
  // From inside.
  void stop() {
#if defined(DIJI_ASAN_FIBERS)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(ended ? nullptr : &fake, outer_stack_, outer_bytes_);
#elif defined(DIJI_TSAN_FIBERS)
    __tsan_switch_to_fiber(outer_tsan_, 0);
#endif
    swapcontext(&own_, &outer_);
#if defined(DIJI_ASAN_FIBERS)
    __sanitizer_finish_switch_fiber(fake, &outer_stack_, &outer_bytes_);
#endif
  }

  std::int64_t ahead_us;
  std::function<void()> body;
  bool ended = false;
  bool frozen = false;
  std::int64_t until_us = 0;  ///< it goes on by then
  Doorbell* bell = nullptr;   ///< or when it rings
  std::uint32_t announced = 0;
  std::vector<pollfd>* descriptors = nullptr;  ///< or when one of them is ready

 private:
  static void enter(unsigned high, unsigned low) {
    auto* self = reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(high) << 32 | low);
#if defined(DIJI_ASAN_FIBERS)
    __sanitizer_finish_switch_fiber(nullptr, &self->outer_stack_, &self->outer_bytes_);
#endif
    self->body();
    self->ended = true;
    self->stop();
  }

  void* stack_ = nullptr;
  ucontext_t own_{};
  ucontext_t outer_{};
#if defined(DIJI_ASAN_FIBERS)
  const void* outer_stack_ = nullptr;
  std::size_t outer_bytes_ = 0;
#elif defined(DIJI_TSAN_FIBERS)
  void* own_tsan_ = nullptr;
  void* outer_tsan_ = nullptr;
#endif
};

std::uint64_t Random::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::int64_t Random::below(std::int64_t limit) {
  return limit <= 1 ? 0 : static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(limit));
}

SimulatedTime::SimulatedTime(std::uint64_t seed) : random_(seed) {}
SimulatedTime::~SimulatedTime() = default;

void SimulatedTime::start(std::int64_t ahead_us, std::function<void()> body) {
  fibers_.push_back(std::make_unique<Fiber>(ahead_us, std::move(body)));
}

void SimulatedTime::later(std::int64_t after_us, std::function<void()> event) {
  events_.push({now_us_ + after_us, events_made_++, std::move(event)});
}

void SimulatedTime::note(std::uint64_t what) {
  trace_ = (trace_ ^ what) * 0x9e3779b97f4a7c15;
  trace_ ^= trace_ >> 29;
}

bool SimulatedTime::run(std::int64_t most_steps) {
  while (true) {
    while (!events_.empty() && events_.top().at_us <= now_us_) {
      const auto happen = std::move(const_cast<Event&>(events_.top()).happen);
      events_.pop();
      speaker_ = -1;
      happen();
    }
    ready_.clear();
    bool all_ended = true;
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = *fibers_[i];
      if (fiber.ended || fiber.frozen) continue;
      all_ended = false;
      if (can_run(fiber)) ready_.push_back(static_cast<int>(i));
    }
    if (all_ended) {  // a frozen one may be thawed by what is to come
      const bool none_frozen = std::ranges::all_of(fibers_, [](const auto& fiber) { return fiber->ended; });
      if (none_frozen || events_.empty()) return true;
    }
    if (ready_.empty()) {
      if (!advance()) return false;
      continue;
    }
    if (++steps_ > most_steps) return false;
    resume(random_.of(std::span<const int>(ready_)));
  }
}

bool SimulatedTime::can_run(Fiber& fiber) {
  const bool rung =
      fiber.bell != nullptr && !deaf_ && fiber.bell->rings.load(std::memory_order_acquire) != fiber.announced;
  const bool ready =
      fiber.descriptors != nullptr && std::ranges::any_of(*fiber.descriptors, [&](const pollfd& one) {
        return readiness_ && readiness_(one.fd, one.events);
      });
  if (rung || ready) {  // it takes a while to wake
    fiber.bell = nullptr;
    fiber.descriptors = nullptr;
    fiber.until_us = std::min(fiber.until_us, now_us_ + random_.below(60));
  }
  return fiber.until_us <= now_us_;
}

bool SimulatedTime::advance() {
  std::int64_t next_us = INT64_MAX;
  for (const auto& fiber : fibers_) {
    if (!fiber->ended && !fiber->frozen) next_us = std::min(next_us, fiber->until_us);
  }
  if (!events_.empty()) next_us = std::min(next_us, events_.top().at_us);
  if (next_us == INT64_MAX) return false;
  now_us_ = std::max(now_us_, next_us);
  return true;
}

void SimulatedTime::resume(int fiber) {
  note(static_cast<std::uint64_t>(now_us_) * 16 + static_cast<std::uint64_t>(fiber));
  Fiber& chosen = *fibers_[static_cast<std::size_t>(fiber)];
  chosen.bell = nullptr;
  chosen.descriptors = nullptr;
  current_ = fiber;
  chosen.go();
  current_ = -1;
}

Fiber& SimulatedTime::running() {
  CHECK(current_ >= 0, "waits outside of a fiber");
  return *fibers_[static_cast<std::size_t>(current_)];
}

void SimulatedTime::wait(Fiber& fiber) {
  constexpr std::int64_t kHiccupOneIn = 300;
  if (hiccup_us_ > 0 && random_.one_in(kHiccupOneIn)) {  // the machine does something else; nothing wakes it
    fiber.bell = nullptr;
    fiber.descriptors = nullptr;
    fiber.until_us = now_us_ + random_.below(hiccup_us_);
  }
  fiber.stop();
}

void SimulatedTime::freeze(int fiber) { fibers_[static_cast<std::size_t>(fiber)]->frozen = true; }
void SimulatedTime::thaw(int fiber) { fibers_[static_cast<std::size_t>(fiber)]->frozen = false; }
bool SimulatedTime::is_frozen(int fiber) const { return fibers_[static_cast<std::size_t>(fiber)]->frozen; }

void SimulatedTime::maybe_switch() {
  constexpr std::int64_t kSwitchOneIn = 3;
  if (current_ < 0 || !random_.one_in(kSwitchOneIn)) return;
  Fiber& fiber = running();
  fiber.until_us = now_us_ + random_.below(3);
  wait(fiber);
}

void SimulatedTime::pause(std::int64_t us) {
  Fiber& fiber = running();
  fiber.until_us = now_us_ + us;
  fiber.stop();
}

std::int64_t SimulatedTime::now_us() {
  const int who = current_ >= 0 ? current_ : speaker_;
  return now_us_ + (who >= 0 ? fibers_[static_cast<std::size_t>(who)]->ahead_us : 0);
}

void SimulatedTime::yield() {
  Fiber& fiber = running();
  fiber.until_us = now_us_ + 1 + random_.below(4);
  wait(fiber);
}

void SimulatedTime::sleep(Doorbell& bell, std::uint32_t announced, std::int64_t longest_us) {
  Fiber& fiber = running();
  constexpr std::int64_t kSpuriousOneIn = 50;
  fiber.bell = &bell;
  fiber.announced = announced;
  fiber.until_us = now_us_ + (random_.one_in(kSpuriousOneIn) ? random_.below(longest_us) : longest_us);
  wait(fiber);
}

void SimulatedTime::poll(std::vector<pollfd>& descriptors, std::int64_t longest_us) {
  Fiber& fiber = running();
  fiber.descriptors = &descriptors;
  fiber.until_us = now_us_ + longest_us;
  wait(fiber);
}

}  // namespace diji::collective
