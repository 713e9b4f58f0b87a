// Element-wise operators: broadcasting, dtypes, and the values that engines disagree about.
#include "tests/unit/expect.h"
#include "tests/unit/ops/call.h"

#include <cmath>

namespace diji {
namespace {

using test::Call;
using test::N;

std::string add(Shape a, Shape b) {
  return Call("add").input(DType::f32, std::move(a)).input(DType::f32, std::move(b)).type();
}

TEST_CASE("operands broadcast as in NumPy, symbolic sizes are taken as equal") {
  EXPECT(add({3, 1}, {4}) == "f32[3, 4]");
  EXPECT(add({}, {N, 2}) == "f32[N, 2]");
  EXPECT(add({N, 1}, {1, N}) == "f32[N, N]");
  EXPECT(add({N}, {5}) == "f32[5]");
  EXPECT(add({N}, {N + 1}) == "add: shapes [N] and [N + 1] do not broadcast: N and N + 1 on axis 0");
  EXPECT(add({2, 3}, {3, 3}) == "add: shapes [2, 3] and [3, 3] do not broadcast: 2 and 3 on axis 0");
  EXPECT(add({0}, {1}) == "f32[0]");
}

TEST_CASE("sizes that were taken as equal are checked by the interpreter too, before anything is read") {
  Call call("add");
  call.input(DType::f32, {N}).input(DType::f32, {Dim::symbol("M")});
  const auto result = call.run(
      {sample_tensor(DType::f32, {3}, Fill::normal), sample_tensor(DType::f32, {1000}, Fill::normal)});
  REQUIRE_FALSE(result);
  EXPECT(result.error().code == ErrorCode::mismatch);
}

TEST_CASE("dtypes must agree, and the error names both") {
  EXPECT(Call("add").input(DType::f32, {1}).input(DType::f64, {1}).type() ==
         "add: input 'b' is f64, another of the same type is f32");
  EXPECT(Call("exp").input(DType::i32, {1}).type() == "exp: input 'x' cannot be i32");
  EXPECT(Call("add").input(DType::f32, {1}).type() == "add: input 'b' is missing");
  EXPECT(Call("add").input(DType::f32, {1}).input(DType::f32, {1}).input(DType::f32, {1}).type() ==
         "add: 3 inputs given, at most 2 taken");
  EXPECT(Call("add", {{"axis", std::int64_t{1}}}).input(DType::f32, {1}).input(DType::f32, {1}).type() ==
         "add: it has no attribute 'axis'");
  EXPECT(Call("cast", {{"to", std::int64_t{1}}}).input(DType::f32, {1}).type() ==
         "cast: attribute 'to' must be of kind dtype");
}

TEST_CASE("cast saturates floats, wraps integers, and rounds once") {
  const auto cast = [](HostTensor x, DType to) {
    Call call("cast", {{"to", to}});
    call.input(x.dtype(), Shape(x.shape().begin(), x.shape().end()));
    return *call.run({x});
  };
  const HostTensor floats =
      HostTensor::of<float>({6}, {std::nanf(""), HUGE_VALF, -HUGE_VALF, 1e10F, -1.9F, 255.9F});
  EXPECT(cast(floats, DType::u8).as_int64() == std::vector<std::int64_t>{0, 255, 0, 255, 0, 255});
  EXPECT(cast(floats, DType::i8).as_int64() == std::vector<std::int64_t>{0, 127, -128, 127, -1, 127});
  EXPECT(cast(floats, DType::boolean).as_int64() == std::vector<std::int64_t>{1, 1, 1, 1, 1, 1});
  EXPECT(cast(HostTensor::of<std::int32_t>({3}, {256, -1, 300}), DType::u8).as_int64() ==
         std::vector<std::int64_t>{0, 255, 44});
  // 2^53 + 1 lies halfway: to even. 2^60 + 1 is next to 2^60.
  EXPECT(
      cast(HostTensor::of<std::int64_t>({2}, {(1LL << 53) + 1, (1LL << 60) + 1}), DType::f64).as_double(0) ==
      0x1p53);
  EXPECT(
      cast(HostTensor::of<std::int64_t>({2}, {(1LL << 53) + 1, (1LL << 60) + 1}), DType::f64).as_double(1) ==
      0x1p60);
  // Just above halfway between two f32: through double it would fall on the tie and round down.
  EXPECT(cast(HostTensor::of<std::int64_t>({1}, {(1LL << 60) + (1LL << 36) + 1}), DType::f32).as_double(0) ==
         0x1p60 + 0x1p37);
}

TEST_CASE("max: NaN wins from any side, and +0 is above -0 from any side") {
  const auto max = [](float a, float b) {
    Call call("max");
    call.input(DType::f32, {}).input(DType::f32, {});
    return call.run({HostTensor::of<float>({}, {a}), HostTensor::of<float>({}, {b})})->as_double(0);
  };
  EXPECT(std::isnan(max(std::nanf(""), 1)));
  EXPECT(std::isnan(max(1, std::nanf(""))));
  EXPECT_FALSE(std::signbit(max(0.0F, -0.0F)));
  EXPECT_FALSE(std::signbit(max(-0.0F, 0.0F)));
  EXPECT(Call("max").input(DType::f32, {2}).type() == "f32[2]");
  EXPECT(Call("max").input(DType::f32, {2}).absent().input(DType::f32, {2}).type() ==
         "max: input 'data' is missing");
}

TEST_CASE("div: integers truncate, the minimum by -1 wraps, zero is an error") {
  const auto div = [](std::int32_t a, std::int32_t b) {
    Call call("div");
    call.input(DType::i32, {}).input(DType::i32, {});
    return call.run({HostTensor::of<std::int32_t>({}, {a}), HostTensor::of<std::int32_t>({}, {b})});
  };
  EXPECT(div(-7, 2)->as_int64()[0] == -3);
  EXPECT(div(7, -2)->as_int64()[0] == -3);
  EXPECT(div(std::numeric_limits<std::int32_t>::min(), -1)->as_int64()[0] ==
         std::numeric_limits<std::int32_t>::min());
  const auto zero = div(1, 0);
  REQUIRE_FALSE(zero);
  EXPECT(zero.error().code == ErrorCode::data);
  EXPECT(zero.error().message.contains("integer division by zero"));
}

}  // namespace
}  // namespace diji
