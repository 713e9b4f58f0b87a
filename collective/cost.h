// What a plan takes under a cost model, by playing it through: what the closed forms of the catalogue are
// held against.
#pragma once

#include "collective/plan.h"

#include <span>

namespace diji::collective {

/// Microseconds until the last rank is done. `plans` are those of all ranks, as check_plans accepts them; all
/// chunks are of `chunk_bytes`.
///
/// The machine of Hockney's model: each rank has one port out and one port in, which work at the same time. A
/// message begins when both of its ranks are in the round of their step and both ports are free; it holds the
/// port out for alpha + bytes * beta, and the port in until what arrived is combined. A free port takes the
/// first message of its round whose receiver is free too. Copies cost nothing.
double simulate_us(std::span<const Plan> plans, double chunk_bytes, const CostModel& model);

}  // namespace diji::collective
