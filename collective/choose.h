// Which algorithm a call takes: a table of thresholds, equal on all ranks because all of its arguments are.
#pragma once

#include "base/error.h"
#include "collective/call.h"

namespace diji::collective {

struct PlanChoice {
  const Algorithm* algorithm = nullptr;
  int slices = 1;
};

/// By operation, size, world and hosts; exact calls and calls that name an algorithm get that one. Errors:
/// usage, where the named one does not exist or does not support the call.
Result<PlanChoice> choose(const Call& call, int world, int hosts);

}  // namespace diji::collective
