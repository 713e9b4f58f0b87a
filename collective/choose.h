// Which algorithm a call takes: a table of thresholds, equal on all ranks because all of its arguments are.
#pragma once

#include "base/error.h"
#include "collective/call.h"

#include <cstdint>

namespace diji::collective {

struct PlanChoice {
  const Algorithm* algorithm = nullptr;
  int slices = 1;
};

/// Into how many slices a call cuts each block of a vector of `bytes`.
int slices_for(std::int64_t bytes, int world);

/// By operation, size, world and hosts; exact calls and calls that name an algorithm get that one. Errors:
/// usage, where the named one does not exist or does not support the call.
Result<PlanChoice> choose(const Call& call, int world, int hosts);

}  // namespace diji::collective
