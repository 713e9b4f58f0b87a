// Every plan of the catalogue is proved for many worlds, and a plan with one planted mistake is caught.
#include "collective/check_plan.h"

#include "tests/unit/expect.h"

namespace diji::collective {
namespace {

constexpr Aliasing kAliasings[] = {{false, false}, {true, false}, {false, true}, {true, true}};

std::vector<int> roots_of(Operation operation, int world) {
  if (!has_root(operation)) return {0};
  if (world > 16) return {0, world / 2, world - 1};
  std::vector<int> roots;
  for (int root = 0; root < world; ++root) roots.push_back(root);
  return roots;
}

void check_world(int world, int slices, int node_ranks) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const int root : roots_of(algorithm.operation, world)) {
      const PlanRequest request{.operation = algorithm.operation,
                                .world = world,
                                .root = root,
                                .slices = slices,
                                .node_ranks = node_ranks};
      if (!algorithm.supports(request)) continue;
      if (node_ranks > 1 && algorithm.name != "hierarchical") continue;  // the others do not look at it
      const std::vector<Plan> plans = plans_of(algorithm, request);
      for (const Aliasing aliasing : kAliasings) {
        const bool has_form_in_place =
            algorithm.operation != Operation::all_to_all && algorithm.operation != Operation::barrier;
        if (aliasing.in_place && !has_form_in_place) continue;
        const auto facts = check_plans(plans, aliasing);
        if (!facts) MESSAGE(facts.error().message);
        EXPECT(facts.has_value());
      }
    }
  }
}

TEST_CASE("every algorithm is proved for worlds 1 to 64" * doctest::test_suite("proof")) {
  for (int world = 1; world <= 64; ++world) {
    check_world(world, 1, 0);
    for (const int node_ranks : {2, 3, 4, 8}) check_world(world, 1, node_ranks);
    if (world <= 32) check_world(world, 2, 0);
    if (world <= 16) check_world(world, 5, 2);
    if (world <= 16) check_world(world, 5, 0);
  }
}

TEST_CASE("plans of few messages are proved for sampled worlds to 1024" * doctest::test_suite("proof")) {
  for (const int world : {100, 127, 256, 777, 1024}) {
    for (const Algorithm& algorithm : algorithms()) {
      const PlanRequest request{.operation = algorithm.operation, .world = world, .root = world / 3};
      if (!algorithm.supports(request)) continue;
      const std::vector<Plan> plans = plans_of(algorithm, request);
      std::size_t steps = 0;
      for (const Plan& plan : plans) steps += plan.steps.size();
      if (steps > 100'000) continue;
      const auto facts = check_plans(plans);
      if (!facts) MESSAGE(facts.error().message);
      EXPECT(facts.has_value());
    }
  }
}

TEST_CASE("rings send what their papers say") {
  for (const int world : {2, 3, 8, 16}) {
    const double share = (world - 1.0) / world;
    const auto sent = [&](Operation operation, std::string_view name) {
      const PlanRequest request{.operation = operation, .world = world};
      return check_plans(plans_of(**find_algorithm(operation, name), request)).value().sent_vectors;
    };
    EXPECT(sent(Operation::all_reduce, "ring") == doctest::Approx(2 * share));
    EXPECT(sent(Operation::all_reduce, "bidirectional_ring") == doctest::Approx(2 * share));
    EXPECT(sent(Operation::all_reduce, "direct") == doctest::Approx(2 * share));
    EXPECT(sent(Operation::reduce_scatter, "ring") == doctest::Approx(share));
    EXPECT(sent(Operation::all_reduce, "double_tree") <= 2.01);
  }
}

TEST_CASE("plans for exact mode are the left fold in rank order, and the checker can tell") {
  for (const Algorithm& algorithm : algorithms()) {
    if (!reduces(algorithm.operation)) continue;
    for (const int world : {1, 2, 3, 8, 13}) {
      const PlanRequest request{
          .operation = algorithm.operation, .world = world, .root = world / 2, .slices = 2, .node_ranks = 4};
      if (!algorithm.supports(request)) continue;
      const auto facts = check_plans(plans_of(algorithm, request));
      CAPTURE(algorithm.name);
      if (algorithm.name == "direct") EXPECT(facts.value().is_left_fold);
      if (algorithm.name == "ring" && world > 2) EXPECT_FALSE(facts.value().is_left_fold);
    }
  }
}

}  // namespace
}  // namespace diji::collective
