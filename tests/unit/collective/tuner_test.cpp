// What is tried, what counts as better, and the rows that winners make.
#include "collective/tuner.h"

#include "tests/unit/expect.h"

#include <algorithm>

namespace diji::collective {
namespace {

bool has(const std::vector<PlanChoice>& plans, std::string_view algorithm, int slices) {
  return std::ranges::any_of(plans, [&](const PlanChoice& plan) {
    return plan.algorithm->name == algorithm && plan.slices == slices;
  });
}

TEST_CASE("what a call takes now is tried first, then the others, but no hopeless ones") {
  const Tuning tuning = parse_tuning("all_reduce: ring/slices=7", "here").value();
  Call call{.operation = Operation::all_reduce, .count = 1 << 20};
  const auto plans = candidates_for(call, {.ranks = 4}, &tuning).value();
  EXPECT(plans[0].algorithm->name == "ring");
  EXPECT(plans[0].slices == 7);
  EXPECT(plans[1].algorithm->name == "direct");  // as built in
  EXPECT(has(plans, "double_tree", 16));
  EXPECT(has(plans, "direct", 64));
  EXPECT_FALSE(has(plans, "hierarchical", 1));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    EXPECT(prove(call, {.ranks = 4}, plans[i]).has_value());
    for (std::size_t j = 0; j < i; ++j)
      EXPECT((plans[i].algorithm != plans[j].algorithm || plans[i].slices != plans[j].slices));
  }
  EXPECT(has(candidates_for(call, {.ranks = 4, .hosts = 2, .node_ranks = 2}, nullptr).value(), "hierarchical",
             4));
  EXPECT_FALSE(has(candidates_for(call, {.ranks = 1000}, nullptr).value(), "exchange", 1));
  call.count = 2;
  for (const PlanChoice& plan : candidates_for(call, {.ranks = 4}, nullptr).value()) EXPECT(plan.slices == 1);
}

TEST_CASE("a plan whose proof is too long is refused") {
  const Call call{.operation = Operation::all_to_all, .count = 1};
  const WorldShape shape{.ranks = 4096};
  const auto refused = prove(call, shape, {*find_algorithm(Operation::all_to_all, "direct"), 1});
  REQUIRE(!refused.has_value());
  EXPECT(refused.error().code == ErrorCode::unsupported);
}

TEST_CASE("better is what is better in three quarters of the rounds, by a twentieth") {
  const std::vector<double> before{10, 10, 10, 10, 10, 10, 10, 10};
  EXPECT(is_better(before, std::vector<double>(8, 9)));
  EXPECT_FALSE(is_better(before, std::vector<double>(8, 9.8)));
  EXPECT_FALSE(is_better(before, before));
  EXPECT_FALSE(is_better(before, std::vector<double>(8, 12)));
  EXPECT(is_better(before, std::vector<double>{5, 5, 5, 50, 5, 5, 5, 50}));
  EXPECT_FALSE(is_better(before, std::vector<double>{5, 5, 5, 50, 5, 50, 5, 50}));
  EXPECT_FALSE(is_better(std::vector<double>(3, 10), std::vector<double>(3, 1)));  // too few to tell
  // Whatever slows both down in a round does not matter.
  EXPECT(is_better(std::vector<double>{10, 100, 10, 1000}, std::vector<double>{5, 50, 5, 500}));
}

TEST_CASE("winners become rows with borders between their sizes") {
  const TuningRow group{.operation = Operation::scan, .world = {4, 4}, .hosts = {1, 1}, .plan = {}};
  const auto text = [&](const std::vector<Winner>& winners) {
    return text_of(Tuning{rows_of(group, winners)});
  };
  const PlanWords own{"auto", 0};
  const PlanWords chain{"chain", 2};
  const PlanWords direct{"direct", 1};
  EXPECT(text({}).empty());
  EXPECT(text({{8, own}, {64, own}}).empty());
  EXPECT(text({{1024, chain}}) == "scan world=4 hosts=1: <=1K chain/slices=2");
  EXPECT(text({{1024, chain}, {4096, own}}) == "scan world=4 hosts=1: <=2K chain/slices=2");
  EXPECT(text({{1024, own}, {4096, chain}, {16'384, chain}}) ==
         "scan world=4 hosts=1: <=2K auto; <=32K chain/slices=2");
  EXPECT(text({{1024, direct}, {4096, direct}, {16'384, chain}, {65'536, own}}) ==
         "scan world=4 hosts=1: <=8K direct/slices=1; <=32K chain/slices=2");
}

TEST_CASE("rows of a group are replaced, all others stay") {
  const Tuning before =
      parse_tuning("all_reduce: ring; scan world=4 hosts=1: direct; scan world=8 hosts=1: chain", "here")
          .value();
  const TuningRow group{.operation = Operation::scan, .world = {4, 4}, .hosts = {1, 1}, .plan = {}};
  TuningRow row = group;
  row.plan = {"chain", 3};
  EXPECT(text_of(with_rows(before, group, {row})) ==
         "scan world=4 hosts=1: chain/slices=3; all_reduce: ring; scan world=8 hosts=1: chain");
  EXPECT(text_of(with_rows(before, group, {})) == "all_reduce: ring; scan world=8 hosts=1: chain");
}

}  // namespace
}  // namespace diji::collective
