// Maps of two and three operands on the CPU against the reference: every pair of awkward values, every dtype,
// within the proven bound.
#include "graph/map_reference.h"
#include "runtime/conformance.h"
#include "tests/unit/random_graph.h"
#include "tests/unit/runtime/fixture.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace diji {
namespace {

template <typename T>
std::vector<T> awkward_values() {
  std::mt19937_64 random(3);
  if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    std::vector<T> values = {Limits::min(), static_cast<T>(Limits::min() + 1), Limits::max(),
                             static_cast<T>(Limits::max() - 1)};
    for (int i = -4; i < 10; ++i) values.push_back(static_cast<T>(i));
    for (const int i : {15, 16, 31, 32, 63, 64, 65, 100}) values.push_back(static_cast<T>(i));
    for (int i = 0; i < 10; ++i) values.push_back(static_cast<T>(random()));
    return values;
  } else {
    std::vector<double> values = {0.0, 0.5,    1,       1.5,  2,    3,   4,   7,
                                  10,  100.25, 1.0 / 3, 0.99, 1.01, 127, 1e4, HUGE_VAL};
    if (sizeof(T) >= 4)
      values.insert(values.end(), {1e-40, 1e-30, 3e7, 1 + 0x1p-23, 0x1.fffffep127, 16777217});
    if (sizeof(T) == 8)
      values.insert(values.end(),
                    {5e-324, 1e-310, 1e300, 1 + 0x1p-52, 0x1.fffffffffffffp1023, 0x1p53 + 2, 1e-5});
    for (int i = 0; i < 12; ++i)
      values.push_back(std::exp(std::uniform_real_distribution<double>(-9, 9)(random)));
    std::vector<T> all = {T(std::nan(""))};
    for (const double value : values) {
      all.push_back(T(value));
      all.push_back(T(-value));
    }
    return all;
  }
}

// Pairs on which the reference says something: not those that divide by zero.
template <typename T>
void awkward_pairs(Primitive map, std::vector<T>& a, std::vector<T>& b) {
  for (const T x : awkward_values<T>()) {
    for (const T y : awkward_values<T>()) {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        const bool divides =
            map == Primitive::divide || map == Primitive::remainder || map == Primitive::power;
        if (divides && !apply_map<Wide<T>>(map, Wide<T>(x), Wide<T>(y))) continue;
      }
      a.push_back(x);
      b.push_back(y);
    }
  }
}

template <typename T>
HostTensor tensor(const std::vector<T>& values) {
  HostTensor result = HostTensor::allocate(dtype_of<T>(), {std::ssize(values)}).value();
  std::ranges::copy(values, result.mutable_values<T>().begin());
  return result;
}

Graph graph_of(Primitive map, DType dtype) {
  Graph graph;
  Builder b(graph);
  const Shape shape = {Dim::symbol("N")};
  Values inputs;
  if (map == Primitive::select) inputs.push_back(graph.add_input("c", {DType::boolean, shape}));
  inputs.push_back(graph.add_input("a", {dtype, shape}));
  inputs.push_back(graph.add_input("b", {dtype, shape}));
  graph.add_output("y", b.primitive(map, inputs, {}));
  return graph;
}

template <typename T>
void check_pairs(DeviceList& devices, Primitive map) {
  const Graph graph = graph_of(map, dtype_of<T>());
  std::vector<T> a, b;
  awkward_pairs(map, a, b);
  std::vector<HostTensor> inputs = {tensor(a), tensor(b)};
  if (map == Primitive::select) {
    std::vector<bool> condition;
    for (std::size_t i = 0; i < a.size(); ++i) condition.push_back(i % 3 == 0);
    inputs.insert(inputs.begin(), tensor(condition));
  }
  const auto truth = interpret_with_bounds(graph, inputs);
  REQUIRE_MESSAGE(truth, truth.error().message);
  auto session = Session::of(devices, graph, {});
  REQUIRE(session.has_value());
  std::map<std::string, HostTensor> named;
  for (std::size_t i = 0; i < inputs.size(); ++i) named.emplace(graph.inputs()[i].name, inputs[i]);
  const auto y = (*session)->run(named);
  REQUIRE_MESSAGE(y, y.error().message);
  const Comparison compared = compare_with_truth((*y)[0], (*truth)[0].value, (*truth)[0].bound);
  std::string where;
  for (std::size_t i = 0; i < a.size() && !compared.ok; ++i) {
    if (compared.problem.starts_with(fmt::format("element {}:", i)))
      where = fmt::format(" of {} and {}", inputs[inputs.size() - 2].as_double(static_cast<std::int64_t>(i)),
                          inputs.back().as_double(static_cast<std::int64_t>(i)));
  }
  CAPTURE(op_of(map).name);
  CAPTURE(name_of(dtype_of<T>()));
  EXPECT(compared.problem + where == "");
}

TEST_CASE("maps of two operands: every pair of awkward values in every dtype") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  for (std::size_t i = 0; i < static_cast<std::size_t>(Primitive::convert); ++i) {
    const auto map = static_cast<Primitive>(i);
    if (arity(map) == 1) continue;
    for (std::size_t k = 0; k < kDTypeCount; ++k) {
      if (!contains(op_of(map).inputs[1].dtypes, static_cast<DType>(k))) continue;
      visit_dtype(static_cast<DType>(k),
                  [&](auto tag) { check_pairs<typename decltype(tag)::type>(devices, map); });
    }
  }
}

// Signs of zero and NaN, which no distance shows.
TEST_CASE("IEEE's special results keep their signs") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Primitive map : {Primitive::minimum, Primitive::maximum, Primitive::remainder,
                                Primitive::power, Primitive::divide}) {
      CAPTURE(op_of(map).name);
      std::vector<double> a, b;
      awkward_pairs(map, a, b);
      const HostTensor wide_a = tensor(a), wide_b = tensor(b);
      Graph graph;
      Builder builder(graph);
      const ValueId x = graph.add_input("a", {DType::f64, {Dim::symbol("N")}}),
                    y = graph.add_input("b", {DType::f64, {Dim::symbol("N")}});
      graph.add_output("y", builder.map(map, {builder.convert(x, dtype), builder.convert(y, dtype)}));
      auto session = Session::of(devices, graph, {});
      REQUIRE(session.has_value());
      const auto got = (*session)->run({{"a", wide_a}, {"b", wide_b}});
      REQUIRE_MESSAGE(got, got.error().message);
      const std::vector<HostTensor> inputs = {wide_a, wide_b};
      const auto truth = interpret(graph, inputs, Arithmetic::typed);
      REQUIRE(truth);
      for (std::int64_t i = 0; i < wide_a.count(); ++i) {
        const double value = (*got)[0].as_double(i), wanted = (*truth)[0].as_double(i);
        if (wanted != 0 && !std::isinf(wanted) && !std::isnan(wanted)) continue;
        CAPTURE(wide_a.as_double(i));
        CAPTURE(wide_b.as_double(i));
        EXPECT((std::isnan(wanted) ? std::isnan(value)
                                   : value == wanted && std::signbit(value) == std::signbit(wanted)));
      }
    }
  }
}

TEST_CASE("a zero divisor, and zero to a negative power, are errors") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  const auto run = [&](Primitive map, std::vector<std::int32_t> a, std::vector<std::int32_t> b) {
    auto session = Session::of(devices, graph_of(map, DType::i32), {});
    REQUIRE(session.has_value());
    const auto y = (*session)->run({{"a", tensor(a)}, {"b", tensor(b)}});
    return y ? fmt::format("{}", fmt::join((*y)[0].values<std::int32_t>(), " ")) : y.error().message;
  };
  EXPECT(run(Primitive::remainder, {7, -7, 7}, {3, 3, -3}) == "1 -1 1");
  EXPECT(run(Primitive::remainder, {7, 1}, {3, 0}).find("integer division by zero") != std::string::npos);
  EXPECT(run(Primitive::power, {0, 2, -1, 1, -3}, {0, -1, -3, -9, 3}) == "1 0 -1 1 -27");
  EXPECT(run(Primitive::power, {1, 0}, {2, -1}).find("integer division by zero") != std::string::npos);
}

}  // namespace
}  // namespace diji
