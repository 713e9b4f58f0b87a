// Resizing: each axis is sampled anew at positions that are exact fractions of sizes.
#include "ops/families.h"
#include "ops/formula.h"
#include "ops/samples.h"
#include "ops/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace diji {
namespace {

// A scale is the fraction p / q: of two sizes, or the float that was given, which is a fraction too. So
// positions are exact, and ties fall where the formula says. Of a scale that data tell, both are symbols.
struct Scale {
  Dim p = 1, q = 1;
  bool is_known() const { return p.bounds().min > 0 && q.bounds().min > 0; }
};

struct AxisPlan {
  std::int64_t axis = 0;
  Scale scale;
  Dim in, out;
  ValueId start = ValueId::none, end = ValueId::none;  ///< of the region of interest, f64 scalars
};

// Where each output cell lies on the input axis: cell + rest / whole, 0 ≤ rest < whole.
struct Position {
  ValueId cell, rest, whole;
};

// Numerators and denominators stay below this, so that products with coordinates fit 64 bits.
constexpr int kFractionBits = 40;
constexpr int kScaleBits = 16;
static_assert(kFractionBits == kScaleBits + 24, "floats have 24 bits");

std::optional<Scale> fraction_of(Builder& b, double scale) {
  int exponent = 0;
  const double mantissa = std::frexp(scale, &exponent);
  if (!(scale > 0) || !std::isfinite(scale) || exponent > kScaleBits || exponent < -kScaleBits) {
    b.fail(ErrorCode::mismatch, "a scale of {} is not between 2^-{} and 2^{}", scale, kScaleBits, kScaleBits);
    return std::nullopt;
  }
  std::int64_t p = std::llround(std::ldexp(mantissa, 24));  // floats have 24 bits
  int shift = 24 - exponent;
  for (; shift > 0 && p % 2 == 0; --shift) p /= 2;
  for (; shift < 0; ++shift) p *= 2;
  return Scale{p, std::int64_t{1} << shift};
}

// ⌊size · scale⌋. A scale that is no simple fraction stands for a number that floats do not have, so a
// product that reaches the next integer within half a unit of the scale's last place counts as that integer:
// 10 · 0.7f is 7.
Dim scaled_size(const Dim& size, const Scale& scale) {
  constexpr int kSimple = 1024;
  return select_less(kSimple, scale.q, floor_div(size * (Dim(2) * scale.p + 1), Dim(2) * scale.q),
                     floor_div(size * scale.p, scale.q));
}

// The coordinate transformations of Resize as (a · o + c) / d for output cell o.
struct Line {
  Dim a, c, d;
};

std::optional<Line> line_of(Builder& b, const std::string& mode, const AxisPlan& plan) {
  const Dim &p = plan.scale.p, &q = plan.scale.q, &in = plan.in, &out = plan.out;
  const Line half_pixel = {Dim(2) * q, q - p, Dim(2) * p};
  if (mode == "half_pixel") return half_pixel;
  if (mode == "half_pixel_symmetric") return Line{half_pixel.a, in * p - out * q + q - p, half_pixel.d};
  if (mode == "pytorch_half_pixel")
    return Line{select_less(1, out, half_pixel.a, 0), select_less(1, out, half_pixel.c, 0), half_pixel.d};
  if (mode == "align_corners") {
    const Dim last = in * p - q;  // the scaled length less 1, times q
    return Line{select_less(0, last, (in - 1) * q, 0), 0, max(last, 1)};
  }
  if (mode == "asymmetric") return Line{q, 0, p};
  if (mode == "tf_half_pixel_for_nn") return Line{Dim(2) * q, q, Dim(2) * p};
  b.fail(ErrorCode::mismatch, "coordinate_transformation_mode '{}' is not known", mode);
  return std::nullopt;
}

// tf_crop_and_resize: output cells span the region from start to end, both parts of the axis.
Position cropped_positions(Builder& b, const AxisPlan& plan) {
  const auto real = [&](const Dim& size) { return b.convert(size_scalar(b, size), DType::f64); };
  const Dim last = plan.in * plan.scale.p - plan.scale.q;
  const ValueId extent = b.multiply(b.subtract(plan.end, plan.start), real(plan.in - 1));
  const ValueId o = b.iota({plan.out}, 0, DType::f64);
  const ValueId along = b.divide(b.multiply(b.multiply(o, extent), real(plan.scale.q)), real(max(last, 1)));
  const ValueId middle = b.multiply(extent, b.scalar(DType::f64, 0.5));
  const ValueId one = b.convert(b.less(real(0), real(last)), DType::f64);
  const ValueId offset = b.add(b.multiply(along, one), b.multiply(middle, b.subtract(real(1), one)));
  const Split at = split(b, b.add(b.multiply(plan.start, real(plan.in - 1)), offset), DType::f64);
  return {at.cell, at.rest, real(1)};
}

std::optional<Position> positions(Builder& b, const std::string& mode, const AxisPlan& plan) {
  if (mode == "tf_crop_and_resize") return cropped_positions(b, plan);
  const auto line = line_of(b, mode, plan);
  if (!line) return std::nullopt;
  const ValueId o = b.iota({plan.out}, 0);
  // No position lies below −4; shifted by 4 it is not negative, and truncation is floor.
  constexpr std::int64_t kShift = 4;
  const ValueId whole = size_scalar(b, line->d);
  const ValueId numerator =
      b.add(b.multiply(o, size_scalar(b, line->a)), size_scalar(b, line->c + Dim(kShift) * line->d));
  const ValueId cell = b.divide(numerator, whole);
  return Position{b.add(cell, size_scalar(b, -kShift)), b.subtract(numerator, b.multiply(cell, whole)),
                  whole};
}

bool is_known_to_grow(const Scale& scale) { return (scale.p - scale.q).bounds().min >= 0; }

std::optional<ValueId> nearest_cell(Builder& b, const OpCall& call, const AxisPlan& plan,
                                    const Position& at) {
  const std::string mode = word(call, "nearest_mode", "round_prefer_floor");
  const ValueId twice = b.add(at.rest, at.rest);
  ValueId up = ValueId::none;
  if (mode == "round_prefer_floor") {
    up = b.less(at.whole, twice);
  } else if (mode == "round_prefer_ceil") {
    up = b.less_equal(at.whole, twice);
  } else if (mode == "ceil" || (mode == "simple" && !is_known_to_grow(plan.scale))) {
    up = b.less(b.subtract(at.rest, at.rest), at.rest);
    if (mode == "simple")
      up = b.logical_and(up, b.less(size_scalar(b, plan.scale.p), size_scalar(b, plan.scale.q)));
  } else if (mode != "floor" && mode != "simple") {
    b.fail(ErrorCode::mismatch, "nearest_mode '{}' is not known", mode);
    return std::nullopt;
  }
  const ValueId cell = up == ValueId::none ? at.cell : b.add(at.cell, b.convert(up, DType::i64));
  return clamp(b, cell, size_scalar(b, 0), size_scalar(b, plan.in - 1));
}

// Weights that add up to 1, over the cells that exist where those outside are excluded.
void finish_taps(Builder& b, Taps& taps, const AxisPlan& plan, bool exclude_outside) {
  const ValueId zero = b.scalar(DType::f64, 0);
  ValueId sum = ValueId::none;
  for (Tap& tap : taps) {
    if (exclude_outside) tap.weight = b.select(in_range(b, tap.cell, plan.in), tap.weight, zero);
    sum = sum == ValueId::none ? tap.weight : b.add(sum, tap.weight);
    tap.cell = clamp(b, tap.cell, size_scalar(b, 0), size_scalar(b, plan.in - 1));
  }
  if (!exclude_outside) return;
  sum = b.select(b.equal(sum, zero), b.scalar(DType::f64, 1), sum);
  for (Tap& tap : taps) tap.weight = b.divide(tap.weight, sum);
}

// A vector [n] or matrix [n, t] aligned with axis `axis` (and the one behind it) of a tensor of this rank.
ValueId along_axis(Builder& b, ValueId values, std::int64_t rank, std::int64_t axis) {
  if (!b.ok()) return ValueId::none;
  Shape shape(static_cast<std::size_t>(rank), Dim(1));
  for (std::size_t i = 0; i < b.shape(values).size(); ++i)
    shape[static_cast<std::size_t>(axis) + i] = b.shape(values)[i];
  return b.reshape(values, std::move(shape));
}

// x · weight. A scale that data tell may be 1, and an axis that keeps its cells takes nothing from their
// neighbours, NaN neither.
ValueId weighed(Builder& b, const AxisPlan& plan, ValueId x, ValueId weight) {
  const ValueId term = b.multiply(x, weight);
  if (plan.scale.is_known()) return term;
  const ValueId stays = b.equal(size_scalar(b, plan.scale.p), size_scalar(b, plan.scale.q));
  const ValueId zero = b.scalar(b.dtype(term), 0);
  return b.select(b.logical_and(stays, b.equal(weight, zero)), zero, term);
}

// Downsampling with the kernel stretched over all cells between two output cells.
ValueId antialiased(Builder& b, ValueId x, const AxisPlan& plan, const Position& at, bool cubic, double a,
                    bool exclude_outside) {
  const Dim p = min(plan.scale.p, plan.scale.q), &q = plan.scale.q;
  const Dim start = floor_div(Dim(cubic ? -2 : -1) * q, p) + 1, count = Dim(2) - Dim(2) * start;
  const auto column = [&](ValueId v) { return b.reshape(v, {plan.out, 1}); };
  const auto real = [&](ValueId v) { return b.convert(v, DType::f64); };
  const ValueId t = minus_size(b, b.iota({1, count}, 1), 0 - start);
  const ValueId fraction = b.divide(real(at.rest), real(at.whole));
  const ValueId shrink = b.divide(real(size_scalar(b, p)), real(size_scalar(b, q)));
  const ValueId distance = b.absolute(b.multiply(b.subtract(real(t), column(fraction)), shrink));
  const ValueId zero = b.scalar(DType::f64, 0);
  ValueId weight =
      cubic ? cubic_kernel(b, distance, a) : b.maximum(b.subtract(b.scalar(DType::f64, 1), distance), zero);
  const ValueId cell = b.add(column(at.cell), t);
  if (exclude_outside) weight = b.select(in_range(b, cell, plan.in), weight, zero);
  const ValueId sum = b.reduce_keeping(weight, Reduction::sum, {1});
  weight = b.divide(weight, b.select(b.equal(sum, zero), b.scalar(DType::f64, 1), sum));
  const ValueId cells = clamp(b, cell, size_scalar(b, 0), size_scalar(b, plan.in - 1));
  const ValueId windows = b.take(x, cells, plan.axis);
  const ValueId weights = along_axis(b, b.convert(weight, b.dtype(x)), b.rank(windows), plan.axis);
  return b.reduce(weighed(b, plan, windows, weights), Reduction::sum, {plan.axis + 1});
}

ValueId interpolated(Builder& b, const OpCall& call, ValueId x, const AxisPlan& plan, const Position& at) {
  const bool cubic = word(call, "mode", "nearest") == "cubic", exclude = flag(call, "exclude_outside");
  const double a = call.attributes.get_or<double>("cubic_coeff_a", -0.75);
  const bool shrinks = (plan.scale.q - plan.scale.p).bounds().max > 0;
  if (flag(call, "antialias") && shrinks) return antialiased(b, x, plan, at, cubic, a, exclude);
  const Split where = {at.cell, b.divide(b.convert(at.rest, DType::f64), b.convert(at.whole, DType::f64))};
  Taps taps = cubic ? cubic_taps(b, where, a) : linear_taps(b, where);
  finish_taps(b, taps, plan, exclude);
  ValueId sum = ValueId::none;
  for (const Tap& tap : taps) {
    const ValueId weight = along_axis(b, b.convert(tap.weight, b.dtype(x)), b.rank(x), plan.axis);
    const ValueId term = weighed(b, plan, b.take(x, tap.cell, plan.axis), weight);
    sum = sum == ValueId::none ? term : b.add(sum, term);
  }
  return sum;
}

std::optional<Ints> resized_axes(Builder& b, const OpCall& call) {
  const std::int64_t rank = b.rank(call.inputs[0]);
  Ints axes;
  if (const Ints* given = call.attributes.get<Ints>("axes")) {
    for (const std::int64_t axis : *given) axes.push_back(b.axis(axis, rank));
  } else {
    for (std::int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  }
  return b.ok() ? std::optional(axes) : std::nullopt;
}

bool is_empty(Builder& b, ValueId id) { return id == ValueId::none || element_count(b.shape(id)).is(0); }

// One scale for all axes under the policies that keep the aspect ratio: the smallest or the largest.
void keep_aspect_ratio(std::vector<AxisPlan>& plans, bool smallest) {
  Scale best = plans[0].scale;
  for (const AxisPlan& plan : plans) {
    const Scale& other = plan.scale;
    const Dim left = smallest ? other.p * best.q : best.p * other.q;
    const Dim right = smallest ? best.p * other.q : other.p * best.q;
    best = {select_less(left, right, other.p, best.p), select_less(left, right, other.q, best.q)};
  }
  for (AxisPlan& plan : plans) {
    plan.scale = best;
    plan.out = floor_div(Dim(2) * best.p * plan.in + best.q, Dim(2) * best.q);  // halves round up
  }
}

// What fraction_of refuses, at every run.
void require_usable(Builder& b, const Scale& scale) {
  const Dim most = std::int64_t{1} << kScaleBits;
  for (const auto& [smaller, larger] :
       {std::pair{Dim(1), scale.p}, std::pair{Dim(1), scale.q}, std::pair{scale.q, scale.p * most},
        std::pair{scale.p, scale.q * most}}) {
    b.graph().require({Constraint::Kind::less_equal, smaller, larger,
                       fmt::format("resize: a scale is between 2^-{} and 2^{}", kScaleBits, kScaleBits)});
  }
}

// One a resized axis, from sizes, from constant scales or from fractions.
std::optional<std::vector<AxisPlan>> plans_of(Builder& b, const OpCall& call) {
  const auto axes = resized_axes(b, call);
  if (!axes) return std::nullopt;
  const ValueId scales = operand(call, 2), sizes = operand(call, 3), fractions = operand(call, 4);
  const bool by_size = !is_empty(b, sizes), by_fraction = !is_empty(b, fractions);
  if ((by_size ? 1 : 0) + (by_fraction ? 1 : 0) + (is_empty(b, scales) ? 0 : 1) != 1) {
    b.fail(ErrorCode::mismatch, "either scales or sizes must be given");
    return std::nullopt;
  }
  const auto targets = by_size ? known_list(b, sizes, "sizes") : Shape{};
  const auto parts = by_fraction ? known_list(b, fractions, "fractions") : Shape{};
  const auto& factors = by_size || by_fraction ? nullptr : b.graph().value(scales).constant;
  if (!targets || !parts) return std::nullopt;
  if (!by_size && !by_fraction && factors == nullptr) {
    b.fail(ErrorCode::unsupported, "scales that are computed are given as fractions");
    return std::nullopt;
  }
  const std::int64_t given =
      by_size ? std::ssize(*targets) : (by_fraction ? std::ssize(*parts) / 2 : factors->count());
  if (given != std::ssize(*axes)) {
    b.fail(ErrorCode::mismatch, "{} scales or sizes for {} axes", given, axes->size());
    return std::nullopt;
  }
  std::vector<AxisPlan> plans;
  for (std::size_t i = 0; i < axes->size(); ++i) {
    AxisPlan plan{.axis = (*axes)[i], .in = b.shape(call.inputs[0])[static_cast<std::size_t>((*axes)[i])]};
    if (by_size) {
      plan.scale = {(*targets)[i], plan.in};
      plan.out = (*targets)[i];
    } else {
      const auto scale = by_fraction ? Scale{(*parts)[i], (*parts)[i + axes->size()]}
                                     : fraction_of(b, factors->as_double(static_cast<std::int64_t>(i)));
      if (!scale) return std::nullopt;
      if (by_fraction) require_usable(b, *scale);
      plan.scale = *scale;
      plan.out = scaled_size(plan.in, *scale);
    }
    plans.push_back(std::move(plan));
  }
  const std::string policy = word(call, "keep_aspect_ratio_policy", "stretch");
  if (by_size && !plans.empty() && policy != "stretch") keep_aspect_ratio(plans, policy == "not_larger");
  return plans;
}

// The region of interest: starts of all axes, then ends.
void read_region(Builder& b, const OpCall& call, std::vector<AxisPlan>& plans) {
  const ValueId roi = operand(call, 1);
  const auto count = std::ssize(plans);
  if (is_empty(b, roi) || !element_count(b.shape(roi)).is(2 * count)) {
    b.fail(ErrorCode::mismatch, "tf_crop_and_resize needs a roi of {} elements", 2 * count);
    return;
  }
  const ValueId real = b.convert(roi, DType::f64);
  for (std::int64_t i = 0; i < count; ++i) {
    AxisPlan& plan = plans[static_cast<std::size_t>(i)];
    plan.start = b.reshape(slice_axis(b, real, 0, i, 1), {});
    plan.end = b.reshape(slice_axis(b, real, 0, i + count, 1), {});
  }
}

// Whether a position lies before the first or behind the last cell.
ValueId is_outside(Builder& b, const AxisPlan& plan, const Position& at) {
  const ValueId last = size_scalar(b, plan.in - 1);
  const ValueId behind = b.logical_and(b.equal(at.cell, last), b.less(b.scalar(DType::f64, 0), at.rest));
  return b.logical_or(b.logical_not(in_range(b, at.cell, plan.in)), behind);
}

Values resize(Builder& b, const OpCall& call) {
  auto plans = plans_of(b, call);
  if (!plans) return {ValueId::none};
  const DType dtype = b.dtype(call.inputs[0]);
  const std::string mode = word(call, "mode", "nearest");
  const std::string transformation = word(call, "coordinate_transformation_mode", "half_pixel");
  const bool nearest = mode == "nearest", crop = transformation == "tf_crop_and_resize";
  if (!nearest && (dtype == DType::boolean || (mode != "linear" && mode != "cubic")))
    return {b.fail(ErrorCode::mismatch, "mode '{}' is not known for {}", mode, name_of(dtype))};
  if (crop) read_region(b, call, *plans);
  ValueId y =
      nearest ? call.inputs[0] : b.convert(call.inputs[0], is_floating(dtype) ? wider(dtype) : DType::f64);
  ValueId outside = ValueId::none;
  for (const AxisPlan& plan : *plans) {
    if (!crop && plan.scale.p == plan.scale.q && plan.out == plan.in) continue;
    const auto at = positions(b, transformation, plan);
    if (!at || !b.ok()) return {ValueId::none};
    if (crop) {
      const ValueId here = along_axis(b, is_outside(b, plan, *at), b.rank(y), plan.axis);
      outside = outside == ValueId::none ? here : b.logical_or(outside, here);
    }
    if (nearest) {
      const auto cell = nearest_cell(b, call, plan, *at);
      if (!cell) return {ValueId::none};
      y = b.take(y, *cell, plan.axis);
    } else {
      y = interpolated(b, call, y, plan, *at);
    }
  }
  if (!nearest && !is_floating(dtype)) y = b.map(Primitive::round_even, {y});
  y = b.convert(y, dtype);
  if (outside == ValueId::none) return {y};
  const double value = call.attributes.get_or<double>("extrapolation_value", 0.0);
  return {b.select(outside, b.scalar(dtype, value), y)};
}

// Scales that the graph computes, as numerators and denominators: a float times 2^40 is a whole number, and
// what both have in common is their lowest bit. The host reads them as it reads sizes.
ValueId fractions_of(Builder& b, ValueId scales) {
  const ValueId most = b.scalar(DType::f64, std::ldexp(1.0, kFractionBits)), one = b.scalar(DType::i64, 1);
  const ValueId p = b.convert(b.multiply(b.convert(scales, DType::f64), most), DType::i64);
  const ValueId q = b.convert(most, DType::i64);
  const ValueId low_bit = b.map(Primitive::bit_and, {p, b.subtract(b.scalar(DType::i64, 0), p)});
  const ValueId common = b.maximum(b.minimum(low_bit, q), one);
  return b.concatenate({b.divide(p, common), b.divide(q, common)}, 0);
}

// The lists that a list is put together from.
Values parts_of(const Graph& graph, ValueId list) {
  const NodeId producer = graph.value(list).producer;
  if (producer == NodeId::none || graph.node(producer).op->name != "concat") return {list};
  return graph.node(producer).inputs;
}

// Constant parts stay constant: most axes of an image keep their size.
Result<void> scales_from_data(Builder& b, ForeignNode& node) {
  const ValueId scales = node.inputs.size() > 2 ? node.inputs[2] : ValueId::none;
  if (is_empty(b, scales) || b.graph().value(scales).constant != nullptr || b.rank(scales) != 1) return {};
  Shape numerators, denominators;
  for (const ValueId part : parts_of(b.graph(), scales)) {
    const auto constant = b.graph().value(part).constant;
    const Shape found = constant != nullptr
                            ? Shape()
                            : b.contents(b.known_sizes(fractions_of(b, part), "scales")).value_or(Shape());
    const std::size_t count =
        constant != nullptr ? static_cast<std::size_t>(constant->count()) : found.size() / 2;
    for (std::size_t i = 0; i < count; ++i) {
      const auto scale = constant != nullptr
                             ? fraction_of(b, constant->as_double(static_cast<std::int64_t>(i)))
                             : Scale{found[i], found[i + count]};
      TRY(b.status());
      numerators.push_back(scale->p);
      denominators.push_back(scale->q);
    }
  }
  TRY(b.status());
  numerators.insert(numerators.end(), denominators.begin(), denominators.end());
  node.inputs.resize(5, ValueId::none);
  node.inputs[2] = ValueId::none;
  node.inputs[4] = b.dims(std::move(numerators));
  return b.status();
}

// What was given before version 11 is a list of scales: positions are o / scale, rounded down, but up where
// an axis shrinks.
Result<void> scales_only(Builder& builder, ForeignNode& node) {
  if (node.version > 10) return scales_from_data(builder, node);
  if (node.inputs.size() == 2) node.inputs.insert(node.inputs.begin() + 1, ValueId::none);
  node.attributes.set("coordinate_transformation_mode", std::string("asymmetric"));
  node.attributes.set("nearest_mode", std::string("simple"));
  return scales_from_data(builder, node);
}

Result<void> upsample_scales(Builder& builder, ForeignNode& node) {
  Floats scales = node.attributes.get_or("scales", Floats{});
  if (node.version == 1) {
    scales = {1, 1, node.attributes.get_or<double>("height_scale", 1.0),
              node.attributes.get_or<double>("width_scale", 1.0)};
  }
  if (node.version < 9) {
    std::vector<float> narrow;
    for (const double scale : scales) narrow.push_back(static_cast<float>(scale));
    if (node.inputs.size() != 1)
      return fail(ErrorCode::malformed, "it has {} inputs, not one", node.inputs.size());
    node.inputs.push_back(
        builder.constant(HostTensor::of<float>({std::ssize(narrow)}, std::span<const float>(narrow))));
  }
  for (const std::string_view name : {"scales", "height_scale", "width_scale"}) node.attributes.erase(name);
  if (node.attributes.get_or("mode", std::string{}) == "bilinear")
    node.attributes.set("mode", std::string("linear"));
  return scales_only(builder, node);
}

std::vector<Sample> resize_samples(DType t) {
  const auto x = sample_tensor(t, {1, 2, 5, 7}, Fill::normal);
  const auto none = HostTensor::of<float>({0}, {}), one = HostTensor::of<float>({4}, {1, 1, 1.3F, 2.5F});
  const auto less = HostTensor::of<float>({4}, {1, 1, 0.6F, 0.75F});
  const std::vector<bool> fixed = {false, true, true, true};
  std::vector<Sample> samples;
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    if (t == DType::boolean && mode != "nearest") continue;
    for (const std::string transformation :
         {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"}) {
      const Attributes attributes = {{"mode", mode}, {"coordinate_transformation_mode", transformation}};
      samples.push_back({mode + ", " + transformation, {x, none, one}, attributes, fixed});
    }
    samples.push_back({mode + ", smaller", {x, none, less}, {{"mode", mode}}, fixed});
    samples.push_back({mode + ", given sizes", {x, none, none, ints({1, 2, 8, 3})}, {{"mode", mode}}, fixed});
    if (mode == "nearest") continue;
    samples.push_back({mode + ", antialiased",
                       {x, none, less},
                       {{"mode", mode}, {"antialias", std::int64_t{1}}, {"exclude_outside", std::int64_t{1}}},
                       fixed});
  }
  for (const std::string rounding : {"floor", "ceil", "round_prefer_ceil"})
    samples.push_back({"nearest, " + rounding, {x, none, one}, {{"nearest_mode", rounding}}, fixed});
  for (const std::string mode : {"nearest", "linear"}) {
    if (t == DType::boolean && mode != "nearest") continue;
    samples.push_back({mode + ", scales from data",
                       {x, none, none, ints({}), ints({1, 1, 13, 7, 1, 1, 10, 8})},
                       {{"mode", mode}},
                       {false, true, true, true, false}});
  }
  samples.push_back({"keeping the aspect ratio",
                     {x, none, none, ints({9, 8})},
                     {{"axes", Ints{2, 3}}, {"keep_aspect_ratio_policy", std::string("not_larger")}},
                     fixed});
  return samples;
}

constexpr decltype(OpDef::attributes) kAttributes = {
    {"antialias", AttributeKind::integer, "0", "stretch the kernel where an axis shrinks"},
    {"axes", AttributeKind::integers, "all", "which axes scales, sizes and roi speak of"},
    {"coordinate_transformation_mode", AttributeKind::text, "half_pixel",
     "or half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, tf_half_pixel_for_nn, "
     "tf_crop_and_resize"},
    {"cubic_coeff_a", AttributeKind::real, "-0.75", "parameter of the cubic kernel"},
    {"exclude_outside", AttributeKind::integer, "0", "cells outside weigh nothing"},
    {"extrapolation_value", AttributeKind::real, "0", "outside, for tf_crop_and_resize"},
    {"keep_aspect_ratio_policy", AttributeKind::text, "stretch", "or not_larger, not_smaller"},
    {"mode", AttributeKind::text, "nearest", "or linear, cubic"},
    {"nearest_mode", AttributeKind::text, "round_prefer_floor",
     "or round_prefer_ceil, floor, ceil, simple (ceil where an axis shrinks, else floor)"}};

constexpr OpDef resize_record(std::string_view name, std::string_view doc, OnnxName onnx,
                              std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "[...]"},
                     {"roi", "[2·n]", kFloating, "roi", OperandMode::optional},
                     {"scales", "[n]", kF32, "scale", OperandMode::optional},
                     {"sizes", "[n]", kI64, "index", OperandMode::optional, true},
                     {"fractions", "[2·n]", kI64, "index", OperandMode::optional, true}},
          .outputs = {{"y", "[...]"}},
          .attributes = kAttributes,
          .decompose = resize,
          .samples = resize_samples,
          .onnx = onnx,
          .oracle = oracle};
}

constexpr std::array kOps = {
    resize_record(
        "resize",
        "Samples each axis anew, to a size or by a scale. Positions follow from the given scale or from both "
        "sizes, exactly.",
        {"Resize", {10, 11, 13, 18, 19}, scales_only}, "onnx-node:test_resize"),
    resize_record("upsample", "resize by scales, as older models have it.",
                  {"Upsample", {1, 7, 9, 10}, upsample_scales}, "onnx-node:test_upsample"),
};

}  // namespace

std::span<const OpDef> resize_ops() { return kOps; }

}  // namespace diji
