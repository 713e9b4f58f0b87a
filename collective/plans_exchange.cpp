// Plans of other shapes: Bruck's, pairwise, and by hosts.
#include "collective/plan_families.h"
#include "collective/plan_writer.h"

#include <algorithm>

namespace diji::collective {

// Round k: what this rank has, to the rank 2^k before it (Bruck et al. 1997). Blocks go to their place at
// once.
Plan bruck_all_gather(const PlanRequest& request, int rank) {
  const int n = request.world;
  PlanWriter plan(request, rank, "bruck", n);
  plan.copy({Place::input, rank}, {Place::output, rank});
  plan.next_round();
  for (int distance = 1; distance < n; distance *= 2) {
    const int blocks = std::min(distance, n - distance);
    for (int i = 0; i < blocks; ++i) plan.send((rank + n - distance) % n, {Place::output, (rank + i) % n});
    for (int i = 0; i < blocks; ++i) {
      plan.receive((rank + distance) % n, {Place::output, (rank + distance + i) % n}, Place::output);
    }
    plan.next_round();
  }
  return plan.done();
}

// The block for the rank i further on lies at scratch i; round k moves those whose i has bit k by 2^k. What
// is sent is not written: received blocks go to the other half of scratch.
Plan bruck_all_to_all(const PlanRequest& request, int rank) {
  const int n = request.world;
  PlanWriter plan(request, rank, "bruck", n);
  plan.scratch(2 * n);
  std::vector<int> half(static_cast<std::size_t>(n), 0);
  const auto at = [&](int i) { return At{Place::scratch, half[static_cast<std::size_t>(i)] * n + i}; };
  for (int i = 0; i < n; ++i) plan.copy({Place::input, (rank + i) % n}, at(i));
  plan.next_round();
  for (int bit = 1; bit < n; bit *= 2) {
    for (int i = 0; i < n; ++i) {
      if ((i & bit) == 0) continue;
      plan.send((rank + bit) % n, at(i));
      half[static_cast<std::size_t>(i)] ^= 1;
      plan.receive((rank + n - bit) % n, at(i), Place::scratch);
    }
    plan.next_round();
  }
  for (int i = 0; i < n; ++i) plan.copy(at(i), {Place::output, (rank + n - i) % n});
  return plan.done();
}

Plan pairwise_all_to_all(const PlanRequest& request, int rank) {
  const int n = request.world;
  PlanWriter plan(request, rank, "pairwise", n);
  plan.copy({Place::input, rank}, {Place::output, rank});
  for (int distance = 1; distance < n; ++distance) {
    const int from = (rank + n - distance) % n;
    plan.send((rank + distance) % n, {Place::input, (rank + distance) % n});
    plan.receive(from, {Place::output, from}, Place::input);
    plan.next_round();
  }
  return plan.done();
}

bool supports_equal_hosts(const PlanRequest& request) {
  return request.node_ranks > 1 && request.world % request.node_ranks == 0;
}

// Within each host block j goes to its rank j; those ranks exchange what their hosts have; then back within
// the host. Between hosts each byte of a block travels once to each other host.
Plan hierarchical_all_reduce(const PlanRequest& request, int rank) {
  const int k = request.node_ranks;
  const int hosts = request.world / k;
  const int host = rank / k;
  const int own = rank % k;
  PlanWriter plan(request, rank, "hierarchical", k);
  for (int i = 1; i < k; ++i) plan.send(host * k + (own + i) % k, {Place::input, (own + i) % k});
  plan.fold(host * k, k, {Place::partial, own}, {Place::input, own}, Place::input);
  plan.next_round();
  const At all{Place::partial, plan.second(own)};
  for (int i = 1; i < hosts; ++i) plan.send((host + i) % hosts * k + own, {Place::partial, own});
  plan.fold(own, hosts, all, {Place::partial, own}, Place::partial, k);
  plan.next_round();
  plan.copy(all, {Place::output, own});
  plan.next_round();
  for (int i = 1; i < k; ++i) plan.send(host * k + (own + i) % k, {Place::output, own});
  for (int i = 1; i < k; ++i)
    plan.receive(host * k + (own + i) % k, {Place::output, (own + i) % k}, Place::output);
  return plan.done();
}

Plan hierarchical_broadcast(const PlanRequest& request, int rank) {
  const int k = request.node_ranks;
  const int hosts = request.world / k;
  const int leader = request.root % k;  // of each host: the root's number there
  PlanWriter plan(request, rank, "hierarchical", 1);
  const int host = rank / k;
  const int root_host = request.root / k;
  if (rank == request.root) {
    plan.copy({Place::input, 0}, {Place::output, 0});
    for (int i = 1; i < hosts; ++i) plan.send((root_host + i) % hosts * k + leader, {Place::input, 0});
  } else if (rank % k == leader) {
    plan.receive(request.root, {Place::output, 0}, Place::input);
  }
  plan.next_round();
  if (rank % k == leader) {
    for (int i = 1; i < k; ++i) plan.send(host * k + (leader + i) % k, {Place::output, 0});
  } else {
    plan.receive(host * k + leader, {Place::output, 0}, Place::output);
  }
  return plan.done();
}

}  // namespace diji::collective
