// Elementary functions over every value of the 16-bit floats, and over f32 in a fine stride (DIJI_SWEEP; 1 is
// every value).
#include "ops/catalog.h"
#include "runtime/conformance.h"
#include "tests/unit/runtime/fixture.h"

#include <bit>
#include <cmath>

namespace diji {
namespace {

Graph unary_graph(const std::string& op, DType dtype) {
  return test::graph_from(fmt::format(R"(graph "unary" {{
    symbol N in [0, 1099511627776]
    input %x "x" : {}[N]
    %y = {}(%x)
    output "y" = %y
  }})",
                                      name_of(dtype), op));
}

double truth_of(std::string_view op, double x) {
  if (op == "exp") return std::exp(x);
  if (op == "tanh") return std::tanh(x);
  return op == "sqrt" ? std::sqrt(x) : 1 / x;
}

template <typename T>
bool same_value(T a, T b) {
  return a.bits == b.bits || (std::isnan(static_cast<double>(a)) && std::isnan(static_cast<double>(b)));
}

template <typename T>
void sweep_16_bits(const std::string& op) {
  CAPTURE(op);
  CAPTURE(name_of(dtype_of<T>()));
  DeviceList devices(built_in_plugins(), 2);
  auto session = Session::of(devices, unary_graph(op, dtype_of<T>()), {});
  REQUIRE(session.has_value());
  std::vector<T> values(65536);
  for (std::size_t i = 0; i < values.size(); ++i) values[i].bits = static_cast<std::uint16_t>(i);
  const auto y = (*session)->run({{"x", HostTensor::of<T>({65536}, values)}});
  REQUIRE(y.has_value());
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    wrong +=
        same_value((*y)[0].template values<T>()[i], T(truth_of(op, static_cast<double>(values[i])))) ? 0 : 1;
  }
  EXPECT(wrong == 0);  // correctly rounded, every single one
}

TEST_CASE("exp, tanh, sqrt and 1/x are correctly rounded for every f16 and bf16") {
  const test::ScratchCache cache;
  for (const std::string op : {"exp", "tanh", "sqrt", "reciprocal"}) {
    sweep_16_bits<Float16>(op);
    sweep_16_bits<BFloat16>(op);
  }
}

// Largest error in ULP of the true value over the f32 bit patterns first, first + stride, …
double worst_ulp(Session& session, std::string_view op, std::uint64_t stride) {
  constexpr std::uint64_t kBlock = 1 << 20;
  double worst = 0;
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32);) {
    x.clear();
    for (; x.size() < kBlock && bits < (std::uint64_t{1} << 32); bits += stride)
      x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    const auto y = session.run({{"x", HostTensor::of<float>({std::ssize(x)}, x)}});
    REQUIRE(y.has_value());
    const auto got = (*y)[0].values<float>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double truth = truth_of(op, x[i]);
      const auto rounded = static_cast<float>(truth);
      if (got[i] == rounded || (std::isnan(got[i]) && std::isnan(rounded))) continue;
      const double ulp = std::ldexp(1.0, std::max(std::ilogb(truth), -126) - 23);
      // A NaN or an infinity where there is none counts as infinitely wrong.
      const double error = std::isfinite(got[i]) ? std::fabs(got[i] - truth) / ulp : HUGE_VAL;
      worst = std::max(worst, error);
    }
  }
  return worst;
}

TEST_CASE("exp and tanh are within 1 ULP in f32, sqrt and 1/x correctly rounded") {
  const test::ScratchCache cache;
  const char* given = std::getenv("DIJI_SWEEP");
  const std::uint64_t stride = given == nullptr ? 1009 : std::strtoull(given, nullptr, 10);
  REQUIRE(stride > 0);
  DeviceList devices(built_in_plugins(), 2);
  for (const std::string op : {"exp", "tanh", "sqrt", "reciprocal"}) {
    auto session = Session::of(devices, unary_graph(op, DType::f32), {});
    REQUIRE(session.has_value());
    const double worst = worst_ulp(**session, op, stride);
    MESSAGE(op, ": worst error ", worst, " ULP at stride ", stride);
    const bool rounded = op == "sqrt" || op == "reciprocal";
    EXPECT(worst <= (rounded ? 0.5 : 1.0));
  }
}

}  // namespace
}  // namespace diji
