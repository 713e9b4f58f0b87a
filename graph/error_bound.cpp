// The error rules, one a primitive.
#include "graph/error_bound.h"

#include "base/check.h"
#include "graph/error_rules.h"
#include "graph/map_error.h"

#include <algorithm>

namespace diji {
namespace {

// What sums run in: reductions in f64, dot products and convolutions in the dtype but at least in f32.
DType sum_dtype(Primitive primitive, DType dtype) {
  if (primitive == Primitive::reduce) return DType::f64;
  return is_narrow(dtype) ? DType::f32 : dtype;
}

// The rounding of finished sums to f32 and, for 16-bit floats, from there to their dtype.
void round_sums(std::vector<double>& errors, const std::vector<double>& results, DType summed, DType dtype) {
  double u = summed == dtype ? 0 : unit_roundoff(dtype);
  if (summed == DType::f64 && is_narrow(dtype)) u += unit_roundoff(DType::f32);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (std::isfinite(results[i])) errors[i] += u * (std::fabs(results[i]) + errors[i]);
  }
}

bool reduces_by(const ReferenceCall& call, Reduction reduction) {
  return call.primitive == Primitive::reduce &&
         call.attributes.get_or("kind", std::string{}) == name_of(reduction);
}

std::vector<double> reduce_bound(const ReferenceCall& call, const std::vector<double>& input,
                                 std::size_t count, double u) {
  const bool sum = reduces_by(call, Reduction::sum);
  const auto targets = reduce_targets(call);
  const auto values = as_doubles(*call.inputs[0]);
  const double depth = count == 0 ? 0 : static_cast<double>(values.size() / count);
  std::vector<double> errors(count, 0.0), magnitudes(count, 0.0);
  std::vector<bool> not_a_number(count, false);  // for certain
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto target = static_cast<std::size_t>(targets[i]);
    errors[target] = sum ? errors[target] + input[i] : std::max(errors[target], input[i]);
    magnitudes[target] += std::fabs(values[i]) + input[i];
    if (std::isnan(values[i]) && input[i] == 0) not_a_number[target] = true;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (sum) errors[i] = sum_error(errors[i], magnitudes[i], depth, u, call.dtype);
    if (not_a_number[i]) errors[i] = 0;
  }
  return errors;
}

std::vector<double> dot_bound(const ReferenceCall& call, std::span<const std::vector<double>* const> bounds,
                              double u) {
  const auto a = as_doubles(*call.inputs[0]), b = as_doubles(*call.inputs[1]);
  const DotWalk walk = dot_walk(call);
  std::vector<double> out(walk.lhs_start.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    double propagated = 0, magnitude = 0;
    for (std::size_t k = 0; k < static_cast<std::size_t>(walk.depth); ++k) {
      const auto left = static_cast<std::size_t>(walk.lhs_start[i] + walk.lhs_steps[k]);
      const auto right = static_cast<std::size_t>(walk.rhs_start[i] + walk.rhs_steps[k]);
      const double ea = (*bounds[0])[left], eb = (*bounds[1])[right];
      const double term = times(a[left], eb) + times(b[right], ea) + times(ea, eb);
      propagated += term;
      magnitude += std::fabs(a[left] * b[right]) + term;
    }
    out[i] = sum_error(propagated, magnitude, static_cast<double>(walk.depth), u, call.dtype);
  }
  return out;
}

std::vector<double> convolution_bound(const ReferenceCall& call,
                                      std::span<const std::vector<double>* const> bounds, std::size_t count,
                                      double u) {
  const auto x = as_doubles(*call.inputs[0]), w = as_doubles(*call.inputs[1]);
  std::vector<double> propagated(count, 0.0), magnitude(count, 0.0);
  for_each_product(call, [&](std::int64_t element, std::int64_t source, std::int64_t weight) {
    if (source < 0) return;  // exact
    const auto s = static_cast<std::size_t>(source), k = static_cast<std::size_t>(weight);
    const double ex = (*bounds[0])[s], ew = (*bounds[1])[k];
    const double term = times(x[s], ew) + times(w[k], ex) + times(ex, ew);
    propagated[static_cast<std::size_t>(element)] += term;
    magnitude[static_cast<std::size_t>(element)] += std::fabs(x[s] * w[k]) + term;
  });
  const auto terms = static_cast<double>(w.size()) /
                     static_cast<double>(std::max<std::int64_t>(call.inputs[1]->shape[0], 1));
  for (std::size_t i = 0; i < count; ++i)
    propagated[i] = sum_error(propagated[i], magnitude[i], terms, u, call.dtype);
  return propagated;
}

Result<std::vector<double>> moved(const ReferenceCall& call, const std::vector<double>& input) {
  const auto sources = TRY(source_indices(call));
  std::vector<double> out(sources.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = input[static_cast<std::size_t>(sources[i])];
  return out;
}

// The bounds are laid out as the values are: concatenated as an array of doubles.
Result<std::vector<double>> concatenated(const ReferenceCall& call,
                                         std::span<const std::vector<double>* const> bounds) {
  std::vector<Array> arrays;
  std::vector<const Array*> inputs;
  arrays.reserve(bounds.size());
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    arrays.push_back({.dtype = DType::f64, .shape = call.inputs[i]->shape, .elements = *bounds[i]});
    inputs.push_back(&arrays.back());
  }
  const Array result =
      TRY(reference({call.primitive, inputs, call.attributes, DType::f64, call.shape, call.bindings}));
  return result.doubles();
}

}  // namespace

// A float whose kernel value may have overflowed to infinity while the truth did not bounds nothing that is
// computed from it; of an integer that may have wrapped its own bound says so. Not a number is no bound
// either.
std::vector<double> usable(const Array& array, const std::vector<double>& bound) {
  const auto values = as_doubles(array);
  const double limit = largest(array.dtype);
  const bool floating = is_floating(array.dtype);
  std::vector<double> out(bound);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool may_leave = floating && std::isfinite(values[i]) && std::fabs(values[i]) + out[i] > limit;
    if (may_leave || std::isnan(out[i])) out[i] = kInfinity;
  }
  return out;
}

double unit_roundoff(DType dtype) {
  return std::ldexp(1.0, -info(dtype).mantissa_bits - 1) + std::ldexp(1.0, -53);
}

Result<std::vector<double>> error_bound(const ReferenceCall& call,
                                        std::span<const std::vector<double>* const> given_bounds,
                                        const Array& result) {
  const bool floating = is_floating(call.dtype);
  const bool exact_inputs = std::ranges::all_of(given_bounds, [](const std::vector<double>* bound) {
    return std::ranges::all_of(*bound, [](double b) { return b == 0; });
  });
  // Integers and booleans made of exact values are exact, wrapping included.
  if (!floating && exact_inputs) return std::vector<double>(static_cast<std::size_t>(result.count()), 0.0);
  const bool moves = is_view(call.primitive) || call.primitive == Primitive::concatenate ||
                     call.primitive == Primitive::select || call.primitive == Primitive::gather ||
                     call.primitive == Primitive::scatter;
  std::vector<std::vector<double>> bounds;
  std::vector<const std::vector<double>*> input_bounds;
  bounds.reserve(given_bounds.size());
  for (std::size_t i = 0; i < given_bounds.size(); ++i) {
    bounds.push_back(moves ? *given_bounds[i] : usable(*call.inputs[i], *given_bounds[i]));
    input_bounds.push_back(&bounds.back());
  }
  const DType summed = sum_dtype(call.primitive, call.dtype);
  const double u = floating ? unit_roundoff(call.dtype) : 0, sum_u = floating ? unit_roundoff(summed) : 0;
  const auto values = as_doubles(result);
  std::vector<double> bound = TRY([&]() -> Result<std::vector<double>> {
    switch (call.primitive) {
      case Primitive::dims: return std::vector<double>(values.size(), 0.0);
      case Primitive::reshape:
      case Primitive::transpose:
      case Primitive::broadcast:
      case Primitive::slice: return moved(call, *input_bounds[0]);
      case Primitive::concatenate: return concatenated(call, input_bounds);
      case Primitive::iota:
      case Primitive::gather:
      case Primitive::scatter:
      case Primitive::arg_reduce:
      case Primitive::prefix_scan:
      case Primitive::sort_indices:
      case Primitive::compact: return bound_by_index(call, input_bounds, result);
      case Primitive::reduce:
        if (reduces_by(call, Reduction::product)) return product_bound(call, *input_bounds[0], values.size());
        return reduce_bound(call, *input_bounds[0], values.size(), sum_u);
      case Primitive::dot_general: return dot_bound(call, input_bounds, sum_u);
      case Primitive::convolution: return convolution_bound(call, input_bounds, values.size(), sum_u);
      case Primitive::fusion: check_failed("fusion", "the interpreter runs its body");
      default: return map_bound(call, input_bounds, values, u);
    }
  }());
  const bool sums = call.primitive == Primitive::dot_general || call.primitive == Primitive::convolution ||
                    reduces_by(call, Reduction::sum) || reduces_by(call, Reduction::product);
  if (sums) round_sums(bound, values, summed, call.dtype);
  if (floating && !moves && !is_map(call.primitive)) {
    for (double& b : bound) b += subnormal_step(call.dtype);
  }
  // Infinities on both sides of a rule (∞ − ∞, ∞ / ∞) leave nothing known.
  for (double& b : bound) b = std::isnan(b) ? kInfinity : b;
  // Integers that come from floats and may wrap on either side.
  if (is_integer(call.dtype) && !moves && call.primitive != Primitive::convert) {
    const double low = is_signed_integer(call.dtype) ? -largest(call.dtype) - 1 : 0;
    for (std::size_t i = 0; i < bound.size(); ++i) {
      if (bound[i] > 0 && (values[i] - bound[i] < low || values[i] + bound[i] > largest(call.dtype)))
        bound[i] = kInfinity;
    }
  }
  return bound;
}

}  // namespace diji
