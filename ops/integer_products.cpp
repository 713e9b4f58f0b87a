// Products of quantised matrices and images: sums of 8-bit integers in i32, corrected by the zero points.
#include "ops/contraction.h"
#include "ops/families.h"
#include "ops/numerics.h"
#include "ops/quantization.h"
#include "ops/samples.h"

#include <array>

namespace diji {
namespace {

// A zero point or scale of x's rows, so that it stretches to [..., M, N].
ValueId of_rows(Builder& b, ValueId id) { return per_element(b, id, 0, 2); }
ValueId of_columns(Builder& b, ValueId id) { return per_element(b, id, 0, 1); }

ValueId zero_or_none(Builder& b, ValueId id) {
  return id == ValueId::none || is_zero_constant(b, id) ? ValueId::none : b.convert(id, DType::i32);
}

}  // namespace

// As it is meant; the pass integer_products makes one of 8 bits of it.
ValueId integer_matmul(Builder& b, ValueId x, ValueId y, ValueId zero_x, ValueId zero_y) {
  if (!b.ok()) return ValueId::none;
  const auto shifted = [&](ValueId codes, ValueId zero) {
    const ValueId wider = b.convert(codes, DType::i32);
    return zero == ValueId::none ? wider : b.subtract(wider, zero);
  };
  return matmul(b, shifted(x, of_rows(b, zero_or_none(b, zero_x))),
                shifted(y, of_columns(b, zero_or_none(b, zero_y))));
}

namespace {

Values matmul_integer(Builder& b, const OpCall& call) {
  return {integer_matmul(b, call.inputs[0], call.inputs[1], operand(call, 2), operand(call, 3))};
}

// Sums as floats times the scales of both sides, and a bias.
ValueId scaled_sums(Builder& b, ValueId sums, ValueId scale, ValueId bias) {
  const ValueId y = b.multiply(b.convert(sums, b.dtype(scale)), scale);
  return bias == ValueId::none ? y : b.add(y, bias);
}

Values matmul_integer_to_float(Builder& b, const OpCall& call) {
  const ValueId sums = integer_matmul(b, call.inputs[0], call.inputs[1], operand(call, 4), operand(call, 5));
  const ValueId scale = b.multiply(of_columns(b, call.inputs[2]), of_columns(b, call.inputs[3]));
  return {scaled_sums(b, sums, scale, operand(call, 6))};
}

Values dynamic_quantize_matmul(Builder& b, const OpCall& call) {
  const Quantized a = quantize_dynamically(b, call.inputs[0]);
  const ValueId sums = integer_matmul(b, a.values, call.inputs[1], a.zero_point, operand(call, 3));
  return {scaled_sums(b, sums, b.multiply(a.scale, of_columns(b, call.inputs[2])), operand(call, 4))};
}

ValueId as_f32(Builder& b, ValueId id) { return b.convert(id, DType::f32); }

// saturate(round_even(sums · scale) + zero_point); the scale is that of both operands over that of the
// result.
ValueId requantize(Builder& b, ValueId sums, ValueId scale, ValueId zero_point, DType to) {
  // Division by 1 is exact, so this is quantize() of the scaled sums.
  return quantize(b, b.multiply(as_f32(b, sums), scale), b.scalar(DType::f32, 1), zero_point, to);
}

Values qlinear_matmul(Builder& b, const OpCall& call) {
  const auto in = [&](std::size_t i) { return call.inputs[i]; };
  const ValueId sums = integer_matmul(b, in(0), in(3), in(2), in(5));
  const ValueId scales = b.multiply(as_f32(b, of_rows(b, in(1))), as_f32(b, of_columns(b, in(4))));
  const ValueId scale = b.divide(scales, as_f32(b, of_rows(b, in(6))));
  return {requantize(b, sums, scale, of_rows(b, in(7)), b.dtype(in(7)))};
}

ValueId shifted(Builder& b, ValueId x, ValueId zero_point) {
  const ValueId wider = b.convert(x, DType::i32), zero = zero_or_none(b, zero_point);
  return zero == ValueId::none ? wider : b.subtract(wider, per_element(b, zero, 0, b.rank(x)));
}

// Padding is a 0 after the zero point is taken off, so it stands for the zero point.
ValueId integer_convolution(Builder& b, const OpCall& call, ValueId x, ValueId w, ValueId zero_x,
                            ValueId zero_w) {
  const auto dims = conv_geometry(b, call, x, w);
  if (!dims) return ValueId::none;
  return b.convolution(shifted(b, x, zero_x), shifted(b, w, zero_w), *dims);
}

Values conv_integer(Builder& b, const OpCall& call) {
  return {integer_convolution(b, call, call.inputs[0], call.inputs[1], operand(call, 2), operand(call, 3))};
}

Values qlinear_conv(Builder& b, const OpCall& call) {
  const auto in = [&](std::size_t i) { return call.inputs[i]; };
  ValueId sums = integer_convolution(b, call, in(0), in(3), in(2), in(5));
  if (!b.ok()) return {ValueId::none};
  if (operand(call, 8) != ValueId::none) sums = b.add(sums, along_axis(b, in(8), 1, b.rank(sums)));
  const ValueId scales = b.multiply(of_columns(b, in(1)), per_element(b, in(4), 1, b.rank(sums)));
  const ValueId scale = b.divide(scales, of_columns(b, in(6)));
  return {requantize(b, sums, scale, of_columns(b, in(7)), b.dtype(in(7)))};
}

// 8 / bits codes in each byte, the lowest first: [..., n] u8 -> [..., n · 8 / bits].
ValueId unpacked(Builder& b, ValueId bytes, std::int64_t bits) {
  if (!b.ok()) return ValueId::none;
  Shape apart = b.shape(bytes), joined = apart;
  apart.emplace_back(1);
  const ValueId column = b.reshape(bytes, apart);
  apart.back() = 8 / bits;
  joined.back() = joined.back() * Dim(8 / bits);
  const ValueId shift = b.multiply(b.iota(apart, std::ssize(apart) - 1, DType::u8),
                                   b.scalar(DType::u8, static_cast<double>(bits)));
  const ValueId code = b.map(Primitive::bit_and, {b.map(Primitive::shift_right, {column, shift}),
                                                  b.scalar(DType::u8, static_cast<double>((1 << bits) - 1))});
  return b.reshape(code, joined);
}

// One a block as floats: unpacked and of A's dtype, or packed, or 2^(bits - 1).
ValueId block_zero_points(Builder& b, ValueId given, std::int64_t bits, const Dim& rows,
                          std::int64_t blocks) {
  if (given == ValueId::none) return b.scalar(DType::f32, static_cast<double>(1 << (bits - 1)));
  if (b.dtype(given) != DType::u8) return as_f32(b, b.reshape(given, {rows, blocks, 1}));
  const std::int64_t bytes = (blocks * bits + 7) / 8;
  const ValueId codes = unpacked(b, b.reshape(given, {rows, bytes}), bits);
  return as_f32(b, b.reshape(b.slice(codes, {0, 0}, {rows, blocks}, {1, 1}), {rows, blocks, 1}));
}

Values matmul_nbits(Builder& b, const OpCall& call) {
  const auto size = [&](std::string_view name, std::int64_t otherwise) {
    return call.attributes.get_or<std::int64_t>(name, otherwise);
  };
  const std::int64_t bits = size("bits", 4), block = size("block_size", 32), k = size("K", 0),
                     n = size("N", 0);
  if ((bits != 2 && bits != 4 && bits != 8) || block < 1 || block % (8 / bits) != 0 || k < 1 || n < 1) {
    return {b.fail(ErrorCode::mismatch,
                   "{} bits, blocks of {}, K = {}, N = {}: codes have 2, 4 or 8 bits and fill "
                   "whole bytes",
                   bits, block, k, n)};
  }
  if (operand(call, 4) != ValueId::none || size("weight_prepacked", 0) != 0)
    return {b.fail(ErrorCode::unsupported, "g_idx and prepacked weights are not built yet")};
  const std::int64_t blocks = (k + block - 1) / block;
  const ValueId codes = unpacked(b, b.reshape(call.inputs[1], {n, blocks, block * bits / 8}), bits);
  const ValueId zero = block_zero_points(b, operand(call, 3), bits, n, blocks);
  const ValueId scale = as_f32(b, b.reshape(call.inputs[2], {n, blocks, 1}));
  const ValueId padded =
      b.reshape(b.multiply(b.subtract(as_f32(b, codes), zero), scale), {n, blocks * block});
  const ValueId w = b.slice(padded, {0, 0}, {n, k}, {1, 1});
  const ValueId a = as_f32(b, call.inputs[0]);
  ValueId y = b.dot_general(a, w, {.lhs_contracting = {b.rank(a) - 1}, .rhs_contracting = {1}});
  if (operand(call, 5) != ValueId::none) y = b.add(y, as_f32(b, call.inputs[5]));
  return {b.convert(y, b.dtype(call.inputs[0]))};
}

Values qgemm(Builder& b, const OpCall& call) {
  const auto flag = [&](std::string_view name) { return call.attributes.get_or<std::int64_t>(name, 0) != 0; };
  const ValueId x = flag("transA") ? b.transpose(call.inputs[0], {1, 0}) : call.inputs[0];
  const ValueId y = flag("transB") ? b.transpose(call.inputs[3], {1, 0}) : call.inputs[3];
  ValueId sums = integer_matmul(b, x, y, call.inputs[2], call.inputs[5]);
  if (operand(call, 6) != ValueId::none) sums = b.add(sums, call.inputs[6]);
  const ValueId alpha = b.scalar(DType::f32, call.attributes.get_or("alpha", 1.0));
  const ValueId scales =
      b.multiply(b.multiply(of_columns(b, call.inputs[1]), of_columns(b, call.inputs[4])), alpha);
  if (operand(call, 7) == ValueId::none) return {scaled_sums(b, sums, scales, ValueId::none)};
  const ValueId zero_point = operand(call, 8);
  const DType to = zero_point == ValueId::none ? b.dtype(call.inputs[0]) : b.dtype(zero_point);
  return {
      requantize(b, sums, b.divide(scales, of_columns(b, call.inputs[7])), of_columns(b, zero_point), to)};
}

HostTensor floats(StaticShape shape, std::uint64_t seed = 1) {
  return sample_tensor(DType::f32, std::move(shape), Fill::positive, seed);
}
HostTensor one_float(float value) { return HostTensor::of<float>({}, {value}); }

std::vector<Sample> matmul_integer_samples(DType t) {
  const auto x = [&](StaticShape shape) { return sample_tensor(t, std::move(shape), Fill::wide, 1); };
  const auto u = [](StaticShape shape) { return sample_tensor(DType::u8, std::move(shape), Fill::wide, 2); };
  return {{"no zero points", {x({3, 70}), u({70, 5})}, {}, {}},
          {"scalars", {x({13, 9}), u({9, 19}), x({}), u({})}, {}, {}},
          {"rows and columns", {x({3, 4}), u({4, 5}), x({3}), u({5})}, {}, {}},
          {"batches", {x({2, 3, 4}), u({2, 4, 5}), x({2, 3, 1}), u({2, 1, 5})}, {}, {}},
          {"vectors", {x({6}), u({6}), x({1}), u({1})}, {}, {}},
          {"nothing folded", {x({2, 0}), u({0, 3}), x({}), u({})}, {}, {}}};
}

std::vector<Sample> conv_integer_samples(DType t) {
  const auto x = [&](StaticShape shape) { return sample_tensor(t, std::move(shape), Fill::wide, 1); };
  const auto w = [](StaticShape shape) { return sample_tensor(DType::u8, std::move(shape), Fill::wide, 2); };
  return {{"padded", {x({1, 2, 5, 6}), w({3, 2, 3, 3}), x({}), w({})}, {{"pads", Ints{1, 1, 1, 1}}}, {}},
          {"zero points of filters",
           {x({2, 4, 9}), w({4, 2, 3}), x({}), w({4})},
           {{"group", std::int64_t{2}}},
           {}},
          {"no zero points", {x({1, 1, 7}), w({2, 1, 2})}, {}, {}}};
}

std::vector<Sample> qlinear_matmul_samples(DType t) {
  const auto x = [&](StaticShape shape) { return sample_tensor(t, std::move(shape), Fill::wide, 1); };
  const auto u = [](StaticShape shape) { return sample_tensor(DType::u8, std::move(shape), Fill::wide, 2); };
  return {{"2-d",
           {x({5, 17}), one_float(0.02F), x({}), u({17, 6}), floats({6}), u({6}), one_float(1.5F), x({})},
           {},
           {}}};
}

std::vector<Sample> qlinear_conv_samples(DType t) {
  const auto x = [&](StaticShape shape) { return sample_tensor(t, std::move(shape), Fill::wide, 1); };
  const auto w = [](StaticShape shape) { return sample_tensor(DType::i8, std::move(shape), Fill::wide, 2); };
  return {{"filters",
           {x({1, 2, 5, 6}), one_float(0.02F), x({}), w({3, 2, 3, 3}), floats({3}), w({3}), one_float(2.5F),
            x({}), sample_tensor(DType::i32, {3}, Fill::normal)},
           {{"pads", Ints{1, 0, 1, 2}}},
           {}}};
}

std::vector<Sample> to_float_samples(DType t) {
  return {{"2-d",
           {sample_tensor(t, {4, 9}, Fill::wide), sample_tensor(DType::u8, {9, 5}, Fill::wide), floats({1}),
            floats({5}), sample_tensor(t, {1}, Fill::wide), sample_tensor(DType::u8, {5}, Fill::wide),
            floats({5}, 3)},
           {},
           {}}};
}

std::vector<Sample> dynamic_matmul_samples(DType) {
  // Powers of two, so that no product lies between two codes.
  return {{"one scale",
           {HostTensor::of<float>({2, 2}, {-1.0F, 0.5F, 0.25F, 3.0F}),
            sample_tensor(DType::i8, {2, 5}, Fill::wide), one_float(0.5F),
            sample_tensor(DType::i8, {}, Fill::wide)},
           {},
           {}}};
}

std::vector<Sample> nbits_samples(DType t) {
  const auto bytes = [](StaticShape shape) {
    return sample_tensor(DType::u8, std::move(shape), Fill::wide, 2);
  };
  const auto scales = [&](StaticShape shape) {
    return sample_tensor(t, std::move(shape), Fill::positive, 3);
  };
  const auto attributes = [](std::int64_t bits, std::int64_t k, std::int64_t n) {
    return Attributes{{"bits", bits}, {"block_size", std::int64_t{16}}, {"K", k}, {"N", n}};
  };
  return {{"4 bits",
           {sample_tensor(t, {3, 40}, Fill::normal), bytes({5, 3, 8}), scales({5, 3})},
           attributes(4, 40, 5),
           {}},
          {"packed zero points",
           {sample_tensor(t, {2, 1, 48}, Fill::normal), bytes({4, 3, 8}), scales({12}), bytes({8})},
           attributes(4, 48, 4),
           {}},
          {"8 bits",
           {sample_tensor(t, {2, 16}, Fill::normal), bytes({3, 1, 16}), scales({3, 1}), scales({3, 1})},
           attributes(8, 16, 3),
           {}}};
}

std::vector<Sample> qgemm_samples(DType t) {
  return {
      {"to floats",
       {sample_tensor(t, {4, 3}, Fill::wide), one_float(0.5F), sample_tensor(t, {}, Fill::wide),
        sample_tensor(DType::u8, {5, 4}, Fill::wide), floats({5}), sample_tensor(DType::u8, {5}, Fill::wide)},
       {{"transA", std::int64_t{1}}, {"transB", std::int64_t{1}}, {"alpha", 2.0}},
       {}}};
}

constexpr DTypeSet kBytes = static_cast<DTypeSet>(kI8 | kU8);
constexpr DTypeSet kScale = static_cast<DTypeSet>(kF32 | kF16 | kBF16);

using AttributeList = decltype(OpDef::attributes);
constexpr AttributeList kConvAttributes = {
    {"auto_pad", AttributeKind::text, "NOTSET", "or VALID, SAME_UPPER, SAME_LOWER"},
    {"dilations", AttributeKind::integers, "1 each", "distance of kernel elements"},
    {"group", AttributeKind::integer, "1", "channel groups"},
    {"kernel_shape", AttributeKind::integers, "from w", "checked against w"},
    {"pads", AttributeKind::integers, "0 each", "low ends, then high ends"},
    {"strides", AttributeKind::integers, "1 each", ""}};

constexpr std::array kOps = {
    OpDef{.name = "matmul_integer",
          .doc = "(a - a_zero_point) · (b - b_zero_point) as NumPy's matmul, exact in i32.",
          .inputs = {{"a", "[..., M, K]", kBytes},
                     {"b", "[..., K, N]", kBytes, "U"},
                     {"a_zero_point", "[], [M] or [..., M, 1]", kBytes, "T", OperandMode::optional},
                     {"b_zero_point", "[], [N] or [..., 1, N]", kBytes, "U", OperandMode::optional}},
          .outputs = {{"y", "[..., M, N]", kI32, "i32"}},
          .decompose = matmul_integer,
          .samples = matmul_integer_samples,
          .onnx = {"MatMulInteger", {10}},
          .oracle = "onnx-node:test_matmulinteger"},
    OpDef{.name = "conv_integer",
          .doc =
              "Cross-correlation of x - x_zero_point and w - w_zero_point, exact in i32; padding is the zero "
              "point.",
          .inputs = {{"x", "[N, C, in...]", kBytes},
                     {"w", "[O, C/group, kernel...]", kBytes, "U"},
                     {"x_zero_point", "[]", kBytes, "T", OperandMode::optional},
                     {"w_zero_point", "[] or [O]", kBytes, "U", OperandMode::optional}},
          .outputs = {{"y", "[N, O, out...]", kI32, "i32"}},
          .attributes = kConvAttributes,
          .decompose = conv_integer,
          .samples = conv_integer_samples,
          .onnx = {"ConvInteger", {10}},
          .oracle = "onnx-node:test_convinteger"},
    OpDef{
        .name = "qlinear_matmul",
        .doc =
            "Product of quantised matrices, quantised again: saturate(round_even(sums · a_scale · b_scale / "
            "y_scale) + y_zero_point).",
        .inputs = {{"a", "[..., M, K]", kBytes},
                   {"a_scale", "[], [M] or [..., M, 1]", kScale, "S"},
                   {"a_zero_point", "like a_scale", kBytes},
                   {"b", "[..., K, N]", kBytes, "U"},
                   {"b_scale", "[], [N] or [..., 1, N]", kScale, "S"},
                   {"b_zero_point", "like b_scale", kBytes, "U"},
                   {"y_scale", "[], [M] or [..., M, 1]", kScale, "S"},
                   {"y_zero_point", "like y_scale", kBytes, "Q"}},
        .outputs = {{"y", "[..., M, N]", kBytes, "Q"}},
        .decompose = qlinear_matmul,
        .samples = qlinear_matmul_samples,
        .onnx = {"QLinearMatMul", {10, 21}},
        .oracle = "onnx-node:test_qlinearmatmul_"},
    OpDef{
        .name = "qlinear_conv",
        .doc =
            "Convolution of a quantised image, quantised again; scale and zero point of w for all filters or "
            "each.",
        .inputs = {{"x", "[N, C, in...]", kBytes},
                   {"x_scale", "[]", kF32, "scale"},
                   {"x_zero_point", "[]", kBytes},
                   {"w", "[O, C/group, kernel...]", kBytes, "U"},
                   {"w_scale", "[] or [O]", kF32, "scale"},
                   {"w_zero_point", "[] or [O]", kBytes, "U"},
                   {"y_scale", "[]", kF32, "scale"},
                   {"y_zero_point", "[]", kBytes, "Q"},
                   {"bias", "[O], of scale x_scale · w_scale", kI32, "bias", OperandMode::optional}},
        .outputs = {{"y", "[N, O, out...]", kBytes, "Q"}},
        .attributes = kConvAttributes,
        .decompose = qlinear_conv,
        .samples = qlinear_conv_samples,
        .onnx = {"QLinearConv", {10}},
        .oracle = "onnx-node:test_qlinearconv"},
    OpDef{.name = "matmul_integer_to_float",
          .doc = "matmul_integer times both scales, plus a bias.",
          .inputs = {{"a", "[..., M, K]", kBytes},
                     {"b", "[..., K, N]", kBytes, "U"},
                     {"a_scale", "[]", kScale, "S"},
                     {"b_scale", "[] or [N]", kScale, "S"},
                     {"a_zero_point", "[]", kBytes, "T", OperandMode::optional},
                     {"b_zero_point", "[] or [N]", kBytes, "U", OperandMode::optional},
                     {"bias", "[N]", kScale, "S", OperandMode::optional}},
          .outputs = {{"y", "[..., M, N]", kScale, "S"}},
          .decompose = matmul_integer_to_float,
          .samples = to_float_samples,
          .onnx = {"com.microsoft.MatMulIntegerToFloat", {1}},
          .oracle = "file:contrib.py"},
    OpDef{.name = "dynamic_quantize_matmul",
          .doc = "a quantised by dynamic_quantize_linear, multiplied with b in integers, times both scales.",
          .inputs = {{"a", "[..., M, K]", kF32},
                     {"b", "[..., K, N]", kBytes, "U"},
                     {"b_scale", "[] or [N]", kF32},
                     {"b_zero_point", "[] or [N]", kBytes, "U", OperandMode::optional},
                     {"bias", "[N]", kF32, "T", OperandMode::optional}},
          .outputs = {{"y", "[..., M, N]", kF32}},
          .decompose = dynamic_quantize_matmul,
          .samples = dynamic_matmul_samples,
          .onnx = {"com.microsoft.DynamicQuantizeMatMul", {1}},
          .oracle = "file:contrib.py"},
    OpDef{.name = "qgemm",
          .doc = "alpha · (a · b + c) of quantised matrices, as floats or quantised again.",
          .inputs = {{"a", "[M, K] or [K, M]", kBytes},
                     {"a_scale", "[]", kF32, "scale"},
                     {"a_zero_point", "[]", kBytes},
                     {"b", "[K, N] or [N, K]", kBytes, "U"},
                     {"b_scale", "[] or [N]", kF32, "scale"},
                     {"b_zero_point", "[] or [N]", kBytes, "U"},
                     {"c", "stretches to [M, N]", kI32, "i32", OperandMode::optional},
                     {"y_scale", "[]", kF32, "scale", OperandMode::optional},
                     {"y_zero_point", "[]", kBytes, "Q", OperandMode::optional}},
          .outputs = {{"y", "[M, N]", static_cast<DTypeSet>(kBytes | kF32), "Q"}},
          .attributes = {{"alpha", AttributeKind::real, "1", ""},
                         {"transA", AttributeKind::integer, "0", ""},
                         {"transB", AttributeKind::integer, "0", ""}},
          .decompose = qgemm,
          .samples = qgemm_samples,
          .onnx = {"com.microsoft.QGemm", {1}},
          .oracle = "file:contrib.py"},
    OpDef{.name = "matmul_nbits",
          .doc =
              "a · w^T + bias with w [N, K] in codes of 2, 4 or 8 bits: (code - zero_point) · scale of each "
              "block of K; codes lie in bytes lowest first.",
          .inputs = {{"a", "[..., K]", kScale},
                     {"b", "[N, blocks, block_size · bits / 8]", kU8, "u8"},
                     {"scales", "[N, blocks]", kScale},
                     {"zero_points", "[N, blocks], or u8 packed", static_cast<DTypeSet>(kScale | kU8), "Z",
                      OperandMode::optional},
                     {"g_idx", "[K], not built yet", kI32, "i32", OperandMode::optional},
                     {"bias", "[N]", kScale, "T", OperandMode::optional}},
          .outputs = {{"y", "[..., N]", kScale}},
          .attributes = {{"K", AttributeKind::integer, "", "rows of b"},
                         {"N", AttributeKind::integer, "", "columns of b"},
                         {"accuracy_level", AttributeKind::integer, "0", "a hint; sums are in f32 at least"},
                         {"bits", AttributeKind::integer, "4", "2, 4 or 8"},
                         {"block_size", AttributeKind::integer, "", "elements a scale"},
                         {"weight_prepacked", AttributeKind::integer, "0", "0 only"}},
          .decompose = matmul_nbits,
          .samples = nbits_samples,
          .onnx = {"com.microsoft.MatMulNBits", {1}},
          .oracle = "file:contrib.py"},
};

}  // namespace

std::span<const OpDef> integer_product_ops() { return kOps; }

}  // namespace diji
