// The life of a call: checked, recorded, planned, run; and the patience of whoever waits in it.
#include "collective/communicator.h"

#include "base/check.h"
#include "base/cores.h"
#include "base/log.h"
#include "collective/busy.h"
#include "collective/forks.h"

#include <unistd.h>

#include <algorithm>

namespace diji::collective {
namespace {

// Large operations end in memory that is not read again soon: past this, stores go around the caches.
constexpr std::int64_t kStreamingBytes = 8 << 20;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {  // splitmix64's finaliser over a running sum
  hash += value + 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  return hash ^ (hash >> 31);
}

// Every argument that must be equal on all ranks. Counts that differ from rank to rank are compared message
// by message.
std::uint64_t signature_of(const Call& call, const Group& group, std::string_view algorithm, int slices) {
  std::uint64_t hash = mix(group.id, group.epoch);
  for (const int word :
       {static_cast<int>(call.operation), static_cast<int>(call.reduction), static_cast<int>(call.type),
        has_root(call.operation) ? call.root : 0, static_cast<int>(call.exact)}) {
    hash = mix(hash, static_cast<std::uint64_t>(word));
  }
  hash = mix(hash, call.counts.empty() ? static_cast<std::uint64_t>(call.count) : 0);
  for (const char letter : algorithm) hash = mix(hash, static_cast<unsigned char>(letter));
  return mix(hash, static_cast<std::uint64_t>(slices));
}

}  // namespace

Communicator::Communicator(Group group, CommunicatorOptions options)
    : group_(std::move(group)), options_(std::move(options)) {}

Result<std::unique_ptr<Communicator>> Communicator::create(Group group, CommunicatorOptions options) {
  std::unique_ptr<Communicator> communicator(new Communicator(std::move(group), std::move(options)));
  TRY(communicator->start());
  return communicator;
}

Result<void> Communicator::start() {
  if (!options_.warn) options_.warn = [](const std::string& text) { diji::warn("{}", text); };
  forks_ = forks_of_this_process();
  std::vector<int> here;
  for (const Member& member : group_.members) {
    if (member.local >= 0) here.push_back(member.pid);
  }
  cores_ = usable_cores(here);
  patience_ = options_.patience.value_or(patience_for(group_.segment->shape().ranks, cores_));
  fragment_bytes_ = group_.segment->shape().fragment_bytes;
  for (const auto& link : group_.links) {
    links_.push_back(link.get());
    if (!link) continue;
    fragment_bytes_ = std::min(fragment_bytes_, link->fragment_bytes());
    if (std::ranges::find(transports_, link.get()) == transports_.end()) transports_.push_back(link.get());
  }
  if (group_.fragment_bytes > 0) fragment_bytes_ = group_.fragment_bytes;
  if (group_.tuning) options_.tuning = group_.tuning;
  std::vector<std::string> hosts;
  for (const Member& member : group_.members) hosts.push_back(member.machine);
  shape_ = shape_of(hosts);
  for (const Transport* transport : transports_) {
    descriptors_.clear();
    transport->poll_descriptors(descriptors_);
    (descriptors_.empty() ? has_neighbours_ : polls_) = true;
  }
  // A look at a socket is a system call: fewer of them cost as long as many at memory.
  constexpr int kSocketSpins = 100;
  if (polls_) patience_.spins = std::min(patience_.spins, kSocketSpins);
  Board& own = own_board();
  own.pid.store(getpid(), std::memory_order_relaxed);
  own.rank.store(group_.rank, std::memory_order_relaxed);
  own.heartbeat_us.store(options_.clock.now_us(), std::memory_order_relaxed);
  own.state.store(Board::kPresent, std::memory_order_release);
  if (!group_.watcher) return {};
  heartbeat_ = group_.watcher->beat([segment = group_.segment, memory = group_.memory,
                                     local = group_.members[static_cast<std::size_t>(rank())].local,
                                     clock = options_.clock] {
    segment->board(local).heartbeat_us.store(clock.now_us(), std::memory_order_relaxed);
    if (memory) memory->drop_freed();
  });
  for (int other = 0; other < world(); ++other) {
    const Member& member = group_.members[static_cast<std::size_t>(other)];
    if (other == rank() || member.local < 0 || member.pid == getpid()) continue;
    const auto died = [segment = group_.segment, member, other, reporter = rank()] {
      Board& dead = segment->board(member.local);
      std::uint32_t state = dead.state.load(std::memory_order_acquire);
      while (state != Board::kFinished && !dead.state.compare_exchange_weak(state, Board::kDead)) {
      }
      if (state == Board::kFinished) return;  // it had left properly
      Error error;
      error.code = ErrorCode::peer_lost;
      error.peer.rank = other;
      const auto last = dead.recorder.latest();
      error.peer.sequence = last ? last->sequence : -1;
      error.message = fmt::format("rank {} on {} (pid {}) died", other, member.host, member.pid);
      report_failure(*segment, error, reporter);
    };
    // A fast peer may have been here, done all and left before: that is no failure.
    const auto watched = group_.watcher->watch(member.pid, died);
    if (!watched && watched.error().code != ErrorCode::peer_lost) return watched;
    if (!watched) died();
  }
  return {};
}

Communicator::~Communicator() {
  if (forks_ != forks_of_this_process()) {  // a child's copy says nothing to anybody, and has no threads
    static_cast<void>(queue_.release());
    return;
  }
  queue_.reset();
  heartbeat_.reset();
  if (polls_) tell_failure();
  own_board().state.store(Board::kFinished, std::memory_order_release);
  group_.segment->ring_all();
}

std::string Communicator::transports() const {
  std::vector<std::string_view> names;
  for (const Transport* transport : transports_) names.push_back(transport->name());
  std::ranges::sort(names);
  return fmt::format("{}", fmt::join(names, "+"));
}

bool Communicator::private_memory_is_read() const {
  const int own = group_.members[static_cast<std::size_t>(rank())].local;
  return std::ranges::any_of(group_.members, [&](const Member& member) {
    return member.local >= 0 && member.local != own &&
           group_.segment->channel(own, member.local).reads.load(std::memory_order_relaxed) == Channel::kYes;
  });
}

const PreparedPlan& Communicator::plan_for(const Call& call, const PlanChoice& choice) {
  const PlanKey key{choice.algorithm, choice.slices, has_root(call.operation) ? call.root : 0};
  auto& plan = plans_[key];
  if (!plan) {
    const PlanRequest request = request_of(call, shape_, choice);
    plan = std::make_unique<PreparedPlan>(choice.algorithm->plan(request, rank()));
  }
  return *plan;
}

Result<void> Communicator::may_call(std::string_view name, bool alone) const {
  if (forks_ != forks_of_this_process()) {
    return fail(ErrorCode::usage,
                "{}: this process was forked from rank {}; a child has no communicator (create one of "
                "its own, or fork before)",
                name, rank());
  }
  if (!alone) {
    if (auto failure = reported_failure(*group_.segment))
      return std::unexpected(*failure);  // abort() is at it
    return fail(ErrorCode::usage,
                "{}: another thread is inside a call of this communicator; one at a time, or a "
                "communicator each (dup)",
                name);
  }
  return {};
}

Result<Allocation> Communicator::allocate(std::int64_t bytes) {
  TRY(may_call("allocate", true));
  if (!group_.memory) return fail(ErrorCode::unsupported, "allocate: this group has no registered memory");
  return group_.memory->allocate(bytes);
}

Result<void> Communicator::run_group(std::span<const Call> calls) {
  const Busy busy(busy_);
  TRY(may_call("group", busy.mine()));
  TRY(check_group(calls));
  if (!in_flight()) return exchange(calls);
  return TRY(hand_over(Work::of(calls)))->wait();
}

Result<void> Communicator::check_group(std::span<const Call> calls) const {
  for (const Call& call : calls) {
    if (!is_point_to_point(call.operation)) {
      return fail(ErrorCode::usage, "group: {} is neither send nor receive", name_of(call.operation));
    }
    if (call.peer < 0 || call.peer >= world() || call.peer == rank()) {
      return fail(ErrorCode::usage, "{}: peer {} of {} ranks, of which this is {}", name_of(call.operation),
                  call.peer, world(), rank());
    }
    TRY(check_call(call, rank(), world()));
  }
  return {};
}

// Messages between two ranks are counted by pair: other ranks know nothing of them.
Result<void> Communicator::exchange(std::span<const Call> calls) {
  if (failure_) return std::unexpected(*failure_);
  std::vector<CallTag> tags;
  std::map<std::pair<Operation, int>, std::uint32_t> counts;
  for (const Call& call : calls) {
    Call both = call;  // the same on either side
    both.operation = Operation::send;
    const std::pair key(call.operation, call.peer);
    const std::uint32_t number = pair_calls_[key] + counts[key]++;
    tags.push_back({signature_of(both, group_, "", 1), number});
  }
  if (calls.empty()) return {};
  TRY(point_to_point_.start(calls, tags, rank(), links_, fragment_bytes_));
  for (const auto& [key, count] : counts) pair_calls_[key] += count;
  began_us_ = 0;
  own_board().recorder.begin({.sequence = tags.front().sequence,
                              .operation = calls.front().operation,
                              .type = calls.front().type,
                              .root = calls.front().peer,
                              .count = calls.front().count,
                              .signature = tags.front().signature,
                              .begin_us = options_.clock.coarse_now_us()});
  return finish(point_to_point_, calls.front());
}

Result<void> Communicator::run(const Call& call) {
  if (is_point_to_point(call.operation)) return run_group(std::span(&call, 1));
  const Busy busy(busy_);
  TRY(may_call(name_of(call.operation), busy.mine()));
  if (!in_flight()) return perform(call);
  TRY(check_call(call, rank(), world()));
  return TRY(hand_over(Work::of(std::span(&call, 1))))->wait();
}

Result<void> Communicator::perform(const Call& call) {
  if (failure_) return std::unexpected(*failure_);
  TRY(make_ready(ready_, call));
  return execute(ready_, call);
}

// A loop makes the same call again and again: what follows from its arguments alone is kept.
Result<void> Communicator::make_ready(ReadyCall& ready, const Call& call) {
  if (ready.plan != nullptr && ready.call.same_as(call)) return {};
  ready.plan = nullptr;
  TRY(check_call(call, rank(), world()));
  const PlanChoice choice = TRY(plan_of(call));
  const PreparedPlan& plan = plan_for(call, choice);
  ready.regions = TRY(ready.memory.lay_out(call, plan));
  ready.signature = signature_of(call, group_, choice.algorithm->name, choice.slices);
  const std::int64_t bytes = vector_count(call, world()) * bytes_of(call.type);
  ready.arithmetic = {.reduction = call.reduction,
                      .ranks = call.operation == Operation::scan     ? rank() + 1
                               : call.operation == Operation::exscan ? rank()
                                                                     : world(),
                      .store = bytes >= kStreamingBytes ? Store::streaming : Store::cached,
                      .reducer = options_.reducer.get(),
                      .lends = lends(call.operation, bytes)};
  ready.call = call;
  ready.algorithm = call.algorithm;
  ready.call.algorithm = ready.algorithm;
  ready.plan = &plan;
  return {};
}

bool Communicator::lends(Operation operation, std::int64_t bytes) const {
  switch (group_.private_reads) {
    case PrivateReads::never: return false;
    case PrivateReads::where_faster:
      return reads_are_faster(operation, bytes, group_.segment->shape().ranks, cores_);
    case PrivateReads::always: return !reduces(operation);
  }
  return false;
}

Result<void> Communicator::execute(const ReadyCall& ready, const Call& call) {
  const CallTag tag{ready.signature, sequence_};
  began_us_ = 0;
  own_board().recorder.begin({.sequence = sequence_,
                              .operation = call.operation,
                              .reduction = call.reduction,
                              .type = call.type,
                              .root = has_root(call.operation) ? call.root : -1,
                              .count = call.count,
                              .signature = tag.signature,
                              .begin_us = options_.clock.coarse_now_us()});
  ++sequence_;
  execution_.start(*ready.plan, ready.regions, ready.arithmetic, tag, links_, fragment_bytes_);
  return finish(execution_, call);
}

Result<void> Communicator::finish(Progress& execution, const Call& call) {
  warned_ = published_ = false;
  // A call that would wait for nobody must not succeed in what the others have given up.
  if (auto failure = reported_failure(*group_.segment)) return failed(std::move(*failure), call);
  while (true) {
    const Result<bool> moved = execution.advance();
    if (!moved) {
      if (moved.error().code != ErrorCode::mismatch) return failed(moved.error(), call);
      return failed(mismatch({execution.offender(), execution.offending_tag().sequence}, call), call);
    }
    if (execution.done()) break;
    if (*moved) continue;
    TRY(wait(execution, call));
  }
  own_board().recorder.end(options_.clock.coarse_now_us());
  publish_end();
  return {};
}

// Until something may have moved: looks, then gives the core away, then sleeps; what only time can tell is
// asked before each sleep.
Result<void> Communicator::wait(Progress& execution, const Call& call) {
  for (int look = 0; look < patience_.spins + patience_.yields; ++look) {
    if (look < patience_.spins) {
      relax();
    } else {
      options_.clock.yield();
    }
    const Result<bool> moved = execution.advance();
    if (!moved || *moved || execution.done()) return {};  // an error shows again in the caller's advance
  }
  constexpr std::int64_t kSleepUs = 50'000;
  constexpr std::int64_t kSuspendedUs = 1'000'000;
  Doorbell& bell = own_board().doorbell;
  FlightRecorder& recorder = own_board().recorder;
  std::int64_t before_us = options_.clock.now_us();
  if (began_us_ == 0) {
    began_us_ = before_us;
    deadline_us_ = before_us + (call.timeout_us >= 0 ? call.timeout_us : options_.timeout_us);
  }
  while (true) {
    const std::uint32_t announced = bell.announce();
    if (auto pumped = pump(); !pumped) {
      bell.withdraw();
      return failed(pumped.error(), call);
    }
    const Result<bool> moved = execution.advance();
    if (!moved || *moved || execution.done()) break;
    recorder.waits_for(execution.waits_for());
    if (auto looked = look_around(execution, call, before_us - began_us_); !looked) {
      bell.withdraw();
      return failed(looked.error(), call);
    }
    if (before_us >= deadline_us_) {
      bell.withdraw();
      return failed(late(execution, call, before_us - began_us_), call);
    }
    sleep(bell, announced, std::min(kSleepUs, deadline_us_ - before_us), execution.waits_for());
    recorder.waits_for(-1);  // whoever is stuck from here on waits for nobody
    const std::int64_t after_us = options_.clock.now_us();
    // Whoever was stopped himself must not call the others late.
    if (after_us - before_us > kSuspendedUs) deadline_us_ += after_us - before_us;
    before_us = after_us;
  }
  bell.withdraw();
  return {};
}

Result<void> Communicator::pump() {
  if (!polls_) return {};
  for (Transport* transport : transports_) TRY(transport->pump());
  return {};
}

void Communicator::sleep(Doorbell& bell, std::uint32_t announced, std::int64_t longest_us, int peer) {
  if (!polls_) return options_.clock.sleep(bell, announced, longest_us);
  // Nobody rings a doorbell and writes to a socket at once: where both may wake, the sleep is short.
  constexpr std::int64_t kShortUs = 1'000;
  const std::int64_t most_us = has_neighbours_ ? std::min(kShortUs, longest_us) : longest_us;
  descriptors_.clear();
  for (const Transport* transport : transports_) transport->poll_descriptors(descriptors_);
  const bool sends =
      std::ranges::any_of(descriptors_, [](const pollfd& one) { return (one.events & POLLOUT) != 0; });
  const bool by_memory = peer >= 0 && links_[static_cast<std::size_t>(peer)]->name() == "shm";
  if (has_neighbours_ && by_memory && !sends) return options_.clock.sleep(bell, announced, most_us);
  if (has_neighbours_) bell.withdraw();
  options_.clock.poll(descriptors_, most_us);
}

Result<void> Communicator::look_around(Progress& execution, const Call& call, std::int64_t waited_us) {
  constexpr std::int64_t kCompareUs = 100'000;
  if (auto failure = reported_failure(*group_.segment)) return std::unexpected(*failure);
  if (const auto other = disagreement()) return std::unexpected(mismatch(*other, call));
  const int peer = execution.waits_for();
  if (peer < 0) return {};
  // What a rank sent over a socket may be underway when its board says that it has left; a goodbye comes
  // after.
  const bool by_memory = links_[static_cast<std::size_t>(peer)]->name() == "shm";
  if (by_memory && board(peer).state.load(std::memory_order_acquire) == Board::kFinished) {
    const Result<bool> moved = execution.advance();  // what it sent before it left
    if (!moved || *moved || execution.done()) return {};
    auto error = fail(ErrorCode::peer_lost, "{} has left the communicator", who(peer));
    error.error().peer.rank = peer;
    return error;
  }
  if (waited_us < kCompareUs) return {};
  publish_slow_call(waited_us);
  const auto own = own_board().recorder.latest();
  const auto theirs = own ? call_of(peer, own->sequence) : std::nullopt;
  const bool by_pair = is_point_to_point(call.operation) || (theirs && is_point_to_point(theirs->operation));
  if (theirs && !by_pair && theirs->signature != own->signature)
    return std::unexpected(mismatch({peer, own->sequence}, call));
  if (waited_us >= options_.warning_us && !warned_) {
    warned_ = true;
    options_.warn(fmt::format("rank {}: {}", rank(), late(execution, call, waited_us).message));
  }
  return {};
}

// The first one counts: it is the cause, and all ranks then name the same. Ranks of a host share it in their
// segment; hosts tell each other theirs, and of several at about the same time that of the lowest reporter is
// the first.
Error Communicator::first_failure(const Error& error) {
  std::vector<Abort> all;
  for (Transport* transport : transports_) transport->hear_aborts(all);
  const auto heard = std::ranges::find_if(all, [&](const Abort& one) {
    return one.error.code == error.code && one.error.message == error.message;
  });
  report_failure(*group_.segment, error, heard != all.end() ? heard->reporter : rank());
  // Whoever is writing it may die of it.
  constexpr std::int64_t kWritingUs = 100'000;
  std::int64_t until_us = options_.clock.now_us() + kWritingUs;
  std::optional<Error> written;
  while (!(written = reported_failure(*group_.segment)) && options_.clock.now_us() < until_us)
    options_.clock.yield();
  if (!polls_) return written ? *written : error;
  all.push_back({written ? *written : error, written ? group_.segment->first_failure().reporter : rank()});
  // Whoever tells of the difference may wait for this rank's call; a neighbour's word ended it before that.
  const auto own = own_board().recorder.latest();
  if (own && all.back().error.code == ErrorCode::call_mismatch) publish(*own);
  for (Transport* transport : transports_) transport->broadcast_abort(all.back());
  // A rank that is not in a call speaks later; it hears what the others said then.
  constexpr std::int64_t kSettleUs = 50'000;
  constexpr std::int64_t kLookAgainUs = 1'000;
  until_us = options_.clock.now_us() + kSettleUs;
  bool complete = false;
  while (!complete && options_.clock.now_us() < until_us) {
    complete = true;
    for (Transport* transport : transports_) complete &= transport->hear_aborts(all);
    if (complete) break;
    descriptors_.clear();
    for (const Transport* transport : transports_) transport->poll_descriptors(descriptors_);
    options_.clock.poll(descriptors_, kLookAgainUs);
  }
  return std::ranges::min_element(all, {}, &Abort::reporter)->error;
}

// What no call of this rank has told the other hosts.
void Communicator::tell_failure() {
  const std::optional<Error> failure = reported_failure(*group_.segment);
  if (!failure) return;
  for (Transport* transport : transports_)
    transport->broadcast_abort({*failure, group_.segment->first_failure().reporter});
}

std::unexpected<Error> Communicator::failed(Error error, const Call& call) {
  const auto own = own_board().recorder.latest();  // messages between two ranks have numbers of their own
  const std::int64_t sequence = own ? own->sequence : 0;
  if (error.peer.sequence < 0) error.peer.sequence = sequence;
  Error first = first_failure(error);
  if (first.code == error.code && first.peer.rank == error.peer.rank) first = error;
  const int guilty = static_cast<int>(first.peer.rank);
  if (guilty >= 0 && guilty < world()) {
    first.peer.host = group_.members[static_cast<std::size_t>(guilty)].host;
    first.peer.pid = group_.members[static_cast<std::size_t>(guilty)].pid;
  }
  first.op = std::string(name_of(call.operation));
  first.peer.sequence = sequence;
  first.peer.elapsed_s = began_us_ == 0 ? 0 : static_cast<double>(options_.clock.now_us() - began_us_) / 1e6;
  first.message =
      fmt::format("rank {}: {} #{}: {}", rank(), name_of(call.operation), sequence, first.message);
  failure_ = first;
  if (options_.on_failure) options_.on_failure(first);
  return std::unexpected(std::move(first));
}

void Communicator::abort(const std::string& why) {
  Error error;
  error.code = ErrorCode::aborted;
  error.peer.rank = rank();
  error.message = fmt::format("rank {} ended the communicator: {}", rank(), why);
  report_failure(*group_.segment, error, rank());
  if (!polls_) return;
  const Busy busy(busy_);  // a thread inside of a call tells the others itself
  if (busy.mine() && !in_flight()) tell_failure();
}

}  // namespace diji::collective
