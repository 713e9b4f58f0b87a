// Which plan a call takes: by a table, or as built in. Equal on all ranks because all arguments are.
#pragma once

#include "base/error.h"
#include "collective/call.h"
#include "collective/tuning.h"

#include <cstdint>
#include <string>

namespace diji::collective {

struct PlanChoice {
  const Algorithm* algorithm = nullptr;
  int slices = 1;
};

/// The slices under which an algorithm is cheapest for a vector of `bytes`, and no fewer than caches ask for.
int slices_for(const Algorithm& algorithm, const WorldShape& shape, std::int64_t bytes,
               const CostModel& model = {});

/// By operation, elements, size and world. A call that names an algorithm ("ring", "direct/slices=4") gets
/// that one; an exact call gets direct, whatever the table says. `tuning` null: the built-in choice. Errors:
/// usage, where the named one does not exist or does not support the call.
Result<PlanChoice> choose(const Call& call, const WorldShape& shape, const Tuning* tuning = nullptr);

/// What the chosen algorithm is asked for.
PlanRequest request_of(const Call& call, const WorldShape& shape, const PlanChoice& choice);

/// "direct/4-1f3a9c02": algorithm, slices, and a hash of all that gives the bits but the inputs: world,
/// hosts, the type of partial results, and the steps (those of rank 0, for root 0). Equal ids, equal bits.
std::string plan_id(const Call& call, const WorldShape& shape, const PlanChoice& choice);

}  // namespace diji::collective
