// The plans of plans_direct.h: loops over peers, starting after the own rank so that not all call on rank 0
// first.
#include "collective/plans_direct.h"

#include "collective/plan_writer.h"

namespace diji::collective::direct {
namespace {

constexpr std::string_view kDirect = "direct";

// peer(distance) for all other ranks, the next one first.
template <typename Body>
void for_others(const PlanWriter& plan, const Body& body) {
  for (int distance = 1; distance < plan.world(); ++distance) body((plan.rank() + distance) % plan.world());
}

void send_to_others(PlanWriter& plan, At from) {
  for_others(plan, [&](int peer) { plan.send(peer, from); });
}

// Blocks to their owners, each folded there into partial.
void fold_own_block(PlanWriter& plan) {
  const int own = plan.rank();
  for_others(plan, [&](int peer) { plan.send(peer, {Place::input, peer}); });
  plan.fold(0, plan.world(), {Place::partial, own}, {Place::input, own}, Place::input);
  plan.next_round();
  plan.finish(own);
}

}  // namespace

Plan all_reduce(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, kDirect, request.world);
  fold_own_block(plan);
  plan.next_round();
  send_to_others(plan, {Place::output, rank});
  for_others(plan, [&](int peer) { plan.receive(peer, {Place::output, peer}, Place::output); });
  return plan.done();
}

Plan exchange(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "exchange", 1);
  send_to_others(plan, {Place::input, 0});
  plan.fold(0, plan.world(), {Place::partial, 0}, {Place::input, 0}, Place::input);
  plan.next_round();
  plan.finish(0);
  return plan.done();
}

Plan reduce_scatter(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, kDirect, request.world);
  fold_own_block(plan);
  return plan.done();
}

Plan reduce(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, kDirect, 1);
  if (rank != request.root) {
    plan.send(request.root, {Place::input, 0});
    return plan.done();
  }
  plan.fold(0, plan.world(), {Place::partial, 0}, {Place::input, 0}, Place::input);
  plan.next_round();
  plan.finish(0);
  return plan.done();
}

Plan scan(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, kDirect, 1);
  for (int peer = rank + 1; peer < plan.world(); ++peer) plan.send(peer, {Place::input, 0});
  plan.fold(0, rank + 1, {Place::partial, 0}, {Place::input, 0}, Place::input);
  plan.next_round();
  plan.finish(0);
  return plan.done();
}

Plan exscan(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, kDirect, 1);
  for (int peer = rank + 1; peer < plan.world(); ++peer) plan.send(peer, {Place::input, 0});
  if (rank == 0) return plan.done();
  plan.fold(0, rank, {Place::partial, 0}, {Place::input, 0}, Place::input);
  plan.next_round();
  plan.finish(0);
  return plan.done();
}

Plan all_gather(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, kDirect, request.world);
  send_to_others(plan, {Place::input, rank});
  plan.copy({Place::input, rank}, {Place::output, rank});
  for_others(plan, [&](int peer) { plan.receive(peer, {Place::output, peer}, Place::input); });
  return plan.done();
}

Plan broadcast(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, kDirect, 1);
  if (rank == request.root) {
    send_to_others(plan, {Place::input, 0});
    plan.copy({Place::input, 0}, {Place::output, 0});
  } else {
    plan.receive(request.root, {Place::output, 0}, Place::input);
  }
  return plan.done();
}

Plan gather(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, kDirect, request.world);
  if (rank != request.root) {
    plan.send(request.root, {Place::input, rank});
    return plan.done();
  }
  plan.copy({Place::input, rank}, {Place::output, rank});
  for_others(plan, [&](int peer) { plan.receive(peer, {Place::output, peer}, Place::input); });
  return plan.done();
}

Plan scatter(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, kDirect, request.world);
  if (rank != request.root) {
    plan.receive(request.root, {Place::output, rank}, Place::input);
    return plan.done();
  }
  plan.copy({Place::input, rank}, {Place::output, rank});
  for_others(plan, [&](int peer) { plan.send(peer, {Place::input, peer}); });
  return plan.done();
}

Plan all_to_all(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, kDirect, request.world);
  for_others(plan, [&](int peer) { plan.send(peer, {Place::input, peer}); });
  plan.copy({Place::input, rank}, {Place::output, rank});
  for_others(plan, [&](int peer) { plan.receive(peer, {Place::output, peer}, Place::input); });
  return plan.done();
}

Plan dissemination_barrier(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "dissemination", 1);
  for (int distance = 1; distance < request.world; distance *= 2) {
    plan.send((rank + distance) % request.world, {Place::input, 0});
    plan.receive((rank + request.world - distance) % request.world, {Place::output, 0}, Place::input);
    plan.next_round();
  }
  return plan.done();
}

}  // namespace diji::collective::direct
