// The dtype table, and the 16-bit floats against the compiler and an independent formula.
#include "base/dtype.h"

#include "tests/unit/expect.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <type_traits>

namespace diji {
namespace {

constexpr int kRandomDoubles = 1'000'000;
constexpr std::uint64_t kSeed = 20'250'301;

TEST_CASE("every dtype has its row, its name and its C++ type") {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    CAPTURE(std::string(name_of(dtype)));
    EXPECT(parse_dtype(name_of(dtype)) == dtype);
    visit_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      EXPECT(dtype_of<T>() == dtype);
      EXPECT(std::ssize(std::string(sizeof(T), ' ')) == bytes_of(dtype));
      EXPECT(is_integer(dtype) == (std::is_integral_v<T> && !std::is_same_v<T, bool>));
      EXPECT(is_signed_integer(dtype) == (std::is_integral_v<T> && std::is_signed_v<T>));
      EXPECT(is_floating(dtype) == !std::is_integral_v<T>);
    });
  }
  EXPECT(info(DType::f32).mantissa_bits == 23);
  EXPECT_FALSE(parse_dtype("float32"));
  EXPECT_FALSE(parse_dtype(""));
}

#ifdef __FLT16_MAX__
std::uint16_t f16_by_compiler(double value) {
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}
double f16_widened(std::uint16_t bits) { return static_cast<double>(std::bit_cast<_Float16>(bits)); }
#else  // a target for which the compiler has no such type: by the format's definition
double f16_widened(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double magnitude = exponent == 31  ? (fraction == 0 ? HUGE_VAL : std::nan(""))
                           : exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}
std::uint16_t f16_by_compiler(double value) {
  const std::uint32_t sign = std::signbit(value) ? 0x8000U : 0U;
  if (std::isnan(value))
    return static_cast<std::uint16_t>(sign | 0x7e00U |
                                      ((std::bit_cast<std::uint64_t>(value) >> 42) & 0x3ffU));
  const int exponent = std::max(value == 0 ? -14 : std::ilogb(value), -14);
  const double steps =
      std::isinf(value) ? 0x1p20 : std::nearbyint(std::ldexp(std::fabs(value), 10 - exponent));
  const double pattern = exponent > 15 || std::isinf(value) ? 0x7c00 : steps + std::ldexp(exponent + 14, 10);
  return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::min(pattern, double{0x7c00})));
}
#endif

// Rounds to float "to odd" (inexact results get an odd last bit), which keeps what a second rounding has to
// know, then rounds the float's upper half to nearest even by integer arithmetic.
std::uint16_t bf16_by_formula(double value) {
  auto rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) != value) {
    if (std::fabs(static_cast<double>(rounded)) > std::fabs(value)) rounded = std::nextafter(rounded, 0.0F);
    rounded = std::bit_cast<float>(std::bit_cast<std::uint32_t>(rounded) | 1U);
  }
  const auto bits = std::bit_cast<std::uint32_t>(rounded);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// Float, its conversion and the number of exponent bits of each 16-bit type.
template <typename T>
void expect_patterns_round_trip(int mantissa_bits) {
  int wrong = 0;
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    T value;
    value.bits = static_cast<std::uint16_t>(pattern);
    const auto wide = static_cast<double>(value);
    const T back(wide);
    const std::uint32_t magnitude = pattern & 0x7fffU;
    const std::uint32_t infinity = 0x7fffU >> mantissa_bits << mantissa_bits;
    if (magnitude > infinity) {
      const bool same_sign = std::signbit(wide) == ((pattern & 0x8000U) != 0);
      const bool quiet = (back.bits & 0x7fffU) == (infinity | (1U << (mantissa_bits - 1)));
      wrong += std::isnan(wide) && same_sign && quiet && (back.bits & 0x8000U) == (pattern & 0x8000U) ? 0 : 1;
    } else {
      wrong += back.bits == pattern && std::isinf(wide) == (magnitude == infinity) ? 0 : 1;
    }
  }
  EXPECT(wrong == 0);
}

TEST_CASE("all 65,536 patterns of both 16-bit floats round trip; NaN stays NaN with its sign") {
  expect_patterns_round_trip<Float16>(10);
  expect_patterns_round_trip<BFloat16>(7);
}

TEST_CASE("widening f16 agrees with the compiler, widening bf16 is a float's upper half") {
  int wrong = 0;
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    Float16 half;
    half.bits = bits;
    BFloat16 brain;
    brain.bits = bits;
    const auto half_wanted = f16_widened(bits);
    const auto brain_wanted = static_cast<double>(std::bit_cast<float>(pattern << 16));
    wrong += static_cast<double>(half) == half_wanted || std::isnan(half_wanted) ? 0 : 1;
    wrong += static_cast<double>(brain) == brain_wanted || std::isnan(brain_wanted) ? 0 : 1;
  }
  EXPECT(wrong == 0);
}

// Counts the conversions that differ from the two references.
int wrong_conversions(double value) {
  return (Float16(value).bits == f16_by_compiler(value) ? 0 : 1) +
         (BFloat16(value).bits == bf16_by_formula(value) ? 0 : 1);
}

TEST_CASE("random doubles round once, to nearest even") {
  std::mt19937_64 random(kSeed);
  std::uniform_int_distribution<int> exponent(-160, 140);
  std::uniform_real_distribution<double> mantissa(1, 2);
  int wrong = 0;
  for (int i = 0; i < kRandomDoubles; ++i) {
    const double magnitude =
        std::ldexp(mantissa(random), i % 2 == 0 ? exponent(random) : exponent(random) / 6);
    wrong += wrong_conversions(i % 3 == 0 ? -magnitude : magnitude);
    const auto any = std::bit_cast<double>(random());
    if (!std::isnan(any)) wrong += wrong_conversions(any);
  }
  INFO("seed ", kSeed);
  EXPECT(wrong == 0);
}

// Halfway between neighbours, and one double to either side: also where a double rounding (through float)
// would err.
template <typename T>
int wrong_ties() {
  int wrong = 0;
  for (std::uint32_t pattern = 0; pattern < 0x7fff; ++pattern) {
    T low;
    T high;
    low.bits = static_cast<std::uint16_t>(pattern);
    high.bits = static_cast<std::uint16_t>(pattern + 1);
    const auto a = static_cast<double>(low);
    const auto b = static_cast<double>(high);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    const double middle = (a + b) / 2;
    for (const double value : {middle, std::nextafter(middle, a), std::nextafter(middle, b)}) {
      wrong += wrong_conversions(value) + wrong_conversions(-value);
    }
    wrong += T(middle).bits == (pattern % 2 == 0 ? low.bits : high.bits) ? 0 : 1;
  }
  return wrong;
}

TEST_CASE("ties go to even, their neighbours to the nearer side") {
  EXPECT(wrong_ties<Float16>() == 0);
  EXPECT(wrong_ties<BFloat16>() == 0);
}

TEST_CASE("the ends: overflow, subnormals, zero, infinity, NaN") {
  EXPECT(Float16(65504.0).bits == 0x7bff);
  EXPECT(Float16(65519.999).bits == 0x7bff);
  EXPECT(Float16(65520.0).bits == 0x7c00);
  EXPECT(Float16(std::ldexp(1.0, -25)).bits == 0);
  EXPECT(Float16(std::nextafter(std::ldexp(1.0, -25), 1)).bits == 1);
  EXPECT(Float16(-0.0).bits == 0x8000);
  EXPECT(Float16(-HUGE_VAL).bits == 0xfc00);
  EXPECT(Float16(1e300).bits == 0x7c00);
  EXPECT(BFloat16(-1e300).bits == 0xff80);
  EXPECT(BFloat16(1e-300).bits == 0);
  EXPECT(BFloat16(std::numeric_limits<double>::denorm_min()).bits == 0);
  EXPECT(BFloat16(std::nan("")).bits == 0x7fc0);
  EXPECT(Float16(std::copysign(std::nan(""), -1)).bits == 0xfe00);
}

}  // namespace
}  // namespace diji
