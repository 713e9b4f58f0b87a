// The plans that are not direct; the catalogue (algorithms.cpp) says of each what it costs and whose it is.
#pragma once

#include "collective/plan.h"

namespace diji::collective {

// plans_ring.cpp
Plan ring_all_reduce(const PlanRequest& request, int rank);
Plan ring_reduce_scatter(const PlanRequest& request, int rank);
Plan ring_all_gather(const PlanRequest& request, int rank);
Plan bidirectional_ring_all_reduce(const PlanRequest& request, int rank);
Plan bidirectional_ring_reduce_scatter(const PlanRequest& request, int rank);
Plan bidirectional_ring_all_gather(const PlanRequest& request, int rank);
Plan chain_broadcast(const PlanRequest& request, int rank);
Plan chain_reduce(const PlanRequest& request, int rank);
Plan chain_scan(const PlanRequest& request, int rank);
Plan chain_exscan(const PlanRequest& request, int rank);

// plans_doubling.cpp
Plan recursive_doubling_all_reduce(const PlanRequest& request, int rank);
Plan halving_doubling_all_reduce(const PlanRequest& request, int rank);
Plan recursive_halving_reduce_scatter(const PlanRequest& request, int rank);
Plan recursive_doubling_all_gather(const PlanRequest& request, int rank);
Plan recursive_doubling_scan(const PlanRequest& request, int rank);
Plan recursive_doubling_exscan(const PlanRequest& request, int rank);

// plans_tree.cpp
Plan double_tree_all_reduce(const PlanRequest& request, int rank);
Plan double_tree_broadcast(const PlanRequest& request, int rank);
Plan double_tree_reduce(const PlanRequest& request, int rank);
Plan binomial_broadcast(const PlanRequest& request, int rank);
Plan binomial_reduce(const PlanRequest& request, int rank);
Plan binomial_gather(const PlanRequest& request, int rank);
Plan binomial_scatter(const PlanRequest& request, int rank);

// plans_exchange.cpp
Plan bruck_all_gather(const PlanRequest& request, int rank);
Plan bruck_all_to_all(const PlanRequest& request, int rank);
Plan pairwise_all_to_all(const PlanRequest& request, int rank);
bool supports_equal_hosts(const PlanRequest& request);
Plan hierarchical_all_reduce(const PlanRequest& request, int rank);
Plan hierarchical_broadcast(const PlanRequest& request, int rank);

}  // namespace diji::collective
