// Runs a small program of several threads in every way that the C++ memory model permits: all interleavings,
// and for each load every store that it may return.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace diji::memory_model {

inline constexpr int kThreads = 4;
inline constexpr int kLocations = 40;

/// Where the program names a memory order or makes a fence.
struct Site {
  const char* file = "";
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  bool operator==(const Site&) const = default;
};
/// What may be taken from it: an order's one half or a fence.
enum class Strength : std::uint8_t { acquire, release, full_fence, acquire_fence, streaming_fence };
struct Weakening {
  Site site;
  Strength without = Strength::acquire;
  bool operator==(const Weakening&) const = default;
};

struct Program {
  std::vector<std::function<void()>> threads;
  /// After an execution in which all threads have come to their ends.
  std::function<void()> at_end = [] {};
};

struct Report {
  std::uint64_t executions = 0;   ///< complete ones that differ in what was read or in the order of stores
  std::uint64_t states = 0;       ///< that were gone on from
  std::string fault;              ///< the first one, with the steps that lead to it; empty: none
  std::vector<Weakening> orders;  ///< every order and fence that was met
};

/// `make` gives the program with memory of its own; it is called for each execution. `weakened` is made
/// weaker than it is written. Stops at the first fault.
Report explore(const std::function<Program()>& make, const std::optional<Weakening>& weakened = {});

/// Which happened before what: of each thread how many of its steps, and how many of its streaming stores.
struct Clock {
  std::array<std::uint16_t, kThreads * 2> times{};
  void join(const Clock& other);
};

/// What one execution has done so far, and how it goes on. The model is that of C++20 as RC11 repairs it
/// (Lahav et al. 2017), run as a machine with views (Kang et al. 2017, without promises):
///  - a load returns any store that its thread's view of the location does not exclude; a store goes anywhere
///    in the location's order after that view, but never between a read-modify-write and what it has read;
///  - a view travels with release stores to acquire loads, through read-modify-writes, and through fences;
///    full fences are in one order, and each sees what those before it had seen;
///  - accesses with sequentially consistent order count as acquire and release only, which permits more than
///    the standard does: nothing may rest on them;
///  - plain memory is watched with vector clocks: two accesses, one of them a write, of which neither happens
///    before the other are a fault. A streaming store happens before nothing of another thread until a
///    streaming fence follows it.
/// Not in the model: values out of thin air, and loads that return what is stored later in the execution
/// (load buffering). A thread that waits is parked; the execution goes on without it.
class Execution {
 public:
  using MessageId = std::uint16_t;

  // For atomics, fences and plain memory; never called by programs.
  int add_location(std::uint64_t value);
  std::uint64_t load(int location, std::memory_order order, const Site& site);
  void store(int location, std::uint64_t value, std::memory_order order, const Site& site);
  std::uint64_t change(int location, const std::function<std::uint64_t(std::uint64_t)>& change,
                       std::memory_order order, const Site& site);
  bool compare_exchange(int location, std::uint64_t& expected, std::uint64_t desired,
                        std::memory_order success, std::memory_order failure, const Site& site);
  void full_fence(const Site& site);
  void acquire_fence(const Site& site);
  void streaming_fence(const Site& site);
  void futex_wait(int location, std::uint64_t value);
  void futex_wake(int location);
  /// Metadata of a plain object.
  struct Watched {
    int writer = 0;  ///< an index of a clock
    std::uint16_t written = 0;
    std::array<std::uint16_t, kThreads> read{};
  };
  void plain_read(Watched& watched);
  void plain_write(Watched& watched, bool streaming);

  int choose(int count);
  void park();
  void fail(const std::string& why);
  /// The one that runs in this thread.
  static Execution& running();

 private:
  friend class Explorer;
  struct View {
    std::array<MessageId, kLocations> latest{};  ///< 0: none
  };
  struct Message {
    int location = 0;
    int position = 0;  ///< in the location's order
    std::uint64_t value = 0;
    std::uint32_t name = 0;   ///< the same in every interleaving: thread and number of the step
    bool is_changed = false;  ///< a read-modify-write has read it: nothing comes in between
    View view;
    Clock clock;
  };
  struct Location {
    std::vector<MessageId> order;
    int futex_floor = 0;  ///< position that whoever waits sees at least
  };
  enum class State : std::uint8_t { ready, asleep, parked, finished };
  struct Thread {
    State state = State::ready;
    int asleep_on = -1;
    View current, acquired, released;
    Clock clock, acquired_clock, released_clock;
    std::uint16_t steps = 0;
    std::uint16_t streamed = 0;
    std::uint64_t history = 0;
  };

  Thread& thread() { return threads_[static_cast<std::size_t>(now_)]; }
  Location& at(int location) { return locations_[static_cast<std::size_t>(location)]; }
  const Location& at(int location) const { return locations_[static_cast<std::size_t>(location)]; }
  bool has(std::memory_order order, Strength strength, const Site& site);
  void step(const char* what, int location);
  void read_was(MessageId id);
  int position_of(const View& view, int location) const;
  void join(View& view, const View& other) const;
  MessageId choose_message(int location, int floor, const std::function<bool(const Message&)>& permitted);
  void observe(MessageId id, bool acquires);
  void insert(int location, int position, std::uint64_t value, bool releases, MessageId changed);
  std::uint64_t hash_of(const View& view) const;
  std::uint64_t hash() const;

  std::vector<Message> messages_;
  std::vector<Location> locations_;
  std::array<Thread, kThreads> threads_;
  View fences_;
  int now_ = -1;  ///< the thread that runs, -1: none
  std::string fault_;
  class Explorer* explorer_ = nullptr;
};

/// std::atomic's interface.
template <typename T>
class Atomic {
 public:
  using Where = std::source_location;
  Atomic(T value = T()) : location_(Execution::running().add_location(static_cast<std::uint64_t>(value))) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order, Where where = Where::current()) const {
    return static_cast<T>(Execution::running().load(location_, order, site_of(where)));
  }
  void store(T value, std::memory_order order, Where where = Where::current()) {
    Execution::running().store(location_, static_cast<std::uint64_t>(value), order, site_of(where));
  }
  T exchange(T value, std::memory_order order, Where where = Where::current()) {
    return change([value](T) { return value; }, order, where);
  }
  T fetch_add(T value, std::memory_order order, Where where = Where::current()) {
    return change([value](T old) { return static_cast<T>(old + value); }, order, where);
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order order,
                               Where where = Where::current()) {
    std::uint64_t word = static_cast<std::uint64_t>(expected);
    const std::memory_order failure = order == std::memory_order_acq_rel   ? std::memory_order_acquire
                                      : order == std::memory_order_release ? std::memory_order_relaxed
                                                                           : order;
    const bool done = Execution::running().compare_exchange(
        location_, word, static_cast<std::uint64_t>(desired), order, failure, site_of(where));
    expected = static_cast<T>(word);
    return done;
  }
  int location() const { return location_; }

  static Site site_of(const Where& where) { return {where.file_name(), where.line(), where.column()}; }

 private:
  T change(const std::function<T(T)>& change, std::memory_order order, const Where& where) {
    return static_cast<T>(Execution::running().change(
        location_, [&](std::uint64_t old) { return static_cast<std::uint64_t>(change(static_cast<T>(old))); },
        order, site_of(where)));
  }
  int location_;
};

/// Memory that is not atomic.
template <typename T>
class Plain {
 public:
  Plain(T value = T()) : value_(value) {}
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;
  operator T() const {
    Execution::running().plain_read(watched_);
    return value_;
  }
  Plain& operator=(T value) { return write(value, false); }
  Plain& operator|=(T value) { return *this = *this | value; }
  void stream(T value) { write(value, true); }

 private:
  Plain& write(T value, bool streaming) {
    Execution::running().plain_write(watched_, streaming);
    value_ = value;
    return *this;
  }
  T value_;
  mutable Execution::Watched watched_;
};

/// What collective/processor.h is for a real one.
struct Machine {
  using Where = std::source_location;
  template <typename T>
  using Atomic = memory_model::Atomic<T>;
  static void full_fence(Atomic<std::uint32_t>&, Where where = Where::current()) {
    Execution::running().full_fence(Atomic<std::uint32_t>::site_of(where));
  }
  static void acquire_fence(Where where = Where::current()) {
    Execution::running().acquire_fence(Atomic<std::uint32_t>::site_of(where));
  }
  static void streaming_fence(Where where = Where::current()) {
    Execution::running().streaming_fence(Atomic<std::uint32_t>::site_of(where));
  }
  static void wait(Atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t) {
    Execution::running().futex_wait(word.location(), value);
  }
  static void wake(Atomic<std::uint32_t>& word) { Execution::running().futex_wake(word.location()); }
};

/// Of a program: what must hold, what it waits for (in a loop whose turns change nothing), and what may be
/// one thing or the other.
inline void require(bool holds, const std::string& what) {
  if (!holds) Execution::running().fail(what);
}
inline void await(bool is_there) {
  if (!is_there) Execution::running().park();
}
inline bool either() { return Execution::running().choose(2) == 1; }

}  // namespace diji::memory_model
