// Floats of 8 and 4 bits: no dtypes, but codes in bytes, which tables turn into floats and back.
#include "ops/families.h"
#include "ops/formula.h"
#include "ops/samples.h"

#include <array>
#include <cmath>
#include <limits>

namespace diji {
namespace {

// Codes count up with the magnitude: 2^(exponent - bias) · (1 + fraction), with exponent 0 for subnormals.
struct Minifloat {
  std::string_view name;
  int bits, fraction_bits, bias;
  int largest;        ///< code of the largest finite magnitude
  int not_a_number;   ///< code; of e2m1, which has none, what ONNX's tests have for it
  int infinity = -1;  ///< code, where there is one
  bool has_minus_zero = true, has_sign = true;
};

// The types of ONNX (its documents on float8, float4 and e8m0), as the OCP specifications define them.
constexpr std::array kFormats = {
    Minifloat{
        .name = "e4m3fn", .bits = 8, .fraction_bits = 3, .bias = 7, .largest = 0x7e, .not_a_number = 0x7f},
    Minifloat{.name = "e4m3fnuz",
              .bits = 8,
              .fraction_bits = 3,
              .bias = 8,
              .largest = 0x7f,
              .not_a_number = 0x80,
              .has_minus_zero = false},
    Minifloat{.name = "e5m2",
              .bits = 8,
              .fraction_bits = 2,
              .bias = 15,
              .largest = 0x7b,
              .not_a_number = 0x7e,
              .infinity = 0x7c},
    Minifloat{.name = "e5m2fnuz",
              .bits = 8,
              .fraction_bits = 2,
              .bias = 16,
              .largest = 0x7f,
              .not_a_number = 0x80,
              .has_minus_zero = false},
    Minifloat{.name = "e2m1", .bits = 4, .fraction_bits = 1, .bias = 1, .largest = 7, .not_a_number = 8},
    Minifloat{.name = "e8m0",
              .bits = 8,
              .fraction_bits = 0,
              .bias = 127,
              .largest = 0xfe,
              .not_a_number = 0xff,
              .has_sign = false},
};

const Minifloat* format_of(Builder& b, const OpCall& call) {
  const std::string name = word(call, "format", "");
  for (const Minifloat& format : kFormats) {
    if (format.name == name) return &format;
  }
  b.fail(ErrorCode::mismatch, "format '{}' is not known", name);
  return nullptr;
}

// Of a code without its sign; also of those behind the largest, as if exponents went on.
double magnitude(const Minifloat& format, int code) {
  const int one = 1 << format.fraction_bits, exponent = code / one, fraction = code % one;
  const bool subnormal = exponent == 0 && format.has_sign;
  return std::ldexp(subnormal ? fraction : one + fraction,
                    (subnormal ? 1 : exponent) - format.bias - format.fraction_bits);
}

float value(const Minifloat& format, int code) {
  const int sign = format.has_sign ? 1 << (format.bits - 1) : 0,
            unsigned_code = code & (sign != 0 ? sign - 1 : 0xff);
  const bool negative = (code & sign) != 0;
  double result = magnitude(format, unsigned_code);
  if (unsigned_code > format.largest) result = std::nan("");
  if (unsigned_code == format.infinity) result = std::numeric_limits<double>::infinity();
  if (negative && unsigned_code == 0 && !format.has_minus_zero) return std::nanf("");
  return static_cast<float>(negative ? -result : result);
}

Values decode(Builder& b, const OpCall& call) {
  const Minifloat* format = format_of(b, call);
  if (format == nullptr) return {ValueId::none};
  std::vector<float> values;
  for (int code = 0; code < 256; ++code) values.push_back(value(*format, code % (1 << format->bits)));
  const ValueId table = b.constant(HostTensor::of<float>({256}, std::span<const float>(values)));
  return {b.gather(table, {call.inputs[0]})};
}

// The code is `code` or larger exactly where the magnitude is above this.
double threshold(const Minifloat& format, int code, const std::string& rounding) {
  const double below = magnitude(format, code - 1), own = magnitude(format, code);
  const auto at_least = [](double x) { return std::nextafter(x, 0.0); };
  if (format.has_sign) {  // to nearest, ties to the even code
    const double middle = (below + own) / 2;
    return code % 2 == 0 ? at_least(middle) : middle;
  }
  if (rounding == "up") return below;
  return at_least(rounding == "down" ? own : below * 1.5);
}

// How many of the sorted thresholds lie below x, by bisection.
ValueId count_below(Builder& b, std::vector<double> thresholds, ValueId x) {
  std::size_t width = 1;
  while (width <= thresholds.size()) width *= 2;
  thresholds.resize(width, std::numeric_limits<double>::infinity());
  const ValueId table =
      b.constant(HostTensor::of<double>({std::ssize(thresholds)}, std::span<const double>(thresholds)));
  ValueId count = b.broadcast(size_scalar(b, 0), b.shape(x));
  for (std::size_t step = width / 2; step > 0; step /= 2) {
    const ValueId probe =
        b.gather(table, {b.add(count, size_scalar(b, static_cast<std::int64_t>(step) - 1))});
    const ValueId above = b.convert(b.less(probe, x), DType::i64);
    count = b.add(count, b.multiply(above, size_scalar(b, static_cast<std::int64_t>(step))));
  }
  return count;
}

Values encode(Builder& b, const OpCall& call) {
  const Minifloat* format = format_of(b, call);
  const std::string rounding = word(call, "round_mode", "up");
  if (format == nullptr) return {ValueId::none};
  if (rounding != "up" && rounding != "down" && rounding != "nearest")
    return {b.fail(ErrorCode::mismatch, "round_mode '{}' is none of up, down, nearest", rounding)};
  const ValueId x = b.convert(call.inputs[0], DType::f64), size = b.absolute(x);
  const ValueId zero = b.scalar(DType::f64, 0);
  const auto code_of = [&](int code) { return size_scalar(b, code); };
  std::vector<double> thresholds;
  for (int code = 1; code <= format->largest; ++code)
    thresholds.push_back(threshold(*format, code, rounding));
  ValueId code = count_below(b, std::move(thresholds), size);
  const ValueId infinite = b.equal(size, b.scalar(DType::f64, std::numeric_limits<double>::infinity()));
  const int beyond = format->infinity < 0 ? format->not_a_number : format->infinity;
  const bool saturates = call.attributes.get_or<std::int64_t>("saturate", 1) != 0;
  // Beyond the largest there is nothing to saturate to in e8m0, whose infinities are no numbers.
  ValueId over = format->has_sign ? b.scalar(DType::boolean, 0) : infinite;
  if (!saturates)
    over = b.less(b.scalar(DType::f64, threshold(*format, format->largest + 1, rounding)), size);
  code = b.select(over, code_of(beyond), code);
  if (format->has_sign) {
    // The sign of a zero is that of its reciprocal.
    const ValueId sign = b.select(b.equal(x, zero), b.divide(b.scalar(DType::f64, 1), x), x);
    ValueId negative = b.less(sign, zero);
    const int bit = 1 << (format->bits - 1);
    if (!format->has_minus_zero) {
      negative = b.logical_and(negative, b.less(code_of(0), code));
      negative = b.logical_and(negative, b.less(code, code_of(format->largest + 1)));
    }
    code = b.add(code, b.multiply(b.convert(negative, DType::i64), code_of(bit)));
  }
  const ValueId is_number = b.equal(x, x);
  return {b.convert(b.select(is_number, code, code_of(format->not_a_number)), DType::u8)};
}

std::vector<Sample> decode_samples(DType) {
  HostTensor codes = HostTensor::allocate(DType::u8, {2, 128}).value();
  for (std::size_t i = 0; i < 256; ++i)
    codes.mutable_values<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
  std::vector<Sample> samples;
  for (const Minifloat& format : kFormats)
    samples.push_back({std::string(format.name), {codes}, {{"format", std::string(format.name)}}, {}});
  return samples;
}

std::vector<Sample> encode_samples(DType t) {
  std::vector<Sample> samples;
  for (const Minifloat& format : kFormats) {
    for (const std::int64_t saturate : {0, 1}) {
      const Attributes attributes = {{"format", std::string(format.name)}, {"saturate", saturate}};
      for (const Fill fill : {Fill::normal, Fill::wide, Fill::special}) {
        samples.push_back({fmt::format("{}, saturate {}", format.name, saturate),
                           {sample_tensor(t, {3, 67}, fill)},
                           attributes,
                           {}});
      }
    }
  }
  for (const std::string rounding : {"down", "nearest"}) {
    samples.push_back({"e8m0, " + rounding,
                       {sample_tensor(t, {67}, Fill::wide)},
                       {{"format", std::string("e8m0")}, {"round_mode", rounding}},
                       {}});
  }
  return samples;
}

constexpr AttributeDef kFormat = {"format", AttributeKind::text, "",
                                  "e4m3fn, e4m3fnuz, e5m2, e5m2fnuz, e2m1 or e8m0"};

constexpr std::array kOps = {
    OpDef{.name = "minifloat_decode",
          .doc = "The numbers that codes of an 8-bit or 4-bit float stand for.",
          .inputs = {{"codes", "[...]", kU8, "code"}},
          .outputs = {{"y", "[...]", kF32, "number"}},
          .attributes = {kFormat},
          .decompose = decode,
          .samples = decode_samples,
          .oracle = "onnx-node:test_cast_FLOAT8E4M3FN_to_FLOAT"},
    OpDef{
        .name = "minifloat_encode",
        .doc =
            "Codes of the nearest numbers of an 8-bit or 4-bit float, ties to even; beyond the largest that "
            "one, or with saturate 0 infinity or NaN.",
        .inputs = {{"x", "[...]", kFloating}},
        .outputs = {{"codes", "[...]", kU8, "code"}},
        .attributes = {kFormat,
                       {"round_mode", AttributeKind::text, "up", "of e8m0 only: up, down or nearest"},
                       {"saturate", AttributeKind::integer, "1", ""}},
        .decompose = encode,
        .samples = encode_samples,
        .oracle = "onnx-node:test_cast_FLOAT_to_FLOAT8E4M3FN"},
};

}  // namespace

std::span<const OpDef> minifloat_ops() { return kOps; }

}  // namespace diji
