// Dim as a polynomial: canonical form, order, bounds, evaluation, substitution and overflow.
#include "base/dim.h"

#include "tests/unit/expect.h"

#include <limits>
#include <utility>

namespace diji {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

Dim positive(std::string_view name) { return Dim::symbol(name, {1, 1 << 20}); }

TEST_CASE("equal polynomials are equal however they were built") {
  const Dim h = Dim::symbol("H");
  const Dim w = Dim::symbol("W");
  EXPECT((h + w) * (h - w) == h * h - w * w);
  EXPECT((h + 1) * (h + 1) == h * h + 2 * h + 1);
  EXPECT(h * w * 2 == w * 2 * h);
  EXPECT((h + w - h - w).is(0));
  EXPECT(h - h == 0);
  EXPECT((h * w).hash() == (w * h).hash());
  EXPECT(h != w);
  EXPECT(Dim::symbol("H") == h);
  EXPECT(Dim::symbol("H", {1, 8}) != h);
  EXPECT(Dim().is(0));
}

TEST_CASE("the order is total and agrees with equality") {
  const Dim h = Dim::symbol("H");
  const Dim dims[] = {0,
                      1,
                      -1,
                      h,
                      h + 1,
                      2 * h,
                      h * h,
                      floor_div(h, 2),
                      floor_div(h, 3),
                      mod(h, 2),
                      min(h, 5),
                      max(h, 5),
                      Dim::symbol("W"),
                      Dim::invalid()};
  for (const Dim& a : dims) {
    for (const Dim& b : dims) {
      EXPECT((a == b) == (&a == &b));
      EXPECT(((a <=> b) == 0) == (&a == &b));
      EXPECT((a < b) == (b > a));
      for (const Dim& c : dims) {
        if (a < b && b < c) EXPECT(a < c);
      }
    }
  }
}

TEST_CASE("constants and symbols are recognised") {
  EXPECT(Dim(7).constant() == 7);
  EXPECT_FALSE(Dim::symbol("N").constant());
  EXPECT(Dim::symbol("batch size").symbol_name() == "batch size");
  EXPECT_FALSE((Dim::symbol("N") + 1).symbol_name());
  EXPECT_FALSE((2 * Dim::symbol("N")).symbol_name());
  EXPECT_FALSE(min(Dim::symbol("N"), 3).symbol_name());
  EXPECT_FALSE(Dim(1).symbol_name());
  EXPECT(Dim::symbol("fixed", {4, 4}).symbol_name() == "fixed");
}

TEST_CASE("overflow gives an invalid Dim, which stays invalid") {
  const Dim n = Dim::symbol("N");
  EXPECT_FALSE((Dim(kMax) + 1).is_valid());
  EXPECT_FALSE((Dim(kMin) - 1).is_valid());
  EXPECT_FALSE((n * kMax * 2).is_valid());
  EXPECT_FALSE((n * kMax + n).is_valid());
  EXPECT((Dim(-1) - Dim(kMin)).is(kMax));
  EXPECT((Dim(-1) - n * kMin - (-1 - n * kMax)).is_valid() == false);
  EXPECT((n * -1 - n * kMin) == n * kMax);
  const Dim bad = Dim::invalid();
  for (const Dim& result :
       {bad + 1, 1 - bad, bad * 0, floor_div(bad, 2), floor_div(2, bad), mod(bad, 1), min(bad, 0),
        max(0, bad), select_less(0, bad, 1, 2), select_less(0, 1, bad, 2), bad.substitute({{"N", 1}})}) {
    EXPECT_FALSE(result.is_valid());
  }
  EXPECT(select_less(0, 1, 2, bad).is(2));  // what is not taken may divide by 0
  EXPECT(bad == Dim::invalid());
  EXPECT_FALSE(bad.evaluate({}));
  EXPECT_FALSE(bad.constant());
  EXPECT(bad.symbols().empty());
  EXPECT(bad.text() == "<invalid>");
  EXPECT_FALSE(Dim::symbol("N", {3, 2}).is_valid());
  Dim moved = n;
  const Dim target = std::move(moved);
  EXPECT(target == n);
  EXPECT_FALSE(moved.is_valid());  // NOLINT: that this is safe is the point
}

TEST_CASE("an expression that grows without limit becomes invalid, not slow") {
  Dim sum = 0;
  for (int i = 0; i < 12; ++i) sum = sum + Dim::symbol("s" + std::to_string(i));
  Dim power = sum;
  for (int i = 0; i < 20; ++i) power = power * sum;
  EXPECT_FALSE(power.is_valid());
  Dim doubling = Dim::symbol("N");
  for (int i = 0; i < 40; ++i) doubling = max(floor_div(doubling, 3) * doubling, doubling - i);
  EXPECT_FALSE(doubling.is_valid());
  Dim deep = Dim::symbol("N");
  for (int i = 0; i < 100; ++i) deep = floor_div(7, deep + 1);
  EXPECT_FALSE(deep.is_valid());
}

TEST_CASE("bounds contain and saturate") {
  const Dim h = Dim::symbol("H", {2, 10});
  EXPECT((3 * h - 1).bounds() == Bounds{5, 29});
  EXPECT((1 - h).bounds() == Bounds{-9, -1});
  EXPECT(floor_div(1 - h, 4).bounds() == Bounds{-3, -1});
  EXPECT(mod(h, 4).bounds() == Bounds{0, 3});
  EXPECT(min(h, 7).bounds() == Bounds{2, 7});
  EXPECT(max(h, 7).bounds() == Bounds{7, 10});
  const Dim n = Dim::symbol("N");
  EXPECT(n.bounds() == Bounds{});
  EXPECT((n * n * n * n).bounds() == Bounds{0, kMax});
  EXPECT((n * n * n * n - n * n * h).bounds() == Bounds{kMin, kMax});
}

TEST_CASE("symbols are listed by name, inner ones too") {
  const Dim b = Dim::symbol("b", {1, 4});
  const Dim a = Dim::symbol("a", {0, 9});
  const auto symbols = (floor_div(b + 3, 2) + min(a, b) * 2).symbols();
  REQUIRE(symbols.size() == 2);
  EXPECT(symbols.begin()->first == "a");
  EXPECT(symbols.at("b") == Bounds{1, 4});
  const auto both = (Dim::symbol("N", {0, 5}) + Dim::symbol("N", {3, 9})).symbols();
  EXPECT(both.at("N") == Bounds{3, 5});
}

TEST_CASE("evaluation gives the value or a sentence that names the expression") {
  const Dim n = Dim::symbol("N");
  const Dim m = Dim::symbol("M");
  EXPECT((2 * n * m + floor_div(n + 1, 2)).evaluate({{"N", 5}, {"M", 3}}) == 33);
  const auto unbound = (n * m).evaluate({{"N", 1}});
  REQUIRE_FALSE(unbound);
  EXPECT(unbound.error().code == ErrorCode::mismatch);
  EXPECT(unbound.error().message == "M*N: symbol 'M' has no value");
  const auto zero = floor_div(n, m).evaluate({{"N", 1}, {"M", 0}});
  REQUIRE_FALSE(zero);
  EXPECT(zero.error().code == ErrorCode::data);
  EXPECT(zero.error().message == "N floordiv M: division by zero: M is 0");
  const auto outside = positive("P").evaluate({{"P", 0}});
  REQUIRE_FALSE(outside);
  EXPECT(outside.error().message == "P: symbol 'P' is 0, outside of its bounds 1 to 1048576");
  const std::int64_t big = std::int64_t{1} << 40;
  const auto overflow = (n * m).evaluate({{"N", big}, {"M", big}});
  REQUIRE_FALSE(overflow);
  EXPECT(overflow.error().code == ErrorCode::data);
  EXPECT((n * m - n * m + n).evaluate({{"N", big}, {"M", big}}) == big);
  EXPECT((n * m - n * (m - 1)).evaluate({{"N", big}, {"M", big}}) == big);
  EXPECT_FALSE((n * n * n * n * n).evaluate({{"N", big}}));
  EXPECT(select_less(m, 1, 0, floor_div(n, m)).evaluate({{"N", 4}, {"M", 0}}) ==
         0);  // the other branch divides by 0
}

TEST_CASE("substitution rebuilds and simplifies") {
  const Dim n = positive("N");
  const Dim m = positive("M");
  const Dim expression =
      floor_div(n * m + 3, 4) + min(n, m) + mod(n, 2) + max(m, 3) + select_less(n, m, 7, n * n);
  EXPECT(expression.substitute({}) == expression);
  EXPECT(expression.substitute({{"other", 3}}) == expression);
  EXPECT(expression.substitute({{"N", 5}, {"M", 9}}).is(12 + 5 + 1 + 9 + 7));
  EXPECT(floor_div(n, 4).substitute({{"N", m * 8}}) == 2 * m);
  EXPECT((n * n).substitute({{"N", n + 1}}) == n * n + 2 * n + 1);  // at once, not again and again
  EXPECT_FALSE(floor_div(m, n).substitute({{"N", 0}}).is_valid());
}

TEST_CASE("shapes: text, element count and values") {
  const Dim n = Dim::symbol("N");
  EXPECT(text_of(Shape{n, 2048}) == "[N, 2048]");
  EXPECT(text_of(Shape{}) == "[]");
  EXPECT(element_count({}).is(1));
  EXPECT(element_count({n, 4, n}) == 4 * n * n);
  EXPECT(element_count({kMax, kMax, 0}).is(0));
  EXPECT_FALSE(element_count({kMax, kMax}).is_valid());
  EXPECT_FALSE(element_count({0, Dim::invalid()}).is_valid());
  EXPECT(evaluate(Shape{n, 3, n + 1}, {{"N", 2}}) == std::vector<std::int64_t>{2, 3, 3});
  EXPECT_FALSE(evaluate(Shape{n, 3}, {}));
}

}  // namespace
}  // namespace diji
