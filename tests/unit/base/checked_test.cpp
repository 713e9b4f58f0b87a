// Checked arithmetic at the ends of the range.
#include "base/checked.h"

#include "tests/unit/expect.h"

#include <limits>
#include <vector>

namespace diji {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

TEST_CASE("add, sub and mul say when they overflow") {
  EXPECT(checked_add<std::int64_t>(kMax - 1, 1) == kMax);
  EXPECT_FALSE(checked_add<std::int64_t>(kMax, 1));
  EXPECT_FALSE(checked_add<std::int64_t>(kMin, -1));
  EXPECT(checked_sub<std::int64_t>(-1, kMin) == kMax);
  EXPECT_FALSE(checked_sub<std::int64_t>(0, kMin));
  EXPECT(checked_mul<std::int64_t>(kMax, -1) == -kMax);
  EXPECT_FALSE(checked_mul<std::int64_t>(kMin, -1));
  EXPECT_FALSE(checked_mul<std::int64_t>(std::int64_t{1} << 32, std::int64_t{1} << 31));
  EXPECT(checked_mul<std::uint64_t>(std::uint64_t{1} << 32, std::uint64_t{1} << 31) == std::uint64_t{1}
                                                                                           << 63);
  EXPECT_FALSE(checked_sub<std::uint64_t>(0, 1));
  EXPECT(checked_add<std::uint8_t>(200, 55) == 255);
  EXPECT_FALSE(checked_add<std::uint8_t>(200, 56));
}

TEST_CASE("a product of sizes: empty, zero, negative, too large") {
  const auto product = [](std::vector<std::int64_t> sizes) { return checked_product(sizes); };
  EXPECT(product({}) == 1);
  EXPECT(product({2, 3, 4}) == 24);
  EXPECT(product({kMax, kMax, 0}) == 0);
  EXPECT(product({0, kMax, kMax}) == 0);
  EXPECT_FALSE(product({kMax, 2}));
  EXPECT_FALSE(product({-1}));
  EXPECT_FALSE(product({0, -1}));
  EXPECT_FALSE(product({-1, -1}));
  EXPECT(product({kMax, 1}) == kMax);
}

}  // namespace
}  // namespace diji
