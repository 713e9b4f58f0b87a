// The error rules of the scalar maps.
#include "graph/map_error.h"

#include "base/check.h"
#include "graph/map_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diji {
namespace {

// What the host's functions may be off by (4 ULP is generous for glibc), relative to their result.
constexpr double kHostError = 0x1p-50;

struct Interval {
  double low, high;
  bool has(double x) const { return low <= x && x <= high; }
};

// Everywhere the kernel's operand may lie; one step wider than the subtraction's own rounding.
Interval around(Uncertain x) {
  if (x.error == 0) return {x.value, x.value};
  const double low = std::nextafter(x.value - x.error, -kInfinity),
               high = std::nextafter(x.value + x.error, kInfinity);
  return {low, high};
}

bool is_certain(Uncertain x) { return x.error == 0; }
bool is_known(Uncertain x) { return std::isfinite(x.error); }

double host(Primitive map, double a, double b = 0) {
  return apply_map<double>(map, a, b).value_or(std::nan(""));
}

// |f(x) - f(y)| for two results of the host's functions, each of which may be off by kHostError.
double distance(double a, double b) {
  if (a == b) return 0;
  return std::fabs(a - b) + kHostError * (std::fabs(a) + std::fabs(b));
}

// sup |f(k) - f(x)| over the interval of a function that is monotone on it: at one of its ends. NaN where an
// end lies outside the domain.
double monotone(Primitive map, Uncertain x, double result) {
  const Interval range = around(x);
  const double low = distance(host(map, range.low), result), high = distance(host(map, range.high), result);
  return std::isnan(low) || std::isnan(high) ? kInfinity : std::max(low, high);
}

// Of an even function that grows with |x|: an end, or 0 where the interval holds it.
double even_monotone(Primitive map, Uncertain x, double result) {
  const double ends = monotone(map, x, result);
  return around(x).has(0) ? std::max(ends, distance(host(map, 0), result)) : ends;
}

// |sin a - sin b| <= |a - b| · max |cos| between them, and cos is within |a - b| of cos a.
double periodic(double derivative, double error) {
  return std::min(2.0, error * std::min(1.0, std::fabs(derivative) + error + kHostError));
}

// |tan a - tan b| = |sin(a - b)| / |cos a · cos b|.
double tangent(Uncertain x) {
  const double cosine = std::fabs(std::cos(x.value)) - kHostError;
  return cosine > x.error ? x.error / (cosine * (cosine - x.error)) : kInfinity;
}

double square_root(Uncertain x, double result) {
  if (!(x.value - x.error >= 0)) return kInfinity;             // the kernel's operand may lie below zero
  const double apart = result + std::sqrt(x.value - x.error);  // |√x − √y| = |x − y| / (√x + √y)
  return apart > 0 ? x.error / apart : std::sqrt(x.error);
}

// What an uncertain operand of a function of one operand causes.
double propagated(Primitive map, Uncertain x, double result) {
  if (is_certain(x)) return 0;
  if (!is_known(x)) return kInfinity;
  switch (map) {
    case Primitive::absolute: return x.error;
    case Primitive::sqrt: return square_root(x, result);
    case Primitive::exp: return times(result, std::expm1(x.error) * (1 + kHostError));
    case Primitive::sin: return periodic(std::cos(x.value), x.error);
    case Primitive::cos: return periodic(std::sin(x.value), x.error);
    case Primitive::tan: return tangent(x);
    case Primitive::tanh:
    case Primitive::atan:
    case Primitive::asinh: return std::min(x.error, monotone(map, x, result));  // slopes of at most 1
    case Primitive::cosh: return even_monotone(map, x, result);
    default: return monotone(map, x, result);
  }
}

double quotient(Uncertain a, Uncertain b, double result) {
  if (is_certain(a) && is_certain(b)) return 0;
  const double smallest = std::fabs(b.value) - b.error;
  return smallest > 0 ? (a.error + times(result, b.error)) / smallest : kInfinity;
}

// a - b·q, where q = truncate(a / b). With one q for all operands in reach the map is linear; with several,
// both results lie within one divisor of each other, or two where the signs of a differ.
double remainder(Uncertain a, Uncertain b, double result) {
  if (is_certain(a) && is_certain(b)) return 0;
  const Interval x = around(a), y = around(b);
  if (!is_known(a) || !is_known(b) || y.has(0) || !std::isfinite(a.value)) return kInfinity;
  double low = kInfinity, high = -kInfinity;
  for (const double numerator : {x.low, x.high}) {
    for (const double divisor : {y.low, y.high}) {
      const double q = numerator / divisor;
      low = std::min(low, q - kHostError * std::fabs(q));
      high = std::max(high, q + kHostError * std::fabs(q));
    }
  }
  const double q = std::trunc(low);
  if (q == std::trunc(high)) return a.error + times(q, b.error);
  const double divisor = std::max(std::fabs(y.low), std::fabs(y.high));
  return x.has(0) ? divisor + std::fabs(result) : std::max(divisor, std::fabs(result));
}

// Over a box of positive bases the power is monotone in each operand, so the ends are corners. A negative
// base is fine with an exact integer for exponent: monotone on either side of 0.
double power(Uncertain a, Uncertain b) {
  if (is_certain(a) && is_certain(b)) return 0;
  if (!is_known(a) || !is_known(b)) return kInfinity;
  const Interval x = around(a), y = around(b);
  const double truth = std::pow(a.value, b.value);
  const bool exact_integer = is_certain(b) && b.value == std::trunc(b.value);
  if (x.low < 0 && !exact_integer) return kInfinity;
  double worst = x.low < 0 && x.high > 0 ? distance(host(Primitive::power, 0, b.value), truth) : 0;
  if (worst > 0 && b.value < 0) return kInfinity;  // a pole
  for (const double base : {x.low, x.high}) {
    for (const double exponent : {y.low, y.high}) {
      const double far = distance(std::pow(base, exponent), truth);
      worst = std::isnan(far) ? kInfinity : std::max(worst, far);
    }
  }
  return worst;
}

// Integers with a negative base in reach: no value is larger than the largest base to the largest exponent.
double integer_power(Uncertain a, Uncertain b) {
  if (is_certain(a) && is_certain(b)) return 0;
  if (!is_known(a) || !is_known(b) || b.value - b.error < 0) return kInfinity;
  if (a.value - a.error >= 0 || is_certain(b)) return power(a, b);
  const double base = std::max(1.0, std::fabs(a.value) + a.error);
  return std::fabs(std::pow(a.value, b.value)) + std::pow(base, b.value + b.error) * (1 + kHostError);
}

// Shifts by every count in reach. Unwrapped: the difference is what counts.
double shifted(Primitive map, Uncertain a, Uncertain b, DType dtype) {
  if (is_certain(a) && is_certain(b)) return 0;
  if (!is_known(a) || !is_known(b)) return kInfinity;
  const auto width = static_cast<double>(bytes_of(dtype) * 8);
  const bool left = map == Primitive::shift_left;
  const auto value = [&](double count) {
    const bool out = count < 0 || count >= width;
    if (left) return out ? 0 : std::ldexp(a.value, static_cast<int>(count));
    return out ? (a.value < 0 ? -1.0 : 0.0) : std::floor(std::ldexp(a.value, -static_cast<int>(count)));
  };
  const double truth = value(b.value);
  const double first = std::clamp(std::ceil(b.value - b.error), -1.0, width),
               last = std::clamp(std::floor(b.value + b.error), -1.0, width);
  double worst = 0;
  for (double count = first; count <= last; ++count) {
    const bool out = count < 0 || count >= width;
    double of_operand = 0;  // what the error of a becomes
    if (!is_certain(a) && left && !out) of_operand = std::ldexp(a.error, static_cast<int>(count));
    if (!is_certain(a) && !left)
      of_operand = out ? 1 : std::ceil(std::ldexp(a.error, -static_cast<int>(count)));
    worst = std::max(worst, std::fabs(value(count) - truth) + of_operand);
  }
  return worst;
}

// Truth values: whether any operands in reach give another result. Integers that are not negative: no bit
// above the operands' highest is ever set.
double bits(Primitive map, Uncertain a, Uncertain b, double result, DType dtype) {
  if (is_certain(a) && is_certain(b)) return 0;
  if (dtype == DType::boolean) {
    for (const double x : {a.value, is_certain(a) ? a.value : 1 - a.value}) {
      for (const double y : {b.value, is_certain(b) ? b.value : 1 - b.value}) {
        const auto other = apply_map<std::uint8_t>(map, x != 0 ? 1 : 0, y != 0 ? 1 : 0);
        if ((*other != 0) != (result != 0)) return 1;
      }
    }
    return 0;
  }
  if (!(a.value - a.error >= 0 && b.value - b.error >= 0)) return kInfinity;
  const double a_most = a.value + a.error, b_most = b.value + b.error;
  if (map == Primitive::bit_and) return std::min(a_most, b_most);
  const double most = std::max(a_most, b_most);
  return most < 1 ? 0 : std::ldexp(1.0, std::ilogb(most) + 1) - 1;
}

double comparison(Uncertain a, Uncertain b) {
  const double reach = a.error + b.error;
  // However far off, a finite number is no infinity.
  if (std::isinf(a.value) != std::isinf(b.value) && std::isfinite(reach)) return 0;
  // Integers of 64 bits are only nearly what these doubles say.
  const double slack = kHostError * (std::fabs(a.value) + std::fabs(b.value));
  return reach > 0 && !(std::fabs(a.value - b.value) > reach + slack) ? 1 : 0;
}

double selected(std::span<const Uncertain> x) {
  if (is_certain(x[0])) return x[0].value != 0 ? x[1].error : x[2].error;
  const double apart = x[1].value == x[2].value ? 0 : std::fabs(x[1].value - x[2].value);
  return apart + std::max(x[1].error, x[2].error);
}

// Of NaN for certain whatever the kernel's operand is within its reach: it lies outside the domain.
bool outside_domain(Primitive map, Uncertain x) {
  if (!is_known(x)) return false;
  const double low = x.value - x.error, high = x.value + x.error;
  switch (map) {
    case Primitive::sqrt:
    case Primitive::log: return high < 0;
    case Primitive::log1p: return high < -1;
    case Primitive::acosh: return high < 1;
    case Primitive::asin:
    case Primitive::acos:
    case Primitive::atanh: return high < -1 || low > 1;
    default: return false;
  }
}

// Error of a NaN: none when it is there for certain, else nothing is known.
double nan_error(Primitive map, std::span<const Uncertain> x) {
  if (std::ranges::all_of(x, is_certain)) return 0;
  if (x.size() == 1) return outside_domain(map, x[0]) ? 0 : kInfinity;
  const auto certain_nan = [](Uncertain operand) { return std::isnan(operand.value) && is_certain(operand); };
  if (map == Primitive::select) return is_certain(x[0]) ? selected(x) : kInfinity;
  if (map != Primitive::power) return certain_nan(x[0]) || certain_nan(x[1]) ? 0 : kInfinity;
  // NaN^0 and 1^NaN are 1.
  if (certain_nan(x[0])) return is_known(x[1]) && !around(x[1]).has(0) ? 0 : kInfinity;
  if (certain_nan(x[1])) return is_known(x[0]) && !around(x[0]).has(1) ? 0 : kInfinity;
  return kInfinity;
}

// An infinity that is there for certain, and something added to it that is finite for certain.
bool stays_infinite(Primitive map, std::span<const Uncertain> x) {
  if (map != Primitive::add && map != Primitive::subtract) return false;
  const auto infinite = [](Uncertain operand) { return std::isinf(operand.value) && is_certain(operand); };
  const auto finite = [](Uncertain operand) { return std::isfinite(operand.value + operand.error); };
  return (infinite(x[0]) && finite(x[1])) || (infinite(x[1]) && finite(x[0]));
}

double propagated(Primitive map, std::span<const Uncertain> x, double result, DType dtype) {
  if (x.size() == 1) return propagated(map, x[0], result);
  const Uncertain a = x[0], b = x[1];
  switch (map) {
    case Primitive::add:
    case Primitive::subtract: return a.error + b.error;
    case Primitive::multiply:
      return times(a.value, b.error) + times(b.value, a.error) + times(a.error, b.error);
    case Primitive::divide: {
      // Of integers before it is truncated: 16 / -18 is 0, and 16 / -17 is close to -1.
      const double error = quotient(a, b, is_floating(dtype) ? result : a.value / b.value);
      return error + (error > 0 && !is_floating(dtype) ? 1 : 0);  // truncation may fall to either side
    }
    case Primitive::remainder: return remainder(a, b, result);
    case Primitive::power: return is_floating(dtype) ? power(a, b) : integer_power(a, b);
    case Primitive::minimum:
    case Primitive::maximum: return std::max(a.error, b.error);
    case Primitive::bit_and:
    case Primitive::bit_or:
    case Primitive::bit_xor: return bits(map, a, b, result, dtype);
    case Primitive::shift_left:
    case Primitive::shift_right: return shifted(map, a, b, dtype);
    case Primitive::equal:
    case Primitive::less: return comparison(a, b);
    case Primitive::select: return selected(x);
    default: check_failed("primitive", "a scalar map");
  }
}

std::vector<double> convert_bound(const ReferenceCall& call, const std::vector<double>& input,
                                  const std::vector<double>& result, double u) {
  std::vector<double> out(input);
  const auto values = as_doubles(*call.inputs[0]);
  const bool wraps = !is_floating(call.inputs[0]->dtype) && is_integer(call.dtype);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (is_floating(call.dtype)) {
      out[i] = std::isnan(result[i]) ? out[i] : with_rounding(out[i], result[i], u);
    } else if (out[i] > 0 && wraps) {
      // Within the range both sides are the same number; beyond it they may wrap to either end.
      const double low = is_signed_integer(call.dtype) ? -largest(call.dtype) - 1 : 0;
      if (values[i] - out[i] < low || values[i] + out[i] > largest(call.dtype)) out[i] = kInfinity;
    } else if (out[i] > 0) {
      out[i] += 1;  // truncation may fall to either side
    }
  }
  return out;
}

}  // namespace

double rounding_factor(Primitive map, DType dtype) {
  if (!is_floating(dtype)) return 0;
  switch (map) {
    case Primitive::add:
    case Primitive::subtract:
    case Primitive::multiply:
    case Primitive::divide:
    case Primitive::sqrt:
    case Primitive::convert: return 1;
    case Primitive::power: break;
    default:
      if (map <= Primitive::round_even) return 0;
  }
  return dtype == DType::f64 ? 4 : 2;
}

double map_error(Primitive map, std::span<const Uncertain> operands, double result, DType dtype, double u) {
  if (std::isnan(result)) return nan_error(map, operands);
  if (std::isinf(result) && stays_infinite(map, operands)) return 0;
  return with_rounding(propagated(map, operands, result, dtype), result, rounding_factor(map, dtype) * u);
}

// A correctly rounded map whose exact result is a number of the dtype has nothing to round: what whole
// numbers make of each other, however they are stored, and what a conversion only stores anew. Of `whole`, an
// integer of 64 bits, the double that stands for it may be another.
bool is_exact(Primitive map, std::span<const Uncertain> x, double result, DType dtype, bool whole) {
  if (rounding_factor(map, dtype) != 1 || !std::ranges::all_of(x, is_certain)) return false;
  const double size = std::fabs(result), a = x[0].value, b = x.back().value;
  if (map == Primitive::convert && (!std::isfinite(a) || (whole && size > 0x1p53))) return !std::isfinite(a);
  const bool is_of_dtype = visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return static_cast<double>(static_cast<T>(result)) == result;
  });
  if (!is_of_dtype) return false;
  if (map == Primitive::convert) return true;
  if (size > 0x1p400 || (size < 0x1p-400 && size != 0)) return false;  // residuals may underflow
  switch (map) {
    case Primitive::add: return result - a == b && result - b == a;
    case Primitive::subtract: return result + b == a && a - result == b;
    case Primitive::multiply: return result != 0 ? std::fma(a, b, -result) == 0 : a == 0 || b == 0;
    case Primitive::divide: return result != 0 ? std::fma(result, b, -a) == 0 : a == 0;
    case Primitive::sqrt: return std::fma(result, result, -a) == 0;
    default: return false;
  }
}

std::vector<double> map_bound(const ReferenceCall& call, std::span<const std::vector<double>* const> bounds,
                              const std::vector<double>& result, double u) {
  const bool converts = call.primitive == Primitive::convert;
  std::vector<std::vector<double>> values;
  for (const Array* input : call.inputs) values.push_back(as_doubles(*input));
  std::vector<double> out(result.size());
  if (converts) out = convert_bound(call, *bounds[0], result, u);
  const double step = rounding_factor(call.primitive, call.dtype) == 0 ? 0 : subnormal_step(call.dtype);
  const bool whole = !is_floating(call.inputs[0]->dtype);
  std::vector<Uncertain> operands(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t k = 0; k < operands.size(); ++k) operands[k] = {values[k][i], (*bounds[k])[i]};
    if (!converts) out[i] = map_error(call.primitive, operands, result[i], call.dtype, u);
    out[i] = is_exact(call.primitive, operands, result[i], call.dtype, whole) ? 0 : out[i] + step;
  }
  return out;
}

}  // namespace diji
