// The catalogue: every algorithm of every operation, one row each.
#include "collective/plan.h"
#include "collective/plan_writer.h"
#include "collective/plans_direct.h"

#include <array>
#include <cmath>

namespace diji::collective {
namespace {

constexpr std::string_view kOwner =
    "direct reduce-scatter and all-gather, as in Thakur, Rabenseifner, Gropp 2005, 4.2";

// One message to each of the other ranks from one port, all bytes of the vector but the own block, in each
// direction.
double one_to_each(const PlanRequest& r, double bytes, const CostModel& m) {
  const double others = r.world - 1;
  return others * m.alpha_us + bytes * others / r.world * m.beta_us_per_byte;
}
double fold_cost(const PlanRequest& r, double bytes, const CostModel& m) {
  return bytes * (r.world - 1) / r.world * m.gamma_us_per_byte;
}
double direct_all_reduce(const PlanRequest& r, double bytes, const CostModel& m) {
  return 2 * one_to_each(r, bytes, m) + fold_cost(r, bytes, m);
}
double direct_reduce_scatter(const PlanRequest& r, double bytes, const CostModel& m) {
  return one_to_each(r, bytes, m) + fold_cost(r, bytes, m);
}
double whole_to_each(const PlanRequest& r, double bytes, const CostModel& m) {
  return (r.world - 1) * (m.alpha_us + bytes * m.beta_us_per_byte);
}
double whole_folded(const PlanRequest& r, double bytes, const CostModel& m) {
  return whole_to_each(r, bytes, m) + (r.world - 1) * bytes * m.gamma_us_per_byte;
}
double dissemination(const PlanRequest& r, double, const CostModel& m) {
  return std::ceil(std::log2(std::max(r.world, 1))) * m.alpha_us;
}

using enum Operation;
constexpr std::array kAlgorithms = {
    Algorithm{"exchange", "everybody sends all to everybody and folds: 1 round, n-1 vectors sent", "",
              all_reduce, false, supports_all, direct::exchange, whole_folded},
    Algorithm{"direct", "block r is folded by rank r and sent to all: 2 rounds, 2(n-1)/n vectors sent",
              kOwner, all_reduce, false, supports_all, direct::all_reduce, direct_all_reduce},
    Algorithm{"direct", "block r is sent to rank r and folded there: 1 round, (n-1)/n vectors sent", kOwner,
              reduce_scatter, false, supports_all, direct::reduce_scatter, direct_reduce_scatter},
    Algorithm{"direct", "all send to the root, which folds: 1 round", "", reduce, false, supports_all,
              direct::reduce, whole_folded},
    Algorithm{"direct", "all send to the higher ranks, which fold: 1 round", "", scan, false, supports_all,
              direct::scan, whole_folded},
    Algorithm{"direct", "all send to the higher ranks, which fold: 1 round", "", exscan, false, supports_all,
              direct::exscan, whole_folded},
    Algorithm{"direct", "everybody sends its block to everybody: 1 round", "", all_gather, false,
              supports_all, direct::all_gather, one_to_each},
    Algorithm{"direct", "the root sends to everybody: 1 round", "", broadcast, false, supports_all,
              direct::broadcast, whole_to_each},
    Algorithm{"direct", "everybody sends its block to the root: 1 round", "", gather, false, supports_all,
              direct::gather, one_to_each},
    Algorithm{"direct", "the root sends everybody its block: 1 round", "", scatter, false, supports_all,
              direct::scatter, one_to_each},
    Algorithm{"direct", "everybody sends everybody a block: 1 round", "", all_to_all, false, supports_all,
              direct::all_to_all, one_to_each},
    Algorithm{"dissemination", "a word to rank + 2^i in round i: log2 n rounds",
              "Hensgen, Finkel, Manber 1988", barrier, false, supports_all, direct::dissemination_barrier,
              dissemination},
};

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }

}  // namespace diji::collective
