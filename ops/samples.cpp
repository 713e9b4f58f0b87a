// Deterministic sample values.
#include "ops/samples.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diji {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): any seed gives a good stream.
struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
};

double float_value(Fill fill, Random& random, std::int64_t i, DType dtype) {
  // Largest finite and smallest subnormal of the dtype, for the special values.
  const double largest = dtype == DType::f16   ? 65504
                         : dtype == DType::f64 ? 0x1.fffffffffffffp1023
                                               : 0x1.fep127;
  const double tiny = dtype == DType::f16 ? 0x1p-24 : dtype == DType::f64 ? 0x1p-1074 : 0x1p-133;
  const double specials[] = {std::nan(""), HUGE_VAL, -HUGE_VAL, 0.0,  -0.0, tiny, -tiny,
                             largest,      -largest, 1.0,       -1.0, 0.5,  88.5, -103.0};
  switch (fill) {
    case Fill::normal: return 4 * (random.unit() - 0.5);
    case Fill::positive: return 0.25 + random.unit();
    case Fill::wide: {  // exact, and in this order: every machine's samples have the same bits
      const double fraction = random.unit() - 0.5;
      return std::ldexp(fraction, static_cast<int>(random.next() % 15) - 7);
    }
    case Fill::special: return specials[static_cast<std::size_t>(i) % std::size(specials)];
  }
  return 0;
}

template <typename T>
T int_value(Fill fill, Random& random, std::int64_t i) {
  using Limits = std::numeric_limits<T>;
  const T specials[] = {Limits::min(), Limits::max(), T{0}, T{1}, static_cast<T>(-1), T{7}};
  const auto small = static_cast<std::int64_t>(random.next() % 21);
  switch (fill) {
    case Fill::normal: return static_cast<T>(Limits::is_signed ? small - 10 : small);
    case Fill::positive: return static_cast<T>(small % 9 + 1);
    case Fill::wide: return static_cast<T>(random.next());
    case Fill::special: return specials[static_cast<std::size_t>(i) % std::size(specials)];
  }
  return 0;
}

HostTensor minus_one(DType dtype) {
  HostTensor tensor = HostTensor::allocate(dtype, {1}).value();
  std::ranges::fill(tensor.mutable_bytes(), std::byte{0xff});
  return tensor;
}

}  // namespace

HostTensor sample_tensor(DType dtype, StaticShape shape, Fill fill, std::uint64_t seed) {
  HostTensor tensor = HostTensor::allocate(dtype, std::move(shape)).value();
  Random random{seed * 1000003 + static_cast<std::uint64_t>(tensor.count())};
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::int64_t i = 0;
    for (T& value : tensor.mutable_values<T>()) {
      if constexpr (std::is_same_v<T, bool>) {
        value = random.next() % 2 == 0;
      } else if constexpr (std::is_integral_v<T>) {
        value = int_value<T>(fill, random, i++);
      } else {
        value = static_cast<T>(float_value(fill, random, i++, dtype));
      }
    }
  });
  return tensor;
}

HostTensor ints(std::initializer_list<std::int64_t> values) {
  return HostTensor::of<std::int64_t>({std::ssize(values)}, values);
}

std::vector<Sample> unary_samples(DType dtype) {
  return {
      {"scalar", {sample_tensor(dtype, {}, Fill::normal)}, {}, {}},
      {"empty", {sample_tensor(dtype, {3, 0}, Fill::normal)}, {}, {}},
      {"one vector", {sample_tensor(dtype, {16}, Fill::normal)}, {}, {}},
      {"odd sizes", {sample_tensor(dtype, {3, 5, 7}, Fill::wide)}, {}, {}},
      {"positive", {sample_tensor(dtype, {1000}, Fill::positive)}, {}, {}},
      {"special values", {sample_tensor(dtype, {37}, Fill::special)}, {}, {}},
  };
}

std::vector<Sample> binary_samples(DType dtype) {
  const auto sample = [&](std::string label, StaticShape a, StaticShape b, Fill fill) {
    return Sample{std::move(label),
                  {sample_tensor(dtype, std::move(a), fill, 1), sample_tensor(dtype, std::move(b), fill, 2)},
                  {},
                  {}};
  };
  return {
      sample("scalars", {}, {}, Fill::normal),
      sample("empty", {0, 4}, {1, 4}, Fill::normal),
      sample("same shape", {3, 5, 7}, {3, 5, 7}, Fill::wide),
      sample("a scalar stretches", {33}, {}, Fill::normal),
      sample("a row stretches", {4, 17}, {17}, Fill::normal),
      sample("a column stretches", {4, 17}, {4, 1}, Fill::normal),
      sample("both stretch", {2, 1, 19}, {3, 1}, Fill::normal),
      sample("special values", {14, 1}, {1, 14}, Fill::special),
  };
}

std::vector<Sample> divide_samples(DType dtype) {
  if (is_floating(dtype)) return binary_samples(dtype);
  const auto sample = [&](std::string label, StaticShape a, StaticShape b, Fill fill) {
    return Sample{
        std::move(label),
        {sample_tensor(dtype, std::move(a), fill, 1), sample_tensor(dtype, std::move(b), Fill::positive, 2)},
        {},
        {}};
  };
  return {
      sample("same shape", {3, 5, 7}, {3, 5, 7}, Fill::wide),
      sample("a row stretches", {4, 17}, {17}, Fill::normal),
      sample("ends of the range", {12}, {12}, Fill::special),
      // Two's complement: minimum / -1 wraps to the minimum.
      {"minimum by -1", {sample_tensor(dtype, {1}, Fill::special), minus_one(dtype)}, {}, {}},
  };
}

}  // namespace diji
