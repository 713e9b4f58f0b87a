// Reductions over axes and pools over all of space.
#include "graph/builder.h"
#include "ops/adapters.h"
#include "ops/families.h"
#include "ops/samples.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace diji {
namespace {

// The axes to fold: the optional second input, else all (or none with noop_with_empty_axes).
std::optional<Ints> folded_axes(Builder& b, const OpCall& call) {
  const std::int64_t rank = b.rank(call.inputs[0]);
  Ints axes;
  if (call.inputs.size() > 1 && call.inputs[1] != ValueId::none) {
    const auto given = b.constant_ints(call.inputs[1]);
    if (!given) {
      b.undecided("'axes' are not known when the model is loaded");
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
  const DType wide = is_floating(dtype) && dtype != DType::f64 ? DType::f32 : dtype;
  const ValueId x = b.convert(call.inputs[0], wide);
  Dim count = 1;
  for (const std::int64_t axis : *axes) count = count * from[static_cast<std::size_t>(axis)];
  const ValueId divisor = b.convert(b.reshape(b.dims({count}), {}), b.dtype(x));
  const ValueId mean = b.convert(b.divide(b.reduce(x, Reduction::sum, *axes), divisor), dtype);
  const bool keep = call.attributes.get_or<std::int64_t>("keepdims", 1) != 0;
  return {keep ? keep_axes(b, mean, from, *axes) : mean};
}

// One of the norms and logarithms of sums: work on each element, a sum, work on the sum. Integers are
// computed in f64 where a root or logarithm is taken.
enum class Norm : std::uint8_t { l1, l2, log_sum, sum_square };

template <Norm norm>
Values reduce_norm(Builder& b, const OpCall& call) {
  const auto axes = folded_axes(b, call);
  if (!axes || !b.ok()) return {ValueId::none};
  const DType dtype = b.dtype(call.inputs[0]);
  constexpr bool kIrrational = norm == Norm::l2 || norm == Norm::log_sum;
  const DType wide = is_floating(dtype) ? (dtype == DType::f64 ? dtype : DType::f32)
                     : kIrrational      ? DType::f64
                                        : dtype;
  ValueId x = b.convert(call.inputs[0], wide);
  const Shape from = b.shape(x);
  if constexpr (norm == Norm::l1) x = b.absolute(x);
  if constexpr (norm == Norm::l2 || norm == Norm::sum_square) x = b.multiply(x, x);
  ValueId sum = b.reduce(x, Reduction::sum, *axes);
  if constexpr (norm == Norm::l2) sum = b.sqrt(sum);
  if constexpr (norm == Norm::log_sum) sum = b.log(sum);
  sum = b.convert(sum, dtype);
  const bool keep = call.attributes.get_or<std::int64_t>("keepdims", 1) != 0;
  return {keep ? keep_axes(b, sum, from, *axes) : sum};
}

// log(sum(e^x)) = m + log(sum(e^(x - m))) with m the maximum where it is finite.
Values reduce_log_sum_exp(Builder& b, const OpCall& call) {
  const auto axes = folded_axes(b, call);
  if (!axes || !b.ok()) return {ValueId::none};
  const DType dtype = b.dtype(call.inputs[0]);
  const DType wide = is_floating(dtype) && dtype != DType::f64 ? DType::f32 : DType::f64;
  const ValueId x = b.convert(call.inputs[0], wide);
  const Shape from = b.shape(x);
  const ValueId largest = b.reduce_keeping(x, Reduction::max, *axes);
  const ValueId infinite = b.equal(b.absolute(largest), b.scalar(wide, HUGE_VAL));
  const ValueId m = b.select(infinite, b.scalar(wide, 0), largest);
  const ValueId sum = b.reduce_keeping(b.exp(b.subtract(x, m)), Reduction::sum, *axes);
  ValueId result = b.convert(b.add(m, b.log(sum)), dtype);
  if (call.attributes.get_or<std::int64_t>("keepdims", 1) == 0 && b.ok()) {
    Shape kept;
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (std::ranges::find(*axes, static_cast<std::int64_t>(i)) == axes->end()) kept.push_back(from[i]);
    }
    result = b.reshape(result, std::move(kept));
  }
  return {result};
}

template <Reduction reduction>
Values arg_reduce(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  const std::int64_t axis = b.axis(call.attributes.get_or<std::int64_t>("axis", 0), b.rank(x));
  if (!b.ok()) return {ValueId::none};
  const bool last = call.attributes.get_or<std::int64_t>("select_last_index", 0) != 0;
  const ValueId found = b.arg_reduce(x, reduction, axis, last);
  if (call.attributes.get_or<std::int64_t>("keepdims", 1) == 0) return {found};
  return {keep_axes(b, found, b.shape(x), {axis})};
}

// The axis may come from data: the scans of all axes are computed then, and one is taken.
template <Reduction reduction>
Values cumulative(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  const bool exclusive = call.attributes.get_or<std::int64_t>("exclusive", 0) != 0;
  const bool reverse = call.attributes.get_or<std::int64_t>("reverse", 0) != 0;
  if (const auto known = b.constant_ints(call.inputs[1]); known && known->size() == 1) {
    const std::int64_t axis = b.axis((*known)[0], b.rank(x));
    return {b.ok() ? b.prefix_scan(x, reduction, axis, exclusive, reverse) : ValueId::none};
  }
  const ValueId axis = b.reshape(b.convert(call.inputs[1], DType::i64), {});
  ValueId result = x;
  for (std::int64_t i = 0; i < b.rank(x); ++i) {
    const ValueId here =
        b.logical_or(b.equal(axis, b.scalar(DType::i64, static_cast<double>(i))),
                     b.equal(axis, b.scalar(DType::i64, static_cast<double>(i - b.rank(x)))));
    result = b.select(here, b.prefix_scan(x, reduction, i, exclusive, reverse), result);
  }
  return {result};
}

Values global_average_pool(Builder& b, const OpCall& call) {
  const Shape from = b.shape(call.inputs[0]);
  if (from.size() < 3)
    return {b.fail(ErrorCode::mismatch, "x of shape {} has no spatial axes", text_of(from))};
  std::vector<std::int64_t> axes;
  for (std::size_t axis = 2; axis < from.size(); ++axis) axes.push_back(static_cast<std::int64_t>(axis));
  const ValueId list =
      b.constant(HostTensor::of<std::int64_t>({std::ssize(axes)}, std::span<const std::int64_t>(axes)));
  return reduce_mean(b, {call.op, {call.inputs[0], list}, call.attributes});
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

// Integers have no logarithm of nothing or of negative sums, and no mean of nothing.
std::vector<Sample> norm_samples(DType t) {
  std::vector<Sample> samples = reduce_samples(t);
  if (is_floating(t)) return samples;
  std::erase_if(samples, [](const Sample& sample) { return sample.label == "over nothing"; });
  for (Sample& sample : samples)
    sample.inputs[0] = sample_tensor(t, sample.inputs[0].shape(), Fill::positive);
  return samples;
}

std::vector<Sample> arg_samples(DType t) {
  const auto x = [&](StaticShape shape, Fill fill) { return sample_tensor(t, std::move(shape), fill); };
  return {{"last axis", {x({5, 37}, Fill::normal)}, {{"axis", std::int64_t{-1}}}, {}},
          {"ties", {x({37, 18}, Fill::special)}, {{"select_last_index", std::int64_t{1}}}, {}},
          {"middle",
           {x({3, 7, 19}, Fill::normal)},
           {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}},
           {}}};
}

std::vector<Sample> scan_samples(DType t) {
  const auto x = [&](StaticShape shape) { return sample_tensor(t, std::move(shape), Fill::normal); };
  const std::vector<bool> fixed = {false, true};
  return {{"last", {x({3, 37}), ints({1})}, {}, fixed},
          {"first", {x({9, 18}), ints({0})}, {{"exclusive", std::int64_t{1}}}, fixed},
          {"backwards", {x({2, 5, 3}), ints({-2})}, {{"reverse", std::int64_t{1}}}, fixed},
          {"axis from data",
           {x({4, 5}), ints({1})},
           {{"exclusive", std::int64_t{1}}, {"reverse", std::int64_t{1}}},
           {}}};
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

constexpr OpDef of_norm_samples(OpDef record) {
  record.samples = norm_samples;
  return record;
}

constexpr OpDef arg_record(std::string_view name, std::string_view doc, OnnxName onnx,
                           Values (*decompose)(Builder&, const OpCall&), std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"data", "[..., n, ...]", kNumeric}},
          .outputs = {{"reduced", "[kept...]", kI64, "i64"}},
          .attributes = {{"axis", AttributeKind::integer, "0", "may be negative"},
                         {"keepdims", AttributeKind::integer, "1", "the axis stays as size 1"},
                         {"select_last_index", AttributeKind::integer, "0", "of equal ones the last"}},
          .decompose = decompose,
          .samples = arg_samples,
          .onnx = onnx,
          .oracle = oracle};
}

constexpr OpDef cumulative_record(std::string_view name, std::string_view doc, OnnxName onnx,
                                  Values (*decompose)(Builder&, const OpCall&), std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "[..., n, ...]", kNumeric}, {"axis", "[]", kIndex, "index"}},
          .outputs = {{"y", "like x", kNumeric}},
          .attributes = {{"exclusive", AttributeKind::integer, "0", "1: without the own element"},
                         {"reverse", AttributeKind::integer, "0", "1: from the end"}},
          .decompose = decompose,
          .samples = scan_samples,
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
    reduce_record("reduce_min", "Minimum over axes; any NaN wins; +inf or the largest integer over nothing.",
                  kAny, {"ReduceMin", {1, 11, 12, 13, 18, 20}, axes_to_input}, reduce<Reduction::min>,
                  "onnx-node:test_reduce_min_"),
    reduce_record("reduce_prod", "Product over axes; 1 over nothing; integers wrap.", kNumeric,
                  {"ReduceProd", {1, 11, 13, 18}, axes_to_input}, reduce<Reduction::product>,
                  "onnx-node:test_reduce_prod_"),
    reduce_record("reduce_l1", "Sum of |x| over axes.", kNumeric,
                  {"ReduceL1", {1, 11, 13, 18}, axes_to_input}, reduce_norm<Norm::l1>,
                  "onnx-node:test_reduce_l1_"),
    reduce_record("reduce_l2", "Root of the sum of squares over axes.", kNumeric,
                  {"ReduceL2", {1, 11, 13, 18}, axes_to_input}, reduce_norm<Norm::l2>,
                  "onnx-node:test_reduce_l2_"),
    of_norm_samples(reduce_record("reduce_log_sum", "Logarithm of the sum over axes.", kNumeric,
                                  {"ReduceLogSum", {1, 11, 13, 18, 28}, axes_to_input},
                                  reduce_norm<Norm::log_sum>, "onnx-node:test_reduce_log_sum_")),
    of_norm_samples(reduce_record("reduce_log_sum_exp",
                                  "Logarithm of the sum of e^x over axes, without overflow.", kNumeric,
                                  {"ReduceLogSumExp", {1, 11, 13, 18, 28}, axes_to_input}, reduce_log_sum_exp,
                                  "onnx-node:test_reduce_log_sum_exp_")),
    reduce_record("reduce_sum_square", "Sum of squares over axes.", kNumeric,
                  {"ReduceSumSquare", {1, 11, 13, 18}, axes_to_input}, reduce_norm<Norm::sum_square>,
                  "onnx-node:test_reduce_sum_square_"),
    of_norm_samples(reduce_record(
        "reduce_mean",
        "Sum over axes divided by the number of elements; NaN over nothing; integers truncate.", kNumeric,
        {"ReduceMean", {1, 11, 13, 18}, axes_to_input}, reduce_mean, "onnx-node:test_reduce_mean_")),
    arg_record("arg_max", "Coordinate of the largest element along axis.", {"ArgMax", {1, 11, 12, 13}},
               arg_reduce<Reduction::max>, "onnx-node:test_argmax"),
    arg_record("arg_min", "Coordinate of the smallest element along axis.", {"ArgMin", {1, 11, 12, 13}},
               arg_reduce<Reduction::min>, "onnx-node:test_argmin"),
    cumulative_record("cum_sum", "Running sum along axis.", {"CumSum", {11, 14}}, cumulative<Reduction::sum>,
                      "onnx-node:test_cumsum"),
    cumulative_record("cum_prod", "Running product along axis.", {"CumProd", {26}},
                      cumulative<Reduction::product>, "onnx-node:test_cumprod"),
    OpDef{.name = "global_average_pool",
          .doc = "Mean over all spatial axes: [N, C, ...] -> [N, C, 1...].",
          .inputs = {{"x", "[N, C, ...]", kFloating}},
          .outputs = {{"y", "[N, C, 1...]", kFloating}},
          .decompose = global_average_pool,
          .samples = pool_samples,
          .onnx = {"GlobalAveragePool", {1, 22}},
          .oracle = "onnx-node:test_globalaveragepool"},
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
