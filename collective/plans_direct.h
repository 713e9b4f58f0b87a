// Everybody talks to everybody at once: fewest rounds, and each chunk is reduced by one owner, in rank order.
#pragma once

#include "collective/plan.h"

namespace diji::collective::direct {

/// Block r is sent to rank r, folded there over ranks 0, 1, …, and the result goes to all.
Plan all_reduce(const PlanRequest& request, int rank);
/// Everybody sends the whole vector to everybody and folds it for itself: one round.
Plan exchange(const PlanRequest& request, int rank);
Plan reduce_scatter(const PlanRequest& request, int rank);
Plan reduce(const PlanRequest& request, int rank);
Plan scan(const PlanRequest& request, int rank);
Plan exscan(const PlanRequest& request, int rank);
Plan all_gather(const PlanRequest& request, int rank);
Plan broadcast(const PlanRequest& request, int rank);
Plan gather(const PlanRequest& request, int rank);
Plan scatter(const PlanRequest& request, int rank);
Plan all_to_all(const PlanRequest& request, int rank);
/// Round i: a word to rank + 2^i, one from rank - 2^i (Hensgen, Finkel, Manber 1988).
Plan dissemination_barrier(const PlanRequest& request, int rank);

}  // namespace diji::collective::direct
