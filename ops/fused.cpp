// Operators of ONNX Runtime's optimiser that stand for several of ONNX.
#include "ops/contraction.h"
#include "ops/families.h"
#include "ops/numerics.h"
#include "ops/samples.h"

#include <array>

namespace diji {
namespace {

// transBatch: the first axis is the matrix's, [M, batch..., K]; trans: its last two axes change places.
ValueId arranged(Builder& b, ValueId x, bool trans, bool trans_batch) {
  const std::int64_t rank = b.rank(x);
  if (rank < 2) return x;
  Ints order = axes_from(0, rank);
  if (trans_batch) {
    order.erase(order.begin());
    order.insert(order.end() - 1, 0);
  }
  if (trans) std::swap(order[order.size() - 1], order[order.size() - 2]);
  return b.transpose(x, order);
}

Values fused_matmul(Builder& b, const OpCall& call) {
  const ValueId x = arranged(b, call.inputs[0], flag(call, "transA"), flag(call, "transBatchA"));
  const ValueId y = arranged(b, call.inputs[1], flag(call, "transB"), flag(call, "transBatchB"));
  const double alpha = call.attributes.get_or("alpha", 1.0);
  const ValueId product = matmul(b, x, y);
  return {alpha == 1.0 ? product : b.multiply(product, b.scalar(b.dtype(product), alpha))};
}

// The sum of all that is there, in f32 at least; each stretches to the first.
ValueId sum_of(Builder& b, ValueId x, std::initializer_list<ValueId> others) {
  ValueId sum = b.convert(x, wide(b.dtype(x)));
  for (const ValueId other : others) {
    if (other != ValueId::none) sum = b.add(sum, b.broadcast(b.convert(other, b.dtype(sum)), b.shape(x)));
  }
  return sum;
}

ValueId stretched(Builder& b, ValueId id, ValueId x) {
  return b.broadcast(b.convert(id, b.dtype(x)), b.shape(x));
}

ValueId inverse_root(Builder& b, ValueId x, double epsilon) {
  const DType dtype = b.dtype(x);
  return b.divide(b.scalar(dtype, 1), b.sqrt(b.add(x, b.scalar(dtype, epsilon))));
}

Values skip_layer_normalization(Builder& b, const OpCall& call) {
  const DType dtype = b.dtype(call.inputs[0]);
  const ValueId sum = sum_of(b, call.inputs[0], {call.inputs[1], operand(call, 4)});
  const Moments m = moments(b, sum, {b.rank(sum) - 1});
  const ValueId inverse = inverse_root(b, m.variance, call.attributes.get_or("epsilon", 1e-12));
  ValueId y = b.multiply(b.multiply(m.centred, inverse), stretched(b, call.inputs[2], sum));
  if (operand(call, 3) != ValueId::none) y = b.add(y, stretched(b, call.inputs[3], sum));
  return {b.convert(y, dtype), b.convert(m.mean, DType::f32), b.convert(inverse, DType::f32),
          b.convert(sum, dtype)};
}

Values skip_rms_normalization(Builder& b, const OpCall& call) {
  const DType dtype = b.dtype(call.inputs[0]);
  const ValueId sum = sum_of(b, call.inputs[0], {call.inputs[1], operand(call, 3)});
  const Ints last = {b.rank(sum) - 1};
  const ValueId square = mean_keeping(b, b.multiply(sum, sum), last);
  const ValueId inverse = inverse_root(b, square, call.attributes.get_or("epsilon", 1e-12));
  const ValueId y = b.multiply(b.multiply(sum, inverse), stretched(b, call.inputs[2], sum));
  return {b.convert(y, dtype), b.convert(mean_keeping(b, sum, last), DType::f32),
          b.convert(inverse, DType::f32), b.convert(sum, dtype)};
}

// In f32 at least: exponentials of 16-bit floats overflow early.
ValueId apply_wide(Builder& b, std::string_view op, ValueId x, const Attributes& attributes = {}) {
  return b.convert(apply(b, op, b.convert(x, wide(b.dtype(x))), attributes), b.dtype(x));
}

Values bias_gelu(Builder& b, const OpCall& call) {
  return {apply_wide(b, "gelu", b.add(call.inputs[0], call.inputs[1]))};
}

Values contrib_gelu(Builder& b, const OpCall& call) { return {apply_wide(b, "gelu", call.inputs[0])}; }

Values fast_gelu(Builder& b, const OpCall& call) {
  const ValueId bias = operand(call, 1);
  const ValueId x = bias == ValueId::none ? call.inputs[0] : b.add(call.inputs[0], bias);
  return {apply_wide(b, "gelu", x, {{"approximate", std::string("tanh")}})};
}

Values quick_gelu(Builder& b, const OpCall& call) {
  return {apply_wide(b, "swish", call.inputs[0], {{"alpha", call.attributes.get_or("alpha", 1.702)}})};
}

std::vector<Sample> fused_matmul_samples(DType t) {
  const auto sample = [&](std::string label, StaticShape a, StaticShape c, Attributes attributes) {
    return Sample{
        std::move(label),
        {sample_tensor(t, std::move(a), Fill::normal, 1), sample_tensor(t, std::move(c), Fill::normal, 2)},
        std::move(attributes),
        {}};
  };
  const std::int64_t yes = 1;
  return {sample("transposed", {5, 3}, {7, 5}, {{"transA", yes}, {"transB", yes}, {"alpha", 0.5}}),
          sample("batches in the middle", {3, 2, 5}, {2, 5, 4}, {{"transBatchA", yes}}),
          sample("both", {5, 2, 3}, {4, 2, 5},
                 {{"transA", yes}, {"transBatchA", yes}, {"transB", yes}, {"transBatchB", yes}})};
}

// x [2, 3, 8], one more of it, then `vectors` of its last axis.
std::vector<Sample> skip_samples(DType t, int vectors) {
  Sample sample{"with bias",
                {sample_tensor(t, {2, 3, 8}, Fill::normal, 1), sample_tensor(t, {3, 8}, Fill::normal, 2)},
                {{"epsilon", 1e-3}},
                {}};
  for (int i = 0; i < vectors; ++i)
    sample.inputs.push_back(sample_tensor(t, {8}, Fill::positive, static_cast<std::uint64_t>(i) + 3));
  return {sample};
}
std::vector<Sample> skip_layer_samples(DType t) { return skip_samples(t, 3); }
std::vector<Sample> skip_rms_samples(DType t) { return skip_samples(t, 2); }

std::vector<Sample> gelu_samples(DType t) {
  return {{"around 0", {sample_tensor(t, {3, 17}, Fill::normal)}, {}, {}},
          {"positive", {sample_tensor(t, {33}, Fill::positive)}, {}, {}},
          {"empty", {sample_tensor(t, {0, 4}, Fill::normal)}, {}, {}}};
}

std::vector<Sample> bias_samples(DType t) {
  return {
      {"a row", {sample_tensor(t, {3, 17}, Fill::normal), sample_tensor(t, {17}, Fill::normal, 2)}, {}, {}}};
}

constexpr AttributeDef kEpsilon = {"epsilon", AttributeKind::real, "1e-12", "added to the variance"};

constexpr OpDef gelu_record(std::string_view name, std::string_view doc, OnnxName onnx,
                            Values (*decompose)(Builder&, const OpCall&), Operand bias,
                            decltype(OpDef::attributes) attributes, std::string_view oracle) {
  OpDef record{.name = name,
               .doc = doc,
               .inputs = {{"x", "[...]", kFloating}},
               .outputs = {{"y", "like x", kFloating}},
               .attributes = attributes,
               .decompose = decompose,
               .samples = gelu_samples,
               .onnx = onnx,
               .oracle = oracle};
  if (!bias.name.empty()) {
    record.inputs = {{"x", "[...]", kFloating}, bias};
    record.samples = bias_samples;
  }
  return record;
}

constexpr std::array kOps = {
    OpDef{.name = "fused_matmul",
          .doc =
              "alpha · matmul of operands whose last two axes (trans) or first axis and batches (transBatch) "
              "change places first.",
          .inputs = {{"a", "[..., M, K]", kFloating}, {"b", "[..., K, N]", kFloating}},
          .outputs = {{"y", "[..., M, N]", kFloating}},
          .attributes = {{"alpha", AttributeKind::real, "1", ""},
                         {"transA", AttributeKind::integer, "0", "1: a is [..., K, M]"},
                         {"transB", AttributeKind::integer, "0", "1: b is [..., N, K]"},
                         {"transBatchA", AttributeKind::integer, "0", "1: a is [M, ..., K]"},
                         {"transBatchB", AttributeKind::integer, "0", "1: b is [K, ..., N]"}},
          .decompose = fused_matmul,
          .samples = fused_matmul_samples,
          .onnx = {"com.microsoft.FusedMatMul", {1}},
          .oracle = "file:contrib.py"},
    OpDef{.name = "skip_layer_normalization",
          .doc = "layer_normalization of x + skip + bias over the last axis; the sum is a result too.",
          .inputs = {{"x", "[..., H]", kFloating},
                     {"skip", "stretches to x", kFloating},
                     {"gamma", "[H]", kFloating},
                     {"beta", "[H]", kFloating, "T", OperandMode::optional},
                     {"bias", "[H]", kFloating, "T", OperandMode::optional}},
          .outputs = {{"y", "like x", kFloating},
                      {"mean", "[..., 1]", kF32, "f32"},
                      {"inverse_deviation", "[..., 1]", kF32, "f32"},
                      {"sum", "like x", kFloating}},
          .attributes = {kEpsilon},
          .decompose = skip_layer_normalization,
          .samples = skip_layer_samples,
          .onnx = {"com.microsoft.SkipLayerNormalization", {1}},
          .oracle = "file:contrib.py"},
    OpDef{.name = "skip_rms_normalization",
          .doc = "rms_normalization of x + skip + bias over the last axis; the sum is a result too.",
          .inputs = {{"x", "[..., H]", kFloating},
                     {"skip", "stretches to x", kFloating},
                     {"gamma", "[H]", kFloating},
                     {"bias", "[H]", kFloating, "T", OperandMode::optional}},
          .outputs = {{"y", "like x", kFloating},
                      {"mean", "[..., 1]", kF32, "f32"},
                      {"inverse_deviation", "[..., 1]", kF32, "f32"},
                      {"sum", "like x", kFloating}},
          .attributes = {kEpsilon},
          .decompose = skip_rms_normalization,
          .samples = skip_rms_samples,
          .onnx = {"com.microsoft.SkipSimplifiedLayerNormalization", {1}},
          .oracle = "file:contrib.py"},
    gelu_record("bias_gelu", "gelu(x + bias).", {"com.microsoft.BiasGelu", {1}}, bias_gelu,
                {"bias", "[H]", kFloating}, {}, "file:contrib.py"),
    gelu_record("contrib_gelu", "gelu under ONNX Runtime's name.", {"com.microsoft.Gelu", {1}}, contrib_gelu,
                {}, {}, "file:contrib.py"),
    gelu_record("fast_gelu", "The tanh approximation of gelu(x + bias).", {"com.microsoft.FastGelu", {1}},
                fast_gelu, {"bias", "[H]", kFloating, "T", OperandMode::optional}, {}, "file:contrib.py"),
    gelu_record("quick_gelu", "x · sigmoid(alpha · x).", {"com.microsoft.QuickGelu", {1}}, quick_gelu, {},
                {{"alpha", AttributeKind::real, "1.702", ""}}, "file:contrib.py"),
};

}  // namespace

std::span<const OpDef> fused_ops() { return kOps; }

}  // namespace diji
