// The machine with views, and the search over its choices: depth first, each execution from the start, until
// a state comes that was gone on from before.
#include "tests/unit/memory_model/explorer.h"

#include "tests/unit/memory_model/fiber.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unordered_set>

namespace diji::memory_model {
namespace {

thread_local Execution* running_execution = nullptr;  // std::atomic's interface has no place for it

std::size_t index_of(int value) { return static_cast<std::size_t>(value); }

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {  // splitmix64's finaliser over a running sum
  hash += value + 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  return hash ^ (hash >> 31);
}

bool names(std::memory_order order, Strength strength) {
  if (order == std::memory_order_acq_rel || order == std::memory_order_seq_cst) return true;
  return order == (strength == Strength::acquire ? std::memory_order_acquire : std::memory_order_release);
}

}  // namespace

class Explorer {
 public:
  Explorer(const std::function<Program()>& make, const std::optional<Weakening>& weakened)
      : make_(make), weakened_(weakened) {}

  Report run() {
    do {
      run_once();
    } while (report_.fault.empty() && next());
    report_.states = visited_.size();
    return std::move(report_);
  }

  int choose(int count) {
    if (count == 1) return 0;
    if (depth_ == decisions_.size()) decisions_.push_back({0, count});
    return decisions_[depth_++].chosen;
  }
  bool keeps(const Weakening& order) {
    if (std::ranges::find(report_.orders, order) == report_.orders.end()) report_.orders.push_back(order);
    return !weakened_ || *weakened_ != order;
  }
  void yield(int thread) { fibers_[index_of(thread)].yield(); }
  bool is_told() const { return told_; }
  void tell(const std::string& line) { story_ += line; }

 private:
  static constexpr std::size_t kStatesMax = 20'000'000;
  struct Decision {
    int chosen = 0;
    int count = 0;
  };

  // The next execution in the order of the decisions; false: that was the last one.
  bool next() {
    while (!decisions_.empty() && decisions_.back().chosen + 1 == decisions_.back().count)
      decisions_.pop_back();
    if (decisions_.empty()) return false;
    ++decisions_.back().chosen;
    return true;
  }

  void run_once() {
    Execution execution;
    play(execution);
    if (execution.fault_.empty()) return;
    // Once more, telling.
    decisions_.resize(depth_);
    told_ = true;
    Execution again;
    play(again);
    report_.fault = fmt::format("{}\n{}", execution.fault_, story_);
  }

  void play(Execution& execution) {
    depth_ = 0;
    execution.explorer_ = this;
    running_execution = &execution;
    execution.messages_.emplace_back();  // number 0 is none
    const Program program = make_();
    const int threads = static_cast<int>(program.threads.size());
    for (int thread = 0; thread < threads; ++thread) {
      execution.threads_[index_of(thread)].clock.times[index_of(thread)] = 1;
      fibers_[index_of(thread)].start(program.threads[index_of(thread)]);
      resume(execution, thread);
    }
    int last = 0;
    while (execution.fault_.empty()) {
      if (depth_ == decisions_.size() && !told_) {
        if (!visited_.insert(execution.hash()).second) return;
        if (visited_.size() > kStatesMax) return execution.fail("too many states to look at all of them");
      }
      // The one that ran goes on first: executions with few switches are easier to read.
      int ready[kThreads];
      int count = 0;
      for (int i = 0; i < threads; ++i) {
        const int thread = (last + i) % threads;
        if (execution.threads_[index_of(thread)].state == Execution::State::ready) ready[count++] = thread;
      }
      if (count == 0) return end(execution, program);
      last = ready[choose(count)];
      resume(execution, last);
    }
  }

  void resume(Execution& execution, int thread) {
    execution.now_ = thread;
    Fiber& fiber = fibers_[index_of(thread)];
    fiber.resume();
    if (fiber.is_finished()) execution.threads_[index_of(thread)].state = Execution::State::finished;
    execution.now_ = -1;
  }

  void end(Execution& execution, const Program& program) {
    const auto is = [](Execution::State state) {
      return [state](const Execution::Thread& thread) { return thread.state == state; };
    };
    const auto threads = std::span(execution.threads_).first(program.threads.size());
    if (std::ranges::any_of(threads, is(Execution::State::parked))) return;
    if (std::ranges::any_of(threads, is(Execution::State::asleep)))
      return execution.fail("a thread sleeps that nobody is left to wake");
    ++report_.executions;
    program.at_end();
  }

  const std::function<Program()>& make_;
  const std::optional<Weakening>& weakened_;
  std::array<Fiber, kThreads> fibers_;
  std::vector<Decision> decisions_;
  std::size_t depth_ = 0;
  std::unordered_set<std::uint64_t> visited_;
  bool told_ = false;
  std::string story_;
  Report report_;
};

Report explore(const std::function<Program()>& make, const std::optional<Weakening>& weakened) {
  return Explorer(make, weakened).run();
}

void Clock::join(const Clock& other) {
  for (std::size_t i = 0; i < times.size(); ++i) times[i] = std::max(times[i], other.times[i]);
}

Execution& Execution::running() { return *running_execution; }

int Execution::add_location(std::uint64_t value) {
  const int location = static_cast<int>(locations_.size());
  if (location == kLocations) fail("more atomics than kLocations");
  const auto name = 0xffff0000 | static_cast<std::uint32_t>(location);
  locations_.push_back({.order = {static_cast<MessageId>(messages_.size())}});
  Message& message = messages_.emplace_back();
  message.location = location;
  message.value = value;
  message.name = name;
  return location;
}

// Everything that other threads may see is a step: whoever is to make the next one is chosen before it.
void Execution::step(const char* what, int location) {
  const int thread_number = now_;
  explorer_->yield(thread_number);
  ++thread().steps;
  if (explorer_->is_told()) {
    explorer_->tell(location < 0
                        ? fmt::format("  thread {}: {}", thread_number, what)
                        : fmt::format("  thread {}: {} of atomic {}", thread_number, what, location));
    explorer_->tell("\n");
  }
}

bool Execution::has(std::memory_order order, Strength strength, const Site& site) {
  return names(order, strength) && explorer_->keeps({site, strength});
}

int Execution::position_of(const View& view, int location) const {
  const MessageId id = view.latest[index_of(location)];
  return id == 0 ? 0 : messages_[id].position;
}

void Execution::join(View& view, const View& other) const {
  for (int location = 0; location < static_cast<int>(locations_.size()); ++location) {
    if (position_of(other, location) > position_of(view, location))
      view.latest[index_of(location)] = other.latest[index_of(location)];
  }
}

Execution::MessageId Execution::choose_message(int location, int floor,
                                               const std::function<bool(const Message&)>& permitted) {
  std::vector<MessageId>& order = at(location).order;
  int count = 0;
  for (int i = floor; i < static_cast<int>(order.size()); ++i)
    count += permitted(messages_[order[index_of(i)]]);
  int left = explorer_->choose(count);
  for (int i = static_cast<int>(order.size()) - 1;; --i) {
    const MessageId id = order[index_of(i)];
    if (permitted(messages_[id]) && left-- == 0) {
      read_was(id);
      return id;
    }
  }
}

void Execution::read_was(MessageId id) {
  thread().history = mix(thread().history, messages_[id].name);
  if (explorer_->is_told()) explorer_->tell(fmt::format("    reads {}\n", messages_[id].value));
}

void Execution::observe(MessageId id, bool acquires) {
  const Message& message = messages_[id];
  Thread& self = thread();
  self.current.latest[index_of(message.location)] = id;
  if (acquires) {
    join(self.current, message.view);
    self.clock.join(message.clock);
  }
  self.acquired.latest[index_of(message.location)] = id;
  join(self.acquired, message.view);
  self.acquired_clock.join(message.clock);
}

void Execution::insert(int location, int position, std::uint64_t value, bool releases, MessageId changed) {
  const auto id = static_cast<MessageId>(messages_.size());
  Thread& self = thread();
  std::vector<MessageId>& order = at(location).order;
  order.insert(order.begin() + position, id);
  Message message{.location = location,
                  .value = value,
                  .name = static_cast<std::uint32_t>(now_) << 16 | self.steps,
                  .view = releases ? self.current : self.released,
                  .clock = releases ? self.clock : self.released_clock};
  messages_.push_back(message);
  for (int i = position; i < static_cast<int>(order.size()); ++i) messages_[order[index_of(i)]].position = i;
  Message& stored = messages_[id];
  stored.view.latest[index_of(location)] = id;
  if (changed != 0) {
    messages_[changed].is_changed = true;
    join(stored.view, messages_[changed].view);
    stored.clock.join(messages_[changed].clock);
  }
  self.current.latest[index_of(location)] = id;
  self.acquired.latest[index_of(location)] = id;
  ++self.clock.times[index_of(now_)];
  if (explorer_->is_told()) explorer_->tell(fmt::format("    writes {}\n", value));
}

std::uint64_t Execution::load(int location, std::memory_order order, const Site& site) {
  step("load", location);
  const MessageId id =
      choose_message(location, position_of(thread().current, location), [](const Message&) { return true; });
  observe(id, has(order, Strength::acquire, site));
  return messages_[id].value;
}

void Execution::store(int location, std::uint64_t value, std::memory_order order, const Site& site) {
  step("store", location);
  const std::vector<MessageId>& all = at(location).order;
  const int floor = position_of(thread().current, location);
  const auto permitted = [&](int position) { return !messages_[all[index_of(position - 1)]].is_changed; };
  int count = 0;
  for (int position = floor + 1; position <= static_cast<int>(all.size()); ++position)
    count += permitted(position);
  int left = explorer_->choose(count);
  int position = static_cast<int>(all.size());
  while (!permitted(position) || left-- != 0) --position;
  insert(location, position, value, has(order, Strength::release, site), 0);
}

std::uint64_t Execution::change(int location, const std::function<std::uint64_t(std::uint64_t)>& change,
                                std::memory_order order, const Site& site) {
  step("change", location);
  const MessageId id = choose_message(location, position_of(thread().current, location),
                                      [](const Message& message) { return !message.is_changed; });
  const bool acquires = has(order, Strength::acquire, site);
  const bool releases = has(order, Strength::release, site);
  observe(id, acquires);
  const std::uint64_t old = messages_[id].value;
  insert(location, messages_[id].position + 1, change(old), releases, id);
  return old;
}

bool Execution::compare_exchange(int location, std::uint64_t& expected, std::uint64_t desired,
                                 std::memory_order success, std::memory_order failure, const Site& site) {
  step("compare-exchange", location);
  const MessageId id = choose_message(
      location, position_of(thread().current, location),
      [&](const Message& message) { return message.value != expected || !message.is_changed; });
  const std::uint64_t old = messages_[id].value;
  const bool succeeds = old == expected;
  observe(id, has(succeeds ? success : failure, Strength::acquire, site));
  if (succeeds)
    insert(location, messages_[id].position + 1, desired, has(success, Strength::release, site), id);
  expected = old;
  return succeeds;
}

void Execution::full_fence(const Site& site) {
  step("full fence", -1);
  Thread& self = thread();
  self.current = self.acquired;
  self.clock.join(self.acquired_clock);
  if (explorer_->keeps({site, Strength::full_fence})) {
    join(self.current, fences_);
    fences_ = self.current;
    join(self.acquired, self.current);
    self.history =
        mix(self.history, hash_of(self.current));  // what it sees depends on which fences came first
  }
  self.released = self.current;
  self.released_clock = self.clock;
  ++self.clock.times[index_of(now_)];
}

// This fence and the next are of their own thread alone: no steps.
void Execution::acquire_fence(const Site& site) {
  if (!explorer_->keeps({site, Strength::acquire_fence})) return;
  thread().current = thread().acquired;
  thread().clock.join(thread().acquired_clock);
}

void Execution::streaming_fence(const Site& site) {
  if (!explorer_->keeps({site, Strength::streaming_fence})) return;
  thread().clock.times[index_of(kThreads + now_)] = thread().streamed;
}

void Execution::futex_wait(int location, std::uint64_t value) {
  step("futex wait", location);
  // The kernel looks at the word under a lock that every wake() before it held.
  const int floor = std::max(position_of(thread().current, location), at(location).futex_floor);
  const MessageId id = choose_message(location, floor, [](const Message&) { return true; });
  observe(id, false);
  if (messages_[id].value != value) return;
  thread().state = State::asleep;
  thread().asleep_on = location;
  explorer_->yield(now_);
}

void Execution::futex_wake(int location) {
  step("futex wake", location);
  at(location).futex_floor = std::max(at(location).futex_floor, position_of(thread().current, location));
  for (Thread& other : threads_) {
    if (other.state == State::asleep && other.asleep_on == location) other.state = State::ready;
  }
}

void Execution::plain_read(Watched& watched) {
  if (now_ < 0) return;
  const Clock& clock = thread().clock;
  if (watched.writer % kThreads != now_ && watched.written > clock.times[index_of(watched.writer)])
    fail(fmt::format("thread {} reads what thread {} {}", now_, watched.writer % kThreads,
                     watched.writer < kThreads ? "writes" : "streams"));
  watched.read[index_of(now_)] = clock.times[index_of(now_)];
}

void Execution::plain_write(Watched& watched, bool streaming) {
  if (now_ < 0) return;
  Thread& self = thread();
  if (watched.writer % kThreads != now_ && watched.written > self.clock.times[index_of(watched.writer)])
    fail(fmt::format("threads {} and {} write the same", now_, watched.writer % kThreads));
  for (int other = 0; other < kThreads; ++other) {
    if (other != now_ && watched.read[index_of(other)] > self.clock.times[index_of(other)])
      fail(fmt::format("thread {} writes what thread {} reads", now_, other));
  }
  watched.writer = streaming ? kThreads + now_ : now_;
  watched.written = streaming ? ++self.streamed : self.clock.times[index_of(now_)];
}

int Execution::choose(int count) {
  const int chosen = explorer_->choose(count);
  thread().history = mix(thread().history, static_cast<std::uint64_t>(chosen));
  return chosen;
}

void Execution::park() {
  thread().state = State::parked;
  while (true) explorer_->yield(now_);
}

void Execution::fail(const std::string& why) {
  if (fault_.empty()) fault_ = why;
  if (now_ >= 0) park();
}

std::uint64_t Execution::hash_of(const View& view) const {
  std::uint64_t hash = 0;
  for (const MessageId id : view.latest) hash = mix(hash, id == 0 ? 0 : messages_[id].name);
  return hash;
}

// Two states of equal hash go on alike: threads are where they are by what they have read, and who sees what
// follows from that, the order of stores and what the fences have seen.
std::uint64_t Execution::hash() const {
  std::uint64_t hash = hash_of(fences_);
  for (const Thread& thread : threads_) {
    for (const std::uint64_t part :
         {thread.history, std::uint64_t{thread.steps}, std::uint64_t(thread.state)})
      hash = mix(hash, part);
  }
  for (const Location& location : locations_) {
    hash = mix(hash, static_cast<std::uint64_t>(location.futex_floor));
    for (const MessageId id : location.order) hash = mix(hash, messages_[id].name);
  }
  return hash;
}

}  // namespace diji::memory_model
