// What overlap is worth: the synthetic training step of eight cards, in simulated time.
#include "tests/unit/runtime/training_step.h"

#include "tests/unit/expect.h"

namespace diji {
namespace {

// 120 ms of backward pass, 102 MB of gradients in buckets of 25 MB, links of 25 GB/s and 5 us; a hundredth of
// the real work.
constexpr test::TrainingStep kStep{.scale = 100};

TEST_CASE("eight cards keep 95 % of their time where gradients travel beside the backward pass") {
  const auto times = test::SimulatedStep(kStep).run();
  REQUIRE_MESSAGE(times, (times ? "" : times.error().message));
  CAPTURE(times->compute_ms);
  CAPTURE(times->serial_ms);
  CAPTURE(times->overlapped_ms);
  EXPECT(times->compute_ms > 120);
  EXPECT(times->compute_ms < 121);
  EXPECT(times->overlapped_efficiency() >= 0.95);
  // Without overlap each bucket costs at least its way over the links to the host and back.
  EXPECT(times->serial_ms > times->compute_ms + 2 * 102e6 / 25e9 * 1e3);
  EXPECT(times->serial_efficiency() < 0.95);
}

TEST_CASE("simulated times of a step are the same on every run") {
  std::vector<double> serial, overlapped;
  for (int i = 0; i < 3; ++i) {
    test::SimulatedStep step({.cards = 4, .scale = 1000});
    const auto times = step.run();
    REQUIRE_MESSAGE(times, (times ? "" : times.error().message));
    serial.push_back(times->serial_ms);
    overlapped.push_back(times->overlapped_ms);
  }
  EXPECT(std::ranges::count(serial, serial[0]) == 3);
  EXPECT(std::ranges::count(overlapped, overlapped[0]) == 3);
}

TEST_CASE("slower links cost more, and beyond the backward pass they can no longer hide") {
  const auto fast = test::SimulatedStep({.cards = 4, .scale = 1000}).run();
  const auto slow = test::SimulatedStep({.cards = 4, .link_bytes_per_s = 1e9, .scale = 1000}).run();
  REQUIRE(fast);
  REQUIRE(slow);
  EXPECT(slow->serial_ms > fast->serial_ms + 200);
  EXPECT(slow->overlapped_ms > fast->overlapped_ms + 100);
  EXPECT(slow->overlapped_efficiency() < 0.7);
  EXPECT(slow->overlapped_ms < slow->serial_ms);
}

}  // namespace
}  // namespace diji
