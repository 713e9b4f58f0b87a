// Every function of one operand over every value of the 16-bit floats, over f32 in a stride (DIJI_SWEEP; 1 is
// every value; DIJI_SWEEP_MAPS="log erf" takes only those), and over f64 where exponents meet mantissas.
#include "graph/map_error.h"
#include "graph/map_reference.h"
#include "runtime/conformance.h"
#include "tests/unit/runtime/fixture.h"

#include <bit>
#include <cmath>
#include <random>

namespace diji {
namespace {

constexpr Primitive kRounded[] = {Primitive::absolute, Primitive::floor, Primitive::ceil,
                                  Primitive::round_even, Primitive::sqrt};
constexpr Primitive kFunctions[] = {
    Primitive::exp,  Primitive::expm1, Primitive::log,   Primitive::log1p, Primitive::erf,  Primitive::sin,
    Primitive::cos,  Primitive::tan,   Primitive::asin,  Primitive::acos,  Primitive::atan, Primitive::sinh,
    Primitive::cosh, Primitive::tanh,  Primitive::asinh, Primitive::acosh, Primitive::atanh};

std::vector<Primitive> all_maps() {
  std::vector<Primitive> maps(std::begin(kRounded), std::end(kRounded));
  maps.insert(maps.end(), std::begin(kFunctions), std::end(kFunctions));
  const char* given = std::getenv("DIJI_SWEEP_MAPS");
  if (given == nullptr) return maps;
  const std::string wanted = fmt::format(" {} ", given);
  std::erase_if(maps, [&](Primitive map) {
    return wanted.find(fmt::format(" {} ", op_of(map).name.substr(5))) == std::string::npos;
  });
  return maps;
}

bool is_rounded(Primitive map) { return rounding_factor(map, DType::f32) <= 1; }

Graph unary_graph(Primitive map, DType dtype) {
  return test::graph_from(fmt::format(R"(graph "unary" {{
    symbol N in [0, 1099511627776]
    input %x "x" : {}[N]
    %y = {}(%x)
    output "y" = %y
  }})",
                                      name_of(dtype), op_of(map).name));
}

double truth_of(Primitive map, double x) { return *apply_map<double>(map, x, x); }

template <typename T>
bool same_value(T a, T b) {
  return a.bits == b.bits || (std::isnan(static_cast<double>(a)) && std::isnan(static_cast<double>(b)));
}

template <typename T>
void sweep_16_bits(Primitive map) {
  CAPTURE(op_of(map).name);
  CAPTURE(name_of(dtype_of<T>()));
  DeviceList devices(built_in_plugins(), 2);
  auto session = Session::of(devices, unary_graph(map, dtype_of<T>()), {});
  REQUIRE(session.has_value());
  std::vector<T> values(65536);
  for (std::size_t i = 0; i < values.size(); ++i) values[i].bits = static_cast<std::uint16_t>(i);
  const auto y = (*session)->run({{"x", HostTensor::of<T>({65536}, values)}});
  REQUIRE(y.has_value());
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T got = (*y)[0].template values<T>()[i], truth(truth_of(map, static_cast<double>(values[i])));
    if (same_value(got, truth) || wrong++ > 0) continue;
    MESSAGE("first wrong: at ", static_cast<double>(values[i]), " got ", static_cast<double>(got), ", not ",
            static_cast<double>(truth));
  }
  EXPECT(wrong == 0);  // correctly rounded, every single one
}

TEST_CASE("functions of one operand are correctly rounded for every f16 and bf16") {
  const test::ScratchCache cache;
  for (const Primitive map : all_maps()) {
    sweep_16_bits<Float16>(map);
    sweep_16_bits<BFloat16>(map);
  }
}

// The largest error in ULP of the true value, and where it is.
struct Worst {
  double ulp = 0, at = 0;
  void add(double x, double got, double truth, double rounded, int mantissa_bits, int smallest) {
    if (got == rounded) {
      // The sign of zero is part of the result.
      if (got == 0 && std::signbit(got) != std::signbit(rounded)) *this = {HUGE_VAL, x};
      return;
    }
    if (std::isnan(got) && std::isnan(rounded)) return;
    const double unit = std::ldexp(1.0, std::max(std::ilogb(truth), smallest) - mantissa_bits);
    // A NaN or an infinity where there is none counts as infinitely wrong.
    const double error = std::isfinite(got) ? std::fabs(got - truth) / unit : HUGE_VAL;
    if (!(error <= ulp)) *this = {error, x};
  }
};

// Over the f32 bit patterns first, first + stride, …
Worst worst_f32(Session& session, Primitive map, std::uint64_t stride) {
  constexpr std::uint64_t kBlock = 1 << 20;
  Worst worst;
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32);) {
    x.clear();
    for (; x.size() < kBlock && bits < (std::uint64_t{1} << 32); bits += stride)
      x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    const auto y = session.run({{"x", HostTensor::of<float>({std::ssize(x)}, x)}});
    REQUIRE(y.has_value());
    const auto got = (*y)[0].values<float>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double truth = truth_of(map, x[i]);
      worst.add(x[i], got[i], truth, static_cast<float>(truth), 23, -126);
    }
  }
  return worst;
}

TEST_CASE("functions of one operand are within 0.51 ULP in f32") {
  const test::ScratchCache cache;
  const char* given = std::getenv("DIJI_SWEEP");
  const std::uint64_t stride = given == nullptr ? 10007 : std::strtoull(given, nullptr, 10);
  REQUIRE(stride > 0);
  DeviceList devices(built_in_plugins(), 2);
  for (const Primitive map : all_maps()) {
    auto session = Session::of(devices, unary_graph(map, DType::f32), {});
    REQUIRE(session.has_value());
    const Worst worst = worst_f32(**session, map, stride);
    MESSAGE(op_of(map).name, ": worst error ", worst.ulp, " ULP at ", worst.at, ", stride ", stride);
    EXPECT(worst.ulp <= (is_rounded(map) ? 0.5 : 0.51));
  }
}

// Every exponent with mantissas at random and at the ends, both signs; and what a formula may trip over.
std::vector<double> many_doubles() {
  std::mt19937_64 random(7);
  std::vector<double> x = {0.0, -0.0, std::nan(""), HUGE_VAL, -HUGE_VAL};
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52) - 1;
  for (std::uint64_t exponent = 0; exponent < 2047; ++exponent) {
    for (const std::uint64_t mantissa :
         {std::uint64_t{0}, std::uint64_t{1}, kMantissa, random() & kMantissa, random() & kMantissa}) {
      x.push_back(std::bit_cast<double>(exponent << 52 | mantissa));
      x.push_back(-x.back());
    }
  }
  for (int i = 0; i < 40000; ++i) {
    x.push_back(std::uniform_real_distribution<double>(-1.1, 1.1)(random));
    x.push_back(std::uniform_real_distribution<double>(-50, 50)(random));
    x.push_back(std::uniform_real_distribution<double>(-800, 800)(random));
    x.push_back(std::exp(std::uniform_real_distribution<double>(-40, 30)(random)));
  }
  // Near multiples of π/2: 6381956970095103 · 2^797 is the double that comes closest (Muller, Elementary
  // Functions).
  x.push_back(std::ldexp(6381956970095103.0, 797));
  for (int i = 1; i < 5000; ++i) x.push_back(i * 1.5707963267948966);
  return x;
}

// The truth to more bits than a double where the host has them.
long double long_truth(Primitive map, long double x) {
  switch (map) {
    case Primitive::exp: return std::exp(x);
    case Primitive::expm1: return std::expm1(x);
    case Primitive::log: return std::log(x);
    case Primitive::log1p: return std::log1p(x);
    case Primitive::erf: return std::erf(x);
    case Primitive::sin: return std::sin(x);
    case Primitive::cos: return std::cos(x);
    case Primitive::tan: return std::tan(x);
    case Primitive::asin: return std::asin(x);
    case Primitive::acos: return std::acos(x);
    case Primitive::atan: return std::atan(x);
    case Primitive::sinh: return std::sinh(x);
    case Primitive::cosh: return std::cosh(x);
    case Primitive::tanh: return std::tanh(x);
    case Primitive::asinh: return std::asinh(x);
    case Primitive::acosh: return std::acosh(x);
    case Primitive::atanh: return std::atanh(x);
    default: return truth_of(map, static_cast<double>(x));
  }
}

TEST_CASE("functions of one operand are within 3 ULP in f64") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  const auto x = many_doubles();
  for (const Primitive map : all_maps()) {
    CAPTURE(op_of(map).name);
    auto session = Session::of(devices, unary_graph(map, DType::f64), {});
    REQUIRE(session.has_value());
    const auto y = (*session)->run({{"x", HostTensor::of<double>({std::ssize(x)}, x)}});
    REQUIRE(y.has_value());
    Worst worst;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double truth = long_truth(map, x[i]);
      const double rounded = static_cast<double>(truth), got = (*y)[0].values<double>()[i];
      if (got == rounded && std::signbit(got) == std::signbit(rounded)) continue;
      const long double unit = std::ldexp(1.0L, std::max(std::ilogb(rounded), -1022) - 52);
      const bool both_nan = std::isnan(got) && std::isnan(rounded);
      const double error = both_nan             ? 0
                           : std::isfinite(got) ? static_cast<double>(std::fabs(got - truth) / unit)
                                                : HUGE_VAL;
      const double signed_error = got == 0 && rounded == 0 ? HUGE_VAL : error;
      if (!(signed_error <= worst.ulp)) worst = {signed_error, x[i]};
    }
    MESSAGE(op_of(map).name, ": worst error ", worst.ulp, " ULP at ", worst.at);
    EXPECT(worst.ulp <= (is_rounded(map) ? 0.5 : 3.0));
  }
}

}  // namespace
}  // namespace diji
