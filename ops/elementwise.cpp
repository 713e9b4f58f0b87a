// Element-wise operators of arithmetic, comparison, logic and conversion. Operands broadcast as in NumPy.
#include "graph/builder.h"
#include "ops/adapters.h"
#include "ops/families.h"
#include "ops/records.h"
#include "ops/samples.h"

#include <array>
#include <cmath>

namespace diji {
namespace {

using enum Primitive;

template <Primitive primitive>
Values binary(Builder& b, const OpCall& call) {
  return {b.map(primitive, {call.inputs[0], call.inputs[1]})};
}

template <Primitive primitive>
Values fold(Builder& b, const OpCall& call) {
  ValueId result = call.inputs[0];
  for (std::size_t i = 1; i < call.inputs.size(); ++i) result = b.map(primitive, {result, call.inputs[i]});
  return {result};
}

Values mean(Builder& b, const OpCall& call) {
  const auto count = static_cast<double>(call.inputs.size());
  return {b.divide(fold<add>(b, call)[0], b.scalar(b.dtype(call.inputs[0]), count))};
}

Values mod_op(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0], y = call.inputs[1];
  const ValueId rest = b.map(remainder, {x, y});
  if (call.attributes.get_or<std::int64_t>("fmod", 0) != 0) return {rest};
  // The sign of the divisor, as in Python: a rest of the other sign goes one divisor up.
  const ValueId zero = b.scalar(b.dtype(x), 0);
  const ValueId other_sign = b.map(bit_xor, {b.less(rest, zero), b.less(y, zero)});
  const ValueId wrong = b.logical_and(other_sign, b.logical_not(b.equal(rest, zero)));
  return {b.select(wrong, b.add(rest, y), rest)};
}

Values pow_op(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0], y = call.inputs[1];
  const DType base = b.dtype(x), exponent = b.dtype(y);
  if (b.ok() && b.graph().value(y).constant != nullptr && b.graph().value(y).constant->count() == 1 &&
      b.graph().value(y).constant->as_double(0) == 2) {
    return {b.multiply(x, b.broadcast(x, b.broadcast_shapes(b.shape(x), b.shape(y), "pow")))};
  }
  if (is_floating(base)) return {b.map(power, {x, b.convert(y, base)})};
  const DType wide = is_floating(exponent) ? DType::f64 : base == DType::u64 ? base : DType::i64;
  return {b.convert(b.map(power, {b.convert(x, wide), b.convert(y, wide)}), base)};
}

Values bit_shift(Builder& b, const OpCall& call) {
  const auto direction = call.attributes.get_or("direction", std::string());
  if (direction != "LEFT" && direction != "RIGHT")
    return {b.fail(ErrorCode::mismatch, "direction '{}' is neither LEFT nor RIGHT", direction)};
  return {b.map(direction == "LEFT" ? shift_left : shift_right, {call.inputs[0], call.inputs[1]})};
}

Values greater(Builder& b, const OpCall& call) { return {b.less(call.inputs[1], call.inputs[0])}; }
Values less_or_equal(Builder& b, const OpCall& call) {
  return {b.less_equal(call.inputs[0], call.inputs[1])};
}
Values greater_or_equal(Builder& b, const OpCall& call) {
  return {b.less_equal(call.inputs[1], call.inputs[0])};
}

Values not_op(Builder& b, const OpCall& call) { return {b.logical_not(call.inputs[0])}; }

Values bitwise_not(Builder& b, const OpCall& call) {
  const DType dtype = b.dtype(call.inputs[0]);
  const ValueId ones = b.subtract(b.scalar(dtype, 0), b.scalar(dtype, 1));
  return {b.map(bit_xor, {call.inputs[0], ones})};
}

Values where(Builder& b, const OpCall& call) {
  return {b.select(call.inputs[0], call.inputs[1], call.inputs[2])};
}

// With the lower bound above the upper one, the upper one wins.
Values clip(Builder& b, const OpCall& call) {
  ValueId result = call.inputs[0];
  if (call.inputs.size() > 1 && call.inputs[1] != ValueId::none)
    result = b.broadcast(b.maximum(result, call.inputs[1]), b.shape(call.inputs[0]));
  if (call.inputs.size() > 2 && call.inputs[2] != ValueId::none)
    result = b.broadcast(b.minimum(result, call.inputs[2]), b.shape(call.inputs[0]));
  return {result};
}

Values cast(Builder& b, const OpCall& call) {
  return {b.convert(call.inputs[0], call.attributes.get_or("to", DType::f32))};
}
Values cast_like(Builder& b, const OpCall& call) {
  return {b.convert(call.inputs[0], b.dtype(call.inputs[1]))};
}
Values identity(Builder&, const OpCall& call) { return {call.inputs[0]}; }

Values is_nan(Builder& b, const OpCall& call) {
  return {b.logical_not(b.equal(call.inputs[0], call.inputs[0]))};
}

Values is_inf(Builder& b, const OpCall& call) {
  const DType dtype = b.dtype(call.inputs[0]);
  const auto either = [&](std::string_view attribute, double sign) {
    const bool wanted = call.attributes.get_or<std::int64_t>(attribute, 1) != 0;
    return wanted ? b.equal(call.inputs[0], b.scalar(dtype, sign * HUGE_VAL))
                  : b.broadcast(b.scalar(DType::boolean, 0), b.shape(call.inputs[0]));
  };
  return {b.logical_or(either("detect_positive", 1), either("detect_negative", -1))};
}

// Bounds that were attributes before version 11 become inputs.
Result<void> clip_bounds(Builder& b, ForeignNode& node) {
  node.attributes.erase("consumed_inputs");
  if (node.version >= 11 || node.inputs.empty() || node.inputs[0] == ValueId::none) return {};
  node.inputs.resize(3, ValueId::none);
  std::size_t input = 1;
  for (const std::string_view name : {"min", "max"}) {
    if (const double* bound = node.attributes.get<double>(name)) {
      node.inputs[input] = b.scalar(b.dtype(node.inputs[0]), *bound);
      node.attributes.erase(name);
    }
    ++input;
  }
  while (node.inputs.back() == ValueId::none) node.inputs.pop_back();
  return {};
}

// Cast-1 names the dtype in words.
Result<void> cast_name(Builder&, ForeignNode& node) {
  const std::string* to = node.attributes.get<std::string>("to");
  if (to == nullptr) return {};
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"FLOAT", DType::f32},  {"DOUBLE", DType::f64}, {"FLOAT16", DType::f16}, {"INT8", DType::i8},
      {"UINT8", DType::u8},   {"INT16", DType::i16},  {"UINT16", DType::u16},  {"INT32", DType::i32},
      {"UINT32", DType::u32}, {"INT64", DType::i64},  {"UINT64", DType::u64},  {"BOOL", DType::boolean}};
  for (const auto& [name, dtype] : kNames) {
    if (*to != name) continue;
    node.attributes.set("to", dtype);
    return {};
  }
  return fail(ErrorCode::unsupported, "a cast to '{}' is not built yet", *to);
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

std::vector<Sample> cast_like_samples(DType dtype) {
  std::vector<Sample> samples;
  for (const DType to : {DType::f32, DType::f16, DType::i64}) {
    samples.push_back({fmt::format("like {}", name_of(to)),
                       {sample_tensor(dtype, {3, 7}, Fill::wide), sample_tensor(to, {1}, Fill::normal)},
                       {},
                       {}});
  }
  return samples;
}

std::vector<Sample> mod_samples(DType dtype) {
  std::vector<Sample> samples = divide_samples(dtype);
  if (!is_floating(dtype)) return samples;
  for (Sample& sample : samples) sample.attributes.set("fmod", std::int64_t{1});
  return samples;
}

std::vector<Sample> pow_samples(DType dtype) {
  std::vector<Sample> samples;
  for (Sample& sample : binary_samples(dtype)) {
    // Integer exponents: small and not negative; powers wrap.
    if (!is_floating(dtype))
      sample.inputs[1] = sample_tensor(dtype, sample.inputs[1].shape(), Fill::positive);
    samples.push_back(std::move(sample));
  }
  samples.push_back({"square",
                     {sample_tensor(dtype, {19}, Fill::wide), sample_tensor(dtype, {}, Fill::positive)},
                     {},
                     {false, true}});
  return samples;
}

std::vector<Sample> shift_samples(DType dtype) {
  std::vector<Sample> samples;
  for (const std::string_view direction : {"LEFT", "RIGHT"}) {
    for (const Fill fill : {Fill::positive, Fill::special}) {
      samples.push_back({fmt::format("{}", direction),
                         {sample_tensor(dtype, {37}, Fill::wide), sample_tensor(dtype, {37}, fill, 2)},
                         {{"direction", std::string(direction)}},
                         {}});
    }
  }
  return samples;
}

// The first operand is the condition; the values are of every dtype.
std::vector<Sample> where_samples(DType) {
  std::vector<Sample> samples;
  const auto add = [&](DType dtype, std::string_view label, StaticShape c, StaticShape x, StaticShape y,
                       Fill fill) {
    samples.push_back(
        {fmt::format("{}, {}", label, name_of(dtype)),
         {sample_tensor(DType::boolean, std::move(c), fill), sample_tensor(dtype, std::move(x), fill),
          sample_tensor(dtype, std::move(y), fill, 2)},
         {},
         {}});
  };
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i16,
                            DType::u16, DType::i32, DType::u32, DType::i64, DType::u64, DType::boolean}) {
    add(dtype, "same shape", {3, 17}, {3, 17}, {3, 17}, Fill::normal);
    add(dtype, "all stretch", {5, 1}, {1, 18}, {}, Fill::special);
    add(dtype, "empty", {0}, {0}, {1}, Fill::normal);
  }
  return samples;
}

std::vector<Sample> clip_samples(DType dtype) {
  const auto x = [&](Fill fill) { return sample_tensor(dtype, {5, 19}, fill); };
  const auto bound = [&](double value) {
    return visit_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      return HostTensor::of<T>({}, {static_cast<T>(value)});
    });
  };
  return {{"both", {x(Fill::normal), bound(1), bound(3)}, {}, {}},
          {"crossed", {x(Fill::normal), bound(3), bound(1)}, {}, {}},
          {"lower", {x(Fill::special), bound(1)}, {}, {}},
          {"special values", {x(Fill::special), bound(0), bound(6)}, {}, {}}};
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

constexpr OpDef comparison_record(std::string_view name, std::string_view doc, DTypeSet dtypes, OnnxName onnx,
                                  Values (*decompose)(Builder&, const OpCall&), std::string_view oracle) {
  OpDef record = binary_record(name, doc, dtypes, onnx, decompose, oracle);
  record.outputs = {{"y", "[...]", kBool, "bool"}};
  return record;
}

constexpr OpDef fold_record(std::string_view name, std::string_view doc, DTypeSet dtypes, OnnxName onnx,
                            Values (*decompose)(Builder&, const OpCall&), std::string_view oracle) {
  OpDef record = binary_record(name, doc, dtypes, onnx, decompose, oracle);
  record.inputs = {{"data", "[...]", dtypes, "T", OperandMode::variadic}};
  return record;
}

constexpr DTypeSet kBits = kInteger;
constexpr DTypeSet kOrdered = static_cast<DTypeSet>(kNumeric | kBool);
constexpr List<std::int64_t, 12> kArithmetic = {1, 6, 7, 13, 14};

constexpr std::array kOps = {
    binary_record("add", "a + b; integers wrap.", kNumeric, {"Add", kArithmetic, legacy_broadcast},
                  binary<add>, "onnx-node:test_add"),
    binary_record("sub", "a - b; integers wrap.", kNumeric, {"Sub", kArithmetic, legacy_broadcast},
                  binary<subtract>, "onnx-node:test_sub"),
    binary_record("mul", "a * b; integers wrap.", kNumeric, {"Mul", kArithmetic, legacy_broadcast},
                  binary<multiply>, "onnx-node:test_mul"),
    with_samples(
        binary_record("div",
                      "a / b; integers truncate toward zero, a zero divisor is an error, minimum / "
                      "-1 wraps.",
                      kNumeric, {"Div", kArithmetic, legacy_broadcast}, binary<divide>, "onnx-node:test_div"),
        divide_samples),
    OpDef{.name = "mod",
          .doc = "Rest of a / b with the sign of b (Python's %), or with fmod=1 of a (C's fmod). An integer "
                 "zero divisor is an error.",
          .inputs = {{"a", "[...]", kNumeric}, {"b", "[...]", kNumeric}},
          .outputs = {{"y", "[...]", kNumeric}},
          .attributes = {{"fmod", AttributeKind::integer, "0", "1: the sign of a"}},
          .decompose = mod_op,
          .samples = mod_samples,
          .onnx = {"Mod", {10, 13, 28}},
          .oracle = "onnx-node:test_mod"},
    OpDef{.name = "pow",
          .doc = "x to the power y, of x's dtype; integers are exact and wrap.",
          .inputs = {{"x", "[...]", kNumeric}, {"y", "[...]", kNumeric, "U"}},
          .outputs = {{"z", "[...]", kNumeric}},
          .decompose = pow_op,
          .samples = pow_samples,
          .onnx = {"Pow", {1, 7, 12, 13, 15}, legacy_broadcast},
          .oracle = "onnx-node:test_pow"},
    fold_record("max", "The largest of all inputs; NaN wherever one is NaN.", kNumeric,
                {"Max", {1, 6, 8, 12, 13}, drop_consumed_inputs}, fold<maximum>, "onnx-node:test_max_"),
    fold_record("min", "The smallest of all inputs; NaN wherever one is NaN.", kNumeric,
                {"Min", {1, 6, 8, 12, 13}, drop_consumed_inputs}, fold<minimum>, "onnx-node:test_min_"),
    fold_record("sum", "The sum of all inputs.", kFloating, {"Sum", {1, 6, 8, 13}, drop_consumed_inputs},
                fold<add>, "onnx-node:test_sum_"),
    fold_record("mean", "The mean of all inputs.", kFloating, {"Mean", {1, 6, 8, 13}, drop_consumed_inputs},
                mean, "onnx-node:test_mean_"),
    comparison_record("equal", "a = b; NaN equals nothing.", kAny,
                      {"Equal", {1, 7, 11, 13, 19}, legacy_broadcast}, binary<equal>, "onnx-node:test_equal"),
    comparison_record("less", "a < b; false where one is NaN.", kOrdered,
                      {"Less", {1, 7, 9, 13}, legacy_broadcast}, binary<less>, "onnx-node:test_less"),
    comparison_record("greater", "a > b; false where one is NaN.", kOrdered,
                      {"Greater", {1, 7, 9, 13}, legacy_broadcast}, greater, "onnx-node:test_greater"),
    comparison_record("less_or_equal", "a <= b; false where one is NaN.", kOrdered, {"LessOrEqual", {12, 16}},
                      less_or_equal, "onnx-node:test_less_equal"),
    comparison_record("greater_or_equal", "a >= b; false where one is NaN.", kOrdered,
                      {"GreaterOrEqual", {12, 16}}, greater_or_equal, "onnx-node:test_greater_equal"),
    binary_record("and", "Both are true.", kBool, {"And", {1, 7}, legacy_broadcast}, binary<bit_and>,
                  "onnx-node:test_and"),
    binary_record("or", "One is true.", kBool, {"Or", {1, 7}, legacy_broadcast}, binary<bit_or>,
                  "onnx-node:test_or"),
    binary_record("xor", "Exactly one is true.", kBool, {"Xor", {1, 7}, legacy_broadcast}, binary<bit_xor>,
                  "onnx-node:test_xor"),
    binary_record("bitwise_and", "Bits of both.", kBits, {"BitwiseAnd", {18}}, binary<bit_and>,
                  "onnx-node:test_bitwise_and"),
    binary_record("bitwise_or", "Bits of either.", kBits, {"BitwiseOr", {18}}, binary<bit_or>,
                  "onnx-node:test_bitwise_or"),
    binary_record("bitwise_xor", "Bits of exactly one.", kBits, {"BitwiseXor", {18}}, binary<bit_xor>,
                  "onnx-node:test_bitwise_xor"),
    OpDef{.name = "bit_shift",
          .doc = "x shifted by y bits; bits shifted out are lost.",
          .inputs = {{"x", "[...]", kInteger}, {"y", "[...]", kInteger}},
          .outputs = {{"z", "[...]", kInteger}},
          .attributes = {{"direction", AttributeKind::text, "", "LEFT or RIGHT"}},
          .decompose = bit_shift,
          .samples = shift_samples,
          .onnx = {"BitShift", {11, 28}},
          .oracle = "onnx-node:test_bitshift"},
    unary_record("not", "True where x is false.", kBool, {"Not", {1}}, not_op, "onnx-node:test_not"),
    unary_record("bitwise_not", "All bits turned.", kBits, {"BitwiseNot", {18}}, bitwise_not,
                 "onnx-node:test_bitwise_not"),
    OpDef{.name = "where",
          .doc = "x where the condition is true, else y.",
          .inputs = {{"condition", "[...]", kBool, "bool"}, {"x", "[...]"}, {"y", "[...]"}},
          .outputs = {{"output", "[...]"}},
          .decompose = where,
          .samples = where_samples,
          .onnx = {"Where", {9, 16}},
          .oracle = "onnx-node:test_where"},
    OpDef{.name = "clip",
          .doc = "min(max(x, lower), upper); NaN stays NaN; with crossed bounds the upper one wins.",
          .inputs = {{"input", "[...]", kNumeric},
                     {"min", "[]", kNumeric, "T", OperandMode::optional},
                     {"max", "[]", kNumeric, "T", OperandMode::optional}},
          .outputs = {{"output", "[...]", kNumeric}},
          .decompose = clip,
          .samples = clip_samples,
          .onnx = {"Clip", {1, 6, 11, 12, 13}, clip_bounds},
          .oracle = "onnx-node:test_clip"},
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
          .onnx = {"Cast", {1, 6, 9, 13, 19, 21, 23, 24, 25, 28}, cast_name},
          .oracle = "onnx-node:test_cast"},
    OpDef{.name = "cast_like",
          .doc = "The first input in the dtype of the second (see cast).",
          .inputs = {{"input", "[...]"}, {"target_type", "[...]", kAny, "U"}},
          .outputs = {{"output", "[...]", kAny, "U"}},
          .attributes = {{"saturate", AttributeKind::integer, "1", "of 8-bit floats only"},
                         {"round_mode", AttributeKind::text, "up", "of 8-bit floats only"}},
          .decompose = cast_like,
          .samples = cast_like_samples,
          .onnx = {"CastLike", {15, 19, 21, 23, 24, 25}},
          .oracle = "onnx-node:test_castlike"},
    unary_record("identity", "x itself.", kAny, {"Identity", {1, 13, 14, 16, 19, 21, 23, 24, 25}}, identity,
                 "onnx-node:test_identity"),
    OpDef{.name = "is_nan",
          .doc = "True where x is not a number.",
          .inputs = {{"x", "[...]", kFloating}},
          .outputs = {{"y", "[...]", kBool, "bool"}},
          .decompose = is_nan,
          .samples = unary_samples,
          .onnx = {"IsNaN", {9, 13, 20}},
          .oracle = "onnx-node:test_isnan"},
    OpDef{.name = "is_inf",
          .doc = "True where x is infinite.",
          .inputs = {{"x", "[...]", kFloating}},
          .outputs = {{"y", "[...]", kBool, "bool"}},
          .attributes = {{"detect_negative", AttributeKind::integer, "1", "look for -inf"},
                         {"detect_positive", AttributeKind::integer, "1", "look for +inf"}},
          .decompose = is_inf,
          .samples = unary_samples,
          .onnx = {"IsInf", {10, 20}},
          .oracle = "onnx-node:test_isinf"},
};

}  // namespace

std::span<const OpDef> elementwise_ops() { return kOps; }

}  // namespace diji
