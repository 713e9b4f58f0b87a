// Losses of classification: negative log-likelihood, with or without the softmax in front.
#include "ops/families.h"
#include "ops/formula.h"
#include "ops/samples.h"

#include <array>

namespace diji {
namespace {

ValueId sum_of_all(Builder& b, ValueId x) {
  Ints axes;
  for (std::int64_t axis = 0; axis < b.rank(x); ++axis) axes.push_back(axis);
  return b.reduce(x, Reduction::sum, std::move(axes));
}

// −log_prob[n, target, ...] · weight[target], 0 for the ignored class; then the sum, or the mean by weights.
ValueId nll(Builder& b, const OpCall& call, ValueId log_prob, ValueId given_target, ValueId weight) {
  const Shape from = b.shape(log_prob), to = b.shape(given_target);
  if (from.size() < 2 || to.size() + 1 != from.size())
    return b.fail(ErrorCode::mismatch, "scores {} and target {} must be [N, C, ...] and [N, ...]",
                  text_of(from), text_of(to));
  const std::string reduction = word(call, "reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    return b.fail(ErrorCode::mismatch, "reduction '{}' is none of mean, sum, none", reduction);
  const DType dtype = b.dtype(log_prob);
  const ValueId zero = b.scalar(dtype, 0);
  ValueId target = b.convert(given_target, DType::i64), ignored = ValueId::none;
  if (const auto* const index = call.attributes.get<std::int64_t>("ignore_index")) {
    ignored = b.equal(target, size_scalar(b, *index));
    target = b.select(ignored, size_scalar(b, 0), target);
  }
  Values indices = {b.iota(to, 0), target};
  for (std::size_t axis = 1; axis < to.size(); ++axis)
    indices.push_back(b.iota(to, static_cast<std::int64_t>(axis)));
  ValueId loss = b.subtract(zero, b.gather(log_prob, std::move(indices)));
  ValueId weights = ValueId::none;
  if (weight != ValueId::none) {
    weights = b.gather(b.convert(weight, dtype), {target});
    loss = b.multiply(loss, weights);
  }
  if (ignored != ValueId::none) {
    loss = b.select(ignored, zero, loss);
    weights = b.select(ignored, zero, weights == ValueId::none ? b.scalar(dtype, 1) : weights);
  }
  if (reduction == "none") return loss;
  const ValueId sum = sum_of_all(b, loss);
  if (reduction == "sum") return sum;
  return b.divide(sum, weights == ValueId::none ? b.convert(size_scalar(b, element_count(to)), dtype)
                                                : sum_of_all(b, weights));
}

Values negative_log_likelihood_loss(Builder& b, const OpCall& call) {
  const DType dtype = b.dtype(call.inputs[0]);
  const ValueId loss =
      nll(b, call, b.convert(call.inputs[0], wider(dtype)), call.inputs[1], operand(call, 2));
  return {b.convert(loss, dtype)};
}

Values softmax_cross_entropy_loss(Builder& b, const OpCall& call) {
  const DType dtype = b.dtype(call.inputs[0]);
  if (b.rank(call.inputs[0]) < 2) {
    const ValueId none =
        b.fail(ErrorCode::mismatch, "scores {} must be [N, C, ...]", text_of(b.shape(call.inputs[0])));
    return {none, none};
  }
  const ValueId x = b.convert(call.inputs[0], wider(dtype));
  const ValueId shifted = b.subtract(x, b.reduce_keeping(x, Reduction::max, {1}));
  const ValueId log_prob = b.subtract(shifted, b.log(b.reduce_keeping(b.exp(shifted), Reduction::sum, {1})));
  const ValueId loss = nll(b, call, log_prob, call.inputs[1], operand(call, 2));
  return {b.convert(loss, dtype), b.convert(log_prob, dtype)};
}

std::vector<Sample> loss_samples(DType t) {
  const auto x = sample_tensor(t, {3, 5}, Fill::normal, 1),
             map = sample_tensor(t, {2, 4, 3, 2}, Fill::normal, 2);
  const auto weight = sample_tensor(t, {5}, Fill::positive, 3),
             channels = sample_tensor(t, {4}, Fill::positive, 4);
  const auto classes = HostTensor::of<std::int64_t>({3}, {4, 0, 2});
  const auto pixels = HostTensor::of<std::int64_t>({2, 3, 2}, {0, 3, 1, 2, -1, 0, 2, 2, -1, 1, 3, 0});
  const auto reduced = [](std::string kind) { return Attributes{{"reduction", std::move(kind)}}; };
  Attributes ignoring = {{"ignore_index", std::int64_t{-1}}};
  return {{"mean", {x, classes}, {}, {}},
          {"weighted mean", {x, classes, weight}, {}, {}},
          {"sum", {x, classes, weight}, reduced("sum"), {}},
          {"each", {x, classes}, reduced("none"), {}},
          {"an ignored class", {map, pixels}, ignoring, {}},
          {"an ignored class, weighted", {map, pixels, channels}, ignoring, {}}};
}

constexpr List<AttributeDef, 2> kLossAttributes = {
    {"ignore_index", AttributeKind::integer, "none", "a target that does not count"},
    {"reduction", AttributeKind::text, "mean", "or sum, none"}};

constexpr std::array kOps = {
    OpDef{.name = "negative_log_likelihood_loss",
          .doc = "−input[n, target, ...] · weight[target]; the mean divides by the sum of the weights that "
                 "were applied.",
          .inputs = {{"input", "[N, C, ...]: log-probabilities", kFloating},
                     {"target", "[N, ...]", kIndex, "index"},
                     {"weight", "[C]", kFloating, "T", OperandMode::optional}},
          .outputs = {{"loss", "[] or [N, ...]", kFloating}},
          .attributes = {kLossAttributes[0], kLossAttributes[1]},
          .decompose = negative_log_likelihood_loss,
          .samples = loss_samples,
          .onnx = {"NegativeLogLikelihoodLoss", {12, 13, 22}},
          .oracle = "onnx-node:test_nllloss"},
    OpDef{.name = "softmax_cross_entropy_loss",
          .doc = "negative_log_likelihood_loss of the logarithm of the softmax over classes, which is the "
                 "second result.",
          .inputs = {{"scores", "[N, C, ...]", kFloating},
                     {"labels", "[N, ...]", kIndex, "index"},
                     {"weights", "[C]", kFloating, "T", OperandMode::optional}},
          .outputs = {{"output", "[] or [N, ...]", kFloating}, {"log_prob", "[N, C, ...]", kFloating}},
          .attributes = {kLossAttributes[0], kLossAttributes[1]},
          .decompose = softmax_cross_entropy_loss,
          .samples = loss_samples,
          .onnx = {"SoftmaxCrossEntropyLoss", {12, 13}},
          .oracle = "onnx-node:test_sce"},
};

}  // namespace

std::span<const OpDef> loss_ops() { return kOps; }

}  // namespace diji
