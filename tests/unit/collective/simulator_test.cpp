// The collective protocol in simulated worlds: what holds whatever happens, and that the simulator would see
// it if it did not.
#include "tests/unit/collective/simulator.h"

#include "tests/unit/expect.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace diji::collective {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// DIJI_SIMULATED_WORLDS=100000 is the long run; DIJI_SIMULATOR_SEED=N with DIJI_SIMULATED_WORLDS=1 repeats
// one.
TEST_CASE("simulated worlds: right or an error on all ranks, in time, that blames who was at fault") {
  const std::uint64_t first = setting("DIJI_SIMULATOR_SEED", 1);
  const std::uint64_t worlds = setting("DIJI_SIMULATED_WORLDS", 3'000);
  std::array<std::uint64_t, kSimulatedFaultCount> happened{};
  std::uint64_t bad = 0;
  std::uint64_t twice = 0;
  std::uint64_t disagreed = 0;
  std::uint64_t trace = 0;
  double simulated_s = 0;
  std::int64_t steps = 0;
  for (std::uint64_t seed = first; seed < first + worlds; ++seed) {
    const Scenario scenario = draw_scenario(seed);
    const Verdict verdict = simulate(scenario);
    if (verdict.happened) ++happened[static_cast<std::size_t>(scenario.fault)];
    twice += verdict.twice ? 1 : 0;
    disagreed += verdict.disagreed ? 1 : 0;
    trace = trace * 31 + verdict.trace;
    simulated_s += static_cast<double>(verdict.simulated_us) / 1e6;
    steps += verdict.steps;
    if (verdict.problems.empty()) continue;
    if (++bad > 20) continue;
    MESSAGE("DIJI_SIMULATOR_SEED=", seed, ": ", text_of(scenario));
    for (const std::string& problem : verdict.problems) MESSAGE(problem);
  }
  EXPECT(bad == 0);
  std::string faults;
  for (int i = 1; i < kSimulatedFaultCount; ++i) {
    faults += fmt::format(", {} {}", name_of(static_cast<SimulatedFault>(i)),
                          happened[static_cast<std::size_t>(i)]);
  }
  std::printf(
      "simulated worlds from seed %lu: %lu, bad %lu; %ld steps, %.0f s of their time, trace %016lx%s; "
      "two faults in %lu, hosts disagreed in %lu\n",
      first, worlds, bad, steps, simulated_s, trace, faults.c_str(), twice, disagreed);
}

TEST_CASE("a seed is a world: the same happens again") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    const Scenario scenario = draw_scenario(seed);
    const Verdict once = simulate(scenario);
    const Verdict again = simulate(draw_scenario(seed));
    EXPECT(once.trace == again.trace);
    EXPECT(once.simulated_us == again.simulated_us);
  }
  EXPECT(simulate(draw_scenario(1)).trace != simulate(draw_scenario(2)).trace);
}

TEST_CASE("a protocol with a mistake is found out" * doctest::test_suite("proof")) {
  constexpr std::uint64_t kWorlds = 1'000;
  for (int i = 1; i < kPlantedCount; ++i) {
    const auto planted = static_cast<Planted>(i);
    CAPTURE(name_of(planted));
    std::vector<std::string> problems;
    std::uint64_t seed = 0;
    while (problems.empty() && seed < kWorlds) problems = simulate(draw_scenario(++seed), planted).problems;
    REQUIRE(!problems.empty());
    std::printf("planted %s: found in world %lu: %s\n", name_of(planted).data(), seed,
                problems.front().c_str());
  }
}

}  // namespace
}  // namespace diji::collective
