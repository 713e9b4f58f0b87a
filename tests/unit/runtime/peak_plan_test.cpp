// What is planned before a run is what the run holds, to the byte; where data decide, the plan says so.
#include "runtime/peak_plan.h"

#include "ops/samples.h"
#include "tests/unit/runtime/control_flow_graphs.h"
#include "tests/unit/runtime/fixture.h"

namespace diji {
namespace {

HostTensor normal(StaticShape shape) { return sample_tensor(DType::f32, std::move(shape), Fill::normal, 1); }
HostTensor truth(bool value) { return HostTensor::of<bool>({}, {value}); }
HostTensor number(std::int64_t value) { return HostTensor::of<std::int64_t>({}, {value}); }

struct Peaks {
  PeakPlan plan;
  std::uint64_t used = 0;
};

/// Of the first run of a session of its own.
Peaks peaks_of(std::string_view text, const std::vector<HostTensor>& inputs) {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  const auto session = Session::of(devices, test::graph_from(text), {});
  REQUIRE_MESSAGE(session, session.error().message);
  std::map<std::string, HostTensor> named;
  for (std::size_t i = 0; i < inputs.size(); ++i) named[(*session)->graph().inputs()[i].name] = inputs[i];
  const auto plan = (*session)->planned_peak(named);
  REQUIRE_MESSAGE(plan, plan.error().message);
  EXPECT((*session)->pool().state().peak_bytes == 0);  // nothing has run
  const auto outputs = (*session)->run(named);
  REQUIRE_MESSAGE(outputs, outputs.error().message);
  return {*plan, (*session)->pool().state().peak_bytes};
}

void expect_exact(std::string_view text, const std::vector<HostTensor>& inputs) {
  const auto [plan, used] = peaks_of(text, inputs);
  CAPTURE(fmt::format("{}", fmt::join(plan.as_if, ", ")));
  CAPTURE(plan.open);
  EXPECT(plan.exact());
  EXPECT(plan.bytes == used);
}

TEST_CASE("a straight line holds what was planned") {
  for (const std::int64_t n : {0, 1, 7, 1000}) {
    CAPTURE(n);
    expect_exact(print(test::small_graph()), {normal({n, 40}), normal({40})});
  }
}

TEST_CASE("loops that sizes drive hold what was planned") {
  for (const auto& [t, n] : {std::pair{100, 9}, {1, 9}, {2, 3}, {0, 4}, {5, 0}}) {
    CAPTURE(t);
    CAPTURE(n);
    expect_exact(test::kScan,
                 {normal({t, n, 8}), normal({t, n, 8}), normal({t, n, 1}), normal({8, 8}), normal({n, 8})});
  }
  for (const auto& [a, b] : {std::pair{4, 5}, {1, 40}, {0, 3}, {7, 0}, {30, 100}})
    expect_exact(test::kTwoLevels, {normal({a, b}), normal({b}), normal({b})});
}

TEST_CASE("a branch that data take is planned as both") {
  for (const bool condition : {true, false}) {
    const auto [plan, used] = peaks_of(test::kBranches, {truth(condition), normal({1000})});
    EXPECT(plan.open.empty());
    REQUIRE(plan.as_if.size() == 1);
    EXPECT(plan.as_if[0].contains("both branches"));
    EXPECT(plan.bytes >= used);
    EXPECT(plan.bytes < 4 * used);
  }
}

TEST_CASE("a loop that data end is planned to its last iteration") {
  const HostTensor end = HostTensor::of<float>({2}, {3e9F, 0});
  const auto all = peaks_of(test::kUntil, {normal({300, 2}), end, truth(true)});
  REQUIRE(all.plan.as_if.size() == 1);
  EXPECT(all.plan.as_if[0].contains("all 300 iterations"));
  EXPECT(all.plan.bytes == all.used);  // no row ends it
  const auto none = peaks_of(test::kUntil, {normal({300, 2}), end, truth(false)});
  EXPECT(none.plan.bytes > none.used);
}

constexpr std::string_view kPicked = R"(graph "picked" {
  symbol N in [0, 100000]
  symbol "#0" in [0, 100000]
  input %x "x" : f32[N]
  input %mask "mask" : bool[N]
  %at = prim.compact(%mask) {symbols = dims["#0"]}
  %picked = prim.gather(%x, %at) {outside = "error"}
  %y = prim.tanh(%picked)
  output "y" = %y
})";

TEST_CASE("a count that data tell is planned as all") {
  std::vector<std::uint8_t> marks(500, 1);
  for (const bool all : {true, false}) {
    const HostTensor mask = HostTensor::view(DType::boolean, {500}, std::as_bytes(std::span(marks)), nullptr);
    const auto [plan, used] = peaks_of(kPicked, {normal({500}), mask});
    REQUIRE(plan.as_if.size() == 1);
    EXPECT(plan.as_if[0].contains("picks all"));
    EXPECT((all ? plan.bytes == used : plan.bytes > used));
    marks.assign(500, 0);
  }
}

TEST_CASE("where sizes are data, the plan ends and says at what") {
  std::string observed(test::kObserved);
  observed.erase(observed.find("  %d = "), observed.find("  output") - observed.find("  %d = "));
  const auto [plan, used] = peaks_of(observed, {normal({6}), HostTensor::of<std::int64_t>({2}, {1, 3})});
  EXPECT(plan.open.contains("reads sizes from data"));
  EXPECT((plan.bytes > 0 && plan.bytes <= used));
  EXPECT(peaks_of(test::kGrowing, {number(3), normal({2})}).plan.open.contains("as often as data say"));
  const auto counted = peaks_of(test::kCounted, {normal({500}), normal({3, 1}), truth(true)});
  EXPECT(counted.plan.open.contains("other sizes in each iteration"));
}

}  // namespace
}  // namespace diji
