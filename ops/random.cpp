// Operators that draw random numbers.
#include "ops/adapters.h"
#include "ops/families.h"
#include "ops/formula.h"
#include "ops/random_numbers.h"
#include "ops/records.h"
#include "ops/rules.h"

#include <array>
#include <bit>

namespace diji {
namespace {

std::int64_t stream_of(const OpCall& call) { return call.attributes.get_or<std::int64_t>("stream", 0); }

// ---- what operators make of them

Values uniform(Builder& b, const OpCall& call, const Shape& shape, DType dtype) {
  const DType computed = wider(dtype);
  const double low = call.attributes.get_or("low", 0.0), high = call.attributes.get_or("high", 1.0);
  const ValueId u = uniform_numbers(b, shape, computed, operand(call, 1), stream_of(call));
  const ValueId spread = b.multiply(u, b.scalar(computed, high - low));
  return {b.convert(b.add(b.scalar(computed, low), spread), dtype)};
}

Values normal(Builder& b, const OpCall& call, const Shape& shape, DType dtype) {
  const DType computed = wider(dtype);
  const ValueId z = normal_numbers(b, shape, computed, operand(call, 1), stream_of(call));
  const ValueId spread = b.multiply(z, b.scalar(computed, call.attributes.get_or("scale", 1.0)));
  return {b.convert(b.add(b.scalar(computed, call.attributes.get_or("mean", 0.0)), spread), dtype)};
}

using Draw = Values (*)(Builder& b, const OpCall& call, const Shape& shape, DType dtype);

Values drawn(Builder& b, const OpCall& call, const std::optional<Shape>& shape, DType dtype, Draw draw) {
  if (!is_floating(dtype))
    return {b.fail(ErrorCode::mismatch, "dtype {} is no float; the attribute dtype says which one",
                   name_of(dtype))};
  return shape ? draw(b, call, *shape, dtype) : Values{ValueId::none};
}

template <Draw draw>
Values of_shape(Builder& b, const OpCall& call) {
  return drawn(b, call, known_list(b, call.inputs[0], "shape"), call.attributes.get_or("dtype", DType::f32),
               draw);
}

template <Draw draw>
Values of_likeness(Builder& b, const OpCall& call) {
  const Type like = b.type(call.inputs[0]);
  return drawn(b, call, like.shape, call.attributes.get_or("dtype", like.dtype), draw);
}

Values bernoulli(Builder& b, const OpCall& call) {
  const ValueId p = call.inputs[0];
  const DType computed = wider(b.dtype(p));
  const ValueId u = uniform_numbers(b, b.shape(p), computed, operand(call, 1), stream_of(call));
  const ValueId hit = b.less(u, b.convert(p, computed));
  return {b.convert(hit, call.attributes.get_or("dtype", b.dtype(p)))};
}

// The class in whose part of the summed up weights a uniform number falls.
Values multinomial(Builder& b, const OpCall& call) {
  const ValueId given = call.inputs[0];
  const auto samples = call.attributes.get_or<std::int64_t>("sample_size", 1);
  const DType dtype = call.attributes.get_or("dtype", DType::i32);
  if (b.rank(given) != 2)
    return {
        b.fail(ErrorCode::mismatch, "the input is {}, [batch, classes] is wanted", text_of(b.shape(given)))};
  if (samples < 1) return {b.fail(ErrorCode::mismatch, "sample_size is {}", samples)};
  if (dtype != DType::i32 && dtype != DType::i64)
    return {b.fail(ErrorCode::mismatch, "dtype {} is neither i32 nor i64", name_of(dtype))};
  const DType computed = wider(b.dtype(given));
  const ValueId x = b.convert(given, computed);
  const Dim batch = b.shape(x)[0], classes = b.shape(x)[1];
  const ValueId weights = b.exp(b.subtract(x, b.reduce_keeping(x, Reduction::max, {1})));
  const ValueId edges = b.prefix_scan(weights, Reduction::sum, 1, false, false);
  const ValueId total = slice_axis(b, edges, 1, classes - Dim(1), Dim(1));
  const ValueId u = uniform_numbers(b, {batch, Dim(samples)}, computed, operand(call, 1), stream_of(call));
  const ValueId at = b.reshape(b.multiply(u, total), {batch, Dim(samples), Dim(1)});
  const ValueId passed = b.less_equal(b.reshape(edges, {batch, Dim(1), classes}), at);
  const ValueId drawn_class = b.reduce(b.convert(passed, DType::i64), Reduction::sum, {2});
  // A product that rounds up to the total belongs to the last class.
  return {b.convert(b.minimum(drawn_class, size_scalar(b, classes - Dim(1))), dtype)};
}

// Where training is told to be off, or nothing is dropped, the data pass as they are.
Values dropout(Builder& b, const OpCall& call) {
  const ValueId data = call.inputs[0], given = operand(call, 1), mode = operand(call, 2);
  const DType mask_dtype = call.attributes.get_or("mask_dtype", DType::boolean);
  const bool trains = mode != ValueId::none && constant_number(b, mode) != 0.0;
  if (!trains || (given != ValueId::none && constant_number(b, given) == 0.0))
    return {data, b.broadcast(b.scalar(mask_dtype, 1), b.shape(data))};
  const DType computed = given == ValueId::none ? DType::f32 : wider(b.dtype(given));
  const ValueId ratio =
      given == ValueId::none ? b.scalar(computed, 0.5) : b.convert(b.reshape(given, {}), computed);
  const ValueId u = uniform_numbers(b, b.shape(data), computed, operand(call, 3), stream_of(call));
  ValueId kept = b.less_equal(ratio, u);
  const DType wide = wider(b.dtype(data));
  const ValueId share = b.subtract(b.scalar(computed, 1), ratio);
  const ValueId scaled = b.divide(b.convert(data, wide), b.convert(share, wide));
  ValueId result = b.select(kept, b.convert(scaled, b.dtype(data)), b.scalar(b.dtype(data), 0));
  if (!constant_number(b, mode)) {
    const ValueId on = b.reshape(mode, {});
    kept = b.logical_or(kept, b.logical_not(on));
    result = b.select(on, result, data);
  }
  return {result, b.convert(kept, mask_dtype)};
}

// ---- what models write

// Nodes that name one seed draw the same numbers; others have streams of their own, which the importer names.
Result<void> seed_to_stream(Builder&, ForeignNode& node) {
  node.draws = true;
  if (const double* real = node.attributes.get<double>("seed")) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(*real));
    node.attributes.set("stream", static_cast<std::int64_t>(bits));
  } else if (const std::int64_t* number = node.attributes.get<std::int64_t>("seed")) {
    node.attributes.set("stream", *number);
  }
  node.attributes.erase("seed");
  return {};
}

Result<void> shape_and_seed(Builder& b, ForeignNode& node) {
  if (!node.attributes.has("shape")) return fail(ErrorCode::malformed, "attribute 'shape' is missing");
  TRY(attribute_to_input(b, node, "shape", 0));
  return seed_to_stream(b, node);
}

// Before version 7 the mask is off in training only; before 10 it has the data's dtype; before 12 nothing
// trains.
Result<void> dropout_attributes(Builder& b, ForeignNode& node) {
  for (const std::string_view name : {"consumed_inputs", "ratio", "is_test"}) node.attributes.erase(name);
  if (node.version < 10 && !node.inputs.empty()) node.attributes.set("mask_dtype", b.dtype(node.inputs[0]));
  TRY(seed_to_stream(b, node));
  node.draws = node.inputs.size() > 2 && constant_number(b, node.inputs[2]) != 0.0;
  return {};
}

// ---- records

constexpr OperandMode kOptional = OperandMode::optional;
constexpr Operand kKey = {"key", "[]", kU64, "key", kOptional};
constexpr AttributeDef kStream = {"stream", AttributeKind::integer, "0",
                                  "nodes of one key and stream draw the same numbers"};

const HostTensor& key_sample() {
  static const HostTensor kKeySample = random_key(7, 3);
  return kKeySample;
}

std::vector<Sample> shape_samples(DType) {
  std::vector<Sample> samples = {{"no key", {ints({3, 17})}, {}, {true}}};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    samples.push_back({std::string(name_of(dtype)),
                       {ints({5, 33}), key_sample()},
                       {{"dtype", dtype}, {"stream", std::int64_t{0x123456789abcdef}}},
                       {true, false}});
  }
  samples.push_back({"empty", {ints({0, 3}), key_sample()}, {}, {true, false}});
  return samples;
}

std::vector<Sample> like_samples(DType t) {
  const HostTensor like = sample_tensor(t, {3, 17}, Fill::special);
  std::vector<Sample> samples = {{"f32", {like}, {{"dtype", DType::f32}}, {}}};
  if (is_floating(t))
    samples.push_back({"its dtype", {like, key_sample()}, {{"stream", std::int64_t{-5}}}, {}});
  return samples;
}

std::vector<Sample> bernoulli_samples(DType t) {
  // Below 0 and above 1 too.
  return {{"to f32",
           {sample_tensor(t, {7, 19}, Fill::normal), key_sample()},
           {{"dtype", DType::f32}, {"stream", std::int64_t{1}}},
           {}},
          {"to bool", {sample_tensor(t, {37}, Fill::positive)}, {{"dtype", DType::boolean}}, {}}};
}

std::vector<Sample> multinomial_samples(DType t) {
  return {{"classes",
           {sample_tensor(t, {3, 17}, Fill::normal), key_sample()},
           {{"sample_size", std::int64_t{9}}},
           {}},
          {"one class", {sample_tensor(t, {2, 1}, Fill::normal)}, {{"dtype", DType::i64}}, {}}};
}

std::vector<Sample> dropout_samples(DType t) {
  const auto one = [](bool value) { return HostTensor::of<bool>({}, {value}); };
  const HostTensor ratio = HostTensor::of<float>({}, {0.25F}), data = sample_tensor(t, {3, 17}, Fill::normal);
  return {{"inference", {sample_tensor(t, {3, 17}, Fill::special)}, {}, {}},
          {"training", {data, ratio, one(true), key_sample()}, {}, {false, true, true}},
          {"mode and ratio from data", {data, ratio, one(true), key_sample()}, {}, {}},
          {"inference from data", {data, ratio, one(false), key_sample()}, {}, {}}};
}

// Of a distribution with two parameters: `from` tells the shape.
constexpr OpDef distribution(std::string_view name, std::string_view doc, Operand from,
                             std::string_view dtype, OnnxName onnx,
                             Values (*decompose)(Builder&, const OpCall&),
                             std::vector<Sample> (*samples)(DType), std::string_view oracle,
                             AttributeDef first, AttributeDef second) {
  return {.name = name,
          .doc = doc,
          .inputs = {from, kKey},
          .outputs = {{"y", from.dims == "[r]" ? "shape" : from.dims, kFloating, "dtype"}},
          .attributes = {first, second, {"dtype", AttributeKind::dtype, dtype, "of the result"}, kStream},
          .decompose = decompose,
          .samples = samples,
          .onnx = onnx,
          .oracle = oracle};
}
constexpr Operand kShape = {"shape", "[r]", kI64, "index", OperandMode::required, true};
constexpr Operand kLike = {"like", "[...]", kAny};

constexpr AttributeDef real(std::string_view name, std::string_view otherwise) {
  return {name, AttributeKind::real, otherwise, ""};
}

constexpr std::array kOps = {
    distribution("random_uniform",
                 "low + u · (high - low) with u uniform in [0, 1): 24 bits of Philox4x32-10, 53 for f64.",
                 kShape, "f32", {"RandomUniform", {1, 22}, shape_and_seed}, of_shape<uniform>, shape_samples,
                 "file:random_numbers.py", real("low", "0"), real("high", "1")),
    distribution("random_uniform_like", "random_uniform of the shape of another tensor.", kLike, "like's",
                 {"RandomUniformLike", {1, 22}, seed_to_stream}, of_likeness<uniform>, like_samples,
                 "file:random_numbers.py", real("low", "0"), real("high", "1")),
    distribution("random_normal",
                 "mean + scale · sqrt(-2 ln u) cos(2 π v) with u and v uniform (Box and Muller 1958).",
                 kShape, "f32", {"RandomNormal", {1, 22}, shape_and_seed}, of_shape<normal>, shape_samples,
                 "file:random_numbers.py", real("mean", "0"), real("scale", "1")),
    distribution("random_normal_like", "random_normal of the shape of another tensor.", kLike, "like's",
                 {"RandomNormalLike", {1, 22}, seed_to_stream}, of_likeness<normal>, like_samples,
                 "file:random_numbers.py", real("mean", "0"), real("scale", "1")),
    OpDef{.name = "bernoulli",
          .doc = "1 where a uniform number is below p, else 0.",
          .inputs = {{"p", "[...]", kFloating}, kKey},
          .outputs = {{"y", "[...]", kAny, "dtype"}},
          .attributes = {{"dtype", AttributeKind::dtype, "p's", "of the result"}, kStream},
          .decompose = bernoulli,
          .samples = bernoulli_samples,
          .onnx = {"Bernoulli", {15, 22}, seed_to_stream},
          .oracle = "file:random_numbers.py"},
    OpDef{.name = "multinomial",
          .doc = "Classes drawn with probabilities softmax(x): the running sum of e^(x - max) is searched.",
          .inputs = {{"x", "[batch, classes]", kFloating}, kKey},
          .outputs = {{"y", "[batch, sample_size]", kIndex, "dtype"}},
          .attributes = {{"dtype", AttributeKind::dtype, "i32", "or i64"},
                         {"sample_size", AttributeKind::integer, "1", "numbers a row"},
                         kStream},
          .decompose = multinomial,
          .samples = multinomial_samples,
          .onnx = {"Multinomial", {7, 22}, seed_to_stream},
          .oracle = "file:random_numbers.py"},
    OpDef{.name = "dropout",
          .doc =
              "Training: data / (1 - ratio), or 0 where a uniform number is below ratio; the mask says where "
              "not. Else the data as they are, and a mask that keeps everything.",
          .inputs = {{"data", "[...]", kFloating},
                     {"ratio", "[]", kFloating, "R", kOptional},
                     {"training_mode", "[]", kBool, "bool", kOptional},
                     kKey},
          .outputs = {{"output", "[...]", kFloating}, {"mask", "[...]", kAny, "mask_dtype"}},
          .attributes = {{"mask_dtype", AttributeKind::dtype, "bool", "of the mask"}, kStream},
          .decompose = dropout,
          .samples = dropout_samples,
          .onnx = {"Dropout", {1, 6, 7, 10, 12, 13, 22}, dropout_attributes},
          .oracle = "onnx-node:test_dropout"},
};

}  // namespace

std::span<const OpDef> random_ops() { return kOps; }

}  // namespace diji
