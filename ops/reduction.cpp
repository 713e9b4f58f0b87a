// Reductions over axes and pools over all of space.
#include "graph/builder.h"
#include "ops/adapters.h"
#include "ops/families.h"
#include "ops/samples.h"

#include <algorithm>
#include <array>

namespace diji {
namespace {

// The axes to fold: the optional second input, else all (or none with noop_with_empty_axes).
std::optional<Ints> folded_axes(Builder& b, const OpCall& call) {
  const std::int64_t rank = b.rank(call.inputs[0]);
  Ints axes;
  if (call.inputs.size() > 1 && call.inputs[1] != ValueId::none) {
    const auto given = b.constant_ints(call.inputs[1]);
    if (!given) {
      b.fail(ErrorCode::unsupported,
             "'axes' must be known when the model is loaded; computed axes are not built yet");
      return std::nullopt;
    }
    for (const std::int64_t axis : *given) axes.push_back(b.axis(axis, rank));
  }
  if (axes.empty() && call.attributes.get_or<std::int64_t>("noop_with_empty_axes", 0) == 0) {
    for (std::int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  }
  std::ranges::sort(axes);
  return axes;
}

ValueId keep_axes(Builder& b, ValueId folded, const Shape& from, const Ints& axes) {
  Shape kept = from;
  for (const std::int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  return b.ok() ? b.reshape(folded, std::move(kept)) : folded;
}

template <Reduction reduction>
Values reduce(Builder& b, const OpCall& call) {
  const auto axes = folded_axes(b, call);
  if (!axes || !b.ok()) return {ValueId::none};
  const ValueId x = call.inputs[0];
  const Shape from = b.shape(x);
  // A maximum of booleans is "any of them".
  const bool logical = b.dtype(x) == DType::boolean;
  ValueId result = b.reduce(logical ? b.convert(x, DType::u8) : x, reduction, *axes);
  if (logical) result = b.convert(result, DType::boolean);
  if (call.attributes.get_or<std::int64_t>("keepdims", 1) != 0) result = keep_axes(b, result, from, *axes);
  return {result};
}

// The count is an expression of sizes; it becomes a number when the model runs.
Values reduce_mean(Builder& b, const OpCall& call) {
  const auto axes = folded_axes(b, call);
  if (!axes || !b.ok()) return {ValueId::none};
  const Shape from = b.shape(call.inputs[0]);
  const DType dtype = b.dtype(call.inputs[0]);
  // A 16-bit float can hold neither large counts nor large sums.
  const ValueId x = b.convert(call.inputs[0], dtype == DType::f64 ? dtype : DType::f32);
  Dim count = 1;
  for (const std::int64_t axis : *axes) count = count * from[static_cast<std::size_t>(axis)];
  const ValueId divisor = b.convert(b.reshape(b.dims({count}), {}), b.dtype(x));
  const ValueId mean = b.convert(b.divide(b.reduce(x, Reduction::sum, *axes), divisor), dtype);
  const bool keep = call.attributes.get_or<std::int64_t>("keepdims", 1) != 0;
  return {keep ? keep_axes(b, mean, from, *axes) : mean};
}

Values global_max_pool(Builder& b, const OpCall& call) {
  const Shape from = b.shape(call.inputs[0]);
  if (from.size() < 3)
    return {b.fail(ErrorCode::mismatch, "x of shape {} has no spatial axes", text_of(from))};
  Ints axes;
  for (std::size_t axis = 2; axis < from.size(); ++axis) axes.push_back(static_cast<std::int64_t>(axis));
  return {keep_axes(b, b.reduce(call.inputs[0], Reduction::max, axes), from, axes)};
}

Result<void> axes_to_input(Builder& builder, ForeignNode& node) {
  return attribute_to_input(builder, node, "axes", 1);
}

std::vector<Sample> reduce_samples(DType t) {
  const auto x = [&](StaticShape shape, Fill fill) { return sample_tensor(t, std::move(shape), fill); };
  const Attributes drop = {{"keepdims", std::int64_t{0}}};
  return {{"inner", {x({5, 37}, Fill::normal), ints({1})}, drop, {false, true}},
          {"outer", {x({37, 18}, Fill::wide), ints({0})}, drop, {false, true}},
          {"middle", {x({3, 7, 19}, Fill::normal), ints({-2})}, {}, {false, true}},
          {"outer and inner", {x({3, 7, 19}, Fill::positive), ints({0, 2})}, drop, {false, true}},
          {"all", {x({4, 5, 6}, Fill::normal)}, {}, {}},
          {"long", {x({2, 5000}, Fill::wide), ints({1})}, drop, {false, true}},
          {"longer than f16 counts", {x({1, 70000}, Fill::normal), ints({1})}, drop, {false, true}},
          {"nothing to fold", {x({4, 5}, Fill::normal)}, {{"noop_with_empty_axes", std::int64_t{1}}}, {}},
          {"over nothing", {x({3, 0}, Fill::normal), ints({1})}, drop, {false, true}},
          {"special values", {x({4, 28}, Fill::special), ints({1})}, drop, {false, true}}};
}

std::vector<Sample> pool_samples(DType t) {
  return {{"1-d", {sample_tensor(t, {2, 3, 17}, Fill::normal)}, {}, {}},
          {"2-d", {sample_tensor(t, {1, 4, 5, 9}, Fill::wide)}, {}, {}},
          {"special values", {sample_tensor(t, {1, 2, 16}, Fill::special)}, {}, {}}};
}

constexpr OpDef reduce_record(std::string_view name, std::string_view doc, DTypeSet dtypes, OnnxName onnx,
                              Values (*decompose)(Builder&, const OpCall&), std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"data", "[...]", dtypes}, {"axes", "[n]", kI64, "index", OperandMode::optional}},
          .outputs = {{"reduced", "[kept...]", dtypes}},
          .attributes = {{"keepdims", AttributeKind::integer, "1", "folded axes stay as size 1"},
                         {"noop_with_empty_axes", AttributeKind::integer, "0",
                          "no axes means none instead of all"}},
          .decompose = decompose,
          .samples = reduce_samples,
          .onnx = onnx,
          .oracle = oracle};
}

constexpr std::array kOps = {
    reduce_record("reduce_sum", "Sum over axes; 0 over nothing; integers wrap.", kNumeric,
                  {"ReduceSum", {1, 11, 13}, axes_to_input}, reduce<Reduction::sum>,
                  "onnx-node:test_reduce_sum_"),
    reduce_record("reduce_max", "Maximum over axes; any NaN wins; −inf or the smallest integer over nothing.",
                  kAny, {"ReduceMax", {1, 11, 12, 13, 18, 20}, axes_to_input}, reduce<Reduction::max>,
                  "onnx-node:test_reduce_max_"),
    reduce_record("reduce_mean", "Sum over axes divided by the number of elements; NaN over nothing.",
                  kFloating, {"ReduceMean", {1, 11, 13, 18}, axes_to_input}, reduce_mean,
                  "onnx-node:test_reduce_mean_"),
    OpDef{.name = "global_max_pool",
          .doc = "Maximum over all spatial axes: [N, C, ...] -> [N, C, 1...].",
          .inputs = {{"x", "[N, C, ...]", kFloating}},
          .outputs = {{"y", "[N, C, 1...]", kFloating}},
          .decompose = global_max_pool,
          .samples = pool_samples,
          .onnx = {"GlobalMaxPool", {1, 22}},
          .oracle = "onnx-node:test_globalmaxpool"},
};

}  // namespace

std::span<const OpDef> reduction_ops() { return kOps; }

}  // namespace diji
