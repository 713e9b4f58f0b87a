// Partners whose numbers differ in one bit: log2 n rounds. Worlds that are no power of two fold the rest in
// first and out last (Thakur, Rabenseifner, Gropp 2005, sections 4.4 and 4.5).
#include "collective/plan_families.h"
#include "collective/plan_writer.h"

#include <bit>
#include <optional>

namespace diji::collective {
namespace {

// Of the first 2 (n - p) ranks the even ones give their vector to the odd ones, who play for both; p is the
// largest power of two. `number` is the place among the p players, nothing for those who gave.
struct Players {
  int p = 1;
  int rest = 0;

  explicit Players(int world)
      : p(static_cast<int>(std::bit_floor(static_cast<unsigned>(world)))), rest(world - p) {}
  std::optional<int> number(int rank) const {
    if (rank >= 2 * rest) return rank - rest;
    return rank % 2 == 1 ? std::optional(rank / 2) : std::nullopt;
  }
  int rank(int number) const { return number < rest ? 2 * number + 1 : number + rest; }
  /// The first block of those that a player looks after, where blocks are ranks: its own, before it that of
  /// the rank for which it plays.
  int first_block(int number) const { return number < rest ? 2 * number : number + rest; }
  /// After all other rounds, for those who played and for those who waited alike: slices follow each other by
  /// rounds.
  int last_round() const { return 4 + 2 * static_cast<int>(std::bit_width(static_cast<unsigned>(p))); }
};

// All `blocks` of the vector into partial; true where this rank plays.
bool fold_in(PlanWriter& plan, const Players& players, int blocks) {
  const int rank = plan.rank();
  const bool gives = !players.number(rank).has_value();
  for (int block = 0; block < blocks; ++block) {
    if (gives) {
      plan.send(rank + 1, {Place::input, block});
    } else if (rank < 2 * players.rest) {
      plan.receive_reduce(rank - 1, {Place::partial, block}, {Place::input, block}, Place::input, true);
    } else {
      plan.copy({Place::input, block}, {Place::partial, block});
    }
  }
  plan.next_round();
  return !gives;
}

void fold_out(PlanWriter& plan, const Players& players, int blocks) {
  const int rank = plan.rank();
  if (rank >= 2 * players.rest) return;
  plan.at_round(players.last_round());
  for (int block = 0; block < blocks; ++block) {
    if (rank % 2 == 1) {
      plan.send(rank - 1, {Place::output, block});
    } else {
      plan.receive(rank + 1, {Place::output, block}, Place::output);
    }
  }
}

}  // namespace

Plan recursive_doubling_all_reduce(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "recursive_doubling", 1);
  const Players players(request.world);
  if (fold_in(plan, players, 1)) {
    const int number = *players.number(rank);
    // What is being sent is not written: the result of a round goes to the other copy.
    At now{Place::partial, 0};
    At next{Place::partial, plan.second(0)};
    for (int bit = 1; bit < players.p; bit *= 2) {
      const int partner = players.rank(number ^ bit);
      plan.send(partner, now);
      plan.receive_reduce(partner, next, now, Place::partial, (number & bit) != 0);
      std::swap(now, next);
      plan.next_round();
    }
    plan.copy(now, {Place::output, 0});
    plan.next_round();
  }
  fold_out(plan, players, 1);
  return plan.done();
}

Plan halving_doubling_all_reduce(const PlanRequest& request, int rank) {
  const Players players(request.world);
  PlanWriter plan(request, rank, "halving_doubling", players.p);
  if (fold_in(plan, players, players.p)) {
    const int number = *players.number(rank);
    // Reduce-scatter: in each round the half that the partner keeps goes to it, and this rank's half is
    // combined.
    for (int bit = players.p / 2; bit > 0; bit /= 2) {
      const int partner = players.rank(number ^ bit);
      const int mine = number / bit * bit;
      const int theirs = mine ^ bit;
      for (int i = 0; i < bit; ++i) plan.send(partner, {Place::partial, theirs + i});
      for (int i = 0; i < bit; ++i) {
        const At block{Place::partial, mine + i};
        plan.receive_reduce(partner, block, block, Place::partial, (number & bit) != 0);
      }
      plan.next_round();
    }
    plan.finish(number);
    plan.next_round();
    for (int bit = 1; bit < players.p; bit *= 2) {
      const int partner = players.rank(number ^ bit);
      const int mine = number / bit * bit;
      const int theirs = mine ^ bit;
      for (int i = 0; i < bit; ++i) plan.send(partner, {Place::output, mine + i});
      for (int i = 0; i < bit; ++i) plan.receive(partner, {Place::output, theirs + i}, Place::output);
      plan.next_round();
    }
  }
  fold_out(plan, players, players.p);
  return plan.done();
}

Plan recursive_halving_reduce_scatter(const PlanRequest& request, int rank) {
  const Players players(request.world);
  PlanWriter plan(request, rank, "recursive_halving", request.world);
  if (fold_in(plan, players, request.world)) {
    const int number = *players.number(rank);
    for (int bit = players.p / 2; bit > 0; bit /= 2) {
      const int partner = players.rank(number ^ bit);
      const int mine = number / bit * bit;
      const int theirs = mine ^ bit;
      for (int block = players.first_block(theirs); block < players.first_block(theirs + bit); ++block)
        plan.send(partner, {Place::partial, block});
      for (int i = players.first_block(mine); i < players.first_block(mine + bit); ++i) {
        const At block{Place::partial, i};
        plan.receive_reduce(partner, block, block, Place::partial, (number & bit) != 0);
      }
      plan.next_round();
    }
  }
  plan.at_round(players.last_round());
  if (rank < 2 * players.rest) {
    if (rank % 2 == 1) {
      plan.send(rank - 1, {Place::partial, rank - 1});
    } else {
      plan.receive(rank + 1, {Place::partial, rank}, Place::partial);
    }
    plan.next_round();
  }
  plan.finish(rank);
  return plan.done();
}

Plan recursive_doubling_all_gather(const PlanRequest& request, int rank) {
  const Players players(request.world);
  PlanWriter plan(request, rank, "recursive_doubling", request.world);
  plan.copy({Place::input, rank}, {Place::output, rank});
  const std::optional<int> number = players.number(rank);
  if (!number) {
    plan.send(rank + 1, {Place::input, rank});
  } else if (rank < 2 * players.rest) {
    plan.receive(rank - 1, {Place::output, rank - 1}, Place::input);
  }
  plan.next_round();
  for (int bit = 1; number && bit < players.p; bit *= 2) {
    const int partner = players.rank(*number ^ bit);
    const int mine = *number / bit * bit;
    const int theirs = mine ^ bit;
    for (int block = players.first_block(mine); block < players.first_block(mine + bit); ++block)
      plan.send(partner, {Place::output, block});
    for (int block = players.first_block(theirs); block < players.first_block(theirs + bit); ++block)
      plan.receive(partner, {Place::output, block}, Place::output);
    plan.next_round();
  }
  if (rank >= 2 * players.rest) return plan.done();
  plan.at_round(players.last_round());
  for (int block = 0; block < request.world; ++block) {
    if (block == rank / 2 * 2) continue;  // who waited has its own
    if (number) {
      plan.send(rank - 1, {Place::output, block});
    } else {
      plan.receive(rank + 1, {Place::output, block}, Place::output);
    }
  }
  return plan.done();
}

namespace {

// After round k a rank has the reduction over itself and the 2^(k+1) - 1 ranks before it, as far back as
// `first` (Hillis, Steele 1986). Returns where.
At scan_from(PlanWriter& plan, int first) {
  At now{Place::partial, 0};
  At next{Place::partial, plan.second(0)};
  for (int distance = 1; distance < plan.world() - first; distance *= 2) {
    if (plan.rank() + distance < plan.world()) plan.send(plan.rank() + distance, now);
    if (plan.rank() - distance >= first) {
      plan.receive_reduce(plan.rank() - distance, next, now, Place::partial, true);
      std::swap(now, next);
    }
    plan.next_round();
  }
  return now;
}

}  // namespace

Plan recursive_doubling_scan(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "recursive_doubling", 1);
  plan.copy({Place::input, 0}, {Place::partial, 0});
  plan.next_round();
  plan.copy(scan_from(plan, 0), {Place::output, 0});
  return plan.done();
}

// Every value moves up by one rank; the scan over ranks 1.. is then the one that leaves out the own value.
Plan recursive_doubling_exscan(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "recursive_doubling", 1);
  if (rank + 1 < request.world) plan.send(rank + 1, {Place::input, 0});
  if (rank == 0) return plan.done();
  plan.receive(rank - 1, {Place::partial, 0}, Place::input);
  plan.next_round();
  plan.copy(scan_from(plan, 1), {Place::output, 0});
  return plan.done();
}

}  // namespace diji::collective
