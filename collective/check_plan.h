// The proof of a plan for one world: every contribution arrives once, everywhere, in one order, and nobody
// waits forever.
#pragma once

#include "base/error.h"
#include "collective/plan.h"

#include <cstdint>
#include <span>
#include <vector>

namespace diji::collective {

struct PlanFacts {
  std::int64_t steps = 0;
  std::int64_t messages = 0;
  int rounds = 0;           ///< of the rank with most
  double sent_vectors = 0;  ///< by the rank that sends most: chunks sent / chunks of the vector
  bool is_left_fold =
      true;  ///< each reduced value is ((rank 0 + rank 1) + rank 2) + …: what exact mode needs
};

/// Runs the plans of all ranks once, symbolically, over channels without room. There are no wildcard
/// receives, so the plans are a deterministic process network (Kahn 1974): what ends here ends for every
/// capacity and every timing.
///
/// Holds afterwards: all plans are of one request; every step names chunks and peers that exist; sends and
/// receives pair up, with equal payload types and lengths and with nothing left over; a chunk is read only
/// after it was written; no step of a round touches what another one writes; each rank's contribution enters
/// a reduction exactly once; every output chunk is exactly what the operation says (and, for exscan on rank
/// 0, untouched); ranks that end with the same chunk computed it by the same expression in the same order, so
/// the bits are equal; `input` is never written, and all of this also where input and output are the same
/// memory (`in_place`) and where partial and output are (`partial_is_output`). Errors: failed, naming
/// algorithm, world, rank, step and what is wrong.
struct Aliasing {
  bool in_place = false;
  bool partial_is_output = false;
};
Result<PlanFacts> check_plans(std::span<const Plan> plans, Aliasing aliasing = {});

/// All ranks' plans of an algorithm.
std::vector<Plan> plans_of(const Algorithm& algorithm, const PlanRequest& request);

}  // namespace diji::collective
