// The table of the rules, their counts and limits, and the limit of fusion.
#include "passes/rules.h"

#include "base/log.h"
#include "graph/text.h"
#include "passes/passes.h"

#include "tests/unit/expect.h"
#include "tests/unit/random_graph.h"

#include <algorithm>
#include <array>
#include <set>

namespace diji {
namespace {

TEST_CASE("every rule has a name of its own, a pass, a doc, and what its pass works with") {
  std::set<std::string_view> names;
  for (const PassRule& rule : rules()) {
    CAPTURE(rule.name);
    EXPECT(names.insert(rule.name).second);
    EXPECT(std::ranges::find(pipeline(), rule.pass, &PassEntry::name) != pipeline().end());
    EXPECT(rule.doc.size() > 20);
    EXPECT((rule.rewrite != nullptr) == (rule.pass == "simplify"));
    EXPECT((rule.allows != nullptr) == (rule.pass == "fuse"));
  }
}

int kernels_of(const Graph& graph) {
  return static_cast<int>(std::ranges::count_if(
      graph.nodes(), [](const Node& node) { return primitive_of(node.op) == Primitive::fusion; }));
}

TEST_CASE("a rule applies as often as its limit says, in the same order on every run") {
  std::set<std::string_view> applied;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("DIJI_TEST_SEED=", seed);
    const test::RandomGraph random(seed, {.steps = 12, .data_sizes = true});
    const auto all = std::make_shared<RuleUses>();
    REQUIRE(run_pipeline(random.graph(), {.uses = all}));
    for (const PassRule& rule : rules()) {
      CAPTURE(rule.name);
      const std::int64_t count = all->count(rule.name);
      if (count == 0) continue;
      applied.insert(rule.name);
      EXPECT_FALSE(all->last(rule.name).empty());
      const auto limited = std::make_shared<RuleUses>();
      limited->limit(rule.name, count / 2);
      REQUIRE(run_pipeline(random.graph(), {.verify_each = true, .uses = limited}));
      EXPECT(limited->count(rule.name) == count / 2);
    }
  }
  // Random graphs have no bodies, and are built without what some rules remove.
  constexpr std::array<std::string_view, 6> kRare = {"take_branches",    "constants_into_bodies",
                                                     "integer_products", "convolution_unit_axis",
                                                     "drop_identity",    "merge_broadcasts"};
  for (const PassRule& rule : rules()) {
    CAPTURE(rule.name);
    const bool rare = std::ranges::find(kRare, rule.name) != kRare.end();
    EXPECT((rare || applied.contains(rule.name)));
  }
}

TEST_CASE("fusion ends after its steps, the same way on every run, and what it gives is right") {
  int fewer_joins = 0;
  set_log_level(LogLevel::error);  // it warns of each
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("DIJI_TEST_SEED=", seed);
    const test::RandomGraph random(seed, {.steps = 12});
    const auto whole = run_pipeline(random.graph(), {});
    const PassOptions short_of_steps{.verify_each = true, .fusion_steps_max = 6};
    const auto first = run_pipeline(random.graph(), short_of_steps);
    const auto again = run_pipeline(random.graph(), short_of_steps);
    REQUIRE(whole);
    REQUIRE(first);
    REQUIRE(again);
    EXPECT(print(*first) == print(*again));
    EXPECT(kernels_of(*first) >= kernels_of(*whole));
    fewer_joins += kernels_of(*first) > kernels_of(*whole) ? 1 : 0;
    const auto wanted = interpret_with_bounds(random.graph(), random.inputs());
    const auto got = interpret(*first, random.inputs(), Arithmetic::typed);
    REQUIRE(wanted);
    REQUIRE(got);
    REQUIRE(got->size() == wanted->size());
    for (std::size_t i = 0; i < got->size(); ++i) EXPECT(test::difference((*got)[i], (*wanted)[i]) == "");
  }
  set_log_level(LogLevel::warning);
  EXPECT(fewer_joins > 50);
}

}  // namespace
}  // namespace diji
