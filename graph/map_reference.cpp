// The meaning of the scalar maps over double, int64, uint64 and bool.
#include "graph/map_reference.h"

#include "base/check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace diji {
namespace {

std::unexpected<Error> zero_divisor() { return fail(ErrorCode::data, "integer division by zero"); }

[[noreturn]] void not_taken() {
  check_failed("primitive", "a scalar map on an element type that it does not take");
}

// NaN wins, and zeros are ordered by their signs.
double float_minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return std::min(a, b);
}
double float_maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return std::max(a, b);
}

double float_map(Primitive primitive, double a, double b) {
  switch (primitive) {
    case Primitive::add: return a + b;
    case Primitive::subtract: return a - b;
    case Primitive::multiply: return a * b;
    case Primitive::divide: return a / b;
    case Primitive::remainder: return std::fmod(a, b);
    case Primitive::power: return std::pow(a, b);
    case Primitive::minimum: return float_minimum(a, b);
    case Primitive::maximum: return float_maximum(a, b);
    case Primitive::absolute: return std::fabs(a);
    case Primitive::floor: return std::floor(a);
    case Primitive::ceil: return std::ceil(a);
    case Primitive::round_even: return std::nearbyint(a);  // the host stays in round-to-nearest-even
    case Primitive::sqrt: return std::sqrt(a);
    case Primitive::exp: return std::exp(a);
    case Primitive::expm1: return std::expm1(a);
    case Primitive::log: return std::log(a);
    case Primitive::log1p: return std::log1p(a);
    case Primitive::erf: return std::erf(a);
    case Primitive::sin: return std::sin(a);
    case Primitive::cos: return std::cos(a);
    case Primitive::tan: return std::tan(a);
    case Primitive::asin: return std::asin(a);
    case Primitive::acos: return std::acos(a);
    case Primitive::atan: return std::atan(a);
    case Primitive::sinh: return std::sinh(a);
    case Primitive::cosh: return std::cosh(a);
    case Primitive::tanh: return std::tanh(a);
    case Primitive::asinh: return std::asinh(a);
    case Primitive::acosh: return std::acosh(a);
    case Primitive::atanh: return std::atanh(a);
    default: not_taken();
  }
}

// a to the power b by repeated squaring modulo 2^64; below zero the truncated 1 / a^-b.
template <typename T>
Result<T> integer_power(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    if (b < 0) {
      if (a == 0) return zero_divisor();
      if (a == 1) return T{1};
      return a == -1 ? static_cast<T>(b % 2 == 0 ? 1 : -1) : T{0};
    }
  }
  std::uint64_t result = 1, square = static_cast<std::uint64_t>(a);
  for (auto exponent = static_cast<std::uint64_t>(b); exponent != 0; exponent >>= 1U) {
    if ((exponent & 1U) != 0) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}

template <typename T>
Result<T> quotient_or_remainder(Primitive primitive, T a, T b) {
  if (b == 0) return zero_divisor();
  const bool divides = primitive == Primitive::divide;
  if constexpr (std::is_signed_v<T>) {
    // minimum / -1 wraps; C++ leaves it undefined.
    if (b == -1) return divides ? static_cast<T>(0 - static_cast<std::uint64_t>(a)) : T{0};
  }
  return static_cast<T>(divides ? a / b : a % b);
}

// Counts beyond 63 shift everything out, whatever the width: elements are kept sign- or zero-extended.
template <typename T>
T shift(Primitive primitive, T a, T b) {
  const bool out = b < 0 || static_cast<std::uint64_t>(b) > 63;
  if (primitive == Primitive::shift_left)
    return out ? T{0} : static_cast<T>(static_cast<std::uint64_t>(a) << static_cast<unsigned>(b));
  if (out) return a < 0 ? static_cast<T>(-1) : T{0};
  return static_cast<T>(a >> static_cast<unsigned>(b));
}

template <typename T>
Result<T> integer_map(Primitive primitive, T a, T b) {
  using U = std::uint64_t;  // wraps
  switch (primitive) {
    case Primitive::add: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case Primitive::subtract: return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
    case Primitive::multiply: return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case Primitive::divide:
    case Primitive::remainder: return quotient_or_remainder(primitive, a, b);
    case Primitive::power: return integer_power(a, b);
    case Primitive::minimum: return std::min(a, b);
    case Primitive::maximum: return std::max(a, b);
    case Primitive::bit_and: return static_cast<T>(a & b);
    case Primitive::bit_or: return static_cast<T>(a | b);
    case Primitive::bit_xor: return static_cast<T>(a ^ b);
    case Primitive::shift_left:
    case Primitive::shift_right: return shift(primitive, a, b);
    case Primitive::absolute: return a < 0 ? static_cast<T>(0 - static_cast<U>(a)) : a;
    default: not_taken();
  }
}

// Truncates toward zero and saturates at the ends of To; NaN gives 0.
template <typename To>
To saturate(double value) {
  if (std::isnan(value)) return 0;
  const double truncated = std::trunc(value);
  // The first double above the largest To is a power of two, so this comparison is exact.
  const double above = std::ldexp(1.0, std::numeric_limits<To>::digits);
  if (truncated >= above) return std::numeric_limits<To>::max();
  if (truncated < (std::is_signed_v<To> ? -above : 0.0)) return std::numeric_limits<To>::min();
  return static_cast<To>(truncated);
}

// A double between which and the integer no rounding boundary of a narrower float lies (round to odd), so
// that the final rounding is the only one.
template <typename Integer>
double sticky_double(Integer value) {
  const auto near = static_cast<double>(value);
  const double above = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  if (near < above && static_cast<Integer>(near) == value) return near;
  const bool too_large = near >= above || static_cast<Integer>(near) > value;
  const double toward_zero = too_large == (value > 0) ? std::nextafter(near, 0.0) : near;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(toward_zero) | 1U);
}

template <typename To, typename From>
Wide<To> convert_element(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != 0 ? 1 : 0;
  } else if constexpr (std::is_integral_v<To>) {
    if constexpr (std::is_same_v<From, double>) {
      return static_cast<Wide<To>>(saturate<To>(value));
    } else {
      return static_cast<Wide<To>>(static_cast<To>(value));  // wraps
    }
  } else if constexpr (std::is_same_v<From, double>) {
    return value;
  } else if constexpr (std::is_same_v<From, std::uint8_t>) {
    return value;
  } else if constexpr (std::is_same_v<To, double>) {
    return static_cast<double>(value);
  } else {
    return sticky_double(value);
  }
}

Array convert(const ReferenceCall& call) {
  Array result = empty_array(call.dtype, call.shape);
  visit_dtype(call.dtype, [&](auto tag) {
    using To = typename decltype(tag)::type;
    std::visit(
        [&](const auto& from) {
          auto& to = std::get<std::vector<Wide<To>>>(result.elements);
          for (std::size_t i = 0; i < from.size(); ++i) to[i] = convert_element<To>(from[i]);
        },
        call.inputs[0]->elements);
  });
  return result;
}

Array compare(const ReferenceCall& call) {
  Array result = empty_array(call.dtype, call.shape);
  auto& to = std::get<std::vector<std::uint8_t>>(result.elements);
  const bool less = call.primitive == Primitive::less;
  std::visit(
      [&](const auto& a) {
        const auto& b = std::get<std::decay_t<decltype(a)>>(call.inputs[1]->elements);
        for (std::size_t i = 0; i < a.size(); ++i) to[i] = (less ? a[i] < b[i] : a[i] == b[i]) ? 1 : 0;
      },
      call.inputs[0]->elements);
  return result;
}

Array select(const ReferenceCall& call) {
  Array result = empty_array(call.dtype, call.shape);
  const auto& condition = std::get<std::vector<std::uint8_t>>(call.inputs[0]->elements);
  std::visit(
      [&](const auto& a) {
        const auto& b = std::get<std::decay_t<decltype(a)>>(call.inputs[2]->elements);
        auto& to = std::get<std::decay_t<decltype(a)>>(result.elements);
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = condition[i] != 0 ? a[i] : b[i];
      },
      call.inputs[1]->elements);
  return result;
}

}  // namespace

template <typename T>
Result<T> apply_map(Primitive primitive, T a, T b) {
  if constexpr (std::is_same_v<T, double>) {
    return float_map(primitive, a, b);
  } else {
    return integer_map(primitive, a, b);
  }
}

template Result<double> apply_map(Primitive, double, double);
template Result<std::int64_t> apply_map(Primitive, std::int64_t, std::int64_t);
template Result<std::uint64_t> apply_map(Primitive, std::uint64_t, std::uint64_t);
template Result<std::uint8_t> apply_map(Primitive, std::uint8_t, std::uint8_t);

Result<Array> map_reference(const ReferenceCall& call) {
  switch (call.primitive) {
    case Primitive::convert: return convert(call);
    case Primitive::equal:
    case Primitive::less: return compare(call);
    case Primitive::select: return select(call);
    default: break;
  }
  Array result = empty_array(call.dtype, call.shape);
  return std::visit(
      [&](const auto& a) -> Result<Array> {
        using T = typename std::decay_t<decltype(a)>::value_type;
        const auto& b = std::get<std::vector<T>>(call.inputs.back()->elements);
        auto& to = std::get<std::vector<T>>(result.elements);
        for (std::size_t i = 0; i < a.size(); ++i) to[i] = TRY(apply_map<T>(call.primitive, a[i], b[i]));
        return std::move(result);
      },
      call.inputs[0]->elements);
}

}  // namespace diji
