// What floordiv, mod, min, max and select simplify to, by the formulas that shape arithmetic uses.
#include "base/dim.h"

#include "tests/unit/expect.h"

#include <limits>

namespace diji {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

const Dim& zero_or_more() {
  static const Dim x = Dim::symbol("x");
  return x;
}
Dim positive(std::string_view name) { return Dim::symbol(name, {1, 1 << 20}); }

TEST_CASE("floordiv and mod of constants are Python's") {
  const std::int64_t values[] = {-9, -8, -7, -1, 0, 1, 5, 8, kMax, kMin};
  const std::int64_t divisors[] = {-4, -3, -1, 1, 2, 3, kMax, kMin};
  for (const std::int64_t a : values) {
    for (const std::int64_t b : divisors) {
      CAPTURE(a);
      CAPTURE(b);
      const Dim symbolic = Dim::symbol("a", {kMin, kMax});
      const Dim quotient = floor_div(Dim(a), b);
      if (a == kMin && b == -1) {
        EXPECT_FALSE(quotient.is_valid());
        EXPECT_FALSE(floor_div(symbolic, b).evaluate({{"a", a}}));
        EXPECT(mod(Dim(a), b).is(0));
        continue;
      }
      const std::int64_t q = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
      EXPECT(quotient.is(q));
      EXPECT(mod(Dim(a), b).is(
          static_cast<std::int64_t>(static_cast<__int128>(a) - static_cast<__int128>(q) * b)));
      EXPECT(floor_div(symbolic, b).evaluate({{"a", a}}).value() == q);
      EXPECT(mod(symbolic, b).evaluate({{"a", a}}).value() == mod(Dim(a), b).constant());
    }
  }
  EXPECT_FALSE(floor_div(Dim(5), 0).is_valid());
  EXPECT_FALSE(mod(zero_or_more(), 0).is_valid());
}

TEST_CASE("exact division is carried out") {
  const Dim n = positive("N");
  const Dim m = positive("M");
  const Dim& x = zero_or_more();
  EXPECT(floor_div(n * 2048 * 64, 2048 * 64) == n);
  EXPECT(floor_div(n * m * 4, n * 4) == m);
  EXPECT(floor_div((n + 1) * (m + 2), n + 1) == m + 2);
  EXPECT(floor_div(n * n - m * m, n + m) == n - m);
  EXPECT(mod((n + 1) * (m + 2), m + 2).is(0));
  EXPECT(floor_div(x * m, x) != m);  // x may be 0, and then the division has to fail
  EXPECT(floor_div(x * m, x).text() == "(M*x) floordiv x");
  EXPECT(floor_div(0, x).text() == "0 floordiv x");
  EXPECT(floor_div(0, n).is(0));
  EXPECT(floor_div(n, n).is(1));
  EXPECT(mod(n * 12, 4).is(0));
  EXPECT(floor_div(n, 1) == n);
  EXPECT(floor_div(n, -1) == -1 * n);
  EXPECT(mod(n, 1).is(0));
  EXPECT(mod(n, -1).is(0));
}

TEST_CASE("what is common to both sides is cancelled") {
  const Dim n = positive("N");
  const Dim h = Dim::symbol("H");
  EXPECT(floor_div(n * h * 6, n * 4) == floor_div(3 * h, 2));
  EXPECT(mod(n * h * 6, n * 4) == 2 * n * mod(3 * h, 2));
  EXPECT(floor_div(6 * h + 3, 4 * h + 2) == floor_div(6 * h + 3, 4 * h + 2));
  EXPECT(floor_div(6 * h + 4, 8) == floor_div(3 * h + 2, 4));
  EXPECT(floor_div(6 * h + 5, 8) == floor_div(3 * h + 2, 4));
  EXPECT(mod(6 * h + 5, 8) == 2 * mod(3 * h + 2, 4) + 1);
  EXPECT(floor_div(h, -2) == floor_div(-1 * h, 2));
  EXPECT(mod(h, -2) == -1 * mod(-1 * h, 2));
}

TEST_CASE("remainders that bounds keep in range disappear") {
  const Dim r = Dim::symbol("r", {0, 3});
  const Dim& x = zero_or_more();
  const Dim n = positive("N");
  EXPECT(floor_div(4 * x + r, 4) == x);
  EXPECT(mod(4 * x + r, 4) == r);
  EXPECT(floor_div(4 * x + r + 4, 4) == x + 1);
  EXPECT(floor_div(r - 4, 4).is(-1));
  EXPECT(mod(r, 4) == r);
  EXPECT(mod(r - 4, 4) == r);
  EXPECT(mod(r, 3).text() == "r mod 3");
  EXPECT(mod(r, n + 3) == r);
  EXPECT(floor_div(x * (n + 3) + r, n + 3) == x);
  EXPECT(mod(x * (n + 3) + r, n + 3) == r);
  EXPECT(floor_div(n, n + 1).is(0));
  EXPECT(mod(n - 1, n) == n - 1);
}

TEST_CASE("a chain of strided layers is one division") {
  const Dim h = Dim::symbol("H");
  const auto layer = [](const Dim& size) { return floor_div(size + 2 * 1 - 3, 2) + 1; };
  EXPECT(layer(h) == floor_div(h + 1, 2));
  EXPECT(layer(layer(h)) == floor_div(h + 3, 4));
  EXPECT(layer(layer(layer(h))) == floor_div(h + 7, 8));
  EXPECT(mod(mod(h, 8), 4) == mod(h, 4));
  EXPECT(mod(mod(h, 8) + 6, 4) == mod(h + 2, 4));
  EXPECT(mod(h + 8 * h * h, 4) == mod(h, 4));
  EXPECT(mod(3 * h, 4) == mod(-1 * h, 4));
}

TEST_CASE("min and max are decided by bounds") {
  const Dim n = positive("N");
  const Dim m = positive("M");
  EXPECT(min(n, 0).is(0));
  EXPECT(max(n, 1) == n);
  EXPECT(min(n, n + 1) == n);
  EXPECT(max(n, n * 2) == 2 * n);
  EXPECT(min(n, n) == n);
  EXPECT(min(n, kMax) == n);
  EXPECT(max(n, kMin) == n);
  EXPECT(min(Dim(kMin), kMax).is(kMin));
  EXPECT(min(n, m) == min(m, n));
  EXPECT(min(min(n, m), 9) == min(n, min(Dim(9), m)));
  EXPECT(min(min(n, 7), 9) == min(n, 7));
  EXPECT(max(min(n, 7), 9).is(9));
}

TEST_CASE("select is decided by bounds and becomes min or max where it is one") {
  const Dim n = positive("N");
  const Dim m = positive("M");
  EXPECT(select_less(n, 1, 5, 6).is(6));
  EXPECT(select_less(n, n + 1, 5, 6).is(5));
  EXPECT(select_less(n, m, m, m) == m);
  EXPECT(select_less(n, m, n, m) == min(n, m));
  EXPECT(select_less(n, m, m, n) == max(n, m));
  EXPECT(select_less(n + 1, m + 1, 5, 6) == select_less(n, m, 5, 6));
  EXPECT(select_less(2 * n, 5, 1, 0) == select_less(n, 3, 1, 0));
  EXPECT(select_less(3, n, 1, 0) == select_less(n, 4, 0, 1));
  EXPECT(select_less(kMin, kMax, n, m) == n);
  EXPECT(select_less(n, m, 5, 6).text() == "select(M < N + 1, 6, 5)");
}

}  // namespace
}  // namespace diji
