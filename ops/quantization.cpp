// Quantised values: conversion from and to floats, and element-wise operators that work on them.
#include "ops/quantization.h"

#include "ops/families.h"
#include "ops/numerics.h"
#include "ops/samples.h"

#include <array>

namespace diji {

ValueId quantize(Builder& b, ValueId x, ValueId scale, ValueId zero_point, DType to) {
  const ValueId rounded = b.map(Primitive::round_even, {b.divide(x, scale)});
  // Exact: integers below 2^24, and what is beyond saturates. Conversion saturates.
  ValueId shifted = b.convert(rounded, DType::f32);
  if (zero_point != ValueId::none && !is_zero_constant(b, zero_point))
    shifted = b.add(shifted, b.convert(zero_point, DType::f32));
  return b.convert(shifted, to);
}

ValueId dequantize(Builder& b, ValueId x, ValueId scale, ValueId zero_point) {
  ValueId difference = b.convert(x, DType::i32);
  if (zero_point != ValueId::none && !is_zero_constant(b, zero_point))
    difference = b.subtract(difference, b.convert(zero_point, DType::i32));
  return b.multiply(b.convert(difference, DType::f32), b.convert(scale, DType::f32));
}

Quantized quantize_dynamically(Builder& b, ValueId x) {
  if (!b.ok()) return {ValueId::none, ValueId::none, ValueId::none};
  const Ints all = axes_from(0, b.rank(x));
  const ValueId zero = b.scalar(DType::f32, 0), top = b.scalar(DType::f32, 255);
  const ValueId low = b.minimum(b.reduce(x, Reduction::min, all), zero);
  const ValueId high = b.maximum(b.reduce(x, Reduction::max, all), zero);
  const ValueId scale = b.divide(b.subtract(high, low), top);
  const ValueId place = b.subtract(zero, b.divide(low, scale));
  const ValueId zero_point = b.convert(b.map(Primitive::round_even, {place}), DType::u8);
  return {quantize(b, x, scale, zero_point, DType::u8), scale, zero_point};
}

ValueId per_element(Builder& b, ValueId id, std::int64_t axis, std::int64_t rank) {
  if (!b.ok() || id == ValueId::none) return id;
  if (element_count(b.shape(id)).is(1)) return b.reshape(id, {});
  return b.rank(id) == 1 ? along_axis(b, id, axis, rank) : id;
}

namespace {

// A scale or zero point in the shape that stretches to x: of everything, of an axis, or of blocks of an axis.
ValueId spread(Builder& b, const OpCall& call, ValueId id) {
  const ValueId x = call.inputs[0];
  const auto block = call.attributes.get_or<std::int64_t>("block_size", 0);
  if (id == ValueId::none) return id;
  if (b.rank(id) == 0 || (block == 0 && element_count(b.shape(id)).is(1))) return b.reshape(id, {});
  const std::int64_t axis = b.axis(call.attributes.get_or<std::int64_t>("axis", 1), b.rank(x));
  if (!b.ok()) return ValueId::none;
  if (block == 0) return along_axis(b, id, axis, b.rank(x));
  if (block < 0 || b.rank(id) != b.rank(x)) {
    return b.fail(ErrorCode::mismatch, "{} is no scale of blocks of {} along axis {} of {}",
                  text_of(b.type(id)), block, axis, text_of(b.type(x)));
  }
  const auto at = static_cast<std::size_t>(axis);
  const Dim size = b.shape(x)[at];
  Shape blocks = b.shape(x);
  blocks[at] = floor_div(size + Dim(block - 1), Dim(block));
  const ValueId whole = b.broadcast(id, blocks);
  const ValueId place = b.divide(b.iota({size}, 0), b.scalar(DType::i64, static_cast<double>(block)));
  if (!mod(size, Dim(block)).is(0)) return b.take(whole, place, axis);
  // Without a short block they are a stretched axis: no coordinates are computed.
  Shape apart = blocks;
  apart.insert(apart.begin() + axis + 1, Dim(1));
  const ValueId split = b.reshape(whole, apart);
  apart[at + 1] = block;
  return b.reshape(b.broadcast(split, apart), b.shape(x));
}

Values quantize_linear(Builder& b, const OpCall& call) {
  const ValueId zero_point = operand(call, 2);
  DType to = call.attributes.get_or("output_dtype", DType::u8);
  if (zero_point != ValueId::none) {
    if (call.attributes.has("output_dtype") && to != b.dtype(zero_point)) {
      return {b.fail(ErrorCode::mismatch, "output_dtype {} is not the zero point's {}", name_of(to),
                     name_of(b.dtype(zero_point)))};
    }
    to = b.dtype(zero_point);
  }
  const DType precision = call.attributes.get_or("precision", b.dtype(call.inputs[1]));
  const ValueId x = b.convert(call.inputs[0], precision);
  const ValueId scale = b.convert(spread(b, call, call.inputs[1]), precision);
  return {quantize(b, x, b.broadcast(scale, b.shape(x)), spread(b, call, zero_point), to)};
}

Values dequantize_linear(Builder& b, const OpCall& call) {
  const ValueId scale = spread(b, call, call.inputs[1]);
  const ValueId y = dequantize(b, call.inputs[0], b.broadcast(scale, b.shape(call.inputs[0])),
                               spread(b, call, operand(call, 2)));
  return {b.convert(y, call.attributes.get_or("output_dtype", b.dtype(call.inputs[1])))};
}

Values dynamic_quantize_linear(Builder& b, const OpCall& call) {
  const Quantized q = quantize_dynamically(b, call.inputs[0]);
  return {q.values, q.scale, q.zero_point};
}

// Input number `first` with the scale and zero point that follow it, as f32.
ValueId dequantized(Builder& b, const OpCall& call, std::size_t first) {
  const ValueId scale = operand(call, first + 1), zero_point = operand(call, first + 2);
  if (operand(call, first) == ValueId::none || scale == ValueId::none)
    return b.fail(ErrorCode::mismatch, "input {} or its scale is missing", first);
  return dequantize(b, call.inputs[first], per_element(b, scale, 0, 1), per_element(b, zero_point, 0, 1));
}

// The result in the first input's dtype, by the scale and zero point from operand number `at` on.
Values requantized(Builder& b, const OpCall& call, ValueId y, std::size_t at, std::size_t like = 0) {
  const ValueId scale = operand(call, at);
  if (scale == ValueId::none) return {b.fail(ErrorCode::mismatch, "the result's scale is missing")};
  return {quantize(b, y, per_element(b, scale, 0, 1), per_element(b, operand(call, at + 1), 0, 1),
                   b.dtype(call.inputs[like]))};
}

template <Primitive primitive>
Values qlinear_binary(Builder& b, const OpCall& call) {
  return requantized(b, call, b.map(primitive, {dequantized(b, call, 0), dequantized(b, call, 3)}), 6);
}

Values qlinear_sigmoid(Builder& b, const OpCall& call) {
  return requantized(b, call, apply(b, "sigmoid", dequantized(b, call, 0)), 3);
}

Values qlinear_leaky_relu(Builder& b, const OpCall& call) {
  const ValueId x = dequantized(b, call, 0);
  const ValueId steep = b.multiply(x, b.scalar(DType::f32, call.attributes.get_or("alpha", 0.01)));
  return requantized(b, call, b.select(b.less(x, b.scalar(DType::f32, 0)), steep, x), 3);
}

Values qlinear_softmax(Builder& b, const OpCall& call) {
  const ValueId x = dequantized(b, call, 0);
  const std::int64_t axis = b.axis(call.attributes.get_or<std::int64_t>("axis", -1), b.rank(x));
  if (!b.ok()) return {ValueId::none};
  const bool flattened = call.attributes.get_or<std::int64_t>("opset", 13) < 13;
  return requantized(b, call, softmax(b, x, flattened ? axes_from(axis, b.rank(x)) : Ints{axis}), 3);
}

Values qlinear_global_average_pool(Builder& b, const OpCall& call) {
  const ValueId x = dequantized(b, call, 0);
  const bool last = call.attributes.get_or<std::int64_t>("channels_last", 0) != 0;
  if (b.rank(x) < 3) return {b.fail(ErrorCode::mismatch, "x {} has no spatial axes", text_of(b.type(x)))};
  Ints spatial = axes_from(last ? 1 : 2, last ? b.rank(x) - 1 : b.rank(x));
  return requantized(b, call, mean_keeping(b, x, spatial), 3);
}

Values qlinear_concat(Builder& b, const OpCall& call) {
  Values parts;
  for (std::size_t i = 2; i < call.inputs.size(); i += 3) {
    const ValueId x = dequantized(b, call, i);
    parts.push_back(quantize(b, x, per_element(b, call.inputs[0], 0, 1), per_element(b, call.inputs[1], 0, 1),
                             b.dtype(call.inputs[1])));
  }
  if (!b.ok() || parts.empty()) return {b.fail(ErrorCode::mismatch, "nothing to concatenate")};
  const std::int64_t axis = b.axis(call.attributes.get_or<std::int64_t>("axis", 0), b.rank(parts.front()));
  return {b.concatenate(parts, axis)};
}

HostTensor floats(StaticShape shape, std::initializer_list<float> values) {
  return HostTensor::of<float>(std::move(shape), values);
}

std::vector<Sample> quantize_samples(DType t) {
  const auto x = [&](StaticShape shape, Fill fill) { return sample_tensor(t, std::move(shape), fill); };
  const auto zero_points = [](DType dtype, StaticShape shape) {
    return sample_tensor(dtype, std::move(shape), Fill::normal);
  };
  const auto f = [](StaticShape shape) {
    return sample_tensor(DType::f32, std::move(shape), Fill::positive);
  };
  return {{"whole, u8", {x({3, 17}, Fill::normal), floats({}, {0.02F})}, {}, {}},
          {"whole, i8", {x({40}, Fill::wide), floats({}, {0.25F}), zero_points(DType::i8, {})}, {}, {}},
          {"axis, i16",
           {x({2, 3, 5}, Fill::normal), f({3}), zero_points(DType::i16, {3})},
           {{"axis", std::int64_t{-2}}},
           {}},
          {"blocks, u16",
           {x({2, 6}, Fill::normal), f({2, 3})},
           {{"block_size", std::int64_t{2}}, {"output_dtype", DType::u16}},
           {}},
          {"a short block",
           {x({2, 7}, Fill::normal), f({2, 3}), zero_points(DType::u8, {2, 3})},
           {{"block_size", std::int64_t{3}}},
           {}}};
}

std::vector<Sample> dequantize_samples(DType t) {
  const auto x = [&](StaticShape shape, Fill fill) { return sample_tensor(t, std::move(shape), fill); };
  const auto f = [](StaticShape shape) {
    return sample_tensor(DType::f32, std::move(shape), Fill::positive);
  };
  return {{"whole", {x({3, 17}, Fill::wide), floats({}, {0.02F}), x({}, Fill::normal)}, {}, {}},
          {"axis", {x({2, 3, 5}, Fill::wide), f({3}), x({3}, Fill::normal)}, {}, {}},
          {"no zero point, f16",
           {x({2, 5}, Fill::normal), sample_tensor(DType::f16, {2}, Fill::positive)},
           {{"axis", std::int64_t{0}}},
           {}},
          {"blocks",
           {x({2, 8}, Fill::normal), f({2, 2}), x({2, 2}, Fill::normal)},
           {{"block_size", std::int64_t{4}}, {"output_dtype", DType::f16}},
           {}},
          {"a short block",
           {x({5, 2}, Fill::normal), f({2, 2})},
           {{"block_size", std::int64_t{3}}, {"axis", std::int64_t{0}}},
           {}}};
}

std::vector<Sample> dynamic_samples(DType t) {
  return {{"both signs", {sample_tensor(t, {3, 17}, Fill::normal)}, {}, {}},
          {"one sign", {sample_tensor(t, {33}, Fill::positive)}, {}, {}}};
}

// {x, scale, zero point, y scale, y zero point}
std::vector<Sample> qlinear_samples(DType t) {
  const auto zero = [&] { return sample_tensor(t, {}, Fill::positive, 3); };
  return {
      {"3-d",
       {sample_tensor(t, {2, 3, 5}, Fill::wide), floats({}, {0.02F}), zero(), floats({}, {0.01F}), zero()},
       {},
       {}}};
}

std::vector<Sample> qlinear_binary_samples(DType t) {
  const auto zero = [&] { return sample_tensor(t, {}, Fill::positive, 3); };
  return {{"a row stretches",
           {sample_tensor(t, {4, 9}, Fill::wide), floats({}, {0.02F}), zero(),
            sample_tensor(t, {9}, Fill::wide, 2), floats({}, {0.03F}), zero(), floats({}, {0.04F}), zero()},
           {},
           {}}};
}

std::vector<Sample> qlinear_softmax_samples(DType t) {
  auto samples = qlinear_samples(t);
  samples[0].attributes.set("opset", std::int64_t{12});
  return samples;
}

std::vector<Sample> qlinear_concat_samples(DType t) {
  const auto x = [](StaticShape shape) { return sample_tensor(DType::u8, std::move(shape), Fill::wide); };
  return {{"two",
           {HostTensor(sample_tensor(t, {}, Fill::positive)), x({}), x({2, 3}), floats({}, {0.5F}), x({}),
            x({2, 2}), floats({}, {0.25F}), x({})},
           {{"axis", std::int64_t{1}}},
           {}}};
}

constexpr DTypeSet kBytes = static_cast<DTypeSet>(kI8 | kU8);
constexpr DTypeSet kStored = static_cast<DTypeSet>(kBytes | kI16 | kU16);
constexpr DTypeSet kScale = static_cast<DTypeSet>(kF32 | kF16 | kBF16);
constexpr DTypeSet kWithI32 = static_cast<DTypeSet>(kScale | kI32);

constexpr AttributeDef kAxis = {"axis", AttributeKind::integer, "1", "of a scale an element or block"};
constexpr AttributeDef kBlock = {"block_size", AttributeKind::integer, "0", "elements a scale; 0: no blocks"};

constexpr OpDef quantize_record(std::string_view name, std::string_view doc, OnnxName onnx,
                                std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "[...]", kWithI32},
                     {"scale", "[], [axis] or blocks", kScale, "S"},
                     {"zero_point", "like scale", kStored, "Q", OperandMode::optional}},
          .outputs = {{"y", "like x", kStored, "Q"}},
          .attributes = {kAxis,
                         kBlock,
                         {"output_dtype", AttributeKind::dtype, "of the zero point, or u8", ""},
                         {"precision", AttributeKind::dtype, "of the scale", "of the division"},
                         {"saturate", AttributeKind::integer, "1", "of 8-bit floats only"}},
          .decompose = quantize_linear,
          .samples = quantize_samples,
          .onnx = onnx,
          .oracle = oracle};
}

constexpr OpDef dequantize_record(std::string_view name, std::string_view doc, OnnxName onnx,
                                  std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "[...]", static_cast<DTypeSet>(kStored | kI32)},
                     {"scale", "[], [axis] or blocks", kScale, "S"},
                     {"zero_point", "like scale", static_cast<DTypeSet>(kStored | kI32), "T",
                      OperandMode::optional}},
          .outputs = {{"y", "like x", kScale, "output_dtype"}},
          .attributes = {kAxis, kBlock, {"output_dtype", AttributeKind::dtype, "of the scale", ""}},
          .decompose = dequantize_linear,
          .samples = dequantize_samples,
          .onnx = onnx,
          .oracle = oracle};
}

constexpr OpDef qlinear_record(std::string_view name, std::string_view doc, OnnxName onnx,
                               Values (*decompose)(Builder&, const OpCall&),
                               std::vector<Sample> (*samples)(DType), decltype(OpDef::attributes) attributes,
                               std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "[...]", kBytes},
                     {"x_scale", "[]", kF32, "scale"},
                     {"x_zero_point", "[]", kBytes, "T", OperandMode::optional},
                     {"y_scale", "[], required", kF32, "scale", OperandMode::optional},
                     {"y_zero_point", "[]", kBytes, "T", OperandMode::optional}},
          .outputs = {{"y", "like x", kBytes}},
          .attributes = attributes,
          .decompose = decompose,
          .samples = samples,
          .onnx = onnx,
          .oracle = oracle};
}

constexpr OpDef qlinear_binary_record(std::string_view name, std::string_view doc, OnnxName onnx,
                                      Values (*decompose)(Builder&, const OpCall&), std::string_view oracle) {
  OpDef record = qlinear_record(name, doc, onnx, decompose, qlinear_binary_samples, {}, oracle);
  record.inputs = {{"a", "[...]", kBytes},
                   {"a_scale", "[]", kF32, "scale"},
                   {"a_zero_point", "[]", kBytes, "T", OperandMode::optional},
                   {"b", "[...], required", kBytes, "T", OperandMode::optional},
                   {"b_scale", "[], required", kF32, "scale", OperandMode::optional},
                   {"b_zero_point", "[]", kBytes, "T", OperandMode::optional},
                   {"y_scale", "[], required", kF32, "scale", OperandMode::optional},
                   {"y_zero_point", "[]", kBytes, "T", OperandMode::optional}};
  return record;
}

constexpr std::array kOps = {
    quantize_record(
        "quantize_linear",
        "saturate(round_even(x / scale) + zero_point), for the tensor, an axis, or blocks of one.",
        {"QuantizeLinear", {10, 13, 19, 21, 23, 24, 25, 28}}, "onnx-node:test_quantizelinear"),
    quantize_record("contrib_quantize_linear", "quantize_linear under ONNX Runtime's name.",
                    {"com.microsoft.QuantizeLinear", {1}}, "file:contrib.py"),
    dequantize_record("dequantize_linear",
                      "(x - zero_point) · scale, for the tensor, an axis, or blocks of one; rounded once.",
                      {"DequantizeLinear", {10, 13, 19, 21, 23, 24, 25, 28}},
                      "onnx-node:test_dequantizelinear"),
    dequantize_record("contrib_dequantize_linear", "dequantize_linear under ONNX Runtime's name.",
                      {"com.microsoft.DequantizeLinear", {1}}, "file:contrib.py"),
    OpDef{.name = "dynamic_quantize_linear",
          .doc = "x as u8 with the scale and zero point by which 0 … 255 spans its values and zero: scale = "
                 "(max(0, x) - min(0, x)) / 255, zero_point = round_even(-min(0, x) / scale).",
          .inputs = {{"x", "[...]", kF32}},
          .outputs = {{"y", "like x", kU8, "u8"}, {"scale", "[]", kF32}, {"zero_point", "[]", kU8, "u8"}},
          .decompose = dynamic_quantize_linear,
          .samples = dynamic_samples,
          .onnx = {"DynamicQuantizeLinear", {11}},
          .oracle = "onnx-node:test_dynamicquantizelinear"},
    qlinear_binary_record("qlinear_add", "Sum of quantised tensors, quantised again.",
                          {"com.microsoft.QLinearAdd", {1}}, qlinear_binary<Primitive::add>,
                          "file:contrib.py"),
    qlinear_binary_record("qlinear_mul", "Product of quantised tensors, quantised again.",
                          {"com.microsoft.QLinearMul", {1}}, qlinear_binary<Primitive::multiply>,
                          "file:contrib.py"),
    qlinear_record("qlinear_sigmoid", "1 / (1 + exp(-x)) of a quantised tensor, quantised again.",
                   {"com.microsoft.QLinearSigmoid", {1}}, qlinear_sigmoid, qlinear_samples, {},
                   "file:contrib.py"),
    qlinear_record("qlinear_leaky_relu", "x, or alpha · x below 0, of a quantised tensor, quantised again.",
                   {"com.microsoft.QLinearLeakyRelu", {1}}, qlinear_leaky_relu, qlinear_samples,
                   {{"alpha", AttributeKind::real, "0.01", ""}}, "file:contrib.py"),
    qlinear_record("qlinear_softmax", "Softmax of a quantised tensor, quantised again.",
                   {"com.microsoft.QLinearSoftmax", {1}}, qlinear_softmax, qlinear_softmax_samples,
                   {{"axis", AttributeKind::integer, "-1", ""},
                    {"opset", AttributeKind::integer, "", "below 13: over all axes from `axis` on"}},
                   "file:contrib.py"),
    qlinear_record(
        "qlinear_global_average_pool", "Mean over all spatial axes of a quantised tensor, quantised again.",
        {"com.microsoft.QLinearGlobalAveragePool", {1}}, qlinear_global_average_pool, qlinear_samples,
        {{"channels_last", AttributeKind::integer, "0", "1: [N, ..., C]"}}, "file:contrib.py"),
    OpDef{.name = "qlinear_concat",
          .doc = "Quantised tensors behind each other, all quantised again by one scale.",
          .inputs = {{"y_scale", "[]", kF32},
                     {"y_zero_point", "[]", kBytes, "Q"},
                     {"parts", "tensor, scale and zero point of each", kAny, "any", OperandMode::variadic}},
          .outputs = {{"y", "[..., sum n, ...]", kBytes, "Q"}},
          .attributes = {{"axis", AttributeKind::integer, "", "may be negative"}},
          .decompose = qlinear_concat,
          .samples = qlinear_concat_samples,
          .onnx = {"com.microsoft.QLinearConcat", {1}},
          .oracle = "file:contrib.py"},
};

}  // namespace

std::span<const OpDef> quantization_ops() { return kOps; }

}  // namespace diji
