// A second opinion on plans: the steps of all ranks in a random order, with texts for values.
#pragma once

#include "collective/check_plan.h"

#include <optional>
#include <random>
#include <string>
#include <vector>

namespace diji::collective {

/// Plays the plans once: at every moment any step of any rank's round may be next that has what it needs, and
/// every pair of ranks has a queue of a random length. Knows nothing of the checker: a value is the text of
/// its expression, and the outputs' texts are compared with what the operation says. Returns what was wrong.
std::optional<std::string> play(const std::vector<Plan>& plans, Aliasing aliasing, std::mt19937& random);

}  // namespace diji::collective
