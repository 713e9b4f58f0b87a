// Random graphs: whatever the passes do to one, its results stay what they were.
#include "graph/text.h"
#include "graph/verify.h"
#include "passes/passes.h"

#include "tests/unit/expect.h"
#include "tests/unit/random_graph.h"

namespace diji {
namespace {

constexpr std::uint64_t kGraphs = 3000;

bool same_elements(const HostTensor& a, const HostTensor& b) {
  if (a.same_bits(b)) return true;
  if (a.dtype() != b.dtype() || a.shape() != b.shape() || !is_floating(a.dtype())) return false;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const double x = a.as_double(i), y = b.as_double(i);
    if (x != y && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

void check_same_results(const test::RandomGraph& random, const Graph& optimised) {
  const auto before = interpret(random.graph(), random.inputs(), Arithmetic::typed);
  REQUIRE_MESSAGE(before, before.error().message);
  const auto after = interpret(optimised, random.inputs(), Arithmetic::typed);
  REQUIRE_MESSAGE(after, after.error().message);
  REQUIRE(after->size() == before->size());
  for (std::size_t i = 0; i < after->size(); ++i) {
    CAPTURE(random.graph().outputs()[i].name);
    if (same_elements((*after)[i], (*before)[i])) continue;
    // Not the same roundings: then at least as close to the truth as the bound says.
    const auto bounded = interpret_with_bounds(random.graph(), random.inputs());
    REQUIRE(bounded);
    EXPECT(is_floating((*after)[i].dtype()));
    EXPECT(test::difference((*after)[i], (*bounded)[i]) == "");
  }
}

void check_pipeline(std::uint64_t seed, const PassOptions& options) {
  INFO("DIJI_TEST_SEED=", seed);
  const test::RandomGraph random(
      seed, {.steps = static_cast<int>(3 + seed % 12), .special_values = seed % 5 == 0, .data_sizes = true});
  CAPTURE(print(random.graph()));
  const auto verified = verify(random.graph());
  REQUIRE_MESSAGE(verified, verified.error().message);
  const auto optimised = run_pipeline(random.graph(), options);
  REQUIRE_MESSAGE(optimised, optimised.error().message);
  CAPTURE(print(*optimised));
  check_same_results(random, *optimised);
}

TEST_CASE("random graphs keep their results through the pipeline") {
  test::for_each_seed(kGraphs, [](std::uint64_t seed) { check_pipeline(seed, {.verify_each = true}); });
}

TEST_CASE("random graphs keep their results with any one rule switched off") {
  const auto all = rules();
  test::for_each_seed(kGraphs / 3, [&](std::uint64_t seed) {
    const PassRule& rule = all[seed % all.size()];
    CAPTURE(rule.name);
    check_pipeline(seed + kGraphs, {.disabled_rules = {std::string(rule.name)}, .verify_each = true});
  });
}

TEST_CASE("random graphs keep their results with every rule switched off") {
  std::set<std::string, std::less<>> disabled;
  for (const PassRule& rule : rules()) disabled.insert(std::string(rule.name));
  test::for_each_seed(kGraphs / 5, [&](std::uint64_t seed) {
    check_pipeline(seed, {.disabled_rules = disabled, .verify_each = true});
  });
}

TEST_CASE("the random graphs hold every primitive and fuse in every way") {
  std::map<std::string_view, int> counts;
  int nodes = 0, kernels = 0, largest = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const test::RandomGraph random(seed, {.steps = 10, .data_sizes = true});
    for (const Node& node : random.graph().nodes()) ++counts[node.op->name];
    const auto fused = run_pipeline(random.graph(), {});
    REQUIRE(fused);
    nodes += static_cast<int>(random.graph().nodes().size());
    for (const Node& node : fused->nodes()) {
      if (primitive_of(node.op) != Primitive::fusion) continue;
      ++kernels;
      largest = std::max(largest, static_cast<int>(node.bodies[0]->nodes().size()));
    }
  }
  for (std::size_t i = 0; i + 1 < kPrimitiveCount; ++i) {
    // Bodies, and data that becomes sizes, are not in random graphs yet; collectives have their own case.
    const auto primitive = static_cast<Primitive>(i);
    if (primitive == Primitive::observe || primitive == Primitive::conditional ||
        primitive == Primitive::loop || is_collective(primitive))
      continue;
    CAPTURE(op_of(static_cast<Primitive>(i)).name);
    EXPECT(counts[op_of(static_cast<Primitive>(i)).name] > 10);
  }
  CAPTURE(nodes);
  CAPTURE(kernels);
  CAPTURE(largest);
  EXPECT(nodes > 10000);
  EXPECT(kernels < nodes / 2);
  EXPECT(largest > 10);
}

TEST_CASE("the text of an optimised graph reads back to the same text") {
  test::for_each_seed(kGraphs / 3, [](std::uint64_t seed) {
    INFO("DIJI_TEST_SEED=", seed);
    const test::RandomGraph random(seed, {.steps = 8});
    const auto optimised = run_pipeline(random.graph(), {});
    REQUIRE(optimised);
    for (const Graph& graph : {random.graph(), *optimised}) {
      const std::string text = print(graph);
      CAPTURE(text);
      const auto again = parse(text);
      REQUIRE_MESSAGE(again, again.error().message);
      EXPECT(print(*again) == text);
    }
  });
}

}  // namespace
}  // namespace diji
