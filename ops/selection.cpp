// Operators that choose elements by their values: the largest, the distinct ones, boxes that do not overlap.
#include "ops/adapters.h"
#include "ops/families.h"
#include "ops/formula.h"
#include "ops/samples.h"

#include <array>

namespace diji {
namespace {

// x[..., indices[...], ...]: indices of x's rank along one axis.
ValueId take_along(Builder& b, ValueId x, ValueId indices, std::int64_t axis) {
  if (!b.ok()) return ValueId::none;
  const Shape to = b.shape(indices);
  Values all;
  for (std::int64_t i = 0; i < std::ssize(to); ++i) all.push_back(i == axis ? indices : b.iota(to, i));
  return b.gather(x, std::move(all));
}

Values top_k(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  const Values nothing = {ValueId::none, ValueId::none};
  const auto k = known_size(b, call.inputs[1], "k");
  if (!k) return nothing;
  if (k->bounds().max < 0) {
    b.fail(ErrorCode::mismatch, "TopK of {} elements; k must not be negative", k->text());
    return nothing;
  }
  b.graph().require({Constraint::Kind::less_equal, 0, *k, "TopK: k must not be negative"});
  const std::int64_t axis = b.axis(call.attributes.get_or<std::int64_t>("axis", -1), b.rank(x));
  if (!b.ok()) return nothing;
  const ValueId order = b.sort_indices(x, axis, flag(call, "largest", true));
  const ValueId first = slice_axis(b, order, axis, 0, *k);
  return {take_along(b, x, first, axis), first};
}

Result<void> k_to_input(Builder& builder, ForeignNode& node) {
  if (const auto* const k = node.attributes.get<std::int64_t>("k")) node.attributes.set("k", Ints{*k});
  return attribute_to_input(builder, node, "k", 1);
}

// The order that sorts the rows of [n, m], first column first: stable sorts by one column after the other,
// from the last.
ValueId row_order(Builder& b, ValueId rows) {
  const Shape from = b.shape(rows);
  if (from[1].is(1)) return b.sort_indices(b.reshape(rows, {from[0]}), 0, false);
  const ValueId start = b.iota({from[0]}, 0);
  const ValueId columns = b.slice(b.transpose(rows, {1, 0}), {from[1] - 1, 0}, {from[1], from[0]}, {-1, 1});
  if (!b.ok()) return ValueId::none;
  Graph body = b.graph().child();
  Builder step(body);
  body.add_input("i", {DType::i64, {}});
  const ValueId order = body.add_input("order", b.type(start));
  const ValueId column = body.add_input("column", {b.dtype(rows), {from[0]}});
  const ValueId next = step.sort_indices(step.gather(column, {order}), 0, false);
  body.add_output("order", step.gather(order, {next}));
  if (auto status = step.status(); !status) return b.fail_with(status.error());
  const Values end = b.loop(ValueId::none, ValueId::none, {start}, {columns}, {}, std::move(body));
  return end.empty() ? ValueId::none : end[0];
}

// Which rows of [n, m], sorted, differ from the one before; the first one does. NaN equals NaN here.
ValueId starts_of_groups(Builder& b, ValueId rows) {
  const Shape from = b.shape(rows);
  const ValueId i = b.iota(from, 0);
  const ValueId before =
      b.gather(rows, {b.maximum(b.add(i, size_scalar(b, -1)), size_scalar(b, 0)), b.iota(from, 1)});
  ValueId same = b.equal(rows, before);
  if (is_floating(b.dtype(rows))) {
    const ValueId both =
        b.logical_and(b.logical_not(b.equal(rows, rows)), b.logical_not(b.equal(before, before)));
    same = b.logical_or(same, both);
  }
  const ValueId differs = b.convert(b.logical_not(same), DType::u8);
  const ValueId any = b.convert(b.reduce(differs, Reduction::max, {1}), DType::boolean);
  return b.logical_or(any, b.equal(b.iota({from[0]}, 0), size_scalar(b, 0)));
}

Values unique(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  const Shape from = b.shape(x);
  const Values nothing(4, ValueId::none);
  const auto* const given = call.attributes.get<std::int64_t>("axis");
  const std::int64_t axis = given == nullptr ? 0 : b.axis(*given, b.rank(x));
  if (!b.ok()) return nothing;
  // What is compared lies along axis 0, element by element along axis 1.
  Ints order = {axis};
  Dim width = 1;
  for (std::int64_t i = 0; i < b.rank(x); ++i) {
    if (i == axis) continue;
    order.push_back(i);
    width = width * from[static_cast<std::size_t>(i)];
  }
  const Dim count = given == nullptr ? element_count(from) : from[static_cast<std::size_t>(axis)];
  const ValueId rows =
      given == nullptr ? b.reshape(x, {count, 1}) : b.reshape(b.transpose(x, order), {count, width});
  if (!b.ok()) return nothing;
  const ValueId sorted = row_order(b, rows);
  const Shape space = b.shape(rows);
  const ValueId starts =
      starts_of_groups(b, b.gather(rows, {b.reshape(sorted, {count, 1}), b.iota(space, 1)}));
  const Dim found = call.attributes.get_or("symbols", Shape{Dim(0)})[0];
  const ValueId zero = size_scalar(b, 0);
  const ValueId group = b.add(b.prefix_scan(b.convert(starts, DType::i64), Reduction::sum, 0, false, false),
                              size_scalar(b, -1));
  ValueId firsts = b.gather(sorted, {b.compact(starts, found)});
  ValueId inverse = b.scatter(b.broadcast(zero, {count}), group, {sorted}, Update::set);
  ValueId counts =
      b.scatter(b.broadcast(zero, {found}), b.broadcast(size_scalar(b, 1), {count}), {group}, Update::add);
  if (!flag(call, "sorted", true)) {
    const ValueId appearance = b.sort_indices(firsts, 0, false);
    const ValueId places =
        b.scatter(b.broadcast(zero, {found}), b.iota({found}, 0), {appearance}, Update::set);
    firsts = b.gather(firsts, {appearance});
    counts = b.gather(counts, {appearance});
    inverse = b.gather(places, {inverse});
  }
  const ValueId source = given == nullptr ? b.reshape(x, {count}) : x;
  return {b.take(source, firsts, axis), firsts, inverse, counts};
}

/// y1, x1, y2, x2 of every box, f64[B, 1, N], y1 ≤ y2 and x1 ≤ x2.
using Corners = std::array<ValueId, 4>;

Corners corners_of(Builder& b, ValueId boxes, bool centres) {
  const Shape from = b.shape(boxes);
  const auto column = [&](std::int64_t i) {
    return b.convert(b.reshape(slice_axis(b, boxes, 2, i, 1), {from[0], 1, from[1]}), DType::f64);
  };
  Corners c = {column(0), column(1), column(2), column(3)};
  if (centres) {  // x, y, width, height
    const ValueId half = b.scalar(DType::f64, 0.5);
    const ValueId wide = b.multiply(c[2], half), high = b.multiply(c[3], half);
    c = {b.subtract(c[1], high), b.subtract(c[0], wide), b.add(c[1], high), b.add(c[0], wide)};
  }
  return {b.minimum(c[0], c[2]), b.minimum(c[1], c[3]), b.maximum(c[0], c[2]), b.maximum(c[1], c[3])};
}

// Intersection over union; NaN for two boxes without area.
ValueId overlap(Builder& b, const Corners& p, const Corners& q) {
  const ValueId zero = b.scalar(DType::f64, 0);
  const auto extent = [&](std::size_t low, std::size_t high) {
    return b.maximum(b.subtract(b.minimum(p[high], q[high]), b.maximum(p[low], q[low])), zero);
  };
  const auto area = [&](const Corners& c) {
    return b.multiply(b.subtract(c[2], c[0]), b.subtract(c[3], c[1]));
  };
  const ValueId both = b.multiply(extent(0, 2), extent(1, 3));
  return b.divide(both, b.subtract(b.add(area(p), area(q)), both));
}

struct Candidates {
  Corners corners;
  ValueId order;      ///< i64[B, C, N]: boxes by falling score
  ValueId rank;       ///< i64[B, C, N]: the place of each box in it
  ValueId threshold;  ///< f64[]
};

// One step of greedy suppression for all batches and classes at once: the best box that is left is taken, and
// those that overlap it go. Results: whether one is left, which are left, which are taken.
Values suppress(Builder& b, const Candidates& boxes, ValueId left, ValueId taken) {
  const Shape space = b.shape(left), one = {space[0], space[1], 1};
  const ValueId best_rank =
      b.reduce_keeping(b.select(left, boxes.rank, size_scalar(b, space[2])), Reduction::min, {2});
  // Without a box that is left, whatever stands here is not used.
  const ValueId best = b.gather(boxes.order, {b.iota(one, 0), b.iota(one, 1), best_rank}, true);
  Corners chosen{};
  for (std::size_t i = 0; i < chosen.size(); ++i)
    chosen[i] = b.gather(boxes.corners[i], {b.iota(one, 0), size_scalar(b, 0), best}, true);
  const ValueId is_best = b.logical_and(b.equal(boxes.rank, best_rank), left);
  const ValueId goes = b.logical_or(is_best, b.less(boxes.threshold, overlap(b, boxes.corners, chosen)));
  const ValueId rest = b.logical_and(left, b.logical_not(goes));
  const ValueId any = b.reduce(b.convert(rest, DType::u8), Reduction::max, {0, 1, 2});
  return {b.convert(any, DType::boolean), rest, b.logical_or(taken, is_best)};
}

// The boxes that greedy suppression takes: bool[B, C, N].
ValueId taken_boxes(Builder& b, ValueId limit, const Candidates& boxes, ValueId left) {
  const ValueId none = b.broadcast(b.scalar(DType::boolean, 0), b.shape(left));
  const Values captures = {boxes.corners[0], boxes.corners[1], boxes.corners[2], boxes.corners[3],
                           boxes.order,      boxes.rank,       boxes.threshold};
  if (!b.ok()) return ValueId::none;
  Graph body = b.graph().child();
  Builder step(body);
  body.add_input("i", {DType::i64, {}});
  const ValueId inner_left = body.add_input("left", b.type(left)),
                inner_taken = body.add_input("taken", b.type(none));
  Values in;
  for (const ValueId id : captures) in.push_back(body.add_input(fmt::format("{}", in.size()), b.type(id)));
  const Values next =
      suppress(step, {{in[0], in[1], in[2], in[3]}, in[4], in[5], in[6]}, inner_left, inner_taken);
  if (auto status = step.status(); !status) return b.fail_with(status.error());
  body.add_output(std::string(kLoopCondition), next[0]);
  body.add_output("left", next[1]);
  body.add_output("taken", next[2]);
  const Values end = b.loop(limit, ValueId::none, {left, none}, {}, captures, std::move(body));
  return end.size() < 2 ? ValueId::none : end[1];
}

Values non_max_suppression(Builder& b, const OpCall& call) {
  const ValueId scores = call.inputs[1];
  const Shape boxes = b.shape(call.inputs[0]), space = b.shape(scores);
  if (boxes.size() != 3 || space.size() != 3 || !boxes[2].is(4)) {
    return {b.fail(ErrorCode::mismatch, "boxes {} and scores {} must be [B, N, 4] and [B, C, N]",
                   text_of(boxes), text_of(space))};
  }
  const auto scalar_or = [&](std::size_t i, DType dtype) {
    return operand(call, i) == ValueId::none ? b.scalar(dtype, 0)
                                             : b.convert(b.reshape(operand(call, i), {}), dtype);
  };
  Candidates candidates{.corners = corners_of(b, call.inputs[0], flag(call, "center_point_box"))};
  candidates.order = b.sort_indices(scores, 2, true);
  candidates.rank = b.sort_indices(candidates.order, 2, false);
  candidates.threshold = scalar_or(3, DType::f64);
  const ValueId left = operand(call, 4) == ValueId::none ? b.broadcast(b.scalar(DType::boolean, 1), space)
                                                         : b.less(scalar_or(4, DType::f32), scores);
  const ValueId taken = taken_boxes(b, scalar_or(2, DType::i64), candidates, left);
  if (!b.ok()) return {ValueId::none};
  // By batch, class and falling score.
  const Dim found = call.attributes.get_or("symbols", Shape{Dim(0)})[0];
  const ValueId at = b.compact(take_along(b, taken, candidates.order, 2), found);
  const ValueId count = size_scalar(b, space[2]), classes = size_scalar(b, space[1]);
  const ValueId plane = b.divide(at, count), place = b.map(Primitive::remainder, {at, count});
  const ValueId batch = b.divide(plane, classes), kind = b.map(Primitive::remainder, {plane, classes});
  const ValueId box = b.gather(candidates.order, {batch, kind, place});
  const auto column = [&](ValueId v) { return b.reshape(v, {found, 1}); };
  return {b.concatenate({column(batch), column(kind), column(box)}, 1)};
}

std::vector<Sample> top_k_samples(DType t) {
  const auto x = sample_tensor(t, {3, 7, 5}, Fill::normal);
  const auto attributes = [](std::int64_t axis, std::int64_t largest) {
    return Attributes{{"axis", axis}, {"largest", largest}};
  };
  return {{"largest", {x, ints({3})}, {}, {false, true}},
          {"smallest, middle axis", {x, ints({4})}, attributes(1, 0), {false, true}},
          {"all", {x, ints({3})}, attributes(0, 1), {false, true}},
          {"none", {x, ints({0})}, {}, {false, true}},
          {"special values", {sample_tensor(t, {2, 14}, Fill::special), ints({9})}, {}, {false, true}}};
}

std::vector<Sample> unique_samples(DType t) {
  const auto rows = HostTensor::of<std::int64_t>({4, 3}, {1, 0, 0, 1, 0, 0, 2, 3, 4, 1, 0, 1});
  std::vector<Sample> samples = {
      {"of all", {sample_tensor(t, {4, 9}, Fill::normal)}, {}, {}},
      {"as they come", {sample_tensor(t, {29}, Fill::normal)}, {{"sorted", std::int64_t{0}}}, {}},
      {"of nothing", {sample_tensor(t, {0}, Fill::normal)}, {}, {}},
      {"special values", {sample_tensor(t, {30}, Fill::special)}, {}, {}}};
  if (t != DType::i64) return samples;
  samples.push_back({"rows", {rows}, {{"axis", std::int64_t{0}}}, {}});
  samples.push_back(
      {"columns, as they come", {rows}, {{"axis", std::int64_t{-1}}, {"sorted", std::int64_t{0}}}, {}});
  return samples;
}

std::vector<Sample> suppression_samples(DType t) {
  if (t != DType::f32) return {};
  HostTensor boxes = sample_tensor(t, {2, 12, 4}, Fill::normal, 1);
  const auto scores = sample_tensor(t, {2, 3, 12}, Fill::positive, 2);
  const auto real = [](float v) { return HostTensor::of<float>({1}, {v}); };
  return {{"some", {boxes, scores, ints({5}), real(0.2F), real(0.5F)}, {}, {}},
          {"centres", {boxes, scores, ints({5}), real(0.3F)}, {{"center_point_box", std::int64_t{1}}}, {}},
          {"none", {boxes, scores}, {}, {}}};
}

constexpr DTypeSet kRanked = static_cast<DTypeSet>(kNumeric);

constexpr std::array kOps = {
    OpDef{
        .name = "top_k",
        .doc = "The k largest (or smallest) elements along an axis, in order, and where they stand. Of equal "
               "ones the "
               "lower index comes first; NaN is above everything.",
        .inputs = {{"x", "[..., n, ...]", kRanked}, {"k", "[1]", kI64, "index", OperandMode::required, true}},
        .outputs = {{"values", "[..., k, ...]", kRanked}, {"indices", "[..., k, ...]", kI64, "index"}},
        .attributes = {{"axis", AttributeKind::integer, "-1", "may be negative"},
                       {"largest", AttributeKind::integer, "1", "0: the smallest"},
                       {"sorted", AttributeKind::integer, "1", "they are sorted anyway"}},
        .decompose = top_k,
        .samples = top_k_samples,
        .onnx = {"TopK", {1, 10, 11, 24}, k_to_input},
        .oracle = "onnx-node:test_top_k"},
    OpDef{
        .name = "unique",
        .doc = "The distinct elements, or slices along an axis, sorted or as they come; where each stands "
               "first, which "
               "one each input element is, and how often each occurs. NaN equals NaN, −0 equals +0.",
        .inputs = {{"x", "[...]"}},
        .outputs = {{"y", "[..., found, ...]"},
                    {"indices", "[found]", kI64, "index"},
                    {"inverse_indices", "[n]", kI64, "index"},
                    {"counts", "[found]", kI64, "index"}},
        .attributes = {{"axis", AttributeKind::integer, "none", "compare slices instead of elements"},
                       {"sorted", AttributeKind::integer, "1", "0: in the order of their first occurrence"}},
        .fresh_symbols = 1,
        .decompose = unique,
        .samples = unique_samples,
        .onnx = {"Unique", {11, 28}},
        .oracle = "onnx-node:test_unique"},
    OpDef{.name = "non_max_suppression",
          .doc = "Greedy, per batch and class: the box with the best score stays, those whose intersection "
                 "over union "
                 "with it is above the threshold go. Boxes are corners of any diagonal, or centre and size. "
                 "Rows of "
                 "the result are batch, class, box.",
          .inputs = {{"boxes", "[B, N, 4]", kF32},
                     {"scores", "[B, C, N]", kF32},
                     {"max_output_boxes_per_class", "[1], absent: 0", kI64, "index", OperandMode::optional},
                     {"iou_threshold", "[1], absent: 0", kF32, "T", OperandMode::optional},
                     {"score_threshold", "[1], absent: all count", kF32, "T", OperandMode::optional}},
          .outputs = {{"selected_indices", "[found, 3]", kI64, "index"}},
          .attributes = {{"center_point_box", AttributeKind::integer, "0",
                          "1: x, y of the centre, width, height"}},
          .fresh_symbols = 1,
          .decompose = non_max_suppression,
          .samples = suppression_samples,
          .onnx = {"NonMaxSuppression", {10, 11}},
          .oracle = "onnx-node:test_nonmaxsuppression"},
};

}  // namespace

std::span<const OpDef> selection_ops() { return kOps; }

}  // namespace diji
