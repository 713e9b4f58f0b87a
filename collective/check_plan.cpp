// One symbolic run of all ranks' plans over channels without room.
#include "collective/check_plan.h"

#include "collective/symbolic.h"

#include <algorithm>
#include <optional>
#include <set>

namespace diji::collective {
namespace {

bool receives(Action action) {
  return action == Action::receive || action == Action::receive_reduce || action == Action::fold;
}
bool reads_source(Action action) { return action != Action::receive; }
bool writes_target(Action action) { return action != Action::send; }
// Whether a step of a fold expects a message from `peer`.
bool expects(const Step& step, int rank, int peer) {
  if (step.action != Action::fold) return receives(step.action) && step.peer == peer;
  return peer != rank && step.fold_position(peer) >= 0;
}
bool has_own_part(const Step& step, int rank) {
  return step.action != Action::fold || step.fold_position(rank) >= 0;
}

constexpr std::string_view kPlaceNames[] = {"input", "output", "partial", "scratch"};
std::string_view name_of(Place place) { return kPlaceNames[static_cast<std::size_t>(place)]; }
constexpr std::string_view kActionNames[] = {"send", "receive", "receive_reduce", "fold", "copy", "reduce"};

std::string text_of(const Step& step) {
  const std::string_view action = kActionNames[static_cast<std::size_t>(step.action)];
  std::string text = fmt::format("{} in round {}", action, step.round);
  if (step.peer >= 0) text += fmt::format(", peer {}", step.peer);
  if (reads_source(step.action)) text += fmt::format(", from {} {}", name_of(step.source), step.source_chunk);
  if (writes_target(step.action)) text += fmt::format(", to {} {}", name_of(step.target), step.target_chunk);
  return text;
}

class Run {
 public:
  Run(std::span<const Plan> plans, Aliasing aliasing)
      : plans_(plans), aliasing_(aliasing), world_(static_cast<int>(plans.size())), terms_(world_) {}

  Result<PlanFacts> run() {
    for (const Plan& plan : plans_) TRY(start(plan));
    bool moved = true;
    while (moved) {
      moved = false;
      for (int rank = 0; rank < world_; ++rank) moved |= TRY(advance(rank));
    }
    for (const Rank& rank : ranks_) {
      if (rank.at == rank.plan->steps.size()) continue;
      for (std::size_t i = rank.at; i < rank.end; ++i) {
        if (!rank.done[i])
          return wrong(rank, &rank.plan->steps[i], "nobody ever meets it: the ranks wait for each other");
      }
    }
    for (const Rank& rank : ranks_) TRY(check_result(rank));
    return facts();
  }

 private:
  struct Rank {
    const Plan* plan = nullptr;
    bool partial_is_output = false;
    std::vector<TermId> values[4];  ///< by place and chunk; aliased ones in the place that comes first
    std::size_t at = 0;             ///< first step of the round
    std::size_t end = 0;
    std::vector<char> done;                  ///< by step
    std::vector<std::vector<TermId>> folds;  ///< by step: what arrived, by position in the fold
    RankSet known;                           ///< who reached us, for barriers
    RankSet known_before;                    ///< when the round began
    std::int64_t sent = 0;
    int rounds = 0;
  };
  struct Location {
    Place place;
    int chunk;
    auto operator<=>(const Location&) const = default;
  };

  std::unexpected<Error> wrong(const Rank& rank, const Step* step, std::string_view what) const {
    const Plan& plan = *rank.plan;
    return fail(ErrorCode::failed, "{} {}, world {}, slices {}, root {}{}{}: rank {}{}{}: {}",
                collective::name_of(plan.request.operation), plan.algorithm, world_, plan.request.slices,
                plan.request.root, aliasing_.in_place ? ", in place" : "",
                aliasing_.partial_is_output ? ", partial in output" : "", plan.rank,
                step != nullptr ? ": " : "", step != nullptr ? text_of(*step) : "", what);
  }

  Location location(const Rank& rank, Place place, int chunk) const {
    const ChunkRange output = chunks_at(Place::output, *rank.plan);
    if (place == Place::partial && rank.partial_is_output && output.contains(chunk)) place = Place::output;
    if (place == Place::output && aliasing_.in_place && chunks_at(Place::input, *rank.plan).contains(chunk)) {
      place = Place::input;
    }
    return {place, chunk};
  }
  TermId& value(Rank& rank, Place place, int chunk) {
    const Location where = location(rank, place, chunk);
    return rank.values[static_cast<std::size_t>(where.place)][static_cast<std::size_t>(where.chunk)];
  }

  Result<void> start(const Plan& plan) {
    Rank rank{.plan = &plan, .known = RankSet::range(world_, plan.rank, plan.rank + 1)};
    rank.known_before = rank.known;
    rank.partial_is_output = aliasing_.partial_is_output && partial_may_be_output(plan, aliasing_.in_place);
    if (plan.rank != static_cast<int>(ranks_.size()))
      return wrong(rank, nullptr, "plans are not in the order of ranks");
    if (plan.request != plans_[0].request || plan.blocks != plans_[0].blocks || plan.request.world != world_)
      return wrong(rank, nullptr, "it is made for another request than rank 0's");
    for (int place = 0; place < 4; ++place) {
      const int chunks =
          place == 3 ? plan.scratch_chunks : plan.chunks() * (place == 2 ? plan.partial_copies : 1);
      rank.values[place].assign(static_cast<std::size_t>(chunks), kUndefined);
    }
    const ChunkRange input = chunks_at(Place::input, plan);
    for (int chunk = input.first; chunk < input.first + input.count; ++chunk) {
      rank.values[0][static_cast<std::size_t>(chunk)] = terms_.leaf(plan.rank, chunk);
    }
    rank.done.assign(plan.steps.size(), 0);
    rank.folds.resize(plan.steps.size());
    int round = -1;
    for (const Step& step : plan.steps) {
      if (step.round < round) return wrong(rank, &step, "rounds go backwards");
      round = step.round;
      TRY(check_step(rank, step));
    }
    ranks_.push_back(std::move(rank));
    return open_round(ranks_.back());
  }

  Result<void> check_step(const Rank& rank, const Step& step) const {
    const Plan& plan = *rank.plan;
    const bool talks = step.action == Action::send || receives(step.action);
    const int last = step.action == Action::fold ? step.fold_rank(step.peers - 1) : step.peer;
    if (talks && (step.peer < 0 || last >= world_)) return wrong(rank, &step, "no such peer");
    if (talks && step.action != Action::fold && step.peer == plan.rank)
      return wrong(rank, &step, "a rank talks to itself");
    if (reads_source(step.action) && has_own_part(step, plan.rank) &&
        !chunks_at(step.source, plan).contains(step.source_chunk)) {
      return wrong(rank, &step, "the source does not exist here");
    }
    if (!writes_target(step.action)) return {};
    if (!chunks_at(step.target, plan).contains(step.target_chunk))
      return wrong(rank, &step, "the target does not exist here");
    const bool combines =
        step.action == Action::receive_reduce || step.action == Action::fold || step.action == Action::reduce;
    if (combines && step.target != Place::partial)
      return wrong(rank, &step, "a partial result outside of partial");
    if (location(rank, step.target, step.target_chunk).place == Place::input && !aliasing_.in_place) {
      return wrong(rank, &step, "the input is written");
    }
    return {};
  }

  // The next round: its local steps are done at once.
  Result<void> open_round(Rank& rank) {
    const std::vector<Step>& steps = rank.plan->steps;
    rank.at = rank.end;
    while (rank.end < steps.size() && steps[rank.end].round == steps[rank.at].round) ++rank.end;
    if (rank.at == rank.end) return {};
    ++rank.rounds;
    rank.known_before = rank.known;
    TRY(check_conflicts(rank, std::span(steps).subspan(rank.at, rank.end - rank.at)));
    for (std::size_t i = rank.at; i < rank.end; ++i) {
      const Step& step = steps[i];
      if (step.action == Action::copy || step.action == Action::reduce) TRY(run_local(rank, i));
      if (step.action == Action::fold && step.peers == 1 && has_own_part(step, rank.plan->rank)) {
        TRY(end_fold(rank, i, {value(rank, step.source, step.source_chunk)}));
      }
    }
    return {};
  }

  // No step of a round may touch what another one of it writes.
  Result<void> check_conflicts(const Rank& rank, std::span<const Step> steps) const {
    // In place, a copy from input to output is nothing.
    const auto is_nothing = [&](const Step& step) {
      return step.action == Action::copy && step.source == Place::input && step.target == Place::output &&
             location(rank, step.source, step.source_chunk) == location(rank, step.target, step.target_chunk);
    };
    const auto reads = [&](const Step& step) {
      return reads_source(step.action) && has_own_part(step, rank.plan->rank) && !is_nothing(step);
    };
    const auto writes = [&](const Step& step) { return writes_target(step.action) && !is_nothing(step); };
    std::set<Location> written;
    std::multiset<Location> read;
    for (const Step& step : steps) {
      if (writes(step) && !written.insert(location(rank, step.target, step.target_chunk)).second) {
        return wrong(rank, &step, "another step of the round writes the same chunk");
      }
      if (reads(step)) read.insert(location(rank, step.source, step.source_chunk));
    }
    for (const Step& step : steps) {
      if (!writes(step)) continue;
      const Location target = location(rank, step.target, step.target_chunk);
      const bool itself = reads(step) && location(rank, step.source, step.source_chunk) == target;
      if (read.count(target) > (itself ? 1 : 0)) {
        return wrong(rank, &step, "another step of the round reads what it writes");
      }
    }
    return {};
  }

  Result<void> run_local(Rank& rank, std::size_t index) {
    const Step& step = rank.plan->steps[index];
    const TermId source = value(rank, step.source, step.source_chunk);
    TermId& target = value(rank, step.target, step.target_chunk);
    if (source == kUndefined) return wrong(rank, &step, "the source has no value yet");
    if (length_of(*rank.plan, step.source, step.source_chunk) !=
        length_of(*rank.plan, step.target, step.target_chunk)) {
      return wrong(rank, &step, "source and target have different lengths");
    }
    if (step.action == Action::reduce) {
      if (target == kUndefined) return wrong(rank, &step, "the target has no value yet");
      target = step.incoming_first ? terms_.combine(source, target) : terms_.combine(target, source);
      if (target == kUndefined) return wrong(rank, &step, "a contribution counts twice, or another chunk's");
    } else if (step.source == Place::partial && step.target != Place::partial) {
      if (step.target != Place::output)
        return wrong(rank, &step, "a partial result is rounded before it is done");
      if (terms_[source].kind == Terms::Kind::finished)
        return wrong(rank, &step, "a result is finished twice");
      target = terms_.finish(source);
    } else if (step.target == Place::partial && terms_[source].kind == Terms::Kind::finished) {
      return wrong(rank, &step, "a result becomes partial again");
    } else {
      target = source;
    }
    rank.done[index] = 1;
    return {};
  }

  Result<bool> advance(int from) {
    Rank& sender = ranks_[static_cast<std::size_t>(from)];
    bool moved = false;
    std::set<int> behind;  // peers to whom an earlier message of the round has not gone
    for (std::size_t i = sender.at; i < sender.end; ++i) {
      const Step& step = sender.plan->steps[i];
      if (step.action != Action::send || sender.done[i] || behind.contains(step.peer)) continue;
      Rank& receiver = ranks_[static_cast<std::size_t>(step.peer)];
      const auto met = meeting(receiver, from);
      if (!met) {
        behind.insert(step.peer);
        continue;
      }
      TRY(transfer(sender, step, receiver, *met));
      sender.done[i] = 1;
      moved = true;
    }
    while (sender.at < sender.end && std::all_of(
                                         sender.done.begin() + static_cast<std::ptrdiff_t>(sender.at),
                                         sender.done.begin() + static_cast<std::ptrdiff_t>(sender.end),
                                         [](char done) { return done != 0; })) {
      TRY(open_round(sender));
      moved = true;
    }
    return moved;
  }

  // The receiver's first step of its round that still waits for a message from `peer`.
  std::optional<std::size_t> meeting(const Rank& receiver, int peer) const {
    for (std::size_t i = receiver.at; i < receiver.end; ++i) {
      const Step& step = receiver.plan->steps[i];
      if (receiver.done[i] || !expects(step, receiver.plan->rank, peer)) continue;
      if (step.action != Action::fold) return i;
      const auto& arrived = receiver.folds[i];
      if (arrived.empty() || arrived[static_cast<std::size_t>(step.fold_position(peer))] == kUndefined)
        return i;
    }
    return std::nullopt;
  }

  Result<void> transfer(Rank& sender, const Step& send, Rank& receiver, std::size_t index) {
    const Step& step = receiver.plan->steps[index];
    const TermId sent = value(sender, send.source, send.source_chunk);
    if (sent == kUndefined) return wrong(sender, &send, "the source has no value yet");
    if ((send.source == Place::partial) != (step.payload == Place::partial)) {
      return wrong(receiver, &step, fmt::format("rank {} sends elements of another type", sender.plan->rank));
    }
    if (length_of(*sender.plan, send.source, send.source_chunk) !=
        length_of(*receiver.plan, step.target, step.target_chunk)) {
      return wrong(
          receiver, &step,
          fmt::format("rank {} sends chunk {}, of another length", sender.plan->rank, send.source_chunk));
    }
    ++messages_;
    ++sender.sent;
    receiver.known.add(sender.known_before);
    TermId& target = value(receiver, step.target, step.target_chunk);
    if (step.action == Action::receive) {
      if (step.payload == Place::partial && step.target != Place::partial) {
        return wrong(receiver, &step, "a partial result is rounded before it is done");
      }
      if (step.target == Place::partial && terms_[sent].kind == Terms::Kind::finished) {
        return wrong(receiver, &step, "a result becomes partial again");
      }
      target = sent;
      receiver.done[index] = 1;
      return {};
    }
    if (step.action == Action::fold) return add_to_fold(sender.plan->rank, sent, receiver, index);
    const TermId own = value(receiver, step.source, step.source_chunk);
    if (own == kUndefined) return wrong(receiver, &step, "the source has no value yet");
    target = step.incoming_first ? terms_.combine(sent, own) : terms_.combine(own, sent);
    if (target == kUndefined)
      return wrong(receiver, &step, "a contribution counts twice, or another chunk's");
    receiver.done[index] = 1;
    return {};
  }

  // What the length of a chunk follows from, for any counts: the chunk of the vector; of all_to_all the ranks
  // from which and to which it goes. Plans of all_to_all with scratch are for blocks of one length.
  struct Length {
    int from;
    int to;
    int slice;
    bool operator==(const Length&) const = default;
  };
  Length length_of(const Plan& plan, Place place, int chunk) const {
    const int slices = plan.request.slices;
    const int block = chunk % plan.chunks() / slices;
    if (plan.request.operation != Operation::all_to_all) return {-1, block, chunk % slices};
    if (plan.scratch_chunks > 0) return {-1, -1, chunk % slices};
    return place == Place::input ? Length{plan.rank, block, chunk % slices}
                                 : Length{block, plan.rank, chunk % slices};
  }

  Result<void> add_to_fold(int from, TermId sent, Rank& receiver, std::size_t index) {
    const Step& step = receiver.plan->steps[index];
    std::vector<TermId>& arrived = receiver.folds[index];
    if (arrived.empty()) {
      arrived.assign(static_cast<std::size_t>(step.peers), kUndefined);
      if (has_own_part(step, receiver.plan->rank)) {
        arrived[static_cast<std::size_t>(step.fold_position(receiver.plan->rank))] =
            value(receiver, step.source, step.source_chunk);
      }
    }
    arrived[static_cast<std::size_t>(step.fold_position(from))] = sent;
    if (std::ranges::find(arrived, kUndefined) != arrived.end()) return {};
    return end_fold(receiver, index, arrived);
  }

  Result<void> end_fold(Rank& receiver, std::size_t index, const std::vector<TermId>& arrived) {
    const Step& step = receiver.plan->steps[index];
    TermId all = arrived[0];
    for (std::size_t i = 1; i < arrived.size() && all != kUndefined; ++i)
      all = terms_.combine(all, arrived[i]);
    if (all == kUndefined) return wrong(receiver, &step, "a contribution counts twice, or another chunk's");
    value(receiver, step.target, step.target_chunk) = all;
    receiver.done[index] = 1;
    return {};
  }

  // What the operation says that chunk `chunk` of the rank's output is; nothing: not looked at.
  Result<void> check_result(Rank rank) {
    const PlanRequest& request = rank.plan->request;
    const ChunkRange output = chunks_at(Place::output, *rank.plan);
    if (request.operation == Operation::barrier) {
      if (rank.known == RankSet::range(world_, 0, world_)) return {};
      return wrong(rank, nullptr,
                   fmt::format("it may leave before others came; it knows of {}", rank.known.text()));
    }
    for (int chunk = output.first; chunk < output.first + output.count; ++chunk) {
      const TermId got = value(rank, Place::output, chunk);
      if (auto problem = compare(rank, chunk, got)) return wrong(rank, nullptr, *problem);
    }
    return {};
  }

  std::optional<std::string> compare(const Rank& rank, int chunk, TermId got) {
    const PlanRequest& request = rank.plan->request;
    const int own = rank.plan->rank;
    const bool untouched = request.operation == Operation::exscan && own == 0;
    if (untouched) {
      const bool written = std::ranges::any_of(rank.plan->steps, [](const Step& step) {
        return writes_target(step.action) && step.target == Place::output;
      });
      return written ? std::optional<std::string>("rank 0's output of exscan is written") : std::nullopt;
    }
    if (got == kUndefined) return fmt::format("output chunk {} is never written", chunk);
    const Terms::Term& term = terms_[got];
    if (reduces(request.operation)) {
      const int end = request.operation == Operation::scan     ? own + 1
                      : request.operation == Operation::exscan ? own
                                                               : world_;
      const bool right = term.kind == Terms::Kind::finished && term.chunk == chunk &&
                         term.ranks == RankSet::range(world_, 0, end);
      if (!right) return fmt::format("output chunk {} is {}", chunk, terms_.text(got));
      is_left_fold_ &= term.fold_end == end;
      const auto [at, is_first] = results_.try_emplace({chunk, end}, got);
      if (!is_first && at->second != got)
        return fmt::format("output chunk {} is combined in another order than on other ranks", chunk);
      return std::nullopt;
    }
    const int block = chunk / request.slices;
    TermId expected = terms_.leaf(request.root, chunk);
    if (request.operation == Operation::all_gather || request.operation == Operation::gather)
      expected = terms_.leaf(block, chunk);
    if (request.operation == Operation::all_to_all)
      expected = terms_.leaf(block, own * request.slices + chunk % request.slices);
    if (got != expected)
      return fmt::format("output chunk {} is {}, expected {}", chunk, terms_.text(got),
                         terms_.text(expected));
    return std::nullopt;
  }

  PlanFacts facts() const {
    PlanFacts facts;
    facts.messages = messages_;
    facts.is_left_fold = is_left_fold_;
    std::int64_t most = 0;
    for (const Rank& rank : ranks_) {
      facts.steps += std::ssize(rank.plan->steps);
      facts.rounds = std::max(facts.rounds, rank.rounds);
      most = std::max(most, rank.sent);
    }
    facts.sent_vectors = static_cast<double>(most) / plans_[0].chunks();
    return facts;
  }

  std::span<const Plan> plans_;
  Aliasing aliasing_;
  int world_;
  Terms terms_;
  std::vector<Rank> ranks_;
  std::int64_t messages_ = 0;
  bool is_left_fold_ = true;
  std::map<std::pair<int, int>, TermId> results_;  ///< by chunk and how many ranks it is over
};

}  // namespace

Result<PlanFacts> check_plans(std::span<const Plan> plans, Aliasing aliasing) {
  return Run(plans, aliasing).run();
}

std::vector<Plan> plans_of(const Algorithm& algorithm, const PlanRequest& request) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < request.world; ++rank) plans.push_back(algorithm.plan(request, rank));
  return plans;
}

}  // namespace diji::collective
