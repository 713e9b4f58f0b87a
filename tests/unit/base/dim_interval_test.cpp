// Interval arithmetic against all pairs of values of small intervals, and its open ends.
#include "base/dim_interval.h"

#include "tests/unit/expect.h"

#include <algorithm>
#include <limits>

namespace diji {
namespace {

constexpr int kReach = 5;

// Calls check(a, b, low, high of operation over all pairs) for all small intervals a and b.
template <typename Operation, typename Check>
void for_small_intervals(Operation operation, Check check) {
  for (int a0 = -kReach; a0 <= kReach; ++a0) {
    for (int a1 = a0; a1 <= kReach; ++a1) {
      for (int b0 = -kReach; b0 <= kReach; ++b0) {
        for (int b1 = b0; b1 <= kReach; ++b1) {
          Wide low = std::numeric_limits<std::int64_t>::max();
          Wide high = std::numeric_limits<std::int64_t>::min();
          for (int a = a0; a <= a1; ++a) {
            for (int b = b0; b <= b1; ++b) operation(a, b, low, high);
          }
          if (low <= high) check(Interval{a0, a1}, Interval{b0, b1}, low, high);
        }
      }
    }
  }
}

template <typename Value>
auto widening(Value value) {
  return [value](int a, int b, Wide& low, Wide& high) {
    low = std::min<Wide>(low, value(a, b));
    high = std::max<Wide>(high, value(a, b));
  };
}

TEST_CASE("sum, product and quotient are exact; remainder contains") {
  int wrong = 0;
  const auto same = [&](const Interval& found, Wide low, Wide high) {
    wrong += found.min == low && found.max == high ? 0 : 1;
  };
  const auto around = [&](const Interval& found, Wide low, Wide high) {
    wrong += found.min <= low && found.max >= high ? 0 : 1;
  };
  for_small_intervals(widening([](int a, int b) { return a + b; }),
                      [&](auto a, auto b, auto low, auto high) { same(sum(a, b), low, high); });
  for_small_intervals(widening([](int a, int b) { return a * b; }),
                      [&](auto a, auto b, auto low, auto high) { same(product(a, b), low, high); });
  const auto quotient = [](int a, int b, Wide& low, Wide& high) {
    if (b == 0) return;
    int q = a / b;
    while (q * b > a ? b > 0 : q * b < a && b < 0) --q;
    low = std::min<Wide>(low, q);
    high = std::max<Wide>(high, q);
  };
  for_small_intervals(quotient,
                      [&](auto a, auto b, auto low, auto high) { same(floor_quotient(a, b), low, high); });
  const auto remainder = [](int a, int b, Wide& low, Wide& high) {
    if (b == 0) return;
    const int r = ((a % b) + b) % b;
    low = std::min<Wide>(low, r);
    high = std::max<Wide>(high, r);
  };
  for_small_intervals(remainder,
                      [&](auto a, auto b, auto low, auto high) { around(floor_remainder(a, b), low, high); });
  EXPECT(wrong == 0);
}

TEST_CASE("open ends stay open") {
  const Interval open = {0, kUnbounded};
  EXPECT(sum(open, single(-7)).max == kUnbounded);
  EXPECT(sum(open, single(-7)).min == -7);
  EXPECT(product(open, single(-2)).min == -kUnbounded);
  EXPECT(product(open, single(0)).max == 0);
  EXPECT(product(open, open).max == kUnbounded);
  EXPECT(floor_quotient(open, single(1 << 20)).max == kUnbounded);
  EXPECT(floor_quotient(single(5), Interval{1, kUnbounded}).min == 0);
  EXPECT(floor_quotient(single(-5), Interval{1, kUnbounded}).max == -1);
  EXPECT(floor_remainder(open, single(8)).max == 7);
  EXPECT(floor_quotient(single(1), single(0)).max == kUnbounded);  // no value at all: anything holds
}

TEST_CASE("only_value and narrow") {
  EXPECT(only_value(single(7)) == 7);
  EXPECT_FALSE(only_value({7, 8}));
  EXPECT_FALSE(only_value(single(kUnbounded)));
  EXPECT(narrow(std::numeric_limits<std::int64_t>::min()) == std::numeric_limits<std::int64_t>::min());
  EXPECT_FALSE(narrow(Wide{std::numeric_limits<std::int64_t>::max()} + 1));
}

}  // namespace
}  // namespace diji
