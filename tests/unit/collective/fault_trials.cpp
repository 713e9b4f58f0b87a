// Every rank makes the same calls, the last two of which bind each pair of ranks; a hook under the victim's
// transport lets the fault happen between two messages.
#include "tests/unit/collective/fault_trials.h"

#include "tests/unit/collective/thread_world.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

namespace diji::collective {
namespace {

constexpr int kCalls = 3;                   // of the trial's operation
constexpr int kFinals = 2;                  // a rank that notices in the first is missed in the second
constexpr std::int64_t kBound = 2'500'000;  // us; what is noticed takes 0.1 s, so this is for a busy machine
constexpr std::int64_t kTimeoutUs = 20'000'000;    // no fault but stall may be left to it
constexpr std::int64_t kStallTimeoutUs = 500'000;  // five times what the longest call takes
constexpr std::array kFaultNames = {"vanish", "abort", "mismatch", "late", "destroy", "stall"};
constexpr std::array kDifferenceNames = {"operation", "count", "type", "root", "reduction"};

std::size_t index_of(int value) { return static_cast<std::size_t>(value); }

std::uint64_t next(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

bool binds_blocks(Operation operation) {
  return operation == Operation::all_gather || operation == Operation::reduce_scatter ||
         operation == Operation::gather || operation == Operation::scatter ||
         operation == Operation::all_to_all;
}

class HookedTransport final : public Transport {
 public:
  HookedTransport(std::shared_ptr<Transport> inner, std::function<void()> hook)
      : inner_(std::move(inner)), hook_(std::move(hook)) {}
  std::string_view name() const override { return inner_->name(); }
  std::int64_t fragment_bytes() const override { return inner_->fragment_bytes(); }
  Result<std::optional<Ticket>> send(std::span<const int> peers, CallTag tag,
                                     std::span<const std::byte> bytes) override {
    hook_();
    return inner_->send(peers, tag, bytes);
  }
  Result<std::optional<Ticket>> lend(std::span<const int> peers, CallTag tag,
                                     std::span<const std::byte> bytes) override {
    hook_();
    return inner_->lend(peers, tag, bytes);
  }
  bool is_free(Ticket ticket) override { return inner_->is_free(ticket); }
  int reader_of(Ticket ticket) const override { return inner_->reader_of(ticket); }
  Result<std::optional<Message>> peek(int peer) override { return inner_->peek(peer); }
  Result<bool> read(int peer, std::byte* target) override { return inner_->read(peer, target); }
  Result<void> release(int peer) override {
    hook_();
    return inner_->release(peer);
  }

 private:
  std::shared_ptr<Transport> inner_;
  std::function<void()> hook_;
};

std::uint32_t value_of(int call, int rank, std::int64_t index) {
  return static_cast<std::uint32_t>(call * 1009 + rank * 131 + index * 7);
}

// The buffers of one call of one rank, and what must be in them afterwards.
template <typename T>
class Buffers {
 public:
  // One element more than the call needs in each block: a victim with another count needs it.
  Buffers(const Trial& trial, Operation operation, std::int64_t count, int number, int rank)
      : trial_(trial), operation_(operation), count_(count), number_(number), rank_(rank) {
    const std::int64_t most = (count + 1) * trial.world;
    input_.resize(index_of_size(most));
    output_.assign(index_of_size(most), T{0x5a});
    for (std::int64_t i = 0; i < most; ++i)
      input_[index_of_size(i)] = static_cast<T>(value_of(number, rank, i));
  }
  const T* input() const { return input_.data(); }
  T* output() { return output_.data(); }

  bool right() const {
    switch (operation_) {
      case Operation::all_reduce: return block(0, [&](std::int64_t i) { return sum(trial_.world, i); });
      case Operation::reduce:
        return rank_ != trial_.root || block(0, [&](std::int64_t i) { return sum(trial_.world, i); });
      case Operation::scan: return block(0, [&](std::int64_t i) { return sum(rank_ + 1, i); });
      case Operation::exscan: return rank_ == 0 || block(0, [&](std::int64_t i) { return sum(rank_, i); });
      case Operation::reduce_scatter:
        return block(0, [&](std::int64_t i) { return sum(trial_.world, rank_ * count_ + i); });
      case Operation::broadcast:
        return block(0, [&](std::int64_t i) { return value_of(number_, trial_.root, i); });
      case Operation::scatter:
        return block(0, [&](std::int64_t i) { return value_of(number_, trial_.root, rank_ * count_ + i); });
      case Operation::gather:
        if (rank_ != trial_.root) return true;
        [[fallthrough]];
      case Operation::all_gather:
        return each([&](int from, std::int64_t i) { return value_of(number_, from, i); });
      case Operation::all_to_all:
        return each([&](int from, std::int64_t i) { return value_of(number_, from, rank_ * count_ + i); });
      case Operation::send: {  // around the ring
        const int before = (rank_ + trial_.world - 1) % trial_.world;
        return block(0, [&](std::int64_t i) { return value_of(number_, before, i); });
      }
      default: return true;
    }
  }

 private:
  static std::size_t index_of_size(std::int64_t value) { return static_cast<std::size_t>(value); }
  std::uint32_t sum(int ranks, std::int64_t i) const {
    std::uint32_t all = 0;
    for (int rank = 0; rank < ranks; ++rank) all += value_of(number_, rank, i);
    return all;
  }
  template <typename Value>
  bool block(std::int64_t first, const Value& value) const {
    for (std::int64_t i = 0; i < count_; ++i) {
      if (output_[index_of_size(first + i)] != static_cast<T>(value(i))) return false;
    }
    return true;
  }
  template <typename Value>
  bool each(const Value& value) const {
    for (int from = 0; from < trial_.world; ++from) {
      if (!block(from * count_, [&](std::int64_t i) { return value(from, i); })) return false;
    }
    return true;
  }

  const Trial& trial_;
  Operation operation_;
  std::int64_t count_;
  int number_;
  int rank_;
  std::vector<T> input_;
  std::vector<T> output_;
};

struct Outcome {
  int calls = 0;  ///< that succeeded
  bool wrong = false;
  std::int64_t longest_us = 0;  ///< of a call that failed; one that works may take what a busy machine needs
  std::optional<Error> first;
  std::optional<Error> later;
  bool later_succeeded = false;
  bool left = false;  ///< without an error: vanished or destroyed
};

class TrialRun {
 public:
  explicit TrialRun(const Trial& trial)
      : trial_(trial),
        world_(trial.world, options(), shape(trial)),
        outcomes_(index_of(trial.world)),
        communicators_(index_of(trial.world)) {
    if (trial.private_reads) world_.read_private_memory();
  }

  std::vector<std::string> run() {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < trial_.world; ++rank) threads.emplace_back([this, rank] { live(rank); });
    for (std::thread& thread : threads) thread.join();
    return judge();
  }

 private:
  CommunicatorOptions options() const {
    CommunicatorOptions options;
    options.timeout_us = trial_.fault == Fault::stall ? kStallTimeoutUs : kTimeoutUs;
    options.warn = [](const std::string&) {};
    return options;
  }
  // Small fragments: a call has many messages, between which it can be interrupted.
  // Where the clock decides, what users have.
  static SegmentShape shape(const Trial& trial) {
    if (trial.fault == Fault::stall) return SegmentShape::for_ranks(trial.world);
    return {.ranks = trial.world,
            .fragment_bytes = 16 << 10,
            .pair_slots = 2,
            .shared_slots = trial.world > 2 ? 4 : 0};
  }

  void live(int rank) {
    Outcome& outcome = outcomes_[index_of(rank)];
    Group group = world_.group(rank);
    if (rank == trial_.victim) {
      for (auto& link : group.links) {
        if (link) link = std::make_shared<HookedTransport>(link, [this] { message(); });
      }
    }
    auto& communicator = communicators_[index_of(rank)];
    communicator = Communicator::create(std::move(group), options()).value();
    for (int number = 0; number < kCalls + kFinals && !outcome.left && !outcome.first; ++number) {
      if (rank == trial_.victim && number == trial_.call) {
        messages_ = 0;
        if (trial_.step < 0) happen();
      }
      if (number == kCalls + kFinals - 1 && rank == trial_.victim) messages_ = -1;  // too late for a fault
      if (outcome.left) break;
      make(rank, number, outcome);
    }
    if (outcome.first) again(*communicator, outcome);
    ++done_;
  }

  // The victim's thread only.
  void message() {
    if (messages_ >= 0 && messages_++ == trial_.step) happen();
  }

  void happen() {
    Outcome& outcome = outcomes_[index_of(trial_.victim)];
    auto& communicator = communicators_[index_of(trial_.victim)];
    messages_ = -1;
    happened_ = true;
    switch (trial_.fault) {
      case Fault::vanish: {
        outcome.left = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(trial_.told_ms));
        world_.segment().board(trial_.victim).state.store(Board::kDead);
        Error error;
        error.code = ErrorCode::peer_lost;
        error.peer.rank = trial_.victim;
        error.message = fmt::format("rank {} on here (pid 0) died", trial_.victim);
        report_failure(world_.segment(), error, (trial_.victim + 1) % trial_.world);
        return wait_for_the_others();
      }
      case Fault::abort: std::thread([&] { communicator->abort("the trial says so"); }).join(); return;
      case Fault::late: std::this_thread::sleep_for(std::chrono::milliseconds(150)); return;
      case Fault::destroy:
        outcome.left = true;
        communicator.reset();
        return;
      case Fault::stall: return wait_for_the_others();
      case Fault::mismatch: return;
    }
  }

  void wait_for_the_others() const {
    while (done_ < trial_.world - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  void make(int rank, int number, Outcome& outcome) {
    if (trial_.bytes % 4 != 0) return make_of<std::uint8_t>(rank, number, outcome);
    return make_of<std::uint32_t>(rank, number, outcome);
  }

  template <typename T>
  void make_of(int rank, int number, Outcome& outcome) {
    const bool final = number >= kCalls;
    const Operation operation = final              ? Operation::all_to_all
                                : trial_.algorithm ? trial_.algorithm->operation
                                                   : Operation::send;
    std::int64_t count = final ? 1 : trial_.bytes / std::int64_t{sizeof(T)};
    if (!final && binds_blocks(operation) && count > 0)
      count = std::max<std::int64_t>(count / trial_.world, 1);
    Buffers<T> buffers(trial_, operation, count, number, rank);
    Call call{.operation = operation,
              .input = buffers.input(),
              .output = buffers.output(),
              .count = count,
              .type = sizeof(T) == 1 ? ElementType::u8 : ElementType::u32,
              .root = trial_.root,
              .algorithm = final              ? std::string_view("pairwise")
                           : trial_.algorithm ? trial_.algorithm->name
                                              : std::string_view()};
    const bool differs = trial_.fault == Fault::mismatch && rank == trial_.victim && number == trial_.call;
    if (differs) differ(call);
    const std::int64_t begin_us = now_us();
    const Result<void> done =
        call.operation == Operation::send ? around(rank, call) : communicators_[index_of(rank)]->run(call);
    const bool waits_itself = rank == trial_.victim && number == trial_.call;  // the fault may be to wait
    if (!done) {
      if (!waits_itself) outcome.longest_us = std::max(outcome.longest_us, now_us() - begin_us);
      outcome.first = done.error();
      return;
    }
    ++outcome.calls;
    if (!differs && !buffers.right()) outcome.wrong = true;
  }

  Result<void> around(int rank, Call call) {
    Call calls[2] = {call, call};
    calls[0].peer = (rank + 1) % trial_.world;
    calls[1].operation = Operation::receive;
    calls[1].peer = (rank + trial_.world - 1) % trial_.world;
    return communicators_[index_of(rank)]->run_group(calls);
  }

  void differ(Call& call) const {
    switch (trial_.difference) {
      case Difference::operation:
        if (call.operation == Operation::barrier) {
          call.operation = Operation::all_reduce;
          call.count = 1;
        } else {
          call.operation = Operation::barrier;
        }
        call.algorithm = "";
        return;
      case Difference::count: ++call.count; return;
      case Difference::type:
        call.type = call.type == ElementType::u8 ? ElementType::i8 : ElementType::i32;
        return;
      case Difference::root: call.root = (call.root + 1) % trial_.world; return;
      case Difference::reduction: call.reduction = Reduction::max; return;
    }
  }

  static void again(Communicator& communicator, Outcome& outcome) {
    const std::int64_t begin_us = now_us();
    const Result<void> done = communicator.run({.operation = Operation::barrier});
    outcome.longest_us = std::max(outcome.longest_us, now_us() - begin_us);
    if (done) {
      outcome.later_succeeded = true;
    } else {
      outcome.later = done.error();
    }
  }

  std::vector<std::string> judge() const {
    std::vector<std::string> problems;
    const bool fails = happened_ && trial_.fault != Fault::late;
    const auto expected =
        std::array{ErrorCode::peer_lost, ErrorCode::aborted,   ErrorCode::call_mismatch,
                   ErrorCode::failed,    ErrorCode::peer_lost, ErrorCode::deadline}[index_of(
            static_cast<int>(trial_.fault))];
    const std::optional<Error> recorded = reported_failure(world_.segment());
    for (int rank = 0; rank < trial_.world; ++rank) {
      const Outcome& outcome = outcomes_[index_of(rank)];
      const auto problem = [&](std::string text) {
        problems.push_back(fmt::format("rank {}: {}", rank, std::move(text)));
      };
      if (outcome.wrong) problem("a call succeeded with wrong bytes");
      if (outcome.longest_us > kBound) problem(fmt::format("a call took {} us", outcome.longest_us));
      if (outcome.left) continue;
      if (!fails) {
        if (outcome.first) problem("an error without a fault: " + outcome.first->message);
        continue;
      }
      if (!outcome.first) {
        problem("no error");
        continue;
      }
      const Error& error = *outcome.first;
      if (error.code != expected) problem("another kind of error: " + error.message);
      if (outcome.later_succeeded) problem("a later call succeeded");
      if (outcome.later && outcome.later->code != error.code)
        problem("later another error: " + outcome.later->message);
      if (!recorded || recorded->code != error.code || recorded->peer.rank != error.peer.rank)
        problem("not what was noticed first: " + error.message);
      const bool named = trial_.fault == Fault::mismatch
                             ? error.message.find(fmt::format("rank {} ", trial_.victim)) != std::string::npos
                             : error.peer.rank == trial_.victim;
      if (!named) problem("names another rank: " + error.message);
    }
    return problems;
  }

  const Trial& trial_;
  mutable ThreadWorld world_;
  std::vector<Outcome> outcomes_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::atomic<int> done_ = 0;
  std::atomic<bool> happened_ = false;
  int messages_ = -1;
};

}  // namespace

Trial draw_trial(std::uint64_t seed) {
  std::uint64_t state = seed;
  const auto below = [&](std::size_t limit) { return static_cast<int>(next(state) % limit); };
  Trial trial{.seed = seed};
  trial.world = 2 + below(4);
  trial.root = below(index_of(trial.world));
  const auto all = algorithms();
  const int row = below(all.size() + 1);
  if (row < std::ssize(all)) {
    trial.algorithm = &all[index_of(row)];
    const PlanRequest request{
        .operation = trial.algorithm->operation, .world = trial.world, .root = trial.root};
    if (!trial.algorithm->supports(request))
      trial.algorithm = &*std::ranges::find(all, trial.algorithm->operation, &Algorithm::operation);
  }
  trial.bytes = std::array<std::int64_t, 4>{0, 8, (64 << 10) + 1, 4 << 20}[index_of(below(4))];
  trial.victim = below(index_of(trial.world));
  trial.fault = static_cast<Fault>(below(kFaultCount));
  trial.call = below(kCalls);
  trial.private_reads = seed % 2 == 0;
  trial.told_ms = std::array{0, 0, 20}[index_of(below(3))];
  const bool inside = below(3) > 0 && trial.fault != Fault::destroy && trial.fault != Fault::mismatch;
  trial.step = inside ? std::array{0, 1, 2, 3, 7, 30}[index_of(below(6))] : -1;
  const Operation operation = trial.algorithm ? trial.algorithm->operation : Operation::send;
  std::vector<Difference> differences = {Difference::operation};
  if (operation != Operation::barrier) differences.push_back(Difference::count);
  if (operation != Operation::barrier && trial.bytes > 0) {  // empty calls send nothing that could differ
    differences.push_back(Difference::type);
    if (has_root(operation)) differences.push_back(Difference::root);
    if (reduces(operation)) differences.push_back(Difference::reduction);
  }
  trial.difference = differences[index_of(below(differences.size()))];
  return trial;
}

std::string text_of(const Trial& trial) {
  return fmt::format(
      "seed {}: world {}, {} {}, {} bytes{}, root {}; rank {}: {}{} {} call {}", trial.seed, trial.world,
      trial.algorithm ? name_of(trial.algorithm->operation) : "ring of sends",
      trial.algorithm ? trial.algorithm->name : "", trial.bytes,
      trial.private_reads ? " in private memory that is read" : "", trial.root, trial.victim,
      kFaultNames[index_of(static_cast<int>(trial.fault))],
      trial.fault == Fault::mismatch
          ? fmt::format(" of {}", kDifferenceNames[index_of(static_cast<int>(trial.difference))])
          : "",
      trial.step < 0 ? "before" : fmt::format("at message {} of", trial.step), trial.call);
}

std::vector<std::string> run_trial(const Trial& trial) { return TrialRun(trial).run(); }

}  // namespace diji::collective
