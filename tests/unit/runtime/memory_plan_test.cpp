// The arena plan: nothing that lives at the same time overlaps, and reuse really happens.
#include "runtime/executable.h"
#include "tests/unit/runtime/fixture.h"

#include <random>

namespace diji {
namespace {

Executable random_storages(std::uint32_t seed) {
  std::mt19937 random(seed);
  Executable executable;
  for (int i = 0; i < 60; ++i) {
    const int first = static_cast<int>(random() % 50);
    executable.storages.push_back(
        {.bytes = Dim::symbol("N") * Dim(static_cast<std::int64_t>(random() % 1000)),
         .first_step = first,
         .last_step = first + static_cast<int>(random() % 10)});
  }
  return executable;
}

TEST_CASE("storages that live together never overlap, at any size") {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    const Executable executable = random_storages(seed);
    for (const std::int64_t n : {0, 1, 77}) {
      const auto plan = plan_memory(executable, {{"N", n}}, 64);
      REQUIRE(plan.has_value());
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < executable.storages.size(); ++i) {
        const Storage& a = executable.storages[i];
        const auto a_bytes = static_cast<std::uint64_t>(a.bytes.evaluate({{"N", n}}).value());
        sum += a_bytes + 64;
        EXPECT(plan->offsets[i] % 64 == 0);
        EXPECT(plan->offsets[i] + a_bytes <= plan->bytes);
        for (std::size_t j = 0; j < i; ++j) {
          const Storage& b = executable.storages[j];
          if (a.first_step > b.last_step || b.first_step > a.last_step) continue;
          const auto b_bytes = static_cast<std::uint64_t>(b.bytes.evaluate({{"N", n}}).value());
          EXPECT((plan->offsets[i] + a_bytes <= plan->offsets[j] ||
                  plan->offsets[j] + b_bytes <= plan->offsets[i]));
        }
      }
      if (n == 77) EXPECT(plan->bytes < sum / 2);
    }
  }
}

TEST_CASE("sizes that cannot be counted are an error") {
  Executable executable;
  executable.storages.push_back({.bytes = Dim::symbol("N") * Dim(std::int64_t{1} << 40), .last_step = 1});
  EXPECT_FALSE(plan_memory(executable, {{"N", std::int64_t{1} << 30}}, 64).has_value());
}

}  // namespace
}  // namespace diji
