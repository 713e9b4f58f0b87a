// What the scalar maps mean, against values worked out by hand or told by IEEE 754.
#include "graph/map_reference.h"

#include "graph/builder.h"
#include "graph/interpreter.h"

#include "tests/unit/expect.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diji {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double real(Primitive map, double a, double b = 0) { return *apply_map<double>(map, a, b); }

template <typename T>
HostTensor tensor(const std::vector<T>& values) {
  HostTensor result = HostTensor::allocate(dtype_of<T>(), {std::ssize(values)}).value();
  std::ranges::copy(values, result.mutable_values<T>().begin());
  return result;
}

// Through the interpreter, so that the width counts.
template <typename T>
std::string integers(Primitive map, std::vector<T> a, std::vector<T> b) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.constant(tensor(a)), y = builder.constant(tensor(b));
  graph.add_output("y", arity(map) == 1 ? builder.map(map, {x}) : builder.map(map, {x, y}));
  if (!builder.ok()) return builder.status().error().message;
  const auto result = interpret(graph, {}, Arithmetic::typed);
  if (!result) return result.error().message;
  return fmt::format("{}", fmt::join((*result)[0].as_int64(), " "));
}

TEST_CASE("integer remainder has the sign of a, no zero divisor, and 0 for -1") {
  EXPECT(integers<std::int32_t>(Primitive::remainder, {7, -7, 7, -7}, {3, 3, -3, -3}) == "1 -1 1 -1");
  EXPECT(integers<std::int8_t>(Primitive::remainder, {-128}, {-1}) == "0");
  EXPECT(integers<std::int64_t>(Primitive::remainder, {std::numeric_limits<std::int64_t>::min()}, {-1}) ==
         "0");
  EXPECT(integers<std::uint8_t>(Primitive::remainder, {255}, {16}) == "15");
  EXPECT(integers<std::int32_t>(Primitive::remainder, {1}, {0}) ==
         "prim.remainder: integer division by zero");
}

TEST_CASE("integer powers wrap; a negative exponent leaves what 1 / x^n truncates to") {
  EXPECT(integers<std::int32_t>(Primitive::power, {2, -3, 0, 7, 2}, {10, 3, 0, 1, 31}) ==
         "1024 -27 1 7 -2147483648");
  EXPECT(integers<std::uint8_t>(Primitive::power, {3, 2}, {5, 8}) == "243 0");
  EXPECT(integers<std::int32_t>(Primitive::power, {1, -1, -1, 2, -5}, {-4, -4, -5, -1, -1}) == "1 1 -1 0 0");
  EXPECT(integers<std::int32_t>(Primitive::power, {0}, {-1}) == "prim.power: integer division by zero");
}

TEST_CASE("shifts: by the width and more, by less than nothing, with the sign") {
  EXPECT(integers<std::int8_t>(Primitive::shift_left, {1, 1, 1, -1, 1}, {7, 8, 100, 4, -1}) ==
         "-128 0 0 -16 0");
  EXPECT(integers<std::int8_t>(Primitive::shift_right, {-128, -128, -1, 64, 64}, {7, 8, -1, 6, -3}) ==
         "-1 -1 -1 1 0");
  EXPECT(integers<std::uint8_t>(Primitive::shift_right, {128, 128, 255}, {7, 8, 255}) == "1 0 0");
  EXPECT(integers<std::int64_t>(Primitive::shift_right, {-8}, {64}) == "-1");
}

TEST_CASE("bits of integers, truth values, and the absolute value") {
  EXPECT(integers<std::int32_t>(Primitive::bit_and, {12, -1}, {10, 7}) == "8 7");
  EXPECT(integers<std::int32_t>(Primitive::bit_or, {12}, {10}) == "14");
  EXPECT(integers<std::int32_t>(Primitive::bit_xor, {12, -1}, {10, 0}) == "6 -1");
  EXPECT(integers<bool>(Primitive::bit_xor, {false, false, true, true}, {false, true, false, true}) ==
         "0 1 1 0");
  EXPECT(integers<bool>(Primitive::less, {false, false, true, true}, {false, true, false, true}) ==
         "0 1 0 0");
  EXPECT(integers<std::int8_t>(Primitive::absolute, {-128, -5, 5}, {}) == "-128 5 5");
  EXPECT(integers<std::uint64_t>(Primitive::less, {1}, {std::uint64_t{1} << 63}) == "1");
}

TEST_CASE("floats: minimum and maximum order zeros and let NaN win") {
  EXPECT(std::signbit(real(Primitive::minimum, 0.0, -0.0)));
  EXPECT(std::signbit(real(Primitive::minimum, -0.0, 0.0)));
  EXPECT_FALSE(std::signbit(real(Primitive::maximum, -0.0, 0.0)));
  EXPECT(std::isnan(real(Primitive::minimum, kNaN, -kInfinity)));
  EXPECT(std::isnan(real(Primitive::minimum, -kInfinity, kNaN)));
}

TEST_CASE("floats: remainder is exact, power is IEEE's") {
  EXPECT(real(Primitive::remainder, -7.5, 2) == -1.5);
  EXPECT(real(Primitive::remainder, 5, kInfinity) == 5);
  EXPECT(std::isnan(real(Primitive::remainder, 5, 0)));
  EXPECT(real(Primitive::power, kNaN, 0) == 1);
  EXPECT(real(Primitive::power, 1, kNaN) == 1);
  EXPECT(real(Primitive::power, -1, kInfinity) == 1);
  EXPECT(real(Primitive::power, -0.0, -3) == -kInfinity);
  EXPECT(std::isnan(real(Primitive::power, -8, 1.0 / 3)));
}

TEST_CASE("floats: whole numbers, halves to even, signs of zero kept") {
  EXPECT(real(Primitive::round_even, 2.5) == 2);
  EXPECT(real(Primitive::round_even, -3.5) == -4);
  EXPECT(std::signbit(real(Primitive::round_even, -0.4)));
  EXPECT(std::signbit(real(Primitive::ceil, -0.4)));
  EXPECT(real(Primitive::floor, -0.5) == -1);
}

TEST_CASE("select takes from either side, and never computes with the other") {
  Graph graph;
  Builder b(graph);
  const ValueId condition = b.constant(HostTensor::of<bool>({3}, {true, false, true})),
                x = b.constant(HostTensor::of<float>({3}, {1, std::nanf(""), 3})),
                y = b.constant(HostTensor::of<float>({3}, {std::nanf(""), 5, 6}));
  graph.add_output("y", b.select(condition, x, y));
  const auto result = interpret(graph, {}, Arithmetic::typed);
  REQUIRE(result);
  EXPECT((*result)[0].as_double(0) == 1);
  EXPECT((*result)[0].as_double(1) == 5);
  EXPECT((*result)[0].as_double(2) == 3);
}

}  // namespace
}  // namespace diji
