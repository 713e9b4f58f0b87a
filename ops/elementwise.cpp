// Element-wise operators: arithmetic, comparison, functions, casts. Operands broadcast as in NumPy.
#include "graph/builder.h"
#include "ops/families.h"
#include "ops/samples.h"

#include <array>

namespace diji {
namespace {

using enum Primitive;

template <Primitive primitive>
Values binary(Builder& b, const OpCall& call) {
  return {b.map(primitive, {call.inputs[0], call.inputs[1]})};
}

template <Primitive primitive>
Values unary(Builder& b, const OpCall& call) {
  return {b.map(primitive, {call.inputs[0]})};
}

Values max_op(Builder& b, const OpCall& call) {
  ValueId result = call.inputs[0];
  for (std::size_t i = 1; i < call.inputs.size(); ++i) result = b.maximum(result, call.inputs[i]);
  return {result};
}

Values reciprocal(Builder& b, const OpCall& call) {
  return {b.divide(b.scalar(b.dtype(call.inputs[0]), 1), call.inputs[0])};
}

Values cast(Builder& b, const OpCall& call) {
  return {b.convert(call.inputs[0], call.attributes.get_or("to", DType::f32))};
}

std::vector<Sample> cast_samples(DType dtype) {
  std::vector<Sample> samples;
  for (const DType to :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8, DType::boolean}) {
    for (Sample sample : unary_samples(dtype)) {
      sample.label += fmt::format(" to {}", name_of(to));
      sample.attributes.set("to", to);
      samples.push_back(std::move(sample));
    }
  }
  return samples;
}

constexpr OpDef binary_record(std::string_view name, std::string_view doc, DTypeSet dtypes, OnnxName onnx,
                              Values (*decompose)(Builder&, const OpCall&), std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"a", "[...]", dtypes}, {"b", "[...]", dtypes}},
          .outputs = {{"y", "[...]", dtypes}},
          .decompose = decompose,
          .samples = binary_samples,
          .onnx = onnx,
          .oracle = oracle};
}

constexpr OpDef unary_record(std::string_view name, std::string_view doc, OnnxName onnx,
                             Values (*decompose)(Builder&, const OpCall&), std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "[...]", kFloating}},
          .outputs = {{"y", "[...]", kFloating}},
          .decompose = decompose,
          .samples = unary_samples,
          .onnx = onnx,
          .oracle = oracle};
}

constexpr std::array kOps = {
    binary_record("add", "a + b; integers wrap.", kNumeric, {"Add", {7, 13, 14}}, binary<add>,
                  "onnx-node:test_add"),
    binary_record("sub", "a - b; integers wrap.", kNumeric, {"Sub", {7, 13, 14}}, binary<subtract>,
                  "onnx-node:test_sub"),
    binary_record("mul", "a * b; integers wrap.", kNumeric, {"Mul", {7, 13, 14}}, binary<multiply>,
                  "onnx-node:test_mul"),
    OpDef{.name = "div",
          .doc = "a / b; integers truncate toward zero, a zero divisor is an error, minimum / -1 wraps.",
          .inputs = {{"a", "[...]", kNumeric}, {"b", "[...]", kNumeric}},
          .outputs = {{"y", "[...]", kNumeric}},
          .decompose = binary<divide>,
          .samples = divide_samples,
          .onnx = {"Div", {7, 13, 14}},
          .oracle = "onnx-node:test_div"},
    OpDef{.name = "max",
          .doc = "The largest of all inputs; NaN wherever one is NaN.",
          .inputs = {{"data", "[...]", kNumeric, "T", OperandMode::variadic}},
          .outputs = {{"max", "[...]", kNumeric}},
          .decompose = max_op,
          .samples = binary_samples,
          .onnx = {"Max", {6, 8, 12, 13}},
          .oracle = "onnx-node:test_max_"},
    OpDef{.name = "equal",
          .doc = "a = b; NaN equals nothing.",
          .inputs = {{"a", "[...]"}, {"b", "[...]"}},
          .outputs = {{"y", "[...]", kBool, "bool"}},
          .decompose = binary<equal>,
          .samples = binary_samples,
          .onnx = {"Equal", {7, 11, 13, 19}},
          .oracle = "onnx-node:test_equal"},
    unary_record("exp", "e to the power x, within 1 ULP.", {"Exp", {6, 13}}, unary<Primitive::exp>,
                 "onnx-node:test_exp_"),
    unary_record("tanh", "Hyperbolic tangent, within 1 ULP.", {"Tanh", {6, 13}}, unary<Primitive::tanh>,
                 "onnx-node:test_tanh"),
    unary_record("sqrt", "Square root, correctly rounded; NaN below zero.", {"Sqrt", {6, 13}},
                 unary<Primitive::sqrt>, "onnx-node:test_sqrt"),
    unary_record("reciprocal", "1 / x, correctly rounded.", {"Reciprocal", {6, 13}}, reciprocal,
                 "onnx-node:test_reciprocal"),
    OpDef{.name = "cast",
          .doc = "Another dtype. Floats round to nearest even once; float to integer truncates and "
                 "saturates, NaN gives 0; "
                 "integers wrap; to bool is x != 0.",
          .inputs = {{"x", "[...]"}},
          .outputs = {{"y", "[...]", kAny, "to"}},
          .attributes = {{"to", AttributeKind::dtype, "", "dtype of the result"},
                         {"saturate", AttributeKind::integer, "1", "of 8-bit floats only"},
                         {"round_mode", AttributeKind::text, "up", "of 8-bit floats only"}},
          .decompose = cast,
          .samples = cast_samples,
          .onnx = {"Cast", {6, 9, 13, 19, 21, 23, 24, 25, 28}},
          .oracle = "onnx-node:test_cast"},
};

}  // namespace

std::span<const OpDef> elementwise_ops() { return kOps; }

}  // namespace diji
