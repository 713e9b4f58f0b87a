// Pure: no clock and no ranks in here.
#include "collective/tuner.h"

#include "collective/check_plan.h"

#include <algorithm>
#include <cmath>

namespace diji::collective {
namespace {

constexpr double kDearer = 10;  // in shared memory the cost model is that far off for messages to many peers
constexpr std::int64_t kSliceBytesMin = 16 << 10;
constexpr std::size_t kProvedStepsMax = 4'000'000;

}  // namespace

Result<std::vector<PlanChoice>> candidates_for(const Call& call, const WorldShape& shape,
                                               const Tuning* tuning) {
  const std::int64_t bytes = vector_count(call, shape.ranks) * bytes_of(call.type);
  std::vector<PlanChoice> plans{TRY(choose(call, shape, tuning))};
  const auto add = [&](const PlanChoice& plan) {
    const bool known = std::ranges::any_of(plans, [&](const PlanChoice& other) {
      return other.algorithm == plan.algorithm && other.slices == plan.slices;
    });
    if (!known) plans.push_back(plan);
  };
  add(TRY(choose(call, shape, nullptr)));
  const std::size_t certain = plans.size();
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.operation != call.operation || (algorithm.equal_counts && !call.counts.empty())) continue;
    if (!algorithm.supports(request_of(call, shape, {&algorithm, 1}))) continue;
    add({&algorithm, slices_for(algorithm, shape, bytes)});
    for (int slices = 1; slices <= 64; slices *= 4) {
      if (slices == 1 || bytes / shape.ranks / slices >= kSliceBytesMin) add({&algorithm, slices});
    }
  }
  const auto cost = [&](const PlanChoice& plan) {
    return cost_us(*plan.algorithm, request_of(call, shape, plan), shape.hosts, static_cast<double>(bytes),
                   {});
  };
  double cheapest = cost(plans[0]);
  for (const PlanChoice& plan : plans) cheapest = std::min(cheapest, cost(plan));
  const auto dear = std::remove_if(plans.begin() + static_cast<std::ptrdiff_t>(certain), plans.end(),
                                   [&](const PlanChoice& plan) { return cost(plan) > kDearer * cheapest; });
  plans.erase(dear, plans.end());
  return plans;
}

Result<void> prove(const Call& call, const WorldShape& shape, const PlanChoice& choice) {
  const PlanRequest request = request_of(call, shape, choice);
  const std::size_t steps =
      choice.algorithm->plan(request, 0).steps.size() * static_cast<std::size_t>(shape.ranks);
  if (steps > kProvedStepsMax) {
    return fail(ErrorCode::unsupported, "{} of {} ranks has about {} steps, too many to prove here",
                choice.algorithm->name, shape.ranks, steps);
  }
  const std::vector<Plan> plans = plans_of(*choice.algorithm, request);
  TRY(check_plans(plans));
  TRY(check_plans(plans, {.partial_is_output = true}));
  return {};
}

bool is_better(std::span<const double> before, std::span<const double> after) {
  constexpr double kGain = 1.05;
  const std::size_t rounds = std::min(before.size(), after.size());
  if (rounds < 4) return false;
  std::vector<double> ratios;
  for (std::size_t round = 0; round < rounds; ++round) ratios.push_back(before[round] / after[round]);
  const auto quarter = ratios.begin() + static_cast<std::ptrdiff_t>(rounds / 4);
  std::ranges::nth_element(ratios, quarter);
  return *quarter >= kGain;
}

std::vector<TuningRow> rows_of(const TuningRow& group, std::span<const Winner> winners) {
  std::vector<TuningRow> rows;
  const auto middle = [](std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(std::sqrt(static_cast<double>(a) * static_cast<double>(b)));
  };
  std::int64_t border = 1;
  for (std::size_t i = 0; i < winners.size(); ++i) {
    TuningRow row = group;
    row.plan = winners[i].plan;
    const std::int64_t bytes = std::max<std::int64_t>(winners[i].bytes, 1);
    if (i + 1 < winners.size()) {
      row.bytes_max = middle(bytes, winners[i + 1].bytes);
    } else {
      row.bytes_max =
          i == 0 ? bytes
                 : static_cast<std::int64_t>(static_cast<double>(bytes) / static_cast<double>(border) *
                                             static_cast<double>(bytes));
    }
    border = std::max<std::int64_t>(row.bytes_max, 1);
    if (!rows.empty() && rows.back().plan == row.plan) {
      rows.back() = row;
    } else {
      rows.push_back(row);
    }
  }
  while (!rows.empty() && rows.back().plan.algorithm == "auto") rows.pop_back();
  return rows;
}

Tuning with_rows(Tuning tuning, const TuningRow& group, std::vector<TuningRow> rows) {
  std::erase_if(tuning.rows, [&](const TuningRow& row) { return row.same_group(group); });
  tuning.rows.insert(tuning.rows.begin(), rows.begin(), rows.end());
  return tuning;
}

}  // namespace diji::collective
