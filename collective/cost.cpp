// Messages begin and end; between two of those times nothing changes.
#include "collective/cost.h"

#include "base/check.h"

#include <algorithm>
#include <queue>
#include <vector>

namespace diji::collective {
namespace {

std::size_t index_of(int value) { return static_cast<std::size_t>(value); }

class Machine {
 public:
  Machine(std::span<const Plan> plans, double chunk_bytes, const CostModel& model)
      : model_(model), chunk_bytes_(chunk_bytes), world_(static_cast<int>(plans.size())) {
    for (const Plan& plan : plans) {
      ranks_.push_back({.plan = &plan, .expected = std::vector<int>(plans.size())});
    }
  }

  double run() {
    for (int rank = 0; rank < world_; ++rank) open_round(rank);
    start_messages();
    while (!events_.empty()) {
      now_us_ = events_.top().time_us;
      // All that ends now, before anybody decides what to do next: nobody is early by the order of a list.
      while (!events_.empty() && events_.top().time_us == now_us_) {
        const Event event = events_.top();
        events_.pop();
        end(event);
      }
      start_messages();
    }
    for (const Rank& rank : ranks_)
      CHECK(rank.end == rank.plan->steps.size() && rank.open == 0, "a plan that check_plans has accepted");
    return now_us_;
  }

 private:
  enum class Kind : std::uint8_t { port_out, port_in, local };
  struct Event {
    double time_us;
    int rank;
    Kind kind;
    bool operator>(const Event& other) const { return time_us > other.time_us; }
  };
  struct Arrival {
    int peer;
    bool is_combined;
  };
  struct Rank {
    const Plan* plan = nullptr;
    std::size_t end = 0;            ///< of the round
    std::vector<Step> sends;        ///< of the round, not yet begun
    std::vector<Arrival> arrivals;  ///< of the round, not yet begun
    std::vector<int> expected;      ///< how many of them from each peer
    int open = 0;                   ///< things of the round that have not ended
    bool is_sending = false;
    bool is_receiving = false;
  };

  void open_round(int number) {
    Rank& rank = ranks_[index_of(number)];
    const std::vector<Step>& steps = rank.plan->steps;
    while (rank.open == 0 && rank.end < steps.size()) {
      const int round = steps[rank.end].round;
      int reduced = 0;
      rank.sends.clear();
      for (; rank.end < steps.size() && steps[rank.end].round == round; ++rank.end) {
        const Step& step = steps[rank.end];
        if (step.action == Action::send) {
          rank.sends.push_back(step);
          ++rank.open;
        } else if (step.action == Action::reduce) {
          ++reduced;
        } else if (step.action != Action::copy) {
          for (int i = 0; i < step.peers; ++i)
            expect(rank, {step.fold_rank(i), step.action != Action::receive});
        }
      }
      if (reduced == 0) continue;
      ++rank.open;
      events_.push({now_us_ + reduced * chunk_bytes_ * model_.gamma_us_per_byte, number, Kind::local});
    }
  }

  static void expect(Rank& rank, Arrival arrival) {
    if (arrival.peer == rank.plan->rank) return;
    rank.arrivals.push_back(arrival);
    ++rank.expected[index_of(arrival.peer)];
    ++rank.open;
  }

  void start_messages() {
    for (int number = 0; number < world_; ++number) {
      Rank& sender = ranks_[index_of(number)];
      if (sender.is_sending) continue;
      const auto next = std::ranges::find_if(sender.sends, [&](const Step& step) {
        const Rank& receiver = ranks_[index_of(step.peer)];
        return !receiver.is_receiving && receiver.expected[index_of(number)] > 0;
      });
      if (next == sender.sends.end()) continue;
      start(number, next->peer);
      sender.sends.erase(next);
    }
  }

  void start(int from, int to) {
    Rank& sender = ranks_[index_of(from)];
    Rank& receiver = ranks_[index_of(to)];
    const int node_ranks = sender.plan->request.node_ranks;
    const bool between = node_ranks > 0 && from / node_ranks != to / node_ranks;
    const double sent_us = between ? model_.alpha_between_us + chunk_bytes_ * model_.beta_between_us_per_byte
                                   : model_.alpha_us + chunk_bytes_ * model_.beta_us_per_byte;
    const auto arrival = std::ranges::find(receiver.arrivals, from, &Arrival::peer);
    const double combined_us = arrival->is_combined ? chunk_bytes_ * model_.gamma_us_per_byte : 0;
    receiver.arrivals.erase(arrival);
    --receiver.expected[index_of(from)];
    sender.is_sending = receiver.is_receiving = true;
    events_.push({now_us_ + sent_us, from, Kind::port_out});
    events_.push({now_us_ + sent_us + combined_us, to, Kind::port_in});
  }

  void end(const Event& event) {
    Rank& rank = ranks_[index_of(event.rank)];
    if (event.kind == Kind::port_out) rank.is_sending = false;
    if (event.kind == Kind::port_in) rank.is_receiving = false;
    --rank.open;
    open_round(event.rank);
  }

  CostModel model_;
  double chunk_bytes_;
  int world_;
  double now_us_ = 0;
  std::vector<Rank> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

double simulate_us(std::span<const Plan> plans, double chunk_bytes, const CostModel& model) {
  return Machine(plans, chunk_bytes, model).run();
}

}  // namespace diji::collective
