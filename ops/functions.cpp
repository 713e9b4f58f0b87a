// Functions of one number: exponentials, roots, circular and hyperbolic functions, rounding, signs.
#include "graph/builder.h"
#include "ops/adapters.h"
#include "ops/families.h"
#include "ops/records.h"

#include <array>

namespace diji {
namespace {

template <Primitive primitive>
Values function(Builder& b, const OpCall& call) {
  return {b.map(primitive, {call.inputs[0]})};
}

Values reciprocal(Builder& b, const OpCall& call) {
  return {b.divide(b.scalar(b.dtype(call.inputs[0]), 1), call.inputs[0])};
}

// A product, so that the sign of zero turns too.
Values negative(Builder& b, const OpCall& call) {
  const DType dtype = b.dtype(call.inputs[0]);
  if (is_floating(dtype)) return {b.multiply(call.inputs[0], b.scalar(dtype, -1))};
  return {b.subtract(b.scalar(dtype, 0), call.inputs[0])};
}

Values sign(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  const ValueId zero = b.scalar(b.dtype(x), 0), one = b.scalar(b.dtype(x), 1);
  const ValueId above = b.select(b.less(zero, x), one, x);
  return {b.select(b.less(x, zero), b.subtract(zero, one), above)};
}

// Arguments inside the domain of arc sine and the like, with its ends and beyond.
std::vector<Sample> domain_samples(DType dtype) {
  std::vector<Sample> samples = unary_samples(dtype);
  HostTensor ends = HostTensor::allocate(dtype, {41}).value();
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    double value = -1;
    for (T& element : ends.mutable_values<T>()) {
      element = static_cast<T>(value);
      value += 0.05;
    }
  });
  samples.push_back({"from -1 to 1", {std::move(ends)}, {}, {}});
  return samples;
}

constexpr OpDef record(std::string_view name, std::string_view doc, OnnxName onnx,
                       Values (*decompose)(Builder&, const OpCall&), std::string_view oracle) {
  onnx.adapt = drop_consumed_inputs;
  return unary_record(name, doc, kFloating, onnx, decompose, oracle);
}

constexpr OpDef on_domain(std::string_view name, std::string_view doc, OnnxName onnx,
                          Values (*decompose)(Builder&, const OpCall&), std::string_view oracle) {
  return with_samples(unary_record(name, doc, kFloating, onnx, decompose, oracle), domain_samples);
}

constexpr std::array kOps = {
    record("exp", "e to the power x, within 1 ULP.", {"Exp", {1, 6, 13}}, function<Primitive::exp>,
           "onnx-node:test_exp_"),
    record("log", "Natural logarithm, within 1 ULP; -inf at 0, NaN below.", {"Log", {1, 6, 13}},
           function<Primitive::log>, "onnx-node:test_log"),
    record("sqrt", "Square root, correctly rounded; NaN below zero.", {"Sqrt", {1, 6, 13}},
           function<Primitive::sqrt>, "onnx-node:test_sqrt"),
    record("reciprocal", "1 / x, correctly rounded.", {"Reciprocal", {1, 6, 13}}, reciprocal,
           "onnx-node:test_reciprocal"),
    record("erf", "Error function, within 1 ULP.", {"Erf", {9, 13}}, function<Primitive::erf>,
           "onnx-node:test_erf"),
    record("floor", "The largest integer not above x.", {"Floor", {1, 6, 13}}, function<Primitive::floor>,
           "onnx-node:test_floor"),
    record("ceil", "The smallest integer not below x.", {"Ceil", {1, 6, 13}}, function<Primitive::ceil>,
           "onnx-node:test_ceil"),
    record("round", "The nearest integer, halves to the even one.", {"Round", {11, 22}},
           function<Primitive::round_even>, "onnx-node:test_round"),
    record("sin", "Sine of radians.", {"Sin", {7, 22}}, function<Primitive::sin>, "onnx-node:test_sin_"),
    record("cos", "Cosine of radians.", {"Cos", {7, 22}}, function<Primitive::cos>, "onnx-node:test_cos_"),
    record("tan", "Tangent of radians.", {"Tan", {7, 22}}, function<Primitive::tan>, "onnx-node:test_tan_"),
    on_domain("asin", "Arc sine; NaN beyond [-1, 1].", {"Asin", {7, 22}}, function<Primitive::asin>,
              "onnx-node:test_asin_"),
    on_domain("acos", "Arc cosine; NaN beyond [-1, 1].", {"Acos", {7, 22}}, function<Primitive::acos>,
              "onnx-node:test_acos_"),
    record("atan", "Arc tangent.", {"Atan", {7, 22}}, function<Primitive::atan>, "onnx-node:test_atan_"),
    record("sinh", "Hyperbolic sine.", {"Sinh", {9, 22}}, function<Primitive::sinh>, "onnx-node:test_sinh_"),
    record("cosh", "Hyperbolic cosine.", {"Cosh", {9, 22}}, function<Primitive::cosh>,
           "onnx-node:test_cosh_"),
    record("tanh", "Hyperbolic tangent, within 1 ULP.", {"Tanh", {1, 6, 13}}, function<Primitive::tanh>,
           "onnx-node:test_tanh"),
    record("asinh", "Inverse hyperbolic sine.", {"Asinh", {9, 22}}, function<Primitive::asinh>,
           "onnx-node:test_asinh_"),
    record("acosh", "Inverse hyperbolic cosine; NaN below 1.", {"Acosh", {9, 22}}, function<Primitive::acosh>,
           "onnx-node:test_acosh_"),
    on_domain("atanh", "Inverse hyperbolic tangent; NaN beyond [-1, 1].", {"Atanh", {9, 22}},
              function<Primitive::atanh>, "onnx-node:test_atanh_"),
    unary_record("abs", "|x|; the smallest integer wraps to itself.", kNumeric,
                 {"Abs", {1, 6, 13}, drop_consumed_inputs}, function<Primitive::absolute>,
                 "onnx-node:test_abs"),
    unary_record("neg", "-x; integers wrap.", kNumeric, {"Neg", {1, 6, 13}, drop_consumed_inputs}, negative,
                 "onnx-node:test_neg"),
    unary_record("sign", "-1, 0 or 1; NaN stays.", kNumeric, {"Sign", {9, 13}}, sign, "onnx-node:test_sign"),
};

}  // namespace

std::span<const OpDef> function_ops() { return kOps; }

}  // namespace diji
