// Closed forms for any world, and beside them, where it is not too large, the plan played through.
#include "tools/price_collective.h"

#include "collective/check_plan.h"
#include "collective/choose.h"
#include "collective/cost.h"
#include "collective/tuned_file.h"
#include "tools/bench_collective.h"
#include "tools/json.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/topology.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace diji::tools {
namespace {

using collective::Algorithm;
using collective::Call;
using collective::CostModel;
using collective::Operation;
using collective::PlanRequest;

constexpr int kWorldMax = 1 << 20;
// So much takes up to some 0.1 s to play through.
constexpr int kPlayedWorldMax = 1024;
constexpr std::size_t kPlayedStepsMax = 150'000;

struct World {
  int ranks = 1;
  int ranks_per_host = 0;  ///< 0: one host
  CostModel model;
  collective::Tuning tuning;
  int hosts() const { return ranks_per_host == 0 ? 1 : (ranks + ranks_per_host - 1) / ranks_per_host; }
  collective::WorldShape shape() const {
    return {.ranks = ranks, .hosts = hosts(), .node_ranks = ranks_per_host};
  }
};

struct Price {
  const Algorithm* algorithm = nullptr;
  int slices = 1;
  double cost_us = 0;
  std::optional<double> played_us;
  bool chosen = false;  ///< what a call would take
  double best_us() const { return played_us.value_or(cost_us); }
};

Result<World> world_of(const PriceRequest& request) {
  constexpr std::string_view kName = "world=";
  const std::string_view number =
      std::string_view(request.world).substr(std::min(request.world.size(), kName.size()));
  World world;
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), world.ranks);
  if (!request.world.starts_with(kName) || problem != std::errc() || end != number.data() + number.size() ||
      world.ranks < 1 || world.ranks > kWorldMax) {
    return fail(ErrorCode::usage, "--simulate: '{}' is not world=N with N of 1 to {}", request.world,
                kWorldMax);
  }
  world.tuning = TRY(collective::tuning_from_environment());
  if (request.topology.empty()) return world;
  const collective::Topology topology = TRY(read_topology(request.topology));
  world.model = topology.model;
  if (topology.ranks_per_host < world.ranks) world.ranks_per_host = topology.ranks_per_host;
  return world;
}

std::optional<double> play(const Algorithm& algorithm, const PlanRequest& plan, double bytes,
                           const CostModel& model) {
  if (plan.world > kPlayedWorldMax) return std::nullopt;
  const std::size_t steps = algorithm.plan(plan, 0).steps.size();
  if (steps * static_cast<std::size_t>(plan.world) > kPlayedStepsMax) return std::nullopt;
  const auto plans = plans_of(algorithm, plan);
  const double chunk = plan.operation == Operation::barrier ? 0 : bytes / plans[0].chunks();
  return simulate_us(plans, chunk, model);
}

// The cheapest first. `only`: of this algorithm, null: of all.
Result<std::vector<Price>> prices_of(const World& world, const Call& call, std::int64_t bytes,
                                     const Algorithm* only) {
  std::vector<Price> prices;
  const collective::WorldShape shape = world.shape();
  const collective::PlanChoice choice = TRY(collective::choose(call, shape, &world.tuning));
  for (const Algorithm& algorithm : collective::algorithms()) {
    if (algorithm.operation != call.operation || (only != nullptr && &algorithm != only)) continue;
    if (call.exact && algorithm.name != "direct") continue;
    const bool chosen = &algorithm == choice.algorithm;
    const PlanRequest plan = request_of(
        call, shape,
        {&algorithm, chosen ? choice.slices : collective::slices_for(algorithm, shape, bytes, world.model)});
    if (!algorithm.supports(plan)) continue;
    const auto whole = static_cast<double>(bytes);
    prices.push_back({.algorithm = &algorithm,
                      .slices = plan.slices,
                      .cost_us = cost_us(algorithm, plan, shape.hosts, whole, world.model),
                      .played_us = play(algorithm, plan, whole, world.model),
                      .chosen = chosen});
  }
  std::ranges::sort(prices, {},
                    [](const Price& price) { return std::pair(price.best_us(), price.algorithm); });
  return prices;
}

Json json_of(const World& world) {
  const auto link = [](double alpha_us, double beta_us_per_byte) {
    return Json{{"latency_us", alpha_us}, {"bandwidth_gbps", 1e-3 / beta_us_per_byte}};
  };
  const CostModel& model = world.model;
  return {{"ranks", world.ranks},
          {"hosts", world.hosts()},
          {"within_host", link(model.alpha_us, model.beta_us_per_byte)},
          {"between_hosts", link(model.alpha_between_us, model.beta_between_us_per_byte)},
          {"reduce_gbps", 1e-3 / model.gamma_us_per_byte},
          {"diji", DIJI_VERSION}};
}

Json json_of(const Price& price, const Call& call, std::int64_t bytes) {
  return {{"name", fmt::format("{}_{}_{}", name_of(call.operation), bytes, price.algorithm->name)},
          {"value", price.best_us()},
          {"unit", "us"},
          {"operation", std::string(name_of(call.operation))},
          {"algorithm", std::string(price.algorithm->name)},
          {"size_bytes", bytes},
          {"root", call.root},
          {"slices", price.slices},
          {"cost_us", price.cost_us},
          {"played_us", price.played_us ? Json(*price.played_us) : Json()},
          {"chosen", price.chosen}};
}

}  // namespace

Result<int> price_collective(const PriceRequest& request, bool json) {
  const World world = TRY(world_of(request));
  if (request.call.root >= world.ranks)
    return fail(ErrorCode::usage, "--root {}: there are {} ranks", request.call.root, world.ranks);
  Call call = request.call;
  const Algorithm* only = nullptr;
  if (!call.algorithm.empty()) only = TRY(collective::find_algorithm(call.operation, call.algorithm));
  call.algorithm = {};  // the choice is that of a call which names none
  Json rows = Json::array();
  Table table({">bytes", "algorithm", ">slices", ">cost us", ">played us", "choice"});
  for (const std::int64_t size : request.sizes) {
    call = sized(call, size, world.ranks);
    const std::int64_t bytes = collective::vector_count(call, world.ranks) * bytes_of(call.type);
    for (const Price& price : TRY(prices_of(world, call, bytes, only))) {
      rows.push_back(json_of(price, call, bytes));
      table.add({fmt::format("{}", bytes), std::string(price.algorithm->name),
                 fmt::format("{}", price.slices), fmt::format("{:.2f}", price.cost_us),
                 price.played_us ? fmt::format("{:.2f}", *price.played_us) : "-",
                 price.chosen ? "chosen" : ""});
    }
  }
  if (rows.empty()) {
    return fail(ErrorCode::usage, "{}: {} does not support {} ranks on {} hosts", name_of(call.operation),
                only == nullptr ? "no algorithm" : only->name, world.ranks, world.hosts());
  }
  if (json) {
    print_json({{"machine", json_of(world)}, {"rows", rows}});
  } else {
    table.print();
  }
  return 0;
}

}  // namespace diji::tools
