// The error rules, one a primitive.
#include "graph/error_bound.h"

#include "base/check.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diji {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double gamma(double depth, double u) { return depth * u < 1 ? depth * u / (1 - depth * u) : kInfinity; }

// The smallest subnormal step: what a result near zero may lose besides its relative error.
double subnormal_step(DType dtype) {
  switch (dtype) {
    case DType::f64: return std::numeric_limits<double>::denorm_min();
    case DType::f16: return std::ldexp(1.0, -24);
    case DType::bf16: return std::ldexp(1.0, -133);
    default: return std::ldexp(1.0, -149);
  }
}

std::vector<double> as_doubles(const Array& array) {
  return std::visit([](const auto& elements) { return std::vector<double>(elements.begin(), elements.end()); },
                    array.elements);
}

// Sums of 16-bit floats run in f32 and are rounded once at the end.
double sum_roundoff(DType dtype) {
  return unit_roundoff(dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype);
}

// The rounding of finished sums to their dtype, where they ran in a wider one.
void round_sums(std::vector<double>& errors, const std::vector<double>& results, DType dtype) {
  if (dtype != DType::f16 && dtype != DType::bf16) return;
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i] += unit_roundoff(dtype) * (std::fabs(results[i]) + errors[i]);
}

struct Operand {
  double value, error;
};

// Error that the operands' errors cause in the exact result, and the rounding of the operation itself.
double map_error(Primitive primitive, Operand a, Operand b, double result, double u) {
  const double rounding = u * std::fabs(result);
  switch (primitive) {
    case Primitive::add:
    case Primitive::subtract: return a.error + b.error + rounding + u * (a.error + b.error);
    case Primitive::multiply: {
      const double propagated = std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error;
      return propagated + u * (std::fabs(result) + propagated);
    }
    case Primitive::divide: {
      const double smallest = std::fabs(b.value) - b.error;
      if (smallest <= 0) return a.error == 0 && b.error == 0 ? rounding : kInfinity;
      const double propagated = (a.error + std::fabs(result) * b.error) / smallest;
      return propagated + u * (std::fabs(result) + propagated);
    }
    case Primitive::maximum: return std::max(a.error, b.error);
    case Primitive::exp: {
      const double propagated = a.error == 0 ? 0 : result * std::expm1(a.error);
      return propagated + 2 * u * (result + propagated);
    }
    case Primitive::tanh: return a.error + 2 * u * (std::fabs(result) + a.error);  // |tanh'| ≤ 1
    case Primitive::sqrt: {
      const double lowest = std::sqrt(std::max(a.value - a.error, 0.0));
      const double propagated = a.error == 0 ? 0 : a.error / (result + lowest);
      return propagated + u * (result + propagated);
    }
    case Primitive::equal: return a.error + b.error > 0 && std::fabs(a.value - b.value) <= a.error + b.error ? 1 : 0;
    default: return 0;
  }
}

std::vector<double> map_bound(const ReferenceCall& call, std::span<const std::vector<double>* const> bounds,
                              const std::vector<double>& result, double u) {
  const auto a = as_doubles(*call.inputs[0]), b = as_doubles(*call.inputs.back());
  std::vector<double> out(result.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = map_error(call.primitive, {a[i], (*bounds[0])[i]}, {b[i], (*bounds.back())[i]}, result[i], u);
  }
  return out;
}

std::vector<double> convert_bound(const ReferenceCall& call, const std::vector<double>& input, const std::vector<double>& result,
                                  double u) {
  std::vector<double> out(input);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (is_floating(call.dtype)) {
      out[i] += u * (std::fabs(result[i]) + out[i]);
    } else if (out[i] > 0) {
      out[i] += 1;  // truncation may fall to either side
    }
  }
  return out;
}

std::vector<double> reduce_bound(const ReferenceCall& call, const std::vector<double>& input, std::size_t count, double u) {
  const bool sum = call.attributes.get_or("kind", std::string{}) == "sum";
  const auto targets = reduce_targets(call);
  const auto values = as_doubles(*call.inputs[0]);
  const double depth = count == 0 ? 0 : static_cast<double>(values.size() / count);
  std::vector<double> errors(count, 0.0), magnitudes(count, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto target = static_cast<std::size_t>(targets[i]);
    errors[target] = sum ? errors[target] + input[i] : std::max(errors[target], input[i]);
    magnitudes[target] += std::fabs(values[i]) + input[i];
  }
  for (std::size_t i = 0; sum && i < count; ++i) errors[i] += gamma(depth, u) * magnitudes[i];
  return errors;
}

std::vector<double> dot_bound(const ReferenceCall& call, std::span<const std::vector<double>* const> bounds, double u) {
  const auto a = as_doubles(*call.inputs[0]), b = as_doubles(*call.inputs[1]);
  const DotWalk walk = dot_walk(call);
  const double factor = gamma(static_cast<double>(walk.depth), u);
  std::vector<double> out(walk.lhs_start.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    double propagated = 0, magnitude = 0;
    for (std::size_t k = 0; k < static_cast<std::size_t>(walk.depth); ++k) {
      const auto left = static_cast<std::size_t>(walk.lhs_start[i] + walk.lhs_steps[k]);
      const auto right = static_cast<std::size_t>(walk.rhs_start[i] + walk.rhs_steps[k]);
      const double ea = (*bounds[0])[left], eb = (*bounds[1])[right];
      const double term = std::fabs(a[left]) * eb + std::fabs(b[right]) * ea + ea * eb;
      propagated += term;
      magnitude += std::fabs(a[left] * b[right]) + term;
    }
    out[i] = propagated + factor * magnitude;
  }
  return out;
}

std::vector<double> convolution_bound(const ReferenceCall& call, std::span<const std::vector<double>* const> bounds,
                                      std::size_t count, double u) {
  const auto &x = call.inputs[0]->doubles(), &w = call.inputs[1]->doubles();
  std::vector<double> propagated(count, 0.0), magnitude(count, 0.0);
  for_each_product(call, [&](std::int64_t element, std::int64_t source, std::int64_t weight) {
    const auto s = static_cast<std::size_t>(source), k = static_cast<std::size_t>(weight);
    const double ex = (*bounds[0])[s], ew = (*bounds[1])[k];
    const double term = std::fabs(x[s]) * ew + std::fabs(w[k]) * ex + ex * ew;
    propagated[static_cast<std::size_t>(element)] += term;
    magnitude[static_cast<std::size_t>(element)] += std::fabs(x[s] * w[k]) + term;
  });
  const auto terms = static_cast<double>(w.size()) / static_cast<double>(std::max<std::int64_t>(call.inputs[1]->shape[0], 1));
  for (std::size_t i = 0; i < count; ++i) propagated[i] += gamma(terms, u) * magnitude[i];
  return propagated;
}

Result<std::vector<double>> moved(const ReferenceCall& call, const std::vector<double>& input) {
  const auto sources = TRY(source_indices(call));
  std::vector<double> out(sources.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = input[static_cast<std::size_t>(sources[i])];
  return out;
}

// The bounds are laid out as the values are: concatenated as an array of doubles.
Result<std::vector<double>> concatenated(const ReferenceCall& call, std::span<const std::vector<double>* const> bounds) {
  std::vector<Array> arrays;
  std::vector<const Array*> inputs;
  arrays.reserve(bounds.size());
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    arrays.push_back({.dtype = DType::f64, .shape = call.inputs[i]->shape, .elements = *bounds[i]});
    inputs.push_back(&arrays.back());
  }
  const Array result = TRY(reference({call.primitive, inputs, call.attributes, DType::f64, call.shape, call.bindings}));
  return result.doubles();
}

}  // namespace

double unit_roundoff(DType dtype) {
  return std::ldexp(1.0, -info(dtype).mantissa_bits - 1) + std::ldexp(1.0, -53);
}

Result<std::vector<double>> error_bound(const ReferenceCall& call, std::span<const std::vector<double>* const> input_bounds,
                                        const Array& result) {
  const bool floating = is_floating(call.dtype);
  const double u = floating ? unit_roundoff(call.dtype) : 0, sum_u = floating ? sum_roundoff(call.dtype) : 0;
  const auto values = as_doubles(result);
  std::vector<double> bound = TRY([&]() -> Result<std::vector<double>> {
    switch (call.primitive) {
      case Primitive::dims: return std::vector<double>(values.size(), 0.0);
      case Primitive::convert: return convert_bound(call, *input_bounds[0], values, u);
      case Primitive::reshape:
      case Primitive::transpose:
      case Primitive::broadcast:
      case Primitive::slice: return moved(call, *input_bounds[0]);
      case Primitive::concatenate: return concatenated(call, input_bounds);
      case Primitive::reduce: return reduce_bound(call, *input_bounds[0], values.size(), sum_u);
      case Primitive::dot_general: return dot_bound(call, input_bounds, sum_u);
      case Primitive::convolution: return convolution_bound(call, input_bounds, values.size(), sum_u);
      case Primitive::fusion: check_failed("fusion", "the interpreter runs its body");
      default: return map_bound(call, input_bounds, values, u);
    }
  }());
  const bool sums = call.primitive == Primitive::dot_general || call.primitive == Primitive::convolution ||
                    (call.primitive == Primitive::reduce && call.attributes.get_or("kind", std::string{}) == "sum");
  if (sums) round_sums(bound, values, call.dtype);
  const bool moves = is_view(call.primitive) || call.primitive == Primitive::concatenate;
  if (floating && !moves && call.primitive != Primitive::maximum) {
    for (double& b : bound) b += subnormal_step(call.dtype);
  }
  return bound;
}

}  // namespace diji
