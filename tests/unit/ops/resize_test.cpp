// Resize and Pad: sizes from scales, exact positions, sizes that are symbols.
#include "tests/unit/expect.h"
#include "tests/unit/ops/call.h"

namespace diji {
namespace {

using test::Call;
using test::N;

HostTensor scale(float value) { return HostTensor::of<float>({1}, {value}); }

std::string resized(Dim size, float by) {
  return Call("resize").input(DType::f32, {std::move(size)}).absent().constant(scale(by)).type();
}

TEST_CASE("resize: sizes from scales") {
  EXPECT(resized(N, 2) == "f32[2*N]");
  EXPECT(resized(N, 0.5F) == "f32[N floordiv 2]");
  EXPECT(resized(5, 1.3F) == "f32[6]");
  // 0.7f is below 7/10, and ten times that is 7 all the same, as it is in floats.
  EXPECT(resized(10, 0.7F) == "f32[7]");
  EXPECT(resized(10, 0.69F) == "f32[6]");
  EXPECT(resized(10, 0).starts_with("resize: a scale of 0 is not between"));
  EXPECT(resized(10, -1).starts_with("resize: a scale of -1 is not between"));
}

TEST_CASE("resize: ties fall where the fraction says, for symbolic sizes too") {
  // x = (o + 1/2) · 3 / 6 − 1/2: 6 cells from 3 lie at −1/4, 1/4, 3/4, …
  const auto nearest = [](const Dim& size, const char* rounding) {
    Call call("resize", {{"nearest_mode", std::string(rounding)},
                         {"coordinate_transformation_mode", std::string("asymmetric")}});
    call.input(DType::f32, {size}).absent().absent().constant(ints({6}));
    std::vector<double> all;
    const auto y = call.run({HostTensor::of<float>({3}, {1, 2, 3})});
    for (std::int64_t i = 0; y && i < y->count(); ++i) all.push_back(y->as_double(i));
    return all;
  };
  for (const Dim& size : {Dim(3), N}) {
    EXPECT(nearest(size, "round_prefer_floor") == std::vector<double>{1, 1, 2, 2, 3, 3});
    EXPECT(nearest(size, "round_prefer_ceil") == std::vector<double>{1, 2, 2, 3, 3, 3});
    EXPECT(nearest(size, "floor") == std::vector<double>{1, 1, 2, 2, 3, 3});
    EXPECT(nearest(size, "ceil") == std::vector<double>{1, 2, 2, 3, 3, 3});
  }
}

TEST_CASE("pad: sizes, crops, sentences") {
  const auto type = [](HostTensor pads, Attributes attributes = {}) {
    return Call("pad", std::move(attributes)).input(DType::f32, {N, 4}).constant(std::move(pads)).type();
  };
  EXPECT(type(ints({1, -1, 2, -1})) == "f32[N + 3, 2]");
  EXPECT(type(ints({1, 1})) == "pad: 2 pads for 2 axes");
  EXPECT(type(ints({0, 0, 0, 0}), {{"mode", std::string("mirror")}}) ==
         "pad: mode 'mirror' is none of constant, edge, reflect, wrap");
}

}  // namespace
}  // namespace diji
