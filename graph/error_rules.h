// What the error rules are made of: roundings, sums, and the bounds of primitives that work by coordinates.
#pragma once

#include "graph/error_bound.h"

#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace diji {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline double gamma(double depth, double u) {
  return depth * u < 1 ? depth * u / (1 - depth * u) : kInfinity;
}

// The smallest subnormal step: what a result near zero may lose besides its relative error.
inline double subnormal_step(DType dtype) {
  switch (dtype) {
    case DType::f64: return std::numeric_limits<double>::denorm_min();
    case DType::f16: return std::ldexp(1.0, -24);
    case DType::bf16: return std::ldexp(1.0, -133);
    default: return std::ldexp(1.0, -149);
  }
}

inline std::vector<double> as_doubles(const Array& array) {
  return std::visit(
      [](const auto& elements) { return std::vector<double>(elements.begin(), elements.end()); },
      array.elements);
}

inline bool is_narrow(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// The largest finite number of a float; of an integer, as far as a double tells.
inline double largest(DType dtype) {
  switch (dtype) {
    case DType::f16: return 65504;
    case DType::bf16: return 0x1.fep127;
    default: break;
  }
  return visit_dtype(dtype, [](auto tag) -> double {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(std::numeric_limits<T>::max());
    return 0;
  });
}

// An error of 0 stays 0 whatever it is multiplied with, an unbounded one stays unbounded: where nothing is
// known of an operand, it may be infinite, and 0 times it NaN.
inline double times(double value, double error) {
  if (error == 0 || std::isinf(error)) return error;
  return std::fabs(value) * error;
}

// Rounding of the operation itself on top of what its operands' errors cause. An exact infinity is exact.
inline double with_rounding(double propagated, double result, double u) {
  const double size = std::isinf(result) && propagated == 0 ? 0 : std::fabs(result) + propagated;
  return propagated + times(u, size);
}

// Of a sum of `depth` terms: `errors` and `magnitude` are the sums over the terms. Partial sums that may
// overflow promise nothing.
inline double sum_error(double errors, double magnitude, double depth, double u, DType dtype) {
  if (!is_floating(dtype)) return errors;
  const bool runs_in_f32 = dtype == DType::f16 || dtype == DType::bf16;
  if (!(magnitude <= largest(runs_in_f32 ? DType::f32 : dtype))) return kInfinity;
  return errors + times(gamma(depth, u), magnitude) +
         depth * subnormal_step(runs_in_f32 ? DType::f32 : dtype);
}

/// `bound`, infinite where a float may have overflowed to infinity while the truth did not, or is no number.
std::vector<double> usable(const Array& array, const std::vector<double>& bound);
/// Of iota, gather, scatter, arg_reduce, prefix_scan, sort_indices and compact.
std::vector<double> bound_by_index(const ReferenceCall& call,
                                   std::span<const std::vector<double>* const> bounds, const Array& result);
/// Of a product of factors, in f64, before its rounding to the dtype.
std::vector<double> product_bound(const ReferenceCall& call, const std::vector<double>& input,
                                  std::size_t count);

}  // namespace diji
