// Rings and chains: only neighbours talk, so every link carries the same and no more than its share.
#include "collective/plan_families.h"
#include "collective/plan_writer.h"

namespace diji::collective {
namespace {

int wrapped(int rank, int world) { return (rank % world + world) % world; }

// Block b begins at rank b + 1 and gathers contributions around the ring until rank b has all: n - 1 rounds
// (Patarasuk, Yuan 2009). `direction` -1 runs the other way; `first` is the number of block 0.
void reduce_around(PlanWriter& plan, int round, int direction, int first) {
  const int n = plan.world();
  const auto block = [&](int distance) { return first + wrapped(plan.rank() - direction * distance, n); };
  for (int k = 0; k + 1 < n; ++k) {
    plan.at_round(round + k);
    const Place from = k == 0 ? Place::input : Place::partial;
    plan.send(wrapped(plan.rank() + direction, n), {from, block(1 + k)});
    plan.receive_reduce(wrapped(plan.rank() - direction, n), {Place::partial, block(2 + k)},
                        {Place::input, block(2 + k)}, from, true);
  }
}

void gather_around(PlanWriter& plan, int round, int direction, int first) {
  const int n = plan.world();
  const auto block = [&](int distance) { return first + wrapped(plan.rank() - direction * distance, n); };
  for (int k = 0; k + 1 < n; ++k) {
    plan.at_round(round + k);
    plan.send(wrapped(plan.rank() + direction, n), {Place::output, block(k)});
    plan.receive(wrapped(plan.rank() - direction, n), {Place::output, block(1 + k)}, Place::output);
  }
}

// The rank's own block of one, which nobody else has anything to add to.
void begin_alone(PlanWriter& plan, int chunk) {
  if (plan.world() == 1) plan.copy({Place::input, chunk}, {Place::partial, chunk});
}

}  // namespace

Plan ring_all_reduce(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "ring", request.world);
  begin_alone(plan, rank);
  reduce_around(plan, 0, 1, 0);
  plan.at_round(request.world);
  plan.finish(rank);
  gather_around(plan, request.world + 1, 1, 0);
  return plan.done();
}

Plan ring_reduce_scatter(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "ring", request.world);
  begin_alone(plan, rank);
  reduce_around(plan, 0, 1, 0);
  plan.at_round(request.world);
  plan.finish(rank);
  return plan.done();
}

Plan ring_all_gather(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "ring", request.world);
  plan.copy({Place::input, rank}, {Place::output, rank});
  gather_around(plan, 1, 1, 0);
  return plan.done();
}

// Half of the vector runs each way: both directions of every link are used.
Plan bidirectional_ring_all_reduce(const PlanRequest& request, int rank) {
  const int n = request.world;
  PlanWriter right(request, rank, "bidirectional_ring", 2 * n);
  PlanWriter left(request, rank, "bidirectional_ring", 2 * n);
  int direction = 1;
  for (PlanWriter* half : {&right, &left}) {
    const int first = direction > 0 ? 0 : n;
    begin_alone(*half, first + rank);
    reduce_around(*half, 0, direction, first);
    half->at_round(n);
    half->finish(first + rank);
    gather_around(*half, n + 1, direction, first);
    direction = -1;
  }
  return right.done_with(std::move(left));
}

// Block b comes to its owner from both sides at once: over the ranks before it from the left and, one round
// later because both end in the same chunk, over those behind it from the right.
Plan bidirectional_ring_reduce_scatter(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "bidirectional_ring", request.world);
  const int n = request.world;
  begin_alone(plan, rank);
  const int before = (n - 1) / 2;
  for (const int direction : {1, -1}) {
    const int hops = direction > 0 ? before : n - 1 - before;
    for (int k = 0; k < hops; ++k) {
      plan.at_round(k + (direction > 0 ? 0 : 1));
      const Place from = k == 0 ? Place::input : Place::partial;
      plan.send(wrapped(rank + direction, n), {from, wrapped(rank + direction * (hops - k), n)});
      const int block = wrapped(rank + direction * (hops - k - 1), n);
      const bool has_other_side = direction < 0 && block == rank && before > 0;
      plan.receive_reduce(wrapped(rank - direction, n), {Place::partial, block},
                          {has_other_side ? Place::partial : Place::input, block}, from, direction > 0);
    }
  }
  plan.at_round(n);
  plan.finish(rank);
  return plan.done();
}

Plan bidirectional_ring_all_gather(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "bidirectional_ring", request.world);
  const int n = request.world;
  plan.copy({Place::input, rank}, {Place::output, rank});
  for (const int direction : {1, -1}) {
    const int hops = direction > 0 ? n / 2 : (n - 1) / 2;
    for (int k = 0; k < hops; ++k) {
      plan.at_round(1 + k);
      plan.send(wrapped(rank + direction, n), {Place::output, wrapped(rank - direction * k, n)});
      plan.receive(wrapped(rank - direction, n), {Place::output, wrapped(rank - direction * (k + 1), n)},
                   Place::output);
    }
  }
  return plan.done();
}

Plan chain_broadcast(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "chain", 1);
  const int n = request.world;
  const int place = wrapped(rank - request.root, n);
  if (place == 0) {
    plan.copy({Place::input, 0}, {Place::output, 0});
  } else {
    plan.at_round(place - 1);
    plan.receive(wrapped(rank - 1, n), {Place::output, 0}, Place::output);
  }
  plan.at_round(place);
  if (place + 1 < n) plan.send(wrapped(rank + 1, n), {place == 0 ? Place::input : Place::output, 0});
  return plan.done();
}

Plan chain_reduce(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "chain", 1);
  const int n = request.world;
  const int place = wrapped(rank - request.root, n);
  begin_alone(plan, 0);
  if (place + 1 < n) {
    plan.at_round(n - 2 - place);
    const Place payload = place + 2 == n ? Place::input : Place::partial;
    plan.receive_reduce(wrapped(rank + 1, n), {Place::partial, 0}, {Place::input, 0}, payload, false);
  }
  plan.at_round(place == 0 ? n : n - 1 - place);
  if (place > 0) plan.send(wrapped(rank - 1, n), {place + 1 == n ? Place::input : Place::partial, 0});
  if (place == 0) plan.finish(0);
  return plan.done();
}

// The ranks before this one come combined; with its own they go on.
Plan chain_scan(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "chain", 1);
  const int n = request.world;
  const Place payload = rank == 1 ? Place::input : Place::partial;
  if (rank > 0) {
    plan.at_round(rank - 1);
    plan.receive_reduce(rank - 1, {Place::partial, 0}, {Place::input, 0}, payload, true);
  } else {
    plan.copy({Place::input, 0}, {Place::partial, 0});
  }
  plan.at_round(rank);
  if (rank + 1 < n) plan.send(rank + 1, {rank == 0 ? Place::input : Place::partial, 0});
  plan.at_round(rank + 1);
  plan.finish(0);
  return plan.done();
}

// As chain_scan, but what comes is also this rank's result, so what goes on is made in the second copy.
Plan chain_exscan(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "chain", 1);
  const int n = request.world;
  const bool goes_on = rank + 1 < n;
  if (rank == 0) {
    if (goes_on) plan.send(1, {Place::input, 0});
    return plan.done();
  }
  const At through{Place::partial, plan.second(0)};
  if (goes_on) plan.copy({Place::input, 0}, through);
  plan.at_round(2 * (rank - 1));
  plan.receive(rank - 1, {Place::partial, 0}, rank == 1 ? Place::input : Place::partial);
  plan.next_round();
  if (goes_on) plan.reduce(through, {Place::partial, 0}, true);
  plan.next_round();
  if (goes_on) plan.send(rank + 1, through);
  plan.finish(0);
  return plan.done();
}

}  // namespace diji::collective
