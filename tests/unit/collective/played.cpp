// Texts: "2.5" is rank 2's chunk 5, "(a+b)" a combination, "[a]" a result. A barrier's messages carry who is
// known to have come.
#include "tests/unit/collective/played.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

namespace diji::collective {
namespace {

struct Message {
  std::string value;
  bool is_partial;
};
struct Location {
  Place place;
  int chunk;
  auto operator<=>(const Location&) const = default;
};

class Game {
 public:
  Game(const std::vector<Plan>& plans, Aliasing aliasing, std::mt19937& random)
      : plans_(plans), aliasing_(aliasing), random_(random), ranks_(plans.size()) {}

  std::optional<std::string> run() {
    room_ = std::array<std::size_t, 3>{1, 2, 1000}[random_() % 3];
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      Rank& rank = ranks_[i];
      rank.plan = &plans_[i];
      rank.known = {rank.plan->rank};
      rank.partial_is_output =
          aliasing_.partial_is_output && partial_may_be_output(*rank.plan, aliasing_.in_place);
      rank.done.assign(rank.plan->steps.size(), 0);
      const ChunkRange input = chunks_at(Place::input, *rank.plan);
      for (int c = input.first; c < input.first + input.count; ++c)
        rank.values[{Place::input, c}] = fmt::format("{}.{}", i, c);
      next_round(rank);
    }
    while (problem_.empty() && move()) {
    }
    for (const Rank& rank : ranks_) {
      if (problem_.empty() && rank.begin < rank.plan->steps.size()) problem_ = "stuck";
    }
    for (const auto& [pair, queue] : queues_) {
      if (problem_.empty() && !queue.empty()) problem_ = "a message is left over";
    }
    for (std::size_t i = 0; i < ranks_.size() && problem_.empty(); ++i) check_result(ranks_[i]);
    return problem_.empty() ? std::nullopt : std::optional(problem_);
  }

 private:
  struct Rank {
    const Plan* plan = nullptr;
    bool partial_is_output = false;
    std::map<Location, std::string> values;
    std::set<int> known;
    std::size_t begin = 0;
    std::size_t end = 0;
    std::vector<char> done;
  };

  Location location(const Rank& rank, Place place, int chunk) const {
    if (place == Place::partial && rank.partial_is_output) place = Place::output;
    if (place == Place::output && aliasing_.in_place && chunks_at(Place::input, *rank.plan).contains(chunk)) {
      place = Place::input;
    }
    return {place, chunk};
  }
  std::string read(const Rank& rank, Place place, int chunk) {
    const auto at = rank.values.find(location(rank, place, chunk));
    if (at != rank.values.end()) return at->second;
    problem_ = "a chunk without a value is read";
    return "?";
  }
  void write(Rank& rank, Place place, int chunk, std::string value) {
    if (place == Place::input) problem_ = "the input is written";
    rank.values[location(rank, place, chunk)] = std::move(value);
  }

  static bool hears(const Step& step, int self, int peer) {
    if (peer == self) return false;
    if (step.action == Action::fold) return step.fold_position(peer) >= 0;
    return (step.action == Action::receive || step.action == Action::receive_reduce) && step.peer == peer;
  }
  // Whether no earlier step of the round still waits to talk to the peer the same way.
  bool is_first(const Rank& rank, std::size_t index, int peer) const {
    const Action action = rank.plan->steps[index].action;
    for (std::size_t i = rank.begin; i < index; ++i) {
      const Step& step = rank.plan->steps[i];
      if (rank.done[i]) continue;
      if (action == Action::send ? step.action == Action::send && step.peer == peer
                                 : hears(step, rank.plan->rank, peer))
        return false;
    }
    return true;
  }
  bool can_go(const Rank& rank, std::size_t index) {
    const Step& step = rank.plan->steps[index];
    const int self = rank.plan->rank;
    if (step.action == Action::send)
      return is_first(rank, index, step.peer) && queues_[{self, step.peer}].size() < room_;
    for (int i = 0; i < step.peers && step.peer >= 0; ++i) {
      const int peer = step.fold_rank(i);
      if (hears(step, self, peer) && (!is_first(rank, index, peer) || queues_[{peer, self}].empty()))
        return false;
    }
    return true;
  }

  bool move() {
    std::vector<std::pair<Rank*, std::size_t>> ready;
    for (Rank& rank : ranks_) {
      for (std::size_t i = rank.begin; i < rank.end; ++i) {
        if (!rank.done[i] && can_go(rank, i)) ready.emplace_back(&rank, i);
      }
    }
    if (ready.empty()) return false;
    const auto [rank, index] = ready[random_() % ready.size()];
    go(*rank, rank->plan->steps[index]);
    rank->done[index] = 1;
    if (std::ranges::all_of(std::span(rank->done).subspan(rank->begin, rank->end - rank->begin),
                            [](char done) { return done != 0; })) {
      next_round(*rank);
    }
    return true;
  }

  static void next_round(Rank& rank) {
    const std::vector<Step>& steps = rank.plan->steps;
    rank.begin = rank.end;
    while (rank.end < steps.size() && steps[rank.end].round == steps[rank.begin].round) ++rank.end;
  }

  void go(Rank& rank, const Step& step) {
    const bool is_barrier = rank.plan->request.operation == Operation::barrier;
    switch (step.action) {
      case Action::send: {
        std::string value;
        if (is_barrier) {
          for (const int known : rank.known) value += static_cast<char>(known);
        } else {
          value = read(rank, step.source, step.source_chunk);
        }
        queues_[{rank.plan->rank, step.peer}].push_back({value, step.source == Place::partial});
        return;
      }
      case Action::copy: return move_value(rank, step, step.source == Place::partial, "");
      case Action::reduce: {
        const std::string source = read(rank, step.source, step.source_chunk);
        const std::string target = read(rank, step.target, step.target_chunk);
        return combine(rank, step, step.incoming_first ? source : target,
                       step.incoming_first ? target : source);
      }
      case Action::receive: {
        const std::string value = take(rank, step, step.peer);
        if (is_barrier) {
          rank.known.insert(value.begin(), value.end());
        } else {
          move_value(rank, step, false, value);
          if (step.payload == Place::partial && step.target != Place::partial) problem_ = "rounded early";
        }
        return;
      }
      case Action::receive_reduce: {
        const std::string came = take(rank, step, step.peer);
        const std::string own = read(rank, step.source, step.source_chunk);
        return combine(rank, step, step.incoming_first ? came : own, step.incoming_first ? own : came);
      }
      case Action::fold: {
        const auto part = [&](int peer) {
          return peer == rank.plan->rank ? read(rank, step.source, step.source_chunk)
                                         : take(rank, step, peer);
        };
        std::string all = part(step.peer);
        for (int i = 1; i < step.peers; ++i) all = fmt::format("({}+{})", all, part(step.fold_rank(i)));
        return write(rank, step.target, step.target_chunk, all);
      }
    }
  }

  std::string take(const Rank& rank, const Step& step, int peer) {
    auto& queue = queues_[{peer, rank.plan->rank}];
    if (queue.empty()) {
      problem_ = "a rank listens to itself";
      return "?";
    }
    const Message message = queue.front();
    queue.pop_front();
    if (message.is_partial != (step.payload == Place::partial)) problem_ = "elements of another type";
    return message.value;
  }
  void combine(Rank& rank, const Step& step, const std::string& left, const std::string& right) {
    write(rank, step.target, step.target_chunk, fmt::format("({}+{})", left, right));
  }
  // From partial to output a value is finished.
  void move_value(Rank& rank, const Step& step, bool finishes, std::string value) {
    if (value.empty()) value = read(rank, step.source, step.source_chunk);
    if (finishes && step.target == Place::output) value = fmt::format("[{}]", value);
    if (step.target == Place::partial && value.starts_with('[')) problem_ = "a result becomes partial";
    write(rank, step.target, step.target_chunk, value);
  }

  void check_result(const Rank& rank) {
    const PlanRequest& request = rank.plan->request;
    const int own = rank.plan->rank;
    if (request.operation == Operation::barrier) {
      if (std::ssize(rank.known) < request.world) problem_ = "it left early";
      return;
    }
    const ChunkRange output = chunks_at(Place::output, *rank.plan);
    for (int c = output.first; c < output.first + output.count; ++c) {
      if (request.operation == Operation::exscan && own == 0) {
        const auto at = rank.values.find(location(rank, Place::output, c));
        if (at != rank.values.end() && at->second != fmt::format("0.{}", c)) problem_ = "written";
        continue;
      }
      const std::string got = read(rank, Place::output, c);
      const int block = c / request.slices;
      std::string expected = fmt::format("{}.{}", request.root, c);
      if (request.operation == Operation::all_gather || request.operation == Operation::gather)
        expected = fmt::format("{}.{}", block, c);
      if (request.operation == Operation::all_to_all)
        expected = fmt::format("{}.{}", block, own * request.slices + c % request.slices);
      if (reduces(request.operation)) return check_reduced(rank);
      if (got != expected) problem_ = fmt::format("{} instead of {}", got, expected);
    }
  }

  // Each contribution once, finished once, and of the same text wherever it is over the same ranks.
  void check_reduced(const Rank& rank) {
    const PlanRequest& request = rank.plan->request;
    const int end = request.operation == Operation::scan     ? rank.plan->rank + 1
                    : request.operation == Operation::exscan ? rank.plan->rank
                                                             : request.world;
    const ChunkRange output = chunks_at(Place::output, *rank.plan);
    for (int c = output.first; c < output.first + output.count; ++c) {
      const std::string got = read(rank, Place::output, c);
      std::multiset<std::string> parts;
      std::string part;
      for (const char letter : got + "+") {
        if ((letter >= '0' && letter <= '9') || letter == '.') {
          part += letter;
        } else if (!part.empty()) {
          parts.insert(std::exchange(part, ""));
        }
      }
      std::multiset<std::string> expected;
      for (int from = 0; from < end; ++from) expected.insert(fmt::format("{}.{}", from, c));
      const bool is_finished = got.starts_with('[') && std::ranges::count(got, '[') == 1;
      const auto [at, is_first] = results_.try_emplace({c, end}, got);
      if (parts != expected || !is_finished || at->second != got) problem_ = "the reduction is " + got;
    }
  }

  const std::vector<Plan>& plans_;
  Aliasing aliasing_;
  std::mt19937& random_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, std::deque<Message>> queues_;
  std::map<std::pair<int, int>, std::string> results_;
  std::size_t room_ = 1;
  std::string problem_;
};

}  // namespace

std::optional<std::string> play(const std::vector<Plan>& plans, Aliasing aliasing, std::mt19937& random) {
  return Game(plans, aliasing, random).run();
}

}  // namespace diji::collective
