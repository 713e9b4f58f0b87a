// What a tuner thinks: which plans to try, when one is better than another, and the rows that follow.
#pragma once

#include "collective/choose.h"

#include <span>
#include <vector>

namespace diji::collective {

/// Plans worth measuring for such a call: the one that it takes now (`tuning` as in choose) first, then
/// others in the catalogue's order, with several numbers of slices; none that the cost model takes for ten
/// times as dear as the cheapest. Errors: of choose.
Result<std::vector<PlanChoice>> candidates_for(const Call& call, const WorldShape& shape,
                                               const Tuning* tuning);

/// Proves the plans of all ranks, before they run. Errors: of check_plans; unsupported, where there are too
/// many steps to prove.
Result<void> prove(const Call& call, const WorldShape& shape, const PlanChoice& choice);

/// Whether what took `after` is better than what took `before`, beyond noise: times of the same rounds, taken
/// in turns. By at least a twentieth in three quarters of the rounds.
bool is_better(std::span<const double> before, std::span<const double> after);

/// The plan that won at a size.
struct Winner {
  std::int64_t bytes = 0;
  PlanWords plan;  ///< "auto" where the built-in choice did
};

/// Rows of `group` (its operation, elements and worlds) for winners in ascending sizes. Between two sizes the
/// border is in the middle of their logarithms; past the last one it lies as far as before it, and larger
/// calls are as built in. None where nothing but the built-in choice won.
std::vector<TuningRow> rows_of(const TuningRow& group, std::span<const Winner> winners);

/// `tuning` with the rows of `group` replaced; new ones stand first.
Tuning with_rows(Tuning tuning, const TuningRow& group, std::vector<TuningRow> rows);

}  // namespace diji::collective
