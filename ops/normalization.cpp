// Normalisation: softmax and its kin, and the layers that subtract a mean and divide by a deviation.
#include "ops/adapters.h"
#include "ops/families.h"
#include "ops/numerics.h"
#include "ops/samples.h"

#include <array>

namespace diji {
namespace {

// The axis of softmax; before version 13 everything from it on.
std::optional<Ints> softmax_axes(Builder& b, const OpCall& call) {
  const std::int64_t rank = b.rank(call.inputs[0]);
  const bool flattened = call.attributes.get_or<std::int64_t>("flattened", 0) != 0;
  const auto given = call.attributes.get_or<std::int64_t>("axis", -1);
  if (flattened && given == rank) return Ints{};
  const std::int64_t axis = b.axis(given, rank);
  if (!b.ok()) return std::nullopt;
  return flattened ? axes_from(axis, rank) : Ints{axis};
}

Values softmax_op(Builder& b, const OpCall& call) {
  const auto axes = softmax_axes(b, call);
  return {axes ? softmax(b, call.inputs[0], *axes) : ValueId::none};
}

Values log_softmax(Builder& b, const OpCall& call) {
  const auto axes = softmax_axes(b, call);
  if (!axes) return {ValueId::none};
  const DType dtype = b.dtype(call.inputs[0]);
  const ValueId x = b.convert(call.inputs[0], wide(dtype));
  const ValueId shifted = b.subtract(x, b.reduce_keeping(x, Reduction::max, *axes));
  const ValueId sum = b.reduce_keeping(b.exp(shifted), Reduction::sum, *axes);
  return {b.convert(b.subtract(shifted, b.log(sum)), dtype)};
}

Values hardmax(Builder& b, const OpCall& call) {
  const auto axes = softmax_axes(b, call);
  if (!axes) return {ValueId::none};
  const Shape from = b.shape(call.inputs[0]);
  const std::int64_t axis = axes->empty() ? b.rank(call.inputs[0]) : axes->front();
  // The folded axes as one, so that only one element of all of them is the largest.
  const auto folded = from.begin() + axis, behind = folded + std::ssize(*axes);
  Shape merged(from.begin(), folded);
  merged.push_back(element_count(Shape(folded, behind)));
  merged.insert(merged.end(), behind, from.end());
  const ValueId x = b.reshape(call.inputs[0], merged);
  Shape kept = merged;
  kept[static_cast<std::size_t>(axis)] = 1;
  const ValueId largest = b.reshape(b.arg_reduce(x, Reduction::max, axis), kept);
  const ValueId hit = b.equal(b.iota(merged, axis), largest);
  return {b.reshape(b.convert(hit, b.dtype(x)), from)};
}

Result<void> softmax_adapt(Builder&, ForeignNode& node) {
  if (node.version >= 13) return {};
  node.attributes.set("flattened", std::int64_t{1});
  if (!node.attributes.has("axis")) node.attributes.set("axis", std::int64_t{1});
  return {};
}

double epsilon(const OpCall& call, double otherwise = 1e-5) {
  return call.attributes.get_or("epsilon", otherwise);
}

// 1 / sqrt(variance + epsilon)
ValueId inverse_deviation(Builder& b, ValueId variance, double epsilon) {
  const DType dtype = b.dtype(variance);
  return b.divide(b.scalar(dtype, 1), b.sqrt(b.add(variance, b.scalar(dtype, epsilon))));
}

// x · scale + bias, each stretched one way, to x; the bias may be absent.
ValueId scaled(Builder& b, ValueId x, ValueId scale, ValueId bias) {
  const auto stretched = [&](ValueId id) { return b.broadcast(b.convert(id, b.dtype(x)), b.shape(x)); };
  const ValueId product = b.multiply(x, stretched(scale));
  return bias == ValueId::none ? product : b.add(product, stretched(bias));
}

Values layer_normalization(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  const DType dtype = b.dtype(x), stash = call.attributes.get_or("stash_type", DType::f32);
  const std::int64_t axis = b.axis(call.attributes.get_or<std::int64_t>("axis", -1), b.rank(x));
  if (!b.ok()) return {ValueId::none};
  const Moments m = moments(b, b.convert(x, wide(dtype)), axes_from(axis, b.rank(x)));
  const ValueId inverse = inverse_deviation(b, m.variance, epsilon(call));
  const ValueId y = scaled(b, b.multiply(m.centred, inverse), call.inputs[1], operand(call, 2));
  return {b.convert(y, dtype), b.convert(m.mean, stash), b.convert(inverse, stash)};
}

Values rms_normalization(Builder& b, const OpCall& call) {
  const ValueId x = b.convert(call.inputs[0], wide(b.dtype(call.inputs[0])));
  const std::int64_t axis = b.axis(call.attributes.get_or<std::int64_t>("axis", -1), b.rank(x));
  if (!b.ok()) return {ValueId::none};
  const ValueId square = mean_keeping(b, b.multiply(x, x), axes_from(axis, b.rank(x)));
  const ValueId inverse = inverse_deviation(b, square, epsilon(call));
  const ValueId y = scaled(b, b.multiply(x, inverse), call.inputs[1], ValueId::none);
  return {b.convert(y, b.dtype(call.inputs[1])),
          b.convert(inverse, call.attributes.get_or("stash_type", DType::f32))};
}

Values instance_normalization(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  const DType dtype = b.dtype(x);
  const std::int64_t rank = b.rank(x);
  if (rank < 2) return {b.fail(ErrorCode::mismatch, "x {} has no channels", text_of(b.type(x)))};
  const Moments m = moments(b, b.convert(x, wide(dtype)), axes_from(2, rank));
  const ValueId y = b.multiply(m.centred, inverse_deviation(b, m.variance, epsilon(call)));
  return {b.convert(
      scaled(b, y, along_axis(b, call.inputs[1], 1, rank), along_axis(b, call.inputs[2], 1, rank)), dtype)};
}

Values group_normalization(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  const Shape from = b.shape(x);
  const DType dtype = b.dtype(x);
  const auto groups = call.attributes.get_or<std::int64_t>("num_groups", 1);
  if (from.size() < 2 || groups < 1) {
    return {b.fail(ErrorCode::mismatch, "x {} cannot be normalised in {} groups of channels",
                   text_of(b.type(x)), groups)};
  }
  Shape grouped = {from[0], groups, floor_div(from[1], groups)};
  grouped.insert(grouped.end(), from.begin() + 2, from.end());
  const auto rank = std::ssize(grouped);
  const Moments m = moments(b, b.reshape(b.convert(x, wide(dtype)), grouped), axes_from(2, rank));
  ValueId y = b.multiply(m.centred, inverse_deviation(b, m.variance, epsilon(call)));
  const bool per_group = call.attributes.get_or<std::int64_t>("per_group", 0) != 0;
  if (!per_group) y = b.reshape(y, from);
  const std::int64_t stretched = per_group ? rank : std::ssize(from);
  y = scaled(b, y, along_axis(b, call.inputs[1], 1, stretched), along_axis(b, call.inputs[2], 1, stretched));
  return {b.convert(b.reshape(y, from), dtype)};
}

Result<void> group_normalization_adapt(Builder&, ForeignNode& node) {
  if (node.version < 21) node.attributes.set("per_group", std::int64_t{1});
  return {};
}

// Statistics have the shape [C], or that of x without its batch (before version 9, spatial = 0).
ValueId channel_operand(Builder& b, ValueId id, ValueId x) {
  const ValueId wider = b.convert(id, wide(b.dtype(x)));
  const bool spatial = b.rank(id) == 1;
  return spatial ? along_axis(b, wider, b.rank(x) < 2 ? 0 : 1, b.rank(x)) : wider;
}

Values batch_normalization(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  const DType dtype = b.dtype(x);
  const bool training = call.attributes.get_or<std::int64_t>("training_mode", 0) != 0;
  ValueId mean = channel_operand(b, call.inputs[3], x), variance = channel_operand(b, call.inputs[4], x);
  if (!b.ok()) return {ValueId::none};
  const ValueId wider = b.convert(x, wide(dtype));
  Values results = {ValueId::none};
  if (training) {
    Ints axes = axes_from(2, b.rank(x));
    axes.insert(axes.begin(), 0);
    const Moments m = moments(b, wider, axes);
    const ValueId momentum = b.scalar(b.dtype(wider), call.attributes.get_or("momentum", 0.9));
    const ValueId rest = b.subtract(b.scalar(b.dtype(wider), 1), momentum);
    const auto running = [&](ValueId before, ValueId now, ValueId like) {
      const ValueId blend = b.add(b.multiply(before, momentum), b.multiply(now, rest));
      return b.convert(b.reshape(blend, b.shape(like)), b.dtype(like));
    };
    results.push_back(running(mean, m.mean, call.inputs[3]));
    results.push_back(running(variance, m.variance, call.inputs[4]));
    mean = m.mean;
    variance = m.variance;
  }
  // All of it but the outer two operations is about channels only, and folds into constants.
  const ValueId factor =
      b.multiply(channel_operand(b, call.inputs[1], x), inverse_deviation(b, variance, epsilon(call)));
  const ValueId y = b.add(b.multiply(b.subtract(wider, mean), factor), channel_operand(b, call.inputs[2], x));
  results[0] = b.convert(b.broadcast(y, b.shape(x)), dtype);
  return results;
}

// Models from before version 14 are taken as meant for inference: nothing else of them is exported.
Result<void> batch_normalization_adapt(Builder&, ForeignNode& node) {
  for (const std::string_view old : {"consumed_inputs", "is_test", "spatial"}) node.attributes.erase(old);
  return {};
}

Values lp_normalization(Builder& b, const OpCall& call) {
  const DType dtype = b.dtype(call.inputs[0]);
  const ValueId x = b.convert(call.inputs[0], wide(dtype));
  const std::int64_t axis = b.axis(call.attributes.get_or<std::int64_t>("axis", -1), b.rank(x));
  const auto p = call.attributes.get_or<std::int64_t>("p", 2);
  if (p != 1 && p != 2) return {b.fail(ErrorCode::mismatch, "p is {}; 1 and 2 are norms here", p)};
  const ValueId sum = b.reduce_keeping(p == 1 ? b.absolute(x) : b.multiply(x, x), Reduction::sum, {axis});
  const ValueId norm = p == 1 ? sum : b.sqrt(sum);
  const ValueId zero = b.scalar(b.dtype(x), 0);
  return {b.convert(b.select(b.equal(norm, zero), zero, b.divide(x, norm)), dtype)};
}

Values mean_variance_normalization(Builder& b, const OpCall& call) {
  const DType dtype = b.dtype(call.inputs[0]);
  Ints axes;
  for (const std::int64_t axis : call.attributes.get_or("axes", Ints{0, 2, 3}))
    axes.push_back(b.axis(axis, b.rank(call.inputs[0])));
  if (!b.ok()) return {ValueId::none};
  const Moments m = moments(b, b.convert(call.inputs[0], wide(dtype)), axes);
  const ValueId deviation = b.add(b.sqrt(m.variance), b.scalar(wide(dtype), 1e-9));
  return {b.convert(b.divide(m.centred, deviation), dtype)};
}

// The squares of the `size` channels around each one, as a last axis that is folded.
Values lrn(Builder& b, const OpCall& call) {
  const DType dtype = b.dtype(call.inputs[0]);
  const ValueId x = b.convert(call.inputs[0], wide(dtype));
  const auto size = call.attributes.get_or<std::int64_t>("size", 1);
  if (b.rank(x) < 2 || size < 1)
    return {b.fail(ErrorCode::mismatch, "x {} has no regions of {} channels", text_of(b.type(x)), size)};
  Shape windows = b.shape(x);
  windows.emplace_back(size);
  Values indices;
  for (std::int64_t axis = 0; axis < b.rank(x); ++axis) indices.push_back(b.iota(windows, axis));
  const ValueId offset =
      b.subtract(b.iota(windows, b.rank(x)), b.scalar(DType::i64, static_cast<double>((size - 1) / 2)));
  indices[1] = b.add(indices[1], offset);
  const ValueId region = b.gather(x, indices, true);
  const ValueId squares = b.reduce(b.multiply(region, region), Reduction::sum, {b.rank(x)});
  const auto real = [&](std::string_view name, double otherwise) {
    return call.attributes.get_or(name, otherwise);
  };
  const DType in = b.dtype(x);
  const ValueId base =
      b.add(b.scalar(in, real("bias", 1.0)),
            b.multiply(b.scalar(in, real("alpha", 1e-4) / static_cast<double>(size)), squares));
  return {b.convert(b.divide(x, b.map(Primitive::power, {base, b.scalar(in, real("beta", 0.75))})), dtype)};
}

std::vector<Sample> softmax_samples(DType t) {
  const auto x = [&](StaticShape shape, Fill fill) { return sample_tensor(t, std::move(shape), fill); };
  return {{"last axis", {x({5, 37}, Fill::normal)}, {}, {}},
          {"first axis", {x({19, 4}, Fill::wide)}, {{"axis", std::int64_t{0}}}, {}},
          {"middle axis", {x({2, 7, 3}, Fill::normal)}, {{"axis", std::int64_t{-2}}}, {}},
          {"one element", {x({3, 1}, Fill::wide)}, {}, {}},
          {"flattened",
           {x({2, 3, 5}, Fill::normal)},
           {{"axis", std::int64_t{1}}, {"flattened", std::int64_t{1}}},
           {}},
          {"no rows", {x({0, 5}, Fill::normal)}, {}, {}},
          {"special values", {x({3, 14}, Fill::special)}, {}, {}}};
}

// x, then `vectors` operands of the shape `vector`.
Sample layer_sample(DType t, std::string label, StaticShape shape, const StaticShape& vector, int vectors,
                    Attributes attributes, Fill fill = Fill::normal) {
  Sample sample{std::move(label), {sample_tensor(t, std::move(shape), fill, 1)}, std::move(attributes), {}};
  for (int i = 0; i < vectors; ++i)
    sample.inputs.push_back(sample_tensor(t, vector, Fill::positive, static_cast<std::uint64_t>(i) + 2));
  return sample;
}

std::vector<Sample> layer_samples(DType t) {
  return {layer_sample(t, "last axis", {5, 37}, {37}, 1, {}),
          layer_sample(t, "two axes", {3, 4, 5}, {4, 5}, 1, {{"axis", std::int64_t{1}}}),
          layer_sample(t, "all axes", {3, 7}, {3, 7}, 1, {{"axis", std::int64_t{-2}}}),
          layer_sample(t, "scale stretches", {2, 3, 5}, {5}, 1, {{"axis", std::int64_t{-2}}}),
          layer_sample(t, "no rows", {0, 5}, {5}, 1, {})};
}

std::vector<Sample> layer_bias_samples(DType t) {
  auto samples = layer_samples(t);
  samples.push_back(layer_sample(t, "with bias", {4, 33}, {33}, 2, {{"epsilon", 0.1}}));
  return samples;
}

std::vector<Sample> instance_samples(DType t) {
  return {layer_sample(t, "1-d", {2, 3, 17}, {3}, 2, {}), layer_sample(t, "2-d", {1, 4, 5, 6}, {4}, 2, {}),
          layer_sample(t, "no batch", {0, 2, 5}, {2}, 2, {})};
}

std::vector<Sample> group_samples(DType t) {
  const Attributes two = {{"num_groups", std::int64_t{2}}};
  return {layer_sample(t, "per channel", {2, 4, 5}, {4}, 2, two),
          layer_sample(t, "one group", {1, 3, 4, 4}, {3}, 2, {{"num_groups", std::int64_t{1}}}),
          layer_sample(t, "per group", {2, 4, 3, 2}, {2}, 2,
                       {{"num_groups", std::int64_t{2}}, {"per_group", std::int64_t{1}}})};
}

std::vector<Sample> batch_samples(DType t) {
  return {layer_sample(t, "inference", {2, 3, 17}, {3}, 4, {}),
          layer_sample(t, "only channels", {5, 18}, {18}, 4, {{"epsilon", 0.01}}),
          layer_sample(t, "training", {4, 3, 5}, {3}, 4,
                       {{"training_mode", std::int64_t{1}}, {"momentum", 0.25}}),
          layer_sample(t, "per element", {2, 3, 4}, {3, 4}, 4, {}),
          layer_sample(t, "no batch", {0, 3, 2}, {3}, 4, {})};
}

std::vector<Sample> lp_samples(DType t) {
  return {layer_sample(t, "2-norm", {3, 17}, {}, 0, {}),
          layer_sample(t, "1-norm", {5, 4}, {}, 0, {{"axis", std::int64_t{0}}, {"p", std::int64_t{1}}})};
}

std::vector<Sample> mean_variance_samples(DType t) {
  return {layer_sample(t, "images", {2, 3, 4, 5}, {}, 0, {}),
          layer_sample(t, "one axis", {4, 9}, {}, 0, {{"axes", Ints{-1}}})};
}

std::vector<Sample> lrn_samples(DType t) {
  return {layer_sample(t, "odd", {2, 5, 3}, {}, 0, {{"size", std::int64_t{3}}}),
          layer_sample(t, "even", {1, 4, 2, 3}, {}, 0, {{"size", std::int64_t{4}}, {"alpha", 0.5}}),
          layer_sample(t, "wider than x", {1, 2, 3}, {}, 0, {{"size", std::int64_t{7}}, {"bias", 2.0}})};
}

constexpr OpDef softmax_record(std::string_view name, std::string_view doc, std::string_view onnx,
                               Values (*decompose)(Builder&, const OpCall&), std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "[...]", kFloating}},
          .outputs = {{"y", "like x", kFloating}},
          .attributes = {{"axis", AttributeKind::integer, "-1", ""},
                         {"flattened", AttributeKind::integer, "0",
                          "1: over all axes from `axis` on, as before version 13"}},
          .decompose = decompose,
          .samples = softmax_samples,
          .onnx = {onnx, {1, 11, 13}, softmax_adapt},
          .oracle = oracle};
}

constexpr AttributeDef kEpsilon = {"epsilon", AttributeKind::real, "1e-5", "added to the variance"};
constexpr AttributeDef kStash = {"stash_type", AttributeKind::dtype, "f32",
                                 "of the statistics; they are computed in f32 at least"};

constexpr OpDef rms_record(std::string_view name, std::string_view doc, OnnxName onnx,
                           std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "[...]", kFloating}, {"scale", "stretches to x", kFloating, "V"}},
          .outputs = {{"y", "like x", kFloating, "V"},
                      {"inverse_deviation", "[..., 1...]", kFloating, "stash_type"}},
          .attributes = {{"axis", AttributeKind::integer, "-1", "the first one folded"}, kEpsilon, kStash},
          .decompose = rms_normalization,
          .samples = layer_samples,
          .onnx = onnx,
          .oracle = oracle};
}

constexpr std::array kOps = {
    softmax_record("softmax", "exp(x - max) / sum of it along the axis; a row of only -inf is NaN.",
                   "Softmax", softmax_op, "onnx-node:test_softmax_"),
    softmax_record("log_softmax", "x - max - log of the sum of exp(x - max) along the axis.", "LogSoftmax",
                   log_softmax, "onnx-node:test_logsoftmax_"),
    softmax_record("hardmax", "1 at the first largest element along the axis, else 0.", "Hardmax", hardmax,
                   "onnx-node:test_hardmax_"),
    OpDef{.name = "layer_normalization",
          .doc = "(x - mean) / sqrt(variance + epsilon) · scale + bias; statistics over the axes from `axis` "
                 "on (Ba, Kiros, Hinton 2016).",
          .inputs = {{"x", "[...]", kFloating},
                     {"scale", "stretches to x", kFloating},
                     {"bias", "stretches to x", kFloating, "T", OperandMode::optional}},
          .outputs = {{"y", "like x", kFloating},
                      {"mean", "[..., 1...]", kFloating, "stash_type"},
                      {"inverse_deviation", "[..., 1...]", kFloating, "stash_type"}},
          .attributes = {{"axis", AttributeKind::integer, "-1", "the first one folded"}, kEpsilon, kStash},
          .decompose = layer_normalization,
          .samples = layer_bias_samples,
          .onnx = {"LayerNormalization", {1, 17}},
          .oracle = "onnx-node:test_layer_normalization_"},
    rms_record("rms_normalization",
               "x / sqrt(mean of x^2 + epsilon) · scale over the axes from `axis` on (Zhang, Sennrich 2019).",
               {"RMSNormalization", {23}}, "onnx-node:test_rms_normalization_"),
    rms_record("simplified_layer_normalization", "rms_normalization under ONNX Runtime's name.",
               {"SimplifiedLayerNormalization", {1}}, "file:contrib.py"),
    OpDef{
        .name = "instance_normalization",
        .doc = "Each channel of each instance by its own mean and variance (Ulyanov et al. 2016).",
        .inputs = {{"x", "[N, C, ...]", kFloating}, {"scale", "[C]", kFloating}, {"bias", "[C]", kFloating}},
        .outputs = {{"y", "like x", kFloating}},
        .attributes = {kEpsilon},
        .decompose = instance_normalization,
        .samples = instance_samples,
        .onnx = {"InstanceNormalization", {1, 6, 22}, drop_consumed_inputs},
        .oracle = "onnx-node:test_instancenorm_"},
    OpDef{.name = "group_normalization",
          .doc = "Groups of channels of each instance by their mean and variance (Wu, He 2018).",
          .inputs = {{"x", "[N, C, ...]", kFloating},
                     {"scale", "[C], or [groups] with per_group", kFloating},
                     {"bias", "like scale", kFloating}},
          .outputs = {{"y", "like x", kFloating}},
          .attributes = {kEpsilon,
                         {"num_groups", AttributeKind::integer, "", "divides C"},
                         {"per_group", AttributeKind::integer, "0",
                          "1: one scale a group, as before version 21"},
                         kStash},
          .decompose = group_normalization,
          .samples = group_samples,
          .onnx = {"GroupNormalization", {18, 21}, group_normalization_adapt},
          .oracle = "onnx-node:test_group_normalization_"},
    OpDef{.name = "batch_normalization",
          .doc = "(x - mean) / sqrt(variance + epsilon) · scale + bias for each channel, with the statistics "
                 "given, or with the batch's own in training mode (Ioffe, Szegedy 2015), which also returns "
                 "running = given · momentum + own · (1 - momentum).",
          .inputs = {{"x", "[N, C, ...]", kFloating},
                     {"scale", "[C]", kFloating, "V"},
                     {"bias", "[C]", kFloating, "V"},
                     {"mean", "[C]", kFloating, "W"},
                     {"variance", "[C]", kFloating, "W"}},
          .outputs = {{"y", "like x", kFloating},
                      {"running_mean", "[C], in training mode", kFloating, "W"},
                      {"running_variance", "[C], in training mode", kFloating, "W"}},
          .attributes = {kEpsilon,
                         {"momentum", AttributeKind::real, "0.9", "of the running statistics"},
                         {"training_mode", AttributeKind::integer, "0", ""}},
          .decompose = batch_normalization,
          .samples = batch_samples,
          .onnx = {"BatchNormalization", {1, 6, 7, 9, 14, 15}, batch_normalization_adapt},
          .oracle = "onnx-node:test_batchnorm_"},
    OpDef{.name = "lp_normalization",
          .doc = "x / (sum of |x|^p along the axis)^(1/p); 0 where the norm is 0.",
          .inputs = {{"x", "[...]", kFloating}},
          .outputs = {{"y", "like x", kFloating}},
          .attributes = {{"axis", AttributeKind::integer, "-1", ""},
                         {"p", AttributeKind::integer, "2", "or 1"}},
          .decompose = lp_normalization,
          .samples = lp_samples,
          .onnx = {"LpNormalization", {1, 22}},
          .oracle = "onnx-node:test_l2normalization_"},
    OpDef{.name = "mean_variance_normalization",
          .doc = "(x - mean) / (standard deviation + 1e-9) over the axes.",
          .inputs = {{"x", "[...]", kFloating}},
          .outputs = {{"y", "like x", kFloating}},
          .attributes = {{"axes", AttributeKind::integers, "0, 2, 3", ""}},
          .decompose = mean_variance_normalization,
          .samples = mean_variance_samples,
          .onnx = {"MeanVarianceNormalization", {9, 13}},
          .oracle = "onnx-node:test_mvn"},
    OpDef{.name = "lrn",
          .doc = "x / (bias + alpha / size · sum of the squares of the `size` channels around)^beta "
                 "(Krizhevsky et al. 2012).",
          .inputs = {{"x", "[N, C, ...]", kFloating}},
          .outputs = {{"y", "like x", kFloating}},
          .attributes = {{"alpha", AttributeKind::real, "1e-4", ""},
                         {"beta", AttributeKind::real, "0.75", ""},
                         {"bias", AttributeKind::real, "1", ""},
                         {"size", AttributeKind::integer, "", "channels; the odd one behind"}},
          .decompose = lrn,
          .samples = lrn_samples,
          .onnx = {"LRN", {1, 13}},
          .oracle = "onnx-node:test_lrn"},
};

}  // namespace

std::span<const OpDef> normalization_ops() { return kOps; }

}  // namespace diji
