// The judge itself: every kind of wrong value must fail, every right one pass.
#include "runtime/conformance.h"

#include "tests/unit/runtime/fixture.h"

#include <cmath>

namespace diji {
namespace {

bool holds(float got, double truth, double bound) {
  return compare_with_truth(HostTensor::of<float>({1}, {got}), HostTensor::of<double>({1}, {truth}),
                            HostTensor::of<double>({1}, {bound}))
      .ok;
}

TEST_CASE("floats: within the bound, infinities and NaN exactly") {
  const float inf = HUGE_VALF, nan = std::nanf("");
  EXPECT(holds(1.5F, 1.5, 0));
  EXPECT(holds(1.5F, 1.6, 0.11));
  EXPECT_FALSE(holds(1.5F, 1.6, 0.09));
  EXPECT(holds(nan, std::nan(""), 0));
  EXPECT_FALSE(holds(1, std::nan(""), 0));
  EXPECT_FALSE(holds(nan, 1, 10));
  EXPECT(holds(inf, HUGE_VAL, 0));
  EXPECT_FALSE(holds(-inf, HUGE_VAL, 0));
  EXPECT_FALSE(holds(5, HUGE_VAL, 0));         // 1/0 is not 5
  EXPECT_FALSE(holds(7, HUGE_VAL, HUGE_VAL));  // and nothing excuses it
  EXPECT_FALSE(holds(inf, 1, 0.1));
  EXPECT(holds(inf, 3.5e38, 1e31));  // beyond f32
  EXPECT_FALSE(holds(-inf, 3.5e38, 1e31));
}

TEST_CASE("what has no finite bound is counted, not passed over in silence") {
  const auto unproved = [](float got, double truth, double bound) {
    return compare_with_truth(HostTensor::of<float>({1}, {got}), HostTensor::of<double>({1}, {truth}),
                              HostTensor::of<double>({1}, {bound}))
        .unproved;
  };
  EXPECT(unproved(1, 1, HUGE_VAL) == 1);
  EXPECT(unproved(1, 1, 0) == 0);
  EXPECT(unproved(7, HUGE_VAL, HUGE_VAL) == 0);  // an infinite truth is compared all the same
}

TEST_CASE("integers: exactly, in all 64 bits") {
  const auto judge = [](std::int64_t got, std::int64_t truth, double bound) {
    return compare_with_truth(HostTensor::of<std::int64_t>({1}, {got}),
                              HostTensor::of<std::int64_t>({1}, {truth}),
                              HostTensor::of<double>({1}, {bound}))
        .ok;
  };
  const std::int64_t large = std::int64_t{1} << 60;
  EXPECT(judge(large + 1, large + 1, 0));
  EXPECT_FALSE(judge(large + 1, large, 0));  // the same double
  EXPECT_FALSE(judge(3, 4, 0));
  EXPECT(judge(3, 4, 1));
}

TEST_CASE("shapes must agree, and empty tensors do") {
  const auto empty = [](StaticShape shape) {
    return HostTensor::allocate(DType::f32, std::move(shape)).value();
  };
  const HostTensor none = HostTensor::allocate(DType::f64, {0, 3}).value();
  EXPECT(compare_with_truth(empty({0, 3}), none, none).ok);
  EXPECT_FALSE(compare_with_truth(empty({3, 0}), none, none).ok);
}

TEST_CASE("a tolerance for values from elsewhere") {
  const auto judge = [](float got, float wanted) {
    return compare_with_tolerance(HostTensor::of<float>({1}, {got}), HostTensor::of<float>({1}, {wanted}),
                                  1e-3, 1e-6)
        .ok;
  };
  EXPECT(judge(1.0005F, 1));
  EXPECT_FALSE(judge(1.002F, 1));
  EXPECT(judge(std::nanf(""), std::nanf("")));
  EXPECT_FALSE(judge(std::nanf(""), 1));
  EXPECT_FALSE(judge(HUGE_VALF, 1));
  EXPECT(judge(HUGE_VALF, HUGE_VALF));
}

}  // namespace
}  // namespace diji
