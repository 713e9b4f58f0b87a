// Which chunks a rank has, and how a plan of one slice becomes a plan of many.
#include "collective/plan.h"

#include "base/check.h"
#include "base/nearest.h"

#include <algorithm>
#include <set>

namespace diji::collective {

ChunkRange chunks_at(Place place, const Plan& plan) {
  const PlanRequest& request = plan.request;
  const ChunkRange all{0, plan.chunks()};
  const ChunkRange own{plan.rank * request.slices, request.slices};
  const ChunkRange none{0, 0};
  const bool is_root = plan.rank == request.root;
  if (place == Place::scratch) return {0, plan.scratch_chunks};
  if (place == Place::partial)
    return plan.uses_partial ? ChunkRange{0, plan.chunks() * plan.partial_copies} : none;
  const bool input = place == Place::input;
  switch (request.operation) {
    case Operation::broadcast: return !input || is_root ? all : none;
    case Operation::reduce: return input || is_root ? all : none;
    case Operation::all_gather: return input ? own : all;
    case Operation::gather: return input ? own : (is_root ? all : none);
    case Operation::reduce_scatter: return input ? all : own;
    case Operation::scatter: return !input ? own : (is_root ? all : none);
    case Operation::barrier: return all;  // of no length
    case Operation::send: return input ? all : none;
    case Operation::receive: return input ? none : all;
    default: return all;
  }
}

WorldShape shape_of(std::span<const std::string> hosts) {
  WorldShape shape{.ranks = static_cast<int>(hosts.size())};
  const std::set<std::string_view> all(hosts.begin(), hosts.end());
  shape.hosts = std::max(static_cast<int>(all.size()), 1);
  if (shape.hosts == 1 || shape.ranks % shape.hosts != 0) return shape;
  const int each = shape.ranks / shape.hosts;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (rank % each != 0 && hosts[at] != hosts[at - 1]) return shape;
  }
  shape.node_ranks = each;
  return shape;
}

double cost_us(const Algorithm& algorithm, const PlanRequest& request, int hosts, double bytes,
               const CostModel& model) {
  CostModel seen = model;
  if (hosts > 1 && !algorithm.knows_hosts) {
    seen.alpha_us = std::max(model.alpha_us, model.alpha_between_us);
    seen.beta_us_per_byte = std::max(model.beta_us_per_byte, model.beta_between_us_per_byte);
  }
  return algorithm.cost_us(request, bytes, seen);
}

bool partial_may_be_output(const Plan& plan, bool in_place) {
  const ChunkRange output = chunks_at(Place::output, plan);
  std::vector<int> input_sent_in(static_cast<std::size_t>(plan.chunks()), -1);  // round
  for (const Step& step : plan.steps) {
    if (step.action != Action::send || step.source != Place::input) continue;
    int& last = input_sent_in[static_cast<std::size_t>(step.source_chunk)];
    last = std::max(last, step.round);
  }
  return std::ranges::all_of(plan.steps, [&](const Step& step) {
    const bool reads = step.action != Action::receive && step.source == Place::partial;
    const bool writes = step.action != Action::send && step.target == Place::partial;
    if (reads && !output.contains(step.source_chunk)) return false;
    if (!writes) return true;
    return output.contains(step.target_chunk) &&
           !(in_place && input_sent_in[static_cast<std::size_t>(step.target_chunk)] >= step.round);
  });
}

Plan in_rounds(Plan plan) {
  int last = 0;
  for (const Step& step : plan.steps) last = std::max(last, step.round);
  std::vector<std::vector<Step>> rounds(static_cast<std::size_t>(last + 1));
  for (const Step& step : plan.steps) rounds[static_cast<std::size_t>(step.round)].push_back(step);
  plan.steps.clear();
  for (const auto& round : rounds) plan.steps.insert(plan.steps.end(), round.begin(), round.end());
  return plan;
}

Plan sliced(Plan plan, int slices) {
  if (slices == 1) return plan;
  CHECK(plan.request.slices == 1, "a plan is sliced once");
  std::vector<Step> steps;
  steps.reserve(plan.steps.size() * static_cast<std::size_t>(slices));
  // In a round, earlier slices first: what a pair of ranks exchanges then has one order on both sides.
  for (int slice = 0; slice < slices; ++slice) {
    for (Step step : plan.steps) {
      step.round += slice;
      step.source_chunk = step.source_chunk * slices + slice;
      step.target_chunk = step.target_chunk * slices + slice;
      steps.push_back(step);
    }
  }
  plan.steps = std::move(steps);
  plan.request.slices = slices;
  plan.scratch_chunks *= slices;
  return in_rounds(std::move(plan));
}

Result<const Algorithm*> find_algorithm(Operation operation, std::string_view name) {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.operation != operation) continue;
    if (algorithm.name == name) return &algorithm;
    names.emplace_back(algorithm.name);
  }
  const std::string nearest = nearest_name(name, names);
  return fail(ErrorCode::usage, "{} has no algorithm {}; it has {}{}", name_of(operation), name,
              fmt::join(names, ", "), nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
}

}  // namespace diji::collective
