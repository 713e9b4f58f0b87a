// Operators that move elements or speak of shapes: all exact, for every dtype.
#include "graph/builder.h"
#include "ops/adapters.h"
#include "ops/families.h"
#include "ops/formula.h"
#include "ops/samples.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace diji {
namespace {

// count / rest, where sizes that may be 0 are taken as positive: with a 0 among them there is no element, and
// every quotient fits. So [N, 3, 4] to [N, -1] infers 12, not 12·N // N.
Dim inferred_size(const Dim& count, const Dim& rest) {
  std::map<std::string, Dim, std::less<>> positive, original;
  for (const Dim* dim : {&count, &rest}) {
    for (const auto& [name, bounds] : dim->symbols()) {
      original.emplace(name, Dim::symbol(name, bounds));
      positive.emplace(name, Dim::symbol(name, {std::max<std::int64_t>(bounds.min, 1),
                                                std::max<std::int64_t>(bounds.max, 1)}));
    }
  }
  return floor_div(count.substitute(positive), rest.substitute(positive)).substitute(original);
}

// Of a target that data tell, each size names the one to infer, and that one names all of them: the work
// grows with the cube of the rank. 79 sizes in a file of 71 bytes took 0.5 s, 160 took 5 s.
constexpr std::size_t kObservedRankMax = 16;

// A target that data tell: what -1 and 0 mean is decided when the model runs.
Shape observed_target(const Shape& from, const Shape& target, bool allow_zero) {
  Shape to;
  Dim rest = 1;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const Dim copied = i < from.size() && !allow_zero ? from[i] : Dim(0);
    to.push_back(select_less(target[i], 0, 1, select_less(target[i], 1, copied, target[i])));
    rest = rest * to.back();
  }
  const Dim inferred = floor_div(element_count(from), max(rest, 1));
  for (std::size_t i = 0; i < target.size(); ++i) to[i] = select_less(target[i], 0, inferred, to[i]);
  return to;
}

Values reshape(Builder& b, const OpCall& call) {
  const auto target = known_list(b, call.inputs[1], "shape");
  if (!target) return {ValueId::none};
  const Shape from = b.shape(call.inputs[0]);
  const bool allow_zero = call.attributes.get_or<std::int64_t>("allowzero", 0) != 0;
  Shape to;
  std::optional<std::size_t> inferred;
  Dim rest = 1;
  if (std::ranges::any_of(*target, [](const Dim& d) { return !d.constant() && d.bounds().min < 0; })) {
    if (target->size() > kObservedRankMax) {
      return {b.fail(ErrorCode::unsupported, "a target of {} sizes that data decide; at most {} are possible",
                     target->size(), kObservedRankMax)};
    }
    return {b.reshape(call.inputs[0], observed_target(from, *target, allow_zero))};
  }
  for (std::size_t i = 0; i < target->size(); ++i) {
    Dim size = (*target)[i];
    if (size.is(0) && !allow_zero) {
      if (i >= from.size())
        return {b.fail(ErrorCode::mismatch, "a 0 at position {} copies no axis of {}", i, text_of(from))};
      size = from[i];
    }
    if (size.is(-1)) {
      if (inferred)
        return {b.fail(ErrorCode::mismatch, "more than one -1 in the target {}", text_of(*target))};
      inferred = i;
    } else {
      rest = rest * size;
    }
    to.push_back(size);
  }
  if (inferred) {
    if (rest.is(0)) return {b.fail(ErrorCode::mismatch, "-1 cannot be inferred beside a size of 0")};
    to[*inferred] = inferred_size(element_count(from), rest);
  }
  return {b.reshape(call.inputs[0], std::move(to))};
}

Values shape_op(Builder& b, const OpCall& call) {
  const Shape& shape = b.shape(call.inputs[0]);
  const auto rank = std::ssize(shape);
  const auto clamp = [&](std::int64_t axis) {
    return std::clamp<std::int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const auto start = clamp(call.attributes.get_or<std::int64_t>("start", 0));
  const auto end = std::max(start, clamp(call.attributes.get_or<std::int64_t>("end", rank)));
  return {b.dims(Shape(shape.begin() + start, shape.begin() + end))};
}

// "To the end" is written as a very large number. Sizes beyond it are refused at run time rather than carried
// along as min(size, end) through every shape that follows.
constexpr std::int64_t kToTheEnd = 1'000'000'000;

struct Range {
  Dim start, size;
};

// One axis of a slice in NumPy's sense: negative positions count from the end, both ends are clamped.
Range slice_range(Builder& b, const Dim& from, const Dim& to, std::int64_t step, const Dim& size) {
  const auto position = [&](const Dim& at, std::int64_t low, const Dim& high) {
    if (at.constant().value_or(0) >= kToTheEnd) {
      b.graph().require(
          {Constraint::Kind::less_equal, high, at, "slice: an end that stands for the end of the axis"});
      return high;
    }
    const Dim counted = select_less(at, 0, at + size, at);
    return min(max(counted, low), high);
  };
  if (step > 0) {
    const Dim start = position(from, 0, size), end = position(to, 0, size);
    return {start, max(floor_div(end - start + Dim(step - 1), Dim(step)), 0)};
  }
  const Dim start = position(from, -1, size - 1);
  // An end of at most -size-1 means "before the first element".
  const Dim end = to.constant().value_or(0) < -kToTheEnd ? Dim(-1) : position(to, -1, size - 1);
  return {start, max(floor_div(start - end + Dim(-step - 1), Dim(-step)), 0)};
}

Values slice(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  const auto starts = known_list(b, operand(call, 1), "starts"),
             ends = known_list(b, operand(call, 2), "ends");
  if (!starts || !ends) return {ValueId::none};
  Ints axes, steps(starts->size(), 1);
  for (std::size_t i = 0; i < starts->size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (operand(call, 3) != ValueId::none) axes = known_numbers(b, operand(call, 3), "axes").value_or(axes);
  if (operand(call, 4) != ValueId::none) steps = known_numbers(b, operand(call, 4), "steps").value_or(steps);
  if (ends->size() != starts->size() || axes.size() != starts->size() || steps.size() != starts->size()) {
    return {b.fail(ErrorCode::mismatch, "starts, ends, axes and steps have {}, {}, {} and {} elements",
                   starts->size(), ends->size(), axes.size(), steps.size())};
  }
  Shape begin(b.shape(x).size(), Dim(0)), size = b.shape(x);
  Ints step(size.size(), 1);
  std::vector<bool> sliced(size.size(), false);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(b.axis(axes[i], b.rank(x)));
    if (!b.ok()) return {ValueId::none};
    if (sliced[axis]) return {b.fail(ErrorCode::mismatch, "axis {} stands twice", axes[i])};
    sliced[axis] = true;
    if (steps[i] == 0) return {b.fail(ErrorCode::mismatch, "a step of 0 on axis {}", axes[i])};
    const Range range = slice_range(b, (*starts)[i], (*ends)[i], steps[i], size[axis]);
    begin[axis] = range.start;
    size[axis] = range.size;
    step[axis] = steps[i];
  }
  return {b.slice(x, std::move(begin), std::move(size), std::move(step))};
}

Values concat(Builder& b, const OpCall& call) {
  const std::int64_t axis = b.axis(call.attributes.get_or<std::int64_t>("axis", 0), b.rank(call.inputs[0]));
  return {b.concatenate(call.inputs, axis)};
}

// The larger one of two sizes of which one is 1 or both are equal; a size of 0 stays.
Dim stretched(const Dim& size, const Dim& target) {
  if (size.is(1)) return target;
  if (size.constant()) return size;
  return select_less(size, 1, size, max(size, target));
}

// A target that data tell: its sizes may turn out to be 1, which keeps the axis.
Values expand_observed(Builder& b, ValueId x, const Shape& target) {
  Shape from = b.shape(x);
  if (from.size() < target.size()) from.insert(from.begin(), target.size() - from.size(), Dim(1));
  Shape to = from;
  const std::size_t lead = from.size() - target.size();
  for (std::size_t i = 0; i < target.size(); ++i) {
    to[lead + i] = stretched(from[lead + i], target[i]);
    b.graph().require({Constraint::Kind::less_equal, target[i], to[lead + i],
                       fmt::format("expand: axis {} of {}", i, text_of(target))});
  }
  return {b.broadcast(x, std::move(to))};
}

Values expand(Builder& b, const OpCall& call) {
  const auto target = known_list(b, call.inputs[1], "shape");
  if (!target) return {ValueId::none};
  if (std::ranges::any_of(*target, [](const Dim& d) { return !d.constant() && d.bounds().min < 0; }))
    return expand_observed(b, call.inputs[0], *target);
  return {b.broadcast(call.inputs[0], b.broadcast_shapes(b.shape(call.inputs[0]), *target, "expand"))};
}

// Axes given from either end, as a set of positions below `rank`.
std::optional<std::vector<bool>> axis_set(Builder& b, ValueId axes, std::int64_t rank) {
  const auto list = known_numbers(b, axes, "axes");
  if (!list) return std::nullopt;
  std::vector<bool> set(static_cast<std::size_t>(rank), false);
  for (const std::int64_t given : *list) {
    const auto axis = static_cast<std::size_t>(b.axis(given, rank));
    if (!b.ok()) return std::nullopt;
    if (set[axis]) {
      b.fail(ErrorCode::mismatch, "axis {} stands twice", given);
      return std::nullopt;
    }
    set[axis] = true;
  }
  return set;
}

Values unsqueeze(Builder& b, const OpCall& call) {
  const auto axes = b.constant_ints(call.inputs[1]);
  const auto inserted =
      axis_set(b, call.inputs[1], b.rank(call.inputs[0]) + std::ssize(axes.value_or(Ints{})));
  if (!inserted) return {ValueId::none};
  Shape to;
  auto from = b.shape(call.inputs[0]).begin();
  for (const bool one : *inserted) to.push_back(one ? Dim(1) : *from++);
  return {b.reshape(call.inputs[0], std::move(to))};
}

Values squeeze(Builder& b, const OpCall& call) {
  const Shape from = b.shape(call.inputs[0]);
  std::vector<bool> dropped(from.size(), false);
  if (call.inputs.size() > 1 && call.inputs[1] != ValueId::none) {
    const auto axes = axis_set(b, call.inputs[1], std::ssize(from));
    if (!axes) return {ValueId::none};
    dropped = *axes;
  } else {
    for (std::size_t i = 0; i < from.size(); ++i) {
      dropped[i] = from[i].is(1);
      if (!from[i].constant()) {
        return {b.fail(ErrorCode::unsupported,
                       "without axes the rank depends on {}; ranks that depend on data are not built yet",
                       from[i].text())};
      }
    }
  }
  Shape to;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!dropped[i]) {
      to.push_back(from[i]);
    } else if (!from[i].constant()) {
      b.graph().require({Constraint::Kind::equal, from[i], 1,
                         fmt::format("squeeze: axis {} of {} is dropped", i, text_of(from))});
    } else if (!from[i].is(1)) {
      return {b.fail(ErrorCode::mismatch, "axis {} has size {} and cannot be dropped", i, from[i].text())};
    }
  }
  return {b.reshape(call.inputs[0], std::move(to))};
}

Values transpose(Builder& b, const OpCall& call) {
  Ints reversed;
  for (std::int64_t axis = b.rank(call.inputs[0]); axis-- > 0;) reversed.push_back(axis);
  return {b.transpose(call.inputs[0], call.attributes.get_or("perm", reversed))};
}

template <std::size_t input>
Result<void> axes_to_input(Builder& builder, ForeignNode& node) {
  return attribute_to_input(builder, node, "axes", input);
}

Result<void> shape_to_input(Builder& builder, ForeignNode& node) {
  node.attributes.erase("consumed_inputs");
  return attribute_to_input(builder, node, "shape", 1);
}

// Slice-1 has starts, ends and axes as attributes.
Result<void> slice_attributes(Builder& builder, ForeignNode& node) {
  TRY(attribute_to_input(builder, node, "starts", 1));
  TRY(attribute_to_input(builder, node, "ends", 2));
  return attribute_to_input(builder, node, "axes", 3);
}

Result<void> concat_axis(Builder&, ForeignNode& node) {
  if (node.version == 1 && !node.attributes.has("axis")) node.attributes.set("axis", std::int64_t{1});
  return {};
}

std::vector<Sample> reshape_samples(DType t) {
  const auto x = sample_tensor(t, {2, 3, 4}, Fill::normal);
  return {{"merge", {x, ints({6, 4})}, {}, {false, true}},
          {"infer", {x, ints({4, -1})}, {}, {false, true}},
          {"copy", {x, ints({0, -1})}, {}, {false, true}},
          {"empty",
           {sample_tensor(t, {0, 3}, Fill::normal), ints({3, 0})},
           {{"allowzero", std::int64_t{1}}},
           {false, true}}};
}

std::vector<Sample> shape_samples(DType t) {
  const auto x = sample_tensor(t, {2, 3, 4}, Fill::normal);
  return {{"all", {x}, {}, {}}, {"part", {x}, {{"start", std::int64_t{-2}}, {"end", std::int64_t{9}}}, {}}};
}

std::vector<Sample> slice_samples(DType t) {
  const auto x = sample_tensor(t, {20, 10, 5}, Fill::normal);
  const std::vector<bool> fixed = {false, true, true, true, true};
  return {{"front", {x, ints({0, 0}), ints({3, 10}), ints({0, 1}), ints({1, 1})}, {}, fixed},
          {"negative ends", {x, ints({-5, 1}), ints({-1, -2}), ints({0, -2}), ints({2, 3})}, {}, fixed},
          {"backwards", {x, ints({20}), ints({0}), ints({0}), ints({-3})}, {}, fixed},
          {"backwards to the first", {x, ints({-1}), ints({-2147483648}), ints({2}), ints({-1})}, {}, fixed},
          {"nothing", {x, ints({30}), ints({40}), ints({1}), ints({1})}, {}, fixed}};
}

std::vector<Sample> concat_samples(DType t) {
  const auto part = [&](StaticShape shape, std::uint64_t seed) {
    return sample_tensor(t, std::move(shape), Fill::normal, seed);
  };
  return {{"rows", {part({2, 17}, 1), part({3, 17}, 2)}, {{"axis", std::int64_t{0}}}, {}},
          {"columns", {part({3, 5}, 1), part({3, 1}, 2), part({3, 18}, 3)}, {{"axis", std::int64_t{-1}}}, {}},
          {"an empty part", {part({2, 0, 3}, 1), part({2, 4, 3}, 2)}, {{"axis", std::int64_t{1}}}, {}}};
}

std::vector<Sample> expand_samples(DType t) {
  return {
      {"column", {sample_tensor(t, {3, 1}, Fill::normal), ints({3, 17})}, {}, {false, true}},
      {"ones in the target", {sample_tensor(t, {3, 4}, Fill::normal), ints({2, 1, 1})}, {}, {false, true}},
      {"scalar", {sample_tensor(t, {}, Fill::normal), ints({5})}, {}, {false, true}}};
}

std::vector<Sample> unsqueeze_samples(DType t) {
  const auto x = sample_tensor(t, {3, 4}, Fill::normal);
  return {{"first and last", {x, ints({0, -1})}, {}, {false, true}},
          {"inside", {x, ints({1})}, {}, {false, true}}};
}

std::vector<Sample> squeeze_samples(DType t) {
  const auto x = sample_tensor(t, {1, 3, 1, 4}, Fill::normal);
  return {{"named", {x, ints({0, -2})}, {}, {false, true}}, {"all", {x}, {}, {}}};
}

std::vector<Sample> transpose_samples(DType t) {
  return {{"reverse", {sample_tensor(t, {3, 5, 17}, Fill::normal)}, {}, {}},
          {"inner", {sample_tensor(t, {2, 33, 18}, Fill::normal)}, {{"perm", Ints{0, 2, 1}}}, {}},
          {"outer", {sample_tensor(t, {4, 3, 16}, Fill::normal)}, {{"perm", Ints{1, 0, 2}}}, {}}};
}

constexpr List<std::int64_t, 12> kReshapeVersions = {1, 5, 13, 14, 19, 21, 23, 24, 25};

constexpr std::array kOps = {
    OpDef{.name = "reshape",
          .doc = "The same elements in row-major order under another shape; 0 copies an axis (unless "
                 "allowzero), one -1 is inferred.",
          .inputs = {{"data", "[...]"}, {"shape", "[r]", kI64, "index", OperandMode::required, true}},
          .outputs = {{"reshaped", "shape"}},
          .attributes = {{"allowzero", AttributeKind::integer, "0", "a 0 means size 0"}},
          .decompose = reshape,
          .samples = reshape_samples,
          .onnx = {"Reshape", kReshapeVersions, shape_to_input},
          .oracle = "onnx-node:test_reshape"},
    OpDef{.name = "shape",
          .doc = "The sizes of the axes start ≤ axis < end.",
          .inputs = {{"data", "[...]"}},
          .outputs = {{"shape", "[r]", kI64, "index", OperandMode::required, true}},
          .attributes = {{"start", AttributeKind::integer, "0", "first axis, may be negative"},
                         {"end", AttributeKind::integer, "rank", "one past the last axis"}},
          .decompose = shape_op,
          .samples = shape_samples,
          .onnx = {"Shape", {1, 13, 15, 19, 21, 23, 24, 25}},
          .oracle = "onnx-node:test_shape"},
    OpDef{.name = "slice",
          .doc = "Elements start, start + step, … before end on each named axis; negative positions count "
                 "from the end.",
          .inputs = {{"data", "[...]"},
                     {"starts", "[n]", kIndex, "index", OperandMode::required, true},
                     {"ends", "[n]", kIndex, "index", OperandMode::required, true},
                     {"axes", "[n]", kIndex, "index", OperandMode::optional},
                     {"steps", "[n]", kIndex, "index", OperandMode::optional}},
          .outputs = {{"output", "[...]"}},
          .decompose = slice,
          .samples = slice_samples,
          .onnx = {"Slice", {1, 10, 11, 13}, slice_attributes},
          .oracle = "onnx-node:test_slice"},
    OpDef{.name = "concat",
          .doc = "The inputs behind each other along axis; all other sizes are equal.",
          .inputs = {{"inputs", "[..., n, ...]", kAny, "T", OperandMode::variadic}},
          .outputs = {{"concat_result", "[..., sum n, ...]"}},
          .attributes = {{"axis", AttributeKind::integer, "", "may be negative"}},
          .decompose = concat,
          .samples = concat_samples,
          .onnx = {"Concat", {1, 4, 11, 13}, concat_axis},
          .oracle = "onnx-node:test_concat"},
    OpDef{.name = "expand",
          .doc = "Broadcasts input and a tensor of shape `shape` together; a 1 in the target keeps the axis.",
          .inputs = {{"input", "[...]"}, {"shape", "[r]", kI64, "index", OperandMode::required, true}},
          .outputs = {{"output", "[...]"}},
          .decompose = expand,
          .samples = expand_samples,
          .onnx = {"Expand", {8, 13}},
          .oracle = "onnx-node:test_expand"},
    OpDef{.name = "unsqueeze",
          .doc = "Inserts axes of size 1 at the positions `axes` of the result.",
          .inputs = {{"data", "[...]"}, {"axes", "[n]", kI64, "index"}},
          .outputs = {{"expanded", "[...]"}},
          .decompose = unsqueeze,
          .samples = unsqueeze_samples,
          .onnx = {"Unsqueeze", {1, 11, 13, 21, 23, 24, 25}, axes_to_input<1>},
          .oracle = "onnx-node:test_unsqueeze"},
    OpDef{.name = "squeeze",
          .doc = "Drops the axes `axes`, which have size 1 (all of size 1 when none are named).",
          .inputs = {{"data", "[...]"}, {"axes", "[n]", kI64, "index", OperandMode::optional}},
          .outputs = {{"squeezed", "[...]"}},
          .decompose = squeeze,
          .samples = squeeze_samples,
          .onnx = {"Squeeze", {1, 11, 13, 21, 23, 24, 25}, axes_to_input<1>},
          .oracle = "onnx-node:test_squeeze"},
    OpDef{.name = "transpose",
          .doc = "Axis i of the result is axis perm[i] of data; reversed when perm is absent.",
          .inputs = {{"data", "[...]"}},
          .outputs = {{"transposed", "[...]"}},
          .attributes = {{"perm", AttributeKind::integers, "reversed", ""}},
          .decompose = transpose,
          .samples = transpose_samples,
          .onnx = {"Transpose", {1, 13, 21, 23, 24, 25}},
          .oracle = "onnx-node:test_transpose"},
};

}  // namespace

std::span<const OpDef> shape_ops() { return kOps; }

}  // namespace diji
