// The arena plan: nothing that lives at the same time overlaps, and reuse really happens.
#include "runtime/executable.h"
#include "tests/unit/runtime/fixture.h"

#include <numeric>
#include <random>

namespace diji {
namespace {

std::vector<Storage> random_storages(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Storage> storages;
  for (int i = 0; i < 60; ++i) {
    const int first = static_cast<int>(random() % 50);
    storages.push_back({.bytes = Dim::symbol("N") * Dim(static_cast<std::int64_t>(random() % 1000)),
                        .first_step = first,
                        .last_step = first + static_cast<int>(random() % 10)});
  }
  return storages;
}

// All of them, in order.
Result<MemoryPlan> plan(std::span<const Storage> storages, const Bindings& bindings,
                        std::uint64_t alignment) {
  std::vector<std::size_t> all(storages.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return plan_memory(storages, all, bindings, alignment);
}

TEST_CASE("storages that live together never overlap, at any size") {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    const auto storages = random_storages(seed);
    for (const std::int64_t n : {0, 1, 77}) {
      const auto planned = plan(storages, {{"N", n}}, 64);
      REQUIRE(planned.has_value());
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < storages.size(); ++i) {
        const Storage& a = storages[i];
        const auto a_bytes = static_cast<std::uint64_t>(a.bytes.evaluate({{"N", n}}).value());
        sum += a_bytes + 64;
        EXPECT(planned->offsets[i] % 64 == 0);
        EXPECT(planned->offsets[i] + a_bytes <= planned->bytes);
        for (std::size_t j = 0; j < i; ++j) {
          const Storage& b = storages[j];
          if (a.first_step > b.last_step || b.first_step > a.last_step) continue;
          const auto b_bytes = static_cast<std::uint64_t>(b.bytes.evaluate({{"N", n}}).value());
          EXPECT((planned->offsets[i] + a_bytes <= planned->offsets[j] ||
                  planned->offsets[j] + b_bytes <= planned->offsets[i]));
        }
      }
      if (n == 77) EXPECT(planned->bytes < sum / 2);
    }
  }
}

TEST_CASE("tensors of sizes never share memory: all are written before the first step") {
  std::vector<Storage> storages;
  for (int step = 0; step < 2; ++step)
    storages.push_back(
        {.bytes = 24, .first_step = 2 * step, .last_step = 2 * step + 1, .home = Storage::Home::sizes});
  const auto planned = plan(storages, {}, 8);
  REQUIRE(planned.has_value());
  EXPECT(planned->offsets[0] != planned->offsets[1]);
}

TEST_CASE("sizes that cannot be counted are an error") {
  std::vector<Storage> storages;
  storages.push_back({.bytes = Dim::symbol("N") * Dim(std::int64_t{1} << 40), .last_step = 1});
  EXPECT_FALSE(plan(storages, {{"N", std::int64_t{1} << 30}}, 64).has_value());
}

}  // namespace
}  // namespace diji
