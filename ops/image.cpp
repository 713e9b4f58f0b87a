// Operators of images: sampling at grids and in regions, blocks of pixels as channels.
#include "ops/families.h"
#include "ops/formula.h"
#include "ops/samples.h"
#include "ops/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace diji {
namespace {

// Positions far outside are cut to where integers are still exact; NaN stays NaN.
constexpr double kPositionMax = 0x1p31;

ValueId bounded_position(Builder& b, ValueId at) {
  return clamp(b, at, b.scalar(DType::f64, -kPositionMax), b.scalar(DType::f64, kPositionMax));
}

// Cells outside under GridSample's padding modes; reflection turns at the cells with align_corners, else half
// a cell further out.
ValueId fold_cell(Builder& b, ValueId cell, const std::string& padding, const Dim& size, bool align_corners) {
  const ValueId last = size_scalar(b, size - 1);
  if (padding == "border") return clamp(b, cell, size_scalar(b, 0), last);
  if (padding != "reflection") return cell;
  const Dim turn = align_corners ? Dim(2) * (size - 1) : Dim(2) * size;
  const ValueId on = floor_mod(b, cell, max(turn, 1));
  const ValueId back = b.subtract(size_scalar(b, align_corners ? turn : turn - 1), on);
  return b.select(b.less(last, on), back, on);
}

std::string grid_mode(const OpCall& call) {
  const std::string mode = word(call, "mode", "linear");
  return mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode;
}

// The taps of spatial axis i: where grid[..., last − i] points to.
Taps grid_taps(Builder& b, const OpCall& call, ValueId grid, std::size_t i, const Dim& size, DType weights) {
  const std::string mode = grid_mode(call), padding = word(call, "padding_mode", "zeros");
  const bool align = flag(call, "align_corners");
  const Shape from = b.shape(grid);
  const auto last = static_cast<std::int64_t>(from.size()) - 1;
  Shape plane(from.begin(), from.end() - 1);
  plane.insert(plane.begin() + 1, Dim(1));  // [N, 1, out...]
  const ValueId normal =
      b.reshape(slice_axis(b, grid, last, last - 2 - static_cast<std::int64_t>(i), 1), plane);
  const ValueId half = b.scalar(DType::f64, 0.5), one = b.scalar(DType::f64, 1);
  const ValueId span = b.convert(size_scalar(b, align ? size - 1 : size), DType::f64);
  ValueId at = b.multiply(b.multiply(b.add(b.convert(normal, DType::f64), one), span), half);
  if (!align) at = b.subtract(at, half);
  at = bounded_position(b, at);
  Taps taps;
  if (mode == "nearest") {
    taps = {{b.convert(b.map(Primitive::round_even, {at}), DType::i64), ValueId::none}};
  } else {
    const Split where = split(b, at, weights);
    taps = mode == "cubic" ? cubic_taps(b, where, -0.75) : linear_taps(b, where);
  }
  for (Tap& tap : taps) tap.cell = fold_cell(b, tap.cell, padding, size, align);
  return taps;
}

Values grid_sample(Builder& b, const OpCall& call) {
  const ValueId grid = call.inputs[1];
  const Shape from = b.shape(call.inputs[0]), points = b.shape(grid);
  const std::string mode = grid_mode(call), padding = word(call, "padding_mode", "zeros");
  if (from.size() < 3 || points.size() != from.size() ||
      !points.back().is(static_cast<std::int64_t>(from.size()) - 2)) {
    return {b.fail(ErrorCode::mismatch, "x {} and grid {} must be [N, C, in...] and [N, out..., axes]",
                   text_of(from), text_of(points))};
  }
  if ((mode != "nearest" && mode != "linear" && mode != "cubic") ||
      (padding != "zeros" && padding != "border" && padding != "reflection"))
    return {b.fail(ErrorCode::mismatch, "mode '{}' with padding_mode '{}' is not known", mode, padding)};
  const DType dtype = b.dtype(call.inputs[0]);
  const DType inner = is_floating(dtype) ? wider(dtype) : DType::f64;
  const ValueId x = mode == "nearest" ? call.inputs[0] : b.convert(call.inputs[0], inner);
  Shape to = {from[0], from[1]};
  to.insert(to.end(), points.begin() + 1, points.end() - 1);
  const Values lead = {b.iota(to, 0), b.iota(to, 1)};
  std::vector<Taps> axes;
  for (std::size_t i = 0; i + 2 < from.size() && b.ok(); ++i)
    axes.push_back(grid_taps(b, call, grid, i, from[i + 2], inner));
  if (!b.ok()) return {ValueId::none};
  const bool zeros = padding == "zeros";
  if (mode == "nearest") {
    Values indices = lead;
    for (const Taps& taps : axes) indices.push_back(taps[0].cell);
    return {b.gather(x, std::move(indices), zeros)};
  }
  const ValueId y = sum_taps(b, x, lead, axes, zeros);
  return {b.convert(is_floating(dtype) ? y : b.map(Primitive::round_even, {y}), dtype)};
}

// Normalised coordinates of `size` cells: −1 … 1 from centre to centre or from edge to edge.
ValueId normal_coordinates(Builder& b, std::int64_t rank, std::int64_t axis, const Dim& size, bool align,
                           DType dtype) {
  const ValueId twice = times(b, coordinates(b, rank, axis, size), 2);
  const ValueId numerator = minus_size(b, twice, size - 1);
  const Dim span = align ? max(size - 1, 1) : size;
  return b.convert(b.divide(b.convert(numerator, DType::f64), b.convert(size_scalar(b, span), DType::f64)),
                   dtype);
}

Values affine_grid(Builder& b, const OpCall& call) {
  const auto size = known_list(b, call.inputs[1], "size");
  if (!size) return {ValueId::none};
  const Shape from = b.shape(call.inputs[0]);
  const std::size_t axes = size->size() - std::min<std::size_t>(size->size(), 2);
  if ((axes != 2 && axes != 3) || from.size() != 3 || !from[1].is(static_cast<std::int64_t>(axes)) ||
      !from[2].is(static_cast<std::int64_t>(axes) + 1)) {
    return {b.fail(ErrorCode::mismatch,
                   "theta {} does not fit size {}: [N, 2, 3] for [N, C, H, W] or [N, 3, 4] for "
                   "[N, C, D, H, W]",
                   text_of(from), text_of(*size))};
  }
  const DType dtype = b.dtype(call.inputs[0]), inner = wider(dtype);
  const ValueId theta = b.convert(call.inputs[0], inner);
  const auto rank = static_cast<std::int64_t>(axes) + 2;
  Shape column(axes + 2, Dim(1)), to = {from[0]};
  column[0] = from[0];
  column.back() = from[1];
  const auto factor = [&](std::size_t i) {
    return b.reshape(slice_axis(b, theta, 2, static_cast<std::int64_t>(i), 1), column);
  };
  ValueId sum = factor(axes);
  for (std::size_t i = 0; i < axes; ++i) {  // x is the last spatial axis
    const std::size_t spatial = axes - 1 - i;
    to.insert(to.begin() + 1, (*size)[2 + spatial]);
    const ValueId at = normal_coordinates(b, rank, static_cast<std::int64_t>(1 + spatial),
                                          (*size)[2 + spatial], flag(call, "align_corners"), inner);
    sum = b.add(sum, b.multiply(at, factor(i)));
  }
  to.push_back(from[1]);
  return {b.convert(b.broadcast(sum, to), dtype)};
}

// RoiAlign's regions: start and bin size in cells per axis, f64[R, 1, 1, 1], and how many samples a bin has.
struct Regions {
  std::array<ValueId, 2> start, bin, samples;
};

Regions regions_of(Builder& b, const OpCall& call, std::array<std::int64_t, 2> out) {
  const Dim count = b.shape(call.inputs[1])[0];
  const ValueId rois = b.convert(call.inputs[1], DType::f64);
  const ValueId scale = b.scalar(DType::f64, call.attributes.get_or<double>("spatial_scale", 1.0));
  const bool half = word(call, "coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const auto ratio = call.attributes.get_or<std::int64_t>("sampling_ratio", 0);
  const auto edge = [&](std::int64_t column) {
    const ValueId at = b.multiply(b.reshape(slice_axis(b, rois, 1, column, 1), {count, 1, 1, 1}), scale);
    return half ? b.subtract(at, b.scalar(DType::f64, 0.5)) : at;
  };
  Regions regions{};
  for (const std::size_t i : {0U, 1U}) {  // rows, then columns; a region is x1, y1, x2, y2
    const std::int64_t low = i == 0 ? 1 : 0;
    regions.start[i] = edge(low);
    ValueId size = b.subtract(edge(low + 2), regions.start[i]);
    if (!half) size = b.maximum(size, b.scalar(DType::f64, 1));
    regions.bin[i] = b.divide(size, b.scalar(DType::f64, static_cast<double>(out[i])));
    const ValueId adaptive =
        b.maximum(b.convert(b.map(Primitive::ceil, {regions.bin[i]}), DType::i64), size_scalar(b, 0));
    regions.samples[i] = ratio > 0 ? b.broadcast(size_scalar(b, ratio), {count, 1, 1, 1}) : adaptive;
  }
  return regions;
}

// Taps of one sample of each bin on one axis: [R, 1, out or 1, out or 1]. One cell beyond the edge still
// counts as the edge; further out weights are 0.
Taps roi_taps(Builder& b, const Regions& regions, std::size_t i, std::int64_t out, ValueId sample,
              const Dim& size, DType dtype) {
  const auto real = [&](ValueId v) { return b.convert(v, DType::f64); };
  const ValueId half = b.scalar(DType::f64, 0.5), one = b.scalar(DType::f64, 1);
  const ValueId count = b.maximum(regions.samples[i], size_scalar(b, 1));
  const ValueId inside = b.divide(b.add(real(sample), half), real(count));
  const ValueId bins = b.add(coordinates(b, 4, static_cast<std::int64_t>(2 + i), out, DType::f64), inside);
  const ValueId at = bounded_position(b, b.add(regions.start[i], b.multiply(bins, regions.bin[i])));
  const ValueId end = real(size_scalar(b, size));
  const ValueId counts =
      b.logical_and(b.less_equal(b.subtract(b.scalar(DType::f64, 0), one), at), b.less_equal(at, end));
  // Before the first cell and from the last one on there is nothing to interpolate.
  Split where = split(b, at, dtype);
  where.rest = b.select(in_range(b, where.cell, size - 1), where.rest, b.scalar(dtype, 0));
  where.cell = clamp(b, where.cell, size_scalar(b, 0), size_scalar(b, size - 1));
  Taps taps = linear_taps(b, where);
  for (Tap& tap : taps) {
    tap.cell = clamp(b, tap.cell, size_scalar(b, 0), size_scalar(b, size - 1));
    tap.weight = b.select(counts, tap.weight, b.scalar(dtype, 0));
  }
  return taps;
}

// One step of the loop over samples: sample t of each region that has so many joins the mean or the maximum.
ValueId roi_step(Builder& b, const OpCall& call, ValueId x, ValueId batch, const Regions& regions, ValueId t,
                 ValueId so_far) {
  const Shape to = b.shape(so_far), from = b.shape(x);
  const DType dtype = b.dtype(x);
  const ValueId columns = b.maximum(regions.samples[1], size_scalar(b, 1));
  const std::array<ValueId, 2> sample = {b.divide(t, columns), b.map(Primitive::remainder, {t, columns})};
  std::vector<Taps> axes;
  for (const std::size_t i : {0U, 1U})
    axes.push_back(roi_taps(b, regions, i, to[2 + i].constant().value_or(1), sample[i], from[2 + i], dtype));
  const Values lead = {batch, b.iota(to, 1)};
  const ValueId takes_part = b.less(t, b.multiply(regions.samples[0], regions.samples[1]));
  if (word(call, "mode", "avg") == "avg")
    return b.add(so_far, b.select(takes_part, sum_taps(b, x, lead, axes, false), b.scalar(dtype, 0)));
  // The maximum is over the weighted cells, not over interpolated values: so ONNX defines it.
  const Values terms = tap_terms(b, x, lead, axes, false);
  ValueId largest = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) largest = b.maximum(largest, terms[i]);
  const ValueId first = b.equal(t, size_scalar(b, 0));
  return b.select(takes_part, b.select(first, largest, b.maximum(so_far, largest)), so_far);
}

Values roi_align(Builder& b, const OpCall& call) {
  const Shape from = b.shape(call.inputs[0]), rois = b.shape(call.inputs[1]);
  const std::array<std::int64_t, 2> out = {call.attributes.get_or<std::int64_t>("output_height", 1),
                                           call.attributes.get_or<std::int64_t>("output_width", 1)};
  const std::string mode = word(call, "mode", "avg"),
                    half = word(call, "coordinate_transformation_mode", "half_pixel");
  if (from.size() != 4 || rois.size() != 2 || !rois[1].is(4) || out[0] < 1 || out[1] < 1 ||
      (mode != "avg" && mode != "max") || (half != "half_pixel" && half != "output_half_pixel")) {
    return {b.fail(ErrorCode::mismatch,
                   "x {}, rois {}, output {} × {}, mode '{}', coordinates '{}' do not fit", text_of(from),
                   text_of(rois), out[0], out[1], mode, half)};
  }
  const DType dtype = b.dtype(call.inputs[0]), inner = wider(dtype);
  const ValueId x = b.convert(call.inputs[0], inner);
  const ValueId batch = b.reshape(call.inputs[2], {rois[0], 1, 1, 1});
  const Regions regions = regions_of(b, call, out);
  const ValueId counts = b.multiply(regions.samples[0], regions.samples[1]);
  const ValueId zeros = b.broadcast(b.scalar(inner, 0), {rois[0], from[1], out[0], out[1]});
  const ValueId steps = b.maximum(b.reduce(counts, Reduction::max, {0, 1, 2, 3}), size_scalar(b, 0));
  if (!b.ok()) return {ValueId::none};
  const Values captures = {x,
                           batch,
                           regions.start[0],
                           regions.start[1],
                           regions.bin[0],
                           regions.bin[1],
                           regions.samples[0],
                           regions.samples[1]};
  Graph body = b.graph().child();
  Builder step(body);
  const ValueId t = body.add_input("t", {DType::i64, {}}), so_far = body.add_input("so_far", b.type(zeros));
  Values inside;
  for (const ValueId id : captures)
    inside.push_back(body.add_input(fmt::format("{}", inside.size()), b.type(id)));
  const Regions known = {{inside[2], inside[3]}, {inside[4], inside[5]}, {inside[6], inside[7]}};
  body.add_output("so_far", roi_step(step, call, inside[0], inside[1], known, t, so_far));
  if (auto status = step.status(); !status) return {b.fail_with(status.error())};
  const Values end = b.loop(steps, ValueId::none, {zeros}, {}, captures, std::move(body));
  if (!b.ok()) return {ValueId::none};
  ValueId y = end[0];
  if (mode == "avg") y = b.divide(y, b.convert(b.maximum(counts, size_scalar(b, 1)), inner));
  return {b.convert(y, dtype)};
}

std::optional<std::int64_t> block_size(Builder& b, const OpCall& call) {
  const auto size = call.attributes.get_or<std::int64_t>("blocksize", 0);
  if (b.rank(call.inputs[0]) == 4 && size >= 1) return size;
  b.fail(ErrorCode::mismatch, "input {} must be [N, C, H, W], blocksize {} positive",
         text_of(b.shape(call.inputs[0])), size);
  return std::nullopt;
}

Values depth_to_space(Builder& b, const OpCall& call) {
  const auto block = block_size(b, call);
  const std::string mode = word(call, "mode", "DCR");
  if (!block) return {ValueId::none};
  if (mode != "DCR" && mode != "CRD")
    return {b.fail(ErrorCode::mismatch, "mode '{}' is neither DCR nor CRD", mode)};
  const Shape x = b.shape(call.inputs[0]);
  const Dim s = *block, channels = floor_div(x[1], s * s);
  const bool blocks_first = mode == "DCR";
  const Shape split_up =
      blocks_first ? Shape{x[0], s, s, channels, x[2], x[3]} : Shape{x[0], channels, s, s, x[2], x[3]};
  const ValueId moved = b.transpose(b.reshape(call.inputs[0], split_up),
                                    blocks_first ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3});
  return {b.reshape(moved, {x[0], channels, x[2] * s, x[3] * s})};
}

Values space_to_depth(Builder& b, const OpCall& call) {
  const auto block = block_size(b, call);
  const std::string mode = word(call, "mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return {b.fail(ErrorCode::mismatch, "mode '{}' is neither DCR nor CRD", mode)};
  if (!block) return {ValueId::none};
  const Shape x = b.shape(call.inputs[0]);
  const Dim s = *block, rows = floor_div(x[2], s), columns = floor_div(x[3], s);
  const ValueId moved = b.transpose(b.reshape(call.inputs[0], {x[0], x[1], rows, s, columns, s}),
                                    mode == "DCR" ? Ints{0, 3, 5, 1, 2, 4} : Ints{0, 1, 3, 5, 2, 4});
  return {b.reshape(moved, {x[0], x[1] * s * s, rows, columns})};
}

// RoiAlign before version 16 has the coordinates that are now called output_half_pixel.
Result<void> old_coordinates(Builder&, ForeignNode& node) {
  if (node.version < 16)
    node.attributes.set("coordinate_transformation_mode", std::string("output_half_pixel"));
  return {};
}

std::vector<Sample> grid_sample_samples(DType t) {
  const auto x = sample_tensor(t, {2, 3, 5, 6}, Fill::normal, 1);
  const auto grid = sample_tensor(DType::f32, {2, 4, 3, 2}, Fill::normal, 2);
  std::vector<Sample> samples;
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    for (const std::string padding : {"zeros", "border", "reflection"}) {
      for (const std::int64_t align : {0, 1}) {
        samples.push_back({fmt::format("{}, {}, align_corners {}", mode, padding, align),
                           {x, grid},
                           {{"mode", mode}, {"padding_mode", padding}, {"align_corners", align}},
                           {}});
      }
    }
  }
  samples.push_back({"volumes",
                     {sample_tensor(t, {1, 2, 3, 4, 5}, Fill::normal, 1),
                      sample_tensor(DType::f32, {1, 2, 2, 3, 3}, Fill::normal, 2)},
                     {},
                     {}});
  return samples;
}

std::vector<Sample> affine_grid_samples(DType t) {
  const auto planes = sample_tensor(t, {2, 2, 3}, Fill::normal),
             volumes = sample_tensor(t, {1, 3, 4}, Fill::normal);
  const Attributes align = {{"align_corners", std::int64_t{1}}};
  return {{"planes", {planes, ints({2, 1, 4, 5})}, {}, {false, true}},
          {"planes, corners", {planes, ints({2, 1, 4, 1})}, align, {false, true}},
          {"volumes", {volumes, ints({1, 1, 2, 3, 4})}, {}, {false, true}}};
}

std::vector<Sample> roi_align_samples(DType t) {
  const auto x = sample_tensor(t, {2, 3, 6, 7}, Fill::normal, 1);
  HostTensor rois = HostTensor::allocate(t, {3, 4}).value();
  constexpr std::array<double, 12> kCorners = {0.4, 1.1, 4.3, 5.2, 2.2, 0.7, 6.4, 3.1, -2.2, -3.3, 9.7, 8.2};
  visit_dtype(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_integral_v<T>) {
      std::ranges::transform(kCorners, rois.mutable_values<T>().begin(),
                             [](double v) { return static_cast<T>(v); });
    }
  });
  const auto batch = HostTensor::of<std::int64_t>({3}, {0, 1, 1});
  const Attributes size = {{"output_height", std::int64_t{2}},
                           {"output_width", std::int64_t{3}},
                           {"sampling_ratio", std::int64_t{2}}};
  Attributes largest = size;
  largest.set("mode", std::string("max"));
  Attributes adaptive = size;
  adaptive.set("sampling_ratio", std::int64_t{0});
  return {{"mean", {x, rois, batch}, size, {}},
          {"maximum", {x, rois, batch}, largest, {}},
          {"as many samples as cells", {x, rois, batch}, adaptive, {}}};
}

std::vector<Sample> block_samples(DType t) {
  const Attributes two = {{"blocksize", std::int64_t{2}}};
  Attributes other = {{"blocksize", std::int64_t{3}}};
  return {{"two", {sample_tensor(t, {2, 8, 4, 6}, Fill::normal)}, two, {}},
          {"three", {sample_tensor(t, {1, 18, 3, 6}, Fill::normal)}, other, {}}};
}

std::vector<Sample> depth_samples(DType t) {
  auto samples = block_samples(t);
  Sample columns = samples[0];
  columns.label = "two, channels first";
  columns.attributes.set("mode", std::string("CRD"));
  samples.push_back(std::move(columns));
  return samples;
}

constexpr AttributeDef kBlock = {"blocksize", AttributeKind::integer, "", "side of a block"};

constexpr AttributeDef kOrder = {"mode", AttributeKind::text, "DCR", "or CRD"};

constexpr std::array kOps = {
    OpDef{
        .name = "grid_sample",
        .doc =
            "x at the positions of a grid in −1 … 1 (x, y[, z] from edge to edge, or between corner cells): "
            "nearest (halves to even), linear or cubic (a = −0.75) in any number of axes; outside are zeros, "
            "the "
            "border or reflections, cell by cell.",
        .inputs = {{"x", "[N, C, in...]", kNumeric}, {"grid", "[N, out..., axes]", kFloating, "U"}},
        .outputs = {{"y", "[N, C, out...]", kNumeric}},
        .attributes = {{"align_corners", AttributeKind::integer, "0",
                        "−1 and 1 are the outer cells' centres"},
                       {"mode", AttributeKind::text, "linear", "or nearest, cubic, bilinear, bicubic"},
                       {"padding_mode", AttributeKind::text, "zeros", "or border, reflection"}},
        .decompose = grid_sample,
        .samples = grid_sample_samples,
        .onnx = {"GridSample", {16, 20, 22}},
        .oracle = "onnx-node:test_gridsample"},
    OpDef{.name = "affine_grid",
          .doc = "The grid for grid_sample that an affine map makes: theta · (x, y[, z], 1) for every cell.",
          .inputs = {{"theta", "[N, n, n + 1]", kFloating},
                     {"size", "[n + 2]", kI64, "index", OperandMode::required, true}},
          .outputs = {{"grid", "[N, out..., n]", kFloating}},
          .attributes = {{"align_corners", AttributeKind::integer, "0",
                          "−1 and 1 are the outer cells' centres"}},
          .decompose = affine_grid,
          .samples = affine_grid_samples,
          .onnx = {"AffineGrid", {20}},
          .oracle = "onnx-node:test_affine_grid"},
    OpDef{.name = "roi_align",
          .doc = "Each region becomes output_height × output_width bins, a bin the mean (or largest weighted "
                 "cell) of "
                 "samples that are interpolated linearly (Mask R-CNN, He et al. 2017).",
          .inputs = {{"x", "[N, C, H, W]", kFloating},
                     {"rois", "[R, 4]: x1, y1, x2, y2", kFloating},
                     {"batch_indices", "[R]", kI64, "index"}},
          .outputs = {{"y", "[R, C, output_height, output_width]", kFloating}},
          .attributes = {{"coordinate_transformation_mode", AttributeKind::text, "half_pixel",
                          "or output_half_pixel"},
                         {"mode", AttributeKind::text, "avg", "or max"},
                         {"output_height", AttributeKind::integer, "1", ""},
                         {"output_width", AttributeKind::integer, "1", ""},
                         {"sampling_ratio", AttributeKind::integer, "0",
                          "samples a bin and axis; 0: bin size rounded up"},
                         {"spatial_scale", AttributeKind::real, "1", "from regions to cells"}},
          .decompose = roi_align,
          .samples = roi_align_samples,
          .onnx = {"RoiAlign", {10, 16, 22}, old_coordinates},
          .oracle = "onnx-node:test_roialign"},
    OpDef{.name = "depth_to_space",
          .doc = "Channels become blocks of pixels: [N, C·s², H, W] -> [N, C, H·s, W·s]. DCR: the block is "
                 "the outer "
                 "part of a channel's number, CRD: the inner.",
          .inputs = {{"input", "[N, C·s², H, W]"}},
          .outputs = {{"output", "[N, C, H·s, W·s]"}},
          .attributes = {kBlock, kOrder},
          .decompose = depth_to_space,
          .samples = depth_samples,
          .onnx = {"DepthToSpace", {1, 11, 13, 28}},
          .oracle = "onnx-node:test_depthtospace"},
    OpDef{.name = "space_to_depth",
          .doc = "Blocks of pixels become channels: [N, C, H, W] -> [N, C·s², H/s, W/s], ordered as in "
                 "depth_to_space.",
          .inputs = {{"input", "[N, C, H, W]"}},
          .outputs = {{"output", "[N, C·s², H/s, W/s]"}},
          .attributes = {kBlock, kOrder},
          .decompose = space_to_depth,
          .samples = depth_samples,
          .onnx = {"SpaceToDepth", {1, 13, 28}},
          .oracle = "onnx-node:test_spacetodepth"},
};

}  // namespace

std::span<const OpDef> image_ops() { return kOps; }

}  // namespace diji
