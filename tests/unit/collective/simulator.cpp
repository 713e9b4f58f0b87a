// Every rank makes the same calls, the last two of which bind each pair of ranks; then they are judged.
#include "tests/unit/collective/simulator.h"

#include "base/check.h"
#include "collective/shm_transport.h"
#include "collective/tcp_transport.h"
#include "tests/unit/collective/simulated_rank.h"

#include <algorithm>
#include <array>
#include <optional>

namespace diji::collective {
namespace {

constexpr std::array<std::string_view, kPlantedCount> kPlantedNames = {
    "none", "silent failure", "any tag", "no CRC", "untold death", "read twice", "lost message", "lost ring"};
constexpr int kFinals = 2;  // a rank that notices in the first is missed in the second
constexpr std::int64_t kMostSteps = 3'000'000;

// How long a call may go on once its rank could know of the failure, or its deadline has passed: a sleep that
// nobody ends (50 ms), the comparison of calls that differ (100 ms until it begins, 500 ms for an answer),
// the failure's writing (100 ms) and its settling with other hosts (50 ms), after which those who waited for
// this rank's word need the last 650 ms too; the rest is for the network and for hiccups.
constexpr std::int64_t kBoundUs = 2'000'000;
// On one host that does nothing else messages take microseconds and ranks come within 5 ms of each other; a
// ring that nobody hears costs 50 ms.
constexpr std::int64_t kPromptUs = 40'000;
// What was sent is repeated twice at most before a rank is gone.
constexpr std::int64_t kLeaveUs = 1'200'000;
// A link that is cut ends after 4 s, which are looked at each 250 ms.
constexpr std::int64_t kCutUs = 4'300'000;

std::size_t index_of(int value) { return static_cast<std::size_t>(value); }

struct MadeCall {
  std::int64_t begin_us = 0;
  std::int64_t end_us = 0;
};

struct Outcome {
  std::vector<MadeCall> calls;
  std::vector<std::string> problems;
  std::optional<Error> first;
  bool gone = false;  ///< died or left: no error is expected
  bool ended = false;
};

class World {
 public:
  World(const Scenario& scenario, Planted planted)
      : scenario_(scenario),
        planted_(planted),
        time_(scenario.seed ^ 0x5eed),
        network_(time_, scenario.world(), scenario.network),
        deaths_(time_, scenario.world(), planted == Planted::untold_death),
        outcomes_(index_of(scenario.world())),
        communicators_(index_of(scenario.world())) {
    time_.set_hiccup(scenario.hiccup_us);
    time_.set_deaf(planted == Planted::lost_ring);
    fragment_bytes_ = scenario.slot_bytes;
    const int hosts = *std::ranges::max_element(scenario.hosts) + 1;
    if (hosts > 1) fragment_bytes_ = std::min(scenario.slot_bytes, scenario.frame_bytes);
    for (int host = 0; host < hosts; ++host) {
      const auto ranks = static_cast<int>(std::ranges::count(scenario.hosts, host));
      const SegmentShape shape{.ranks = ranks,
                               .fragment_bytes = scenario.slot_bytes,
                               .pair_slots = scenario.pair_slots,
                               .shared_slots = ranks > 2 ? scenario.shared_slots : 0};
      segments_.push_back(HostSegment::create(shape, 7).value());
      ahead_us_.push_back(host * 1'234'567);  // hosts have clocks of their own
    }
    if (scenario.fault == SimulatedFault::flip)
      network_.flip(scenario.victim, scenario.other, scenario.flip_at, scenario.flip_bit);
  }

  Verdict run() {
    for (int rank = 0; rank < world(); ++rank)
      time_.start(ahead_us_[index_of(host_of(rank))], [this, rank] { live(rank); });
    bool ended = time_.run(kMostSteps);
    if (const auto us = network_.flipped_us()) {
      happened_ = true;
      known_us_ = *us;
    }
    Verdict verdict = judge();
    if (!ended) verdict.problems.push_back(fmt::format("no end after {} steps", time_.steps()));
    verdict.trace = time_.trace();
    verdict.simulated_us = time_.time_us();
    verdict.steps = time_.steps();
    // Whoever is dead returns from where it was, to free what it had.
    for (int rank = 0; rank < world(); ++rank) time_.thaw(rank);
    ended = time_.run(2 * kMostSteps);
    CHECK(ended || !verdict.problems.empty(), "the dead come to an end");
    return verdict;
  }

 private:
  int world() const { return scenario_.world(); }
  int host_of(int rank) const { return scenario_.hosts[index_of(rank)]; }
  bool is_victim(int rank) const { return rank == scenario_.victim; }
  const CallCase& case_of(int number) const { return scenario_.program[index_of(number)]; }

  Group group(int rank) {
    Group group{.id = 7, .rank = rank, .fragment_bytes = fragment_bytes_};
    group.segment = segments_[index_of(host_of(rank))];
    std::vector<int> locals;
    std::vector<std::unique_ptr<Stream>> streams;
    int neighbours = 0;
    for (int other = 0; other < world(); ++other) {
      const bool near = host_of(other) == host_of(rank);
      locals.push_back(near ? neighbours++ : -1);
      group.members.push_back({.host = fmt::format("host{}", host_of(other)),
                               .pid = Deaths::kFirstPid + other,
                               .server = "",
                               .local = locals.back(),
                               .machine = fmt::format("host{}", host_of(other))});
      streams.push_back(near ? nullptr : network_.end(rank, other));
    }
    const auto shm = decorated(
        rank, std::make_shared<ShmTransport>(group.segment, locals[index_of(rank)], locals, no_regions()));
    const bool far = std::ranges::any_of(streams, [](const auto& stream) { return stream != nullptr; });
    const auto tcp = !far ? nullptr
                          : decorated(rank, TcpTransport::create(std::move(streams),
                                                                 {.fragment_bytes = scenario_.frame_bytes,
                                                                  .payload_crc = planted_ != Planted::no_crc,
                                                                  .names = {},
                                                                  .clock = Clock(time_)})
                                                .value());
    for (int other = 0; other < world(); ++other)
      group.links.push_back(other == rank ? nullptr : locals[index_of(other)] >= 0 ? shm : tcp);
    constexpr std::array<std::int64_t, 3> kToldUs = {0, 1'000, 20'000};
    group.watcher = deaths_.watcher(rank, time_.random().of(std::span<const std::int64_t>(kToldUs)));
    return group;
  }

  std::shared_ptr<Transport> decorated(int rank, std::shared_ptr<Transport> inner) {
    const int local =
        static_cast<int>(std::count(scenario_.hosts.begin(), scenario_.hosts.begin() + rank, host_of(rank)));
    const FlightRecorder& recorder = segments_[index_of(host_of(rank))]->board(local).recorder;
    return std::make_shared<SimulatedTransport>(std::move(inner), time_, planted_, recorder, [this, rank] {
      if (is_victim(rank) && messages_left_ >= 0 && --messages_left_ < 0) happen_in_call();
    });
  }

  CommunicatorOptions options(int rank) {
    CommunicatorOptions options;
    options.timeout_us = scenario_.timeout_us;
    options.patience = scenario_.patience;
    options.clock = Clock(time_);
    options.warn = [this, rank](const std::string& text) {
      if (scenario_.passes()) problem(rank, "a warning without a fault: " + text);
    };
    return options;
  }

  void problem(int rank, std::string text) {
    outcomes_[index_of(rank)].problems.push_back(fmt::format("rank {}: {}", rank, std::move(text)));
  }

  // ---- one rank's life, a fiber ----

  void live(int rank) {
    Outcome& outcome = outcomes_[index_of(rank)];
    time_.pause(time_.random().below(3'000));
    auto& communicator = communicators_[index_of(rank)];
    communicator = Communicator::create(group(rank), options(rank)).value();
    const int calls = static_cast<int>(scenario_.program.size());
    for (int number = 0; number < calls + kFinals && !outcome.first && !outcome.gone; ++number) {
      if (time_.random().one_in(3)) time_.pause(time_.random().below(2'000));
      const bool fateful = is_victim(rank) && number == scenario_.call;
      if (fateful) before_fateful_call();
      if (outcome.gone) break;
      make(rank, number);
      if (fateful && messages_left_ >= 0) happen_in_call();  // it had fewer messages
      time_.maybe_switch();
    }
    if (outcome.first) again(rank);
    if (time_.random().one_in(2)) time_.pause(time_.random().below(300'000));
    const std::int64_t leaves_us = time_.time_us();
    communicator.reset();
    if (!outcome.gone && time_.time_us() - leaves_us > kLeaveUs + own_delay_us(rank))
      problem(rank, fmt::format("took {} us to leave", time_.time_us() - leaves_us));
    outcome.ended = true;
  }

  void before_fateful_call() {
    messages_left_ = -1;
    switch (scenario_.fault) {
      case SimulatedFault::none:
      case SimulatedFault::flip: return;  // where the bytes are
      case SimulatedFault::mismatch: return happened();
      case SimulatedFault::late: happened(); return time_.pause(scenario_.lasts_us);
      case SimulatedFault::leave:
        happened();
        outcomes_[index_of(scenario_.victim)].gone = true;
        return;
      default: messages_left_ = scenario_.message;
    }
    if (messages_left_ == 0) happen_in_call();
  }

  void happen_in_call() {
    messages_left_ = -1;
    time_.later(0, [this] { happen(); });
    time_.yield();
  }

  void happened() {
    happened_ = true;
    known_us_ = time_.time_us();
    if (scenario_.second == SimulatedFault::none) return;
    time_.later(scenario_.second_after_us, [this] {
      if (outcomes_[index_of(scenario_.second_victim)].ended) return;
      second_us_ = time_.time_us();
      strike(scenario_.second, scenario_.second_victim, scenario_.second_other, 0);
    });
  }

  // An event.
  void happen() {
    happened();
    strike(scenario_.fault, scenario_.victim, scenario_.other, scenario_.lasts_us);
  }

  // What passes is over later.
  void strike(SimulatedFault fault, int victim, int other, std::int64_t lasts_us) {
    switch (fault) {
      case SimulatedFault::kill:
        outcomes_[index_of(victim)].gone = true;
        deaths_.kill(victim);
        return network_.kill(victim);
      case SimulatedFault::stop:
        time_.freeze(victim);
        return time_.later(lasts_us, [this, victim] { time_.thaw(victim); });
      case SimulatedFault::abort:
        if (communicators_[index_of(victim)]) communicators_[index_of(victim)]->abort("the scenario says so");
        return;
      case SimulatedFault::cut:
      case SimulatedFault::cut_one_way: {
        const bool both = fault == SimulatedFault::cut;
        network_.cut(victim, other);
        if (both) network_.cut(other, victim);
        if (lasts_us == 0) return;
        return time_.later(lasts_us, [this, victim, other, both] {
          network_.heal(victim, other);
          if (both) network_.heal(other, victim);
        });
      }
      case SimulatedFault::stall:
        network_.set_stalled(victim, other, true);
        return time_.later(lasts_us, [this, victim, other] { network_.set_stalled(victim, other, false); });
      case SimulatedFault::reset: return network_.reset(victim, other);
      default: return;
    }
  }

  void make(int rank, int number) {
    Outcome& outcome = outcomes_[index_of(rank)];
    const bool final = number >= std::ssize(scenario_.program);
    CallCase c = final ? CallCase{.operation = Operation::all_to_all, .type = ElementType::u32, .count = 1}
                       : case_of(number);
    if (final) c.algorithm = "pairwise";
    const bool differs =
        is_victim(rank) && number == scenario_.call && scenario_.fault == SimulatedFault::mismatch;
    if (differs) differ(c);
    Communicator& communicator = *communicators_[index_of(rank)];
    MadeCall made{.begin_us = time_.time_us()};
    last_begin_us_ = std::max(last_begin_us_, made.begin_us);
    const auto result =
        c.operation == Operation::send ? around(rank, number, c.count) : make_case(communicator, c);
    made.end_us = time_.time_us();
    outcome.calls.push_back(made);
    time_.note(static_cast<std::uint64_t>(rank * 100 + number) << 8 | (result ? 0U : 1U));
    if (!result) {
      outcome.first = result.error();
      for (const char letter : result.error().message) time_.note(static_cast<unsigned char>(letter));
    } else if (*result && !differs) {
      problem(rank, "call " + std::to_string(number) + " succeeded and is wrong: " + **result);
    }
  }

  // Each rank sends to the next one.
  Result<std::optional<std::string>> around(int rank, int number, std::int64_t count) {
    const int next = (rank + 1) % world();
    const int before = (rank + world() - 1) % world();
    const auto values = [&](int from) {
      std::vector<std::int32_t> vector(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < vector.size(); ++i)
        vector[i] = from * 100'003 + number * 1009 + static_cast<int>(i);
      return vector;
    };
    std::vector<std::int32_t> out = values(rank);
    std::vector<std::int32_t> in(out.size(), -1);
    const Call calls[] = {{.operation = Operation::send,
                           .input = out.data(),
                           .count = count,
                           .type = ElementType::i32,
                           .peer = next},
                          {.operation = Operation::receive,
                           .output = in.data(),
                           .count = count,
                           .type = ElementType::i32,
                           .peer = before}};
    TRY(communicators_[index_of(rank)]->run_group(calls));
    if (in == values(before)) return std::optional<std::string>();
    return fmt::format("what rank {} sent around", before);
  }

  void differ(CallCase& c) const {
    switch (scenario_.difference) {
      case Difference::operation:
        c = {.operation = c.operation == Operation::barrier ? Operation::all_reduce : Operation::barrier,
             .count = c.operation == Operation::barrier ? 1 : 0};
        return;
      case Difference::count: ++c.count; return;
      case Difference::type:
        c.type = c.type == ElementType::u8 ? ElementType::i8 : ElementType::u8;
        c.reals = false;
        c.reduction = Reduction::sum;
        return;
      case Difference::root: c.root = (c.root + 1) % world(); return;
      case Difference::reduction:
        c.reduction = c.reduction == Reduction::max ? Reduction::min : Reduction::max;
        return;
    }
  }

  void again(int rank) {
    Outcome& outcome = outcomes_[index_of(rank)];
    const std::int64_t begin_us = time_.time_us();
    const auto done = communicators_[index_of(rank)]->run({.operation = Operation::barrier});
    if (outcome.gone) return;  // a dead one's
    if (done) {
      problem(rank, "a call after the failure succeeded");
    } else if (done.error().code != outcome.first->code) {
      problem(rank, "another error after the failure: " + done.error().message);
    }
    if (time_.time_us() - begin_us > 0) problem(rank, "a call after the failure waited");
  }

  // ---- what must hold ----

  Verdict judge() const {
    Verdict verdict;
    verdict.happened = happened_;
    verdict.twice = second_us_ > 0;
    const Error* blamed = nullptr;
    for (int rank = 0; rank < world(); ++rank) {
      const Outcome& outcome = outcomes_[index_of(rank)];
      verdict.problems.insert(verdict.problems.end(), outcome.problems.begin(), outcome.problems.end());
      std::vector<std::string> found;
      judge_rank(rank, found);
      for (const std::string& one : found) verdict.problems.push_back(fmt::format("rank {}: {}", rank, one));
      if (!outcome.first || outcome.gone) continue;
      ++verdict.failed;
      if (blamed != nullptr)
        verdict.disagreed |=
            blamed->code != outcome.first->code || blamed->peer.rank != outcome.first->peer.rank;
      blamed = &*outcome.first;
    }
    const bool one_host = segments_.size() == 1;
    if (one_host && verdict.disagreed) verdict.problems.push_back("ranks of one host blame different ones");
    return verdict;
  }

  void judge_rank(int rank, std::vector<std::string>& found) const {
    const Outcome& outcome = outcomes_[index_of(rank)];
    if (outcome.gone) return;
    if (!outcome.ended) found.push_back("never ended");
    const bool no_error = !happened_ || scenario_.passes();
    if (no_error && outcome.first)
      return found.push_back("an error without a fault: " + outcome.first->message);
    judge_times(rank, found);
    if (!outcome.first) {
      // A bit in the padding means nothing; a link that breaks may not be needed any more.
      const bool may_pass = scenario_.fault == SimulatedFault::flip;
      if (!no_error && !may_pass) found.push_back("no error");
      return;
    }
    const Error& error = *outcome.first;
    if (second_us_ > 0) {  // either may have been the first that a rank heard of
      if (exit_code(error.code) != exit_code(ErrorCode::peer_lost))
        found.push_back("another kind of error: " + error.message);
      return;
    }
    const auto blames = [&](int guilty) { return error.peer.rank == guilty; };
    const auto expect = [&](ErrorCode code, bool named) {
      if (error.code != code) return found.push_back("another kind of error: " + error.message);
      if (!named) found.push_back("names another rank: " + error.message);
    };
    const bool either = blames(scenario_.victim) || blames(scenario_.other);
    switch (scenario_.fault) {
      case SimulatedFault::kill:
      case SimulatedFault::leave: return expect(ErrorCode::peer_lost, blames(scenario_.victim));
      case SimulatedFault::abort: return expect(ErrorCode::aborted, blames(scenario_.victim));
      case SimulatedFault::stop:
      case SimulatedFault::late:
        // Those whom it kept waiting have given up and left; why may not have found room in its full buffers.
        if (is_victim(rank) && error.code == ErrorCode::peer_lost && segments_.size() > 1) return;
        return expect(ErrorCode::deadline, blames(scenario_.victim));
      case SimulatedFault::mismatch: {
        const std::string name = fmt::format("rank {} ", scenario_.victim);
        return expect(ErrorCode::call_mismatch, error.message.find(name) != std::string::npos);
      }
      case SimulatedFault::cut:
      case SimulatedFault::cut_one_way:
      case SimulatedFault::reset: return expect(ErrorCode::peer_lost, either);
      // All wait in a circle, which looks the same from everywhere.
      case SimulatedFault::stall: return expect(ErrorCode::deadline, error.peer.rank >= 0);
      case SimulatedFault::flip: return expect(ErrorCode::corrupted, blames(scenario_.victim));
      case SimulatedFault::none: return;
    }
  }

  void judge_times(int rank, std::vector<std::string>& found) const {
    const std::int64_t own_us = own_delay_us(rank);
    for (const MadeCall& call : outcomes_[index_of(rank)].calls) {
      const std::int64_t took_us = call.end_us - call.begin_us;
      if (took_us > scenario_.timeout_us + kBoundUs + own_us)
        found.push_back(fmt::format("a call took {} us", took_us));
      const bool prompt = segments_.size() == 1 && scenario_.hiccup_us == 0;
      const bool before_fault = !happened_ || call.end_us < known_us_;
      if (prompt && before_fault && took_us > kPromptUs)
        found.push_back(fmt::format("a call took {} us: somebody slept through", took_us));
      if (!happened_ || scenario_.passes()) continue;
      const std::int64_t after_us = call.end_us - std::max({call.begin_us, soon_us(), last_begin_us_});
      if (after_us > kBoundUs + own_us)
        found.push_back(fmt::format("a call went on for {} us after all could know", after_us));
    }
  }

  std::int64_t own_delay_us(int rank) const {
    return scenario_.fault == SimulatedFault::stop && is_victim(rank) ? scenario_.lasts_us : 0;
  }

  // From when on everybody can know of the faults without waiting for a deadline.
  std::int64_t soon_us() const {
    const bool cut = second_us_ > 0 && scenario_.second == SimulatedFault::cut;
    return std::max({first_soon_us(), deaths_.told_us(), second_us_ + (cut ? kCutUs : 0)});
  }

  std::int64_t first_soon_us() const {
    switch (scenario_.fault) {
      case SimulatedFault::cut: return known_us_ + kCutUs;
      case SimulatedFault::stop:
      case SimulatedFault::late:
      case SimulatedFault::stall: return last_begin_us_ + scenario_.timeout_us;
      // Whoever sends into the void hears the other one, and is told by him when he leaves, or not at all.
      case SimulatedFault::cut_one_way: return known_us_ + scenario_.timeout_us;
      default: return known_us_;
    }
  }

  const Scenario& scenario_;
  Planted planted_;
  SimulatedTime time_;
  SimulatedNetwork network_;
  Deaths deaths_;
  std::int64_t fragment_bytes_ = 0;
  std::vector<std::shared_ptr<HostSegment>> segments_;
  std::vector<std::int64_t> ahead_us_;
  std::vector<Outcome> outcomes_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  int messages_left_ = -1;  ///< of the victim until the fault
  bool happened_ = false;
  std::int64_t known_us_ = 0;
  std::int64_t second_us_ = 0;  ///< when the second fault happened
  std::int64_t last_begin_us_ = 0;
};

}  // namespace

std::string_view name_of(Planted planted) { return kPlantedNames[static_cast<std::size_t>(planted)]; }

Verdict simulate(const Scenario& scenario, Planted planted) { return World(scenario, planted).run(); }

}  // namespace diji::collective
