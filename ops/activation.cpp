// Activations: functions of one number with parameters, as networks use them.
#include "graph/builder.h"
#include "ops/adapters.h"
#include "ops/families.h"
#include "ops/records.h"

#include <array>

namespace diji {
namespace {

// The attribute as a scalar of x's dtype.
struct Parameters {
  Builder& b;
  const OpCall& call;
  ValueId operator()(double value) const { return b.scalar(b.dtype(call.inputs[0]), value); }
  ValueId operator()(std::string_view name, double otherwise) const {
    return (*this)(call.attributes.get_or(name, otherwise));
  }
};

ValueId sigmoid_of(Builder& b, ValueId x) {
  const ValueId one = b.scalar(b.dtype(x), 1), minus = b.scalar(b.dtype(x), -1);
  return b.divide(one, b.add(one, b.exp(b.multiply(minus, x))));
}

// log(1 + e^x) without overflow: max(x, 0) + log1p(e^-|x|).
ValueId softplus_of(Builder& b, ValueId x) {
  const ValueId zero = b.scalar(b.dtype(x), 0), minus = b.scalar(b.dtype(x), -1);
  const ValueId small = b.exp(b.multiply(minus, b.absolute(x)));
  return b.add(b.maximum(x, zero), b.map(Primitive::log1p, {small}));
}

Values relu(Builder& b, const OpCall& call) { return {b.maximum(call.inputs[0], Parameters{b, call}(0.0))}; }

ValueId leaky(Builder& b, ValueId x, ValueId slope) {
  return b.select(b.less(x, b.scalar(b.dtype(x), 0)), b.multiply(slope, x), x);
}

Values leaky_relu(Builder& b, const OpCall& call) {
  return {leaky(b, call.inputs[0], Parameters{b, call}("alpha", 0.01))};
}

Values prelu(Builder& b, const OpCall& call) {
  return {leaky(b, call.inputs[0], b.broadcast(call.inputs[1], b.shape(call.inputs[0])))};
}

Values elu(Builder& b, const OpCall& call) {
  const Parameters p{b, call};
  const ValueId x = call.inputs[0];
  return {b.select(b.less(x, p(0.0)), b.multiply(p("alpha", 1), b.map(Primitive::expm1, {x})), x)};
}

Values selu(Builder& b, const OpCall& call) {
  const Parameters p{b, call};
  const ValueId x = call.inputs[0];
  const ValueId low = b.multiply(p("alpha", 1.67326319217681884765625), b.map(Primitive::expm1, {x}));
  return {b.multiply(p("gamma", 1.05070102214813232421875), b.select(b.less(p(0.0), x), x, low))};
}

// max(0, x) + min(0, alpha · (e^(x / alpha) - 1))
Values celu(Builder& b, const OpCall& call) {
  const Parameters p{b, call};
  const ValueId x = call.inputs[0], alpha = p("alpha", 1), zero = p(0.0);
  const ValueId low = b.multiply(alpha, b.map(Primitive::expm1, {b.divide(x, alpha)}));
  return {b.add(b.maximum(zero, x), b.minimum(zero, low))};
}

Values gelu(Builder& b, const OpCall& call) {
  const Parameters p{b, call};
  const ValueId x = call.inputs[0];
  const auto approximate = call.attributes.get_or("approximate", std::string("none"));
  ValueId bent;
  if (approximate == "none") {
    bent = b.map(Primitive::erf, {b.multiply(x, p(0.70710678118654752440))});  // x / √2
  } else if (approximate == "tanh") {
    const ValueId cube = b.multiply(x, b.multiply(x, x));
    const ValueId inner = b.add(x, b.multiply(p(0.044715), cube));
    bent = b.tanh(b.multiply(p(0.79788456080286535588), inner));  // √(2/π)
  } else {
    return {b.fail(ErrorCode::mismatch, "approximate '{}' is neither none nor tanh", approximate)};
  }
  return {b.multiply(b.multiply(p(0.5), x), b.add(p(1.0), bent))};
}

ValueId hard_sigmoid_of(Builder& b, ValueId x, ValueId alpha, ValueId beta) {
  const DType dtype = b.dtype(x);
  const ValueId line = b.add(b.multiply(alpha, x), beta);
  return b.maximum(b.scalar(dtype, 0), b.minimum(b.scalar(dtype, 1), line));
}

Values hard_sigmoid(Builder& b, const OpCall& call) {
  const Parameters p{b, call};
  return {hard_sigmoid_of(b, call.inputs[0], p("alpha", 0.2), p("beta", 0.5))};
}

Values hard_swish(Builder& b, const OpCall& call) {
  const Parameters p{b, call};
  const ValueId x = call.inputs[0];
  return {b.multiply(x, hard_sigmoid_of(b, x, p(1.0 / 6), p(0.5)))};
}

Values sigmoid(Builder& b, const OpCall& call) { return {sigmoid_of(b, call.inputs[0])}; }
Values softplus(Builder& b, const OpCall& call) { return {softplus_of(b, call.inputs[0])}; }

Values softsign(Builder& b, const OpCall& call) {
  return {b.divide(call.inputs[0], b.add(Parameters{b, call}(1.0), b.absolute(call.inputs[0])))};
}

ValueId swish_of(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  return b.multiply(x, sigmoid_of(b, b.multiply(Parameters{b, call}("alpha", 1), x)));
}

Values swish(Builder& b, const OpCall& call) { return {swish_of(b, call)}; }
Values swiglu(Builder& b, const OpCall& call) { return {b.multiply(swish_of(b, call), call.inputs[1])}; }

Values mish(Builder& b, const OpCall& call) {
  return {b.multiply(call.inputs[0], b.tanh(softplus_of(b, call.inputs[0])))};
}

Values thresholded_relu(Builder& b, const OpCall& call) {
  const Parameters p{b, call};
  return {b.select(b.less(p("alpha", 1), call.inputs[0]), call.inputs[0], p(0.0))};
}

Values shrink(Builder& b, const OpCall& call) {
  const Parameters p{b, call};
  const ValueId x = call.inputs[0], bias = p("bias", 0);
  const double edge = call.attributes.get_or("lambd", 0.5);
  const ValueId high = b.select(b.less(p(edge), x), b.subtract(x, bias), p(0.0));
  return {b.select(b.less(x, p(-edge)), b.add(x, bias), high)};
}

// Before version 7 a slope for each channel stands for axis 1.
Result<void> slope_of_channels(Builder& b, ForeignNode& node) {
  node.attributes.erase("consumed_inputs");
  if (node.version >= 7 || node.inputs.size() < 2 || b.rank(node.inputs[1]) != 1) return {};
  const std::int64_t rank = b.rank(node.inputs[0]);
  if (rank < 2 || b.shape(node.inputs[1])[0].is(1)) return {};
  Shape channels(static_cast<std::size_t>(rank - 1), Dim(1));
  channels[0] = b.shape(node.inputs[1])[0];
  node.inputs[1] = b.reshape(node.inputs[1], std::move(channels));
  return b.status();
}

// Selu-1 has its constants with five digits only.
Result<void> selu_defaults(Builder&, ForeignNode& node) {
  node.attributes.erase("consumed_inputs");
  if (node.version >= 6) return {};
  if (!node.attributes.has("alpha")) node.attributes.set("alpha", 1.6732);
  if (!node.attributes.has("gamma")) node.attributes.set("gamma", 1.0507);
  return {};
}

constexpr AttributeDef alpha(std::string_view otherwise) {
  return {"alpha", AttributeKind::real, otherwise, ""};
}

std::vector<Sample> prelu_samples(DType dtype) {
  return {{"a slope a channel",
           {sample_tensor(dtype, {2, 3, 17}, Fill::normal), sample_tensor(dtype, {3, 1}, Fill::positive)},
           {},
           {}},
          {"one slope",
           {sample_tensor(dtype, {37}, Fill::special), sample_tensor(dtype, {1}, Fill::positive)},
           {},
           {}}};
}

std::vector<Sample> swiglu_samples(DType dtype) {
  return {{"gated",
           {sample_tensor(dtype, {3, 19}, Fill::normal), sample_tensor(dtype, {3, 19}, Fill::wide, 2)},
           {},
           {}}};
}

constexpr OpDef record(std::string_view name, std::string_view doc, OnnxName onnx,
                       Values (*decompose)(Builder&, const OpCall&), std::string_view oracle,
                       List<AttributeDef, 18> attributes = {}) {
  if (onnx.adapt == nullptr) onnx.adapt = drop_consumed_inputs;
  return with_attributes(unary_record(name, doc, kFloating, onnx, decompose, oracle), attributes);
}

constexpr std::array kOps = {
    unary_record("relu", "max(x, 0); NaN stays.", kNumeric, {"Relu", {1, 6, 13, 14}, drop_consumed_inputs},
                 relu, "onnx-node:test_relu"),
    record("leaky_relu", "x, or alpha · x below zero.", {"LeakyRelu", {1, 6, 16}}, leaky_relu,
           "onnx-node:test_leakyrelu", {alpha("0.01")}),
    OpDef{.name = "prelu",
          .doc = "x, or slope · x below zero; the slope broadcasts to x.",
          .inputs = {{"x", "[...]", kNumeric}, {"slope", "broadcasts to x", kNumeric}},
          .outputs = {{"y", "[...]", kNumeric}},
          .decompose = prelu,
          .samples = prelu_samples,
          .onnx = {"PRelu", {1, 6, 7, 9, 16}, slope_of_channels},
          .oracle = "onnx-node:test_prelu"},
    record("elu", "x, or alpha · (e^x - 1) below zero.", {"Elu", {1, 6, 22}}, elu, "onnx-node:test_elu",
           {alpha("1")}),
    record("selu", "gamma · x, or gamma · alpha · (e^x - 1) where x is not above zero.",
           {"Selu", {1, 6, 22}, selu_defaults}, selu, "onnx-node:test_selu",
           {alpha("1.67326"), {"gamma", AttributeKind::real, "1.0507", ""}}),
    record("celu", "max(0, x) + min(0, alpha · (e^(x/alpha) - 1)).", {"Celu", {12, 28}}, celu,
           "onnx-node:test_celu", {alpha("1")}),
    record("gelu", "x · P(X <= x) for a standard normal X; approximate=tanh: its usual approximation.",
           {"Gelu", {20}}, gelu, "onnx-node:test_gelu",
           {{"approximate", AttributeKind::text, "none", "or tanh"}}),
    record("hard_sigmoid", "max(0, min(1, alpha · x + beta)).", {"HardSigmoid", {1, 6, 22}}, hard_sigmoid,
           "onnx-node:test_hardsigmoid", {alpha("0.2"), {"beta", AttributeKind::real, "0.5", ""}}),
    record("hard_swish", "x · max(0, min(1, x / 6 + 0.5)).", {"HardSwish", {14, 22}}, hard_swish,
           "onnx-node:test_hardswish"),
    record("sigmoid", "1 / (1 + e^-x).", {"Sigmoid", {1, 6, 13}}, sigmoid, "onnx-node:test_sigmoid"),
    record("softplus", "log(1 + e^x), also where e^x overflows.", {"Softplus", {1, 22}}, softplus,
           "onnx-node:test_softplus"),
    record("softsign", "x / (1 + |x|).", {"Softsign", {1, 22}}, softsign, "onnx-node:test_softsign"),
    record("swish", "x · sigmoid(alpha · x).", {"Swish", {24}}, swish, "onnx-node:test_swish", {alpha("1")}),
    record("mish", "x · tanh(softplus(x)).", {"Mish", {18, 22}}, mish, "onnx-node:test_mish"),
    record("thresholded_relu", "x above alpha, else 0.", {"ThresholdedRelu", {10, 22}}, thresholded_relu,
           "onnx-node:test_thresholdedrelu", {alpha("1")}),
    with_attributes(unary_record("shrink", "x + bias below -lambd, x - bias above lambd, else 0.", kNumeric,
                                 {"Shrink", {9}}, shrink, "onnx-node:test_shrink"),
                    {{"bias", AttributeKind::real, "0", ""}, {"lambd", AttributeKind::real, "0.5", ""}}),
    OpDef{.name = "swiglu",
          .doc = "swish(a) · b (Shazeer 2020, GLU variants improve transformer).",
          .inputs = {{"a", "[...]", kFloating}, {"b", "[...]", kFloating}},
          .outputs = {{"y", "[...]", kFloating}},
          .attributes = {alpha("1")},
          .decompose = swiglu,
          .samples = swiglu_samples,
          .onnx = {"SwiGLU", {28}},
          .oracle = "onnx-node:test_swiglu"},
};

}  // namespace

std::span<const OpDef> activation_ops() { return kOps; }

}  // namespace diji
