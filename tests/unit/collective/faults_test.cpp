// Whatever one rank does, no other waits past its deadline, gets a wrong result or learns another cause.
#include "tests/unit/collective/fault_trials.h"
#include "tests/unit/expect.h"

#include <array>
#include <cstdlib>

namespace diji::collective {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// DIJI_FAULT_TRIALS=9500 is the long run; DIJI_FAULT_SEED=N with DIJI_FAULT_TRIALS=1 repeats one.
TEST_CASE("fault trials: all ranks end in time, right or with the same first failure") {
  const std::uint64_t first = setting("DIJI_FAULT_SEED", 1);
  const std::uint64_t trials = setting("DIJI_FAULT_TRIALS", 100);
  std::array<int, kFaultCount> drawn{};
  std::uint64_t bad = 0;
  for (std::uint64_t seed = first; seed < first + trials; ++seed) {
    const Trial trial = draw_trial(seed);
    ++drawn[static_cast<std::size_t>(trial.fault)];
    const std::vector<std::string> problems = run_trial(trial);
    if (problems.empty()) continue;
    ++bad;
    MESSAGE(text_of(trial));
    for (const std::string& problem : problems) MESSAGE(problem);
  }
  EXPECT(bad == 0);
  std::printf("fault trials from seed %lu: %lu, of each fault %d %d %d %d %d %d; bad: %lu\n", first, trials,
              drawn[0], drawn[1], drawn[2], drawn[3], drawn[4], drawn[5], bad);
}

}  // namespace
}  // namespace diji::collective
