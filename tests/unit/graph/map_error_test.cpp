// The rules of the scalar maps really bound: whatever operands a kernel may have, what it may make of them
// lies within the bound. Tried on operands at the ends of their reach and at random inside, with the map's
// own rounding on top.
#include "graph/map_error.h"

#include "graph/error_bound.h"
#include "graph/map_reference.h"

#include "tests/unit/expect.h"

#include <cmath>
#include <limits>
#include <random>

namespace diji {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Tally {
  int tried = 0, bounded = 0;
};

// What a kernel computes from its own operands.
double of(Primitive map, std::span<const double> x, DType dtype) {
  const double a = x[0], b = x.back();
  if (map == Primitive::select) return a != 0 ? x[1] : x[2];
  if (map == Primitive::equal) return a == b ? 1 : 0;
  if (map == Primitive::less) return a < b ? 1 : 0;
  if (is_floating(dtype)) return *apply_map<double>(map, a, b);
  const auto result =
      apply_map<std::int64_t>(map, static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
  return result ? static_cast<double>(*result) : std::nan("");
}

class Sampler {
 public:
  explicit Sampler(DType dtype) : dtype_(dtype), u_(is_floating(dtype) ? unit_roundoff(dtype) : 0) {}

  double real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  Uncertain condition() { return {static_cast<double>(below(2)), below(2) == 0 ? 0.0 : 1.0}; }
  Uncertain operand() {
    if (!is_floating(dtype_)) return {static_cast<double>(below(41) - 20), static_cast<double>(below(3))};
    const double scale = std::exp(real(-6, 5));
    const double value = below(4) == 0 ? std::round(real(-4, 4)) : real(-1, 1) * scale;
    const double errors[] = {0, 1e-7 * std::fabs(value), 1e-3 * std::fabs(value), real(0, 0.1), real(0, 3)};
    return {value, errors[below(5)]};
  }
  // Anywhere in reach; the ends and the middle often.
  double within(Uncertain x, bool truth_value) {
    if (truth_value) return x.error == 0 || below(2) == 0 ? x.value : 1 - x.value;
    const double step = below(3) == 0 ? 1 - below(3) : real(-1, 1);
    const double value = x.value + step * x.error;
    // A little inside, so that the rounding of this sum does not reach beyond.
    if (is_floating(dtype_)) return x.value + 0.999999 * step * x.error;
    return std::clamp(std::round(value), x.value - x.error, x.value + x.error);
  }

  void check(Primitive map, Tally& tally) {
    std::vector<Uncertain> operands;
    for (int i = 0; i < arity(map); ++i)
      operands.push_back(map == Primitive::select && i == 0 ? condition() : operand());
    std::vector<double> values;
    for (const Uncertain& x : operands) values.push_back(x.value);
    const double truth = of(map, values, dtype_);
    if (!is_floating(dtype_) && std::isnan(truth)) return;  // an error
    const bool compares = map == Primitive::equal || map == Primitive::less;
    const DType result_dtype = compares ? DType::boolean : dtype_;
    const double bound = map_error(map, operands, truth, result_dtype, u_);
    CAPTURE(op_of(map).name);
    CAPTURE(truth);
    std::string reach;
    for (const Uncertain& x : operands) reach += fmt::format("{} ± {}  ", x.value, x.error);
    CAPTURE(reach);
    EXPECT(bound >= 0);
    ++tally.tried;
    // What may wrap is error_bound's to say.
    if (!std::isfinite(bound) || (!is_floating(dtype_) && std::fabs(truth) + bound >= 0x1p63)) return;
    ++tally.bounded;
    const double rounding = rounding_factor(map, result_dtype) * u_;
    for (int i = 0; i < 20; ++i) {
      std::vector<double> inside;
      for (std::size_t k = 0; k < operands.size(); ++k)
        inside.push_back(within(operands[k], map == Primitive::select && k == 0));
      const double exact = of(map, inside, dtype_);
      // The worst a kernel may round to; the reference's own function is off by less than the rest of u.
      const double off = rounding > 0 && std::isfinite(exact) ? (rounding - 0x1p-52) * std::fabs(exact) : 0;
      const double kernel = exact + real(-1, 1) * off;
      const bool same = kernel == truth || (std::isnan(kernel) && std::isnan(truth));
      CAPTURE(kernel);
      CAPTURE(bound);
      CAPTURE(fmt::format("{}", fmt::join(inside, ", ")));
      // The operands inside and this difference are rounded themselves.
      const double slack = is_floating(dtype_) ? 0x1p-51 * (std::fabs(kernel) + std::fabs(truth)) : 0;
      EXPECT((same || std::fabs(kernel - truth) <= bound + slack));
    }
  }

 private:
  DType dtype_;
  double u_;
  std::mt19937_64 random_{11};
};

// Of all operands tried, how many per hundred had a finite bound.
int bounded_share(Primitive map, DType dtype) {
  Sampler sampler(dtype);
  Tally tally;
  for (int i = 0; i < 3000; ++i) sampler.check(map, tally);
  return tally.bounded * 100 / std::max(tally.tried, 1);
}

TEST_CASE("floats: results of operands anywhere in reach lie within the bound") {
  for (std::size_t i = 0; i < static_cast<std::size_t>(Primitive::convert); ++i) {
    const auto map = static_cast<Primitive>(i);
    if (!contains(op_of(map).inputs[arity(map) == 1 ? 0 : 1].dtypes, DType::f32)) continue;
    CAPTURE(op_of(map).name);
    // The rest is poles, ends of domains and errors as large as the value.
    EXPECT(bounded_share(map, DType::f32) > 30);
  }
}

TEST_CASE("integers: results of operands anywhere in reach lie within the bound") {
  for (std::size_t i = 0; i < static_cast<std::size_t>(Primitive::convert); ++i) {
    const auto map = static_cast<Primitive>(i);
    if (!contains(op_of(map).inputs[arity(map) == 1 ? 0 : 1].dtypes, DType::i64)) continue;
    CAPTURE(op_of(map).name);
    EXPECT(bounded_share(map, DType::i64) > 20);
  }
}

double bound_of(Primitive map, std::vector<Uncertain> x, DType dtype = DType::f32) {
  std::vector<double> values;
  for (const Uncertain& operand : x) values.push_back(operand.value);
  return map_error(map, x, of(map, values, dtype), dtype, is_floating(dtype) ? unit_roundoff(dtype) : 0);
}

TEST_CASE("exact maps of exact operands are exact, functions within 1 ULP") {
  for (const Primitive map : {Primitive::floor, Primitive::ceil, Primitive::round_even, Primitive::absolute})
    EXPECT(bound_of(map, {{2.5, 0}}) == 0);
  EXPECT(bound_of(Primitive::remainder, {{7.5, 0}, {2, 0}}) == 0);
  EXPECT(bound_of(Primitive::minimum, {{1, 0}, {2, 0}}) == 0);
  EXPECT(bound_of(Primitive::log, {{2, 0}}) < 2.001 * 0x1p-24);
  EXPECT(bound_of(Primitive::power, {{2, 0}, {0.5, 0}}) < 1.4143 * 2.001 * 0x1p-24);
}

TEST_CASE("steps: undecided where the operand reaches across one") {
  EXPECT(bound_of(Primitive::floor, {{2.5, 0.4}}) == 0);
  EXPECT(bound_of(Primitive::floor, {{2.1, 0.4}}) >= 1);
  EXPECT(bound_of(Primitive::floor, {{2.1, 0.4}}) < 1.001);
  EXPECT(bound_of(Primitive::less, {{1, 0.1}, {2, 0.1}}) == 0);
  EXPECT(bound_of(Primitive::less, {{1, 0.6}, {2, 0.6}}) == 1);
  EXPECT(bound_of(Primitive::select, {{1, 0}, {5, 0.5}, {7, 0.1}}) == 0.5);
  EXPECT(bound_of(Primitive::select, {{1, 1}, {5, 0.5}, {7, 0.1}}) == 2.5);
  EXPECT(bound_of(Primitive::bit_and, {{1, 1}, {0, 0}}, DType::boolean) == 0);
  EXPECT(bound_of(Primitive::bit_or, {{1, 1}, {0, 0}}, DType::boolean) == 1);
}

TEST_CASE("an infinity that is certain stays one, and no finite number equals it") {
  EXPECT(bound_of(Primitive::subtract, {{-kInfinity, 0}, {3, 0.5}}) == 0);
  EXPECT(bound_of(Primitive::add, {{3, 0.5}, {kInfinity, 0}}) == 0);
  EXPECT(bound_of(Primitive::add, {{3, kInfinity}, {kInfinity, 0}}) == kInfinity);
  EXPECT(bound_of(Primitive::equal, {{3, 0.5}, {-kInfinity, 0}}) == 0);
  EXPECT(bound_of(Primitive::equal, {{3, kInfinity}, {-kInfinity, 0}}) == 1);
}

TEST_CASE("an integer quotient may change though the truncated one is 0") {
  EXPECT(bound_of(Primitive::divide, {{16, 0}, {-18, 2}}, DType::i64) >= 1);
}

TEST_CASE("nothing is promised at poles and beyond domains, and NaN is certain well beyond") {
  EXPECT(bound_of(Primitive::log, {{1, 1.5}}) == kInfinity);
  EXPECT(bound_of(Primitive::log, {{-3, 1}}) == 0);
  EXPECT(bound_of(Primitive::log, {{-1, 2}}) == kInfinity);
  EXPECT(bound_of(Primitive::tan, {{1.5, 0.2}}) == kInfinity);
  EXPECT(bound_of(Primitive::asin, {{0.9, 0.2}}) == kInfinity);
  EXPECT(bound_of(Primitive::asin, {{5, 7}}) == kInfinity);
  EXPECT(bound_of(Primitive::remainder, {{5, 0}, {0.1, 0.2}}) == kInfinity);
  EXPECT(bound_of(Primitive::power, {{0.5, 1}, {0.5, 0}}) == kInfinity);
  EXPECT(bound_of(Primitive::sin, {{1, kInfinity}}) == kInfinity);  // may be NaN
}

}  // namespace
}  // namespace diji
