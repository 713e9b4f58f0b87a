// Pools: maximum, mean or norm of the cells in sliding windows. Cells that do not exist never count.
#include "ops/families.h"
#include "ops/formula.h"
#include "ops/samples.h"
#include "ops/window.h"

#include <array>

namespace diji {
namespace {

std::optional<Windows> pool_windows(Builder& b, const OpCall& call) {
  const Shape from = b.shape(call.inputs[0]);
  if (from.size() < 3) {
    b.fail(ErrorCode::mismatch, "x {} has no spatial axes", text_of(from));
    return std::nullopt;
  }
  const auto kernel = kernel_attribute(b, call, from.size() - 2);
  return kernel ? windows_of(b, call, from, *kernel) : std::nullopt;
}

// The cells in windows with this element where there is no cell.
ValueId cells_or(Builder& b, ValueId x, const Windows& windows, ValueId otherwise) {
  const ValueId cells = gather_windows(b, x, windows);
  return windows.inside ? cells : b.select(window_mask(b, windows, b.shape(x)), cells, otherwise);
}

// The smallest or largest k for which cell p · stride + k · dilation − pad exists, [.., out, ..] along axis
// i.
struct KernelRange {
  ValueId first, last;
};
KernelRange kernel_range(Builder& b, const Windows& windows, const Shape& space, std::size_t i, Dim in) {
  const auto p = static_cast<std::int64_t>(2 + windows.spatial() + i);
  const ValueId start = minus_size(b, times(b, b.iota(space, p), windows.strides[i]), windows.pads_low[i]);
  const ValueId zero = size_scalar(b, 0), dilation = size_scalar(b, windows.dilations[i]);
  // ⌈−start / dilation⌉ and ⌊(in − 1 − start) / dilation⌋, both of numbers that are not negative.
  const ValueId missing = b.maximum(b.subtract(zero, start), zero);
  const ValueId room = b.maximum(b.subtract(size_scalar(b, in - 1), start), zero);
  const ValueId rounded = b.add(missing, size_scalar(b, windows.dilations[i] - 1));
  return {b.divide(rounded, dilation),
          b.minimum(b.divide(room, dilation), size_scalar(b, windows.kernel[i] - 1))};
}

// The coordinates of the largest cell, as flat positions. An element of the window that is no cell stands for
// the nearest one that is, so that the first largest one is a cell.
ValueId largest_positions(Builder& b, ValueId x, const Windows& windows, bool column_major) {
  const Shape from = b.shape(x), space = window_space(windows, from);
  Values cells = {b.iota(space, 0), b.iota(space, 1)};
  for (std::size_t i = 0; i < windows.spatial(); ++i) {
    ValueId cell = window_cell(b, windows, space, i);
    if (!windows.inside) {
      const KernelRange range = kernel_range(b, windows, space, i, from[i + 2]);
      const ValueId k = b.iota(space, static_cast<std::int64_t>(2 + i));
      const ValueId moved = b.subtract(clamp(b, k, range.first, range.last), k);
      cell = b.add(cell, times(b, moved, windows.dilations[i]));
      cell = clamp(b, cell, size_scalar(b, 0), size_scalar(b, from[i + 2] - 1));
    }
    cells.push_back(cell);
  }
  Shape flat = {from[0], from[1], 1};
  for (const std::int64_t size : windows.kernel) flat[2] = flat[2] * Dim(size);
  flat.insert(flat.end(), windows.out.begin(), windows.out.end());
  const ValueId values = b.reshape(b.gather(x, cells), flat);
  const ValueId best = b.arg_reduce(values, Reduction::max, 2);
  // Position of every element of the windows, row-major or with the first spatial axis fastest.
  ValueId position = b.add(b.multiply(cells[0], size_scalar(b, from[1])), cells[1]);
  for (std::size_t n = 0; n < windows.spatial(); ++n) {
    const std::size_t i = column_major ? windows.spatial() - 1 - n : n;
    position = b.add(b.multiply(position, size_scalar(b, from[i + 2])), cells[i + 2]);
  }
  if (!b.ok()) return ValueId::none;
  const Shape out = b.shape(best);
  Values picked;
  for (std::size_t axis = 0; axis < flat.size(); ++axis) {
    const auto result_axis = static_cast<std::int64_t>(axis < 2 ? axis : axis - 1);
    picked.push_back(axis == 2 ? best : b.iota(out, result_axis));
  }
  return b.gather(b.reshape(position, flat), std::move(picked));
}

Values max_pool(Builder& b, const OpCall& call) {
  const auto windows = pool_windows(b, call);
  if (!windows) return {ValueId::none, ValueId::none};
  const ValueId x = call.inputs[0];
  const ValueId largest =
      b.reduce(cells_or(b, x, *windows, lowest(b, b.dtype(x))), Reduction::max, kernel_axes(*windows));
  const bool column_major = call.attributes.get_or<std::int64_t>("storage_order", 0) != 0;
  return {largest, largest_positions(b, x, *windows, column_major)};
}

// How many elements of each window exist along one axis: those in x, or in x and its padding.
ValueId count_along(Builder& b, const Windows& windows, std::size_t i, Dim in, bool padding) {
  const Shape space = {windows.kernel[i], windows.out[i]};
  const ValueId start = minus_size(b, times(b, b.iota(space, 1), windows.strides[i]), windows.pads_low[i]);
  const ValueId cell = b.add(start, times(b, b.iota(space, 0), windows.dilations[i]));
  const ValueId exists =
      padding ? b.less(cell, size_scalar(b, in + windows.pads_high[i])) : in_range(b, cell, in);
  return b.reduce(b.convert(exists, DType::i64), Reduction::sum, {0});
}

Values average_pool(Builder& b, const OpCall& call) {
  const auto windows = pool_windows(b, call);
  if (!windows) return {ValueId::none};
  const DType dtype = b.dtype(call.inputs[0]);
  const ValueId x = b.convert(call.inputs[0], wider(dtype));
  const ValueId sum = b.reduce(gather_windows(b, x, *windows), Reduction::sum, kernel_axes(*windows));
  ValueId count = size_scalar(b, 1);
  for (std::size_t i = 0; i < windows->spatial(); ++i) {
    ValueId along = size_scalar(b, windows->kernel[i]);
    if (!windows->inside) {
      Shape aligned(windows->spatial(), Dim(1));
      aligned[i] = windows->out[i];
      const bool padding = flag(call, "count_include_pad");
      along = b.reshape(count_along(b, *windows, i, b.shape(x)[i + 2], padding), std::move(aligned));
    }
    count = b.multiply(count, along);
  }
  return {b.convert(b.divide(sum, b.convert(count, b.dtype(x))), dtype)};
}

// (Σ |x|^p)^(1/p) over axes.
ValueId norm(Builder& b, ValueId x, std::int64_t p, const Ints& axes) {
  const ValueId size = b.absolute(x);
  if (p == 1) return b.reduce(size, Reduction::sum, axes);
  if (p == 2) return b.sqrt(b.reduce(b.multiply(x, x), Reduction::sum, axes));
  const DType dtype = b.dtype(x);
  const ValueId exponent = b.scalar(dtype, static_cast<double>(p));
  const ValueId sum = b.reduce(b.map(Primitive::power, {size, exponent}), Reduction::sum, axes);
  return b.map(Primitive::power, {sum, b.scalar(dtype, 1 / static_cast<double>(p))});
}

std::optional<std::int64_t> exponent_of(Builder& b, const OpCall& call) {
  const auto p = call.attributes.get_or<std::int64_t>("p", 2);
  if (p >= 1) return p;
  b.fail(ErrorCode::mismatch, "p {} must be at least 1", p);
  return std::nullopt;
}

Values lp_pool(Builder& b, const OpCall& call) {
  const auto windows = pool_windows(b, call);
  const auto p = exponent_of(b, call);
  if (!windows || !p) return {ValueId::none};
  const DType dtype = b.dtype(call.inputs[0]);
  const ValueId x = b.convert(call.inputs[0], wider(dtype));
  return {b.convert(norm(b, gather_windows(b, x, *windows), *p, kernel_axes(*windows)), dtype)};
}

std::optional<Ints> spatial_axes(Builder& b, ValueId x) {
  Ints axes;
  for (std::int64_t axis = 2; axis < b.rank(x); ++axis) axes.push_back(axis);
  if (!axes.empty()) return axes;
  b.fail(ErrorCode::mismatch, "x {} has no spatial axes", text_of(b.shape(x)));
  return std::nullopt;
}

ValueId kept(Builder& b, ValueId folded, const Shape& from) {
  if (!b.ok()) return ValueId::none;
  Shape shape(from.size(), Dim(1));
  shape[0] = from[0];
  shape[1] = from[1];
  return b.reshape(folded, std::move(shape));
}

Values global_lp_pool(Builder& b, const OpCall& call) {
  const auto axes = spatial_axes(b, call.inputs[0]);
  const auto p = exponent_of(b, call);
  if (!axes || !p) return {ValueId::none};
  const Shape from = b.shape(call.inputs[0]);
  const DType dtype = b.dtype(call.inputs[0]);
  const ValueId x = b.convert(call.inputs[0], wider(dtype));
  return {kept(b, b.convert(norm(b, x, *p, *axes), dtype), from)};
}

// LpPool-1 and GlobalLpPool-1 have p as a real number.
Result<void> whole_exponent(Builder&, ForeignNode& node) {
  const Attribute* p = node.attributes.find("p");
  if (p == nullptr || std::holds_alternative<std::int64_t>(*p)) return {};
  const auto* const real = std::get_if<double>(p);
  if (real == nullptr || *real < 1 || *real > 1e9 ||
      *real != static_cast<double>(static_cast<std::int64_t>(*real)))
    return fail(ErrorCode::unsupported, "'p' must be a whole number of at least 1");
  node.attributes.set("p", static_cast<std::int64_t>(*real));
  return {};
}

std::vector<Sample> pool_samples(DType t) {
  const auto sample = [&](std::string label, StaticShape x, Attributes attributes, Fill fill = Fill::normal) {
    return Sample{std::move(label), {sample_tensor(t, std::move(x), fill)}, std::move(attributes), {}};
  };
  const std::string upper = "SAME_UPPER", lower = "SAME_LOWER";
  const auto one = std::int64_t{1};
  return {sample("1-d", {2, 3, 17}, {{"kernel_shape", Ints{3}}}),
          sample("2-d strides", {1, 2, 9, 20}, {{"kernel_shape", Ints{2, 3}}, {"strides", Ints{2, 1}}}),
          sample("padded", {1, 2, 7, 19}, {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 0, 2, 1}}}),
          sample("ceil mode", {1, 2, 8, 9},
                 {{"kernel_shape", Ints{3, 2}},
                  {"strides", Ints{2, 4}},
                  {"pads", Ints{1, 1, 1, 1}},
                  {"ceil_mode", one}}),
          sample("same, high ends", {1, 2, 7, 10},
                 {{"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 3}}, {"auto_pad", upper}}),
          sample("same, low ends", {1, 2, 8},
                 {{"kernel_shape", Ints{4}}, {"strides", Ints{3}}, {"auto_pad", lower}}),
          sample("dilated", {1, 1, 9, 9}, {{"kernel_shape", Ints{2, 3}}, {"dilations", Ints{3, 2}}}),
          sample("3-d", {1, 2, 4, 5, 6}, {{"kernel_shape", Ints{2, 2, 3}}, {"strides", Ints{2, 1, 2}}},
                 Fill::wide),
          sample("no batch", {0, 2, 8}, {{"kernel_shape", Ints{3}}})};
}

std::vector<Sample> max_pool_samples(DType t) {
  auto samples = pool_samples(t);
  samples.push_back({"special values",
                     {sample_tensor(t, {1, 1, 6, 14}, Fill::special)},
                     {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{1, 1, 0, 0}}},
                     {}});
  Sample columns = samples[1];
  columns.label = "positions column-major";
  columns.attributes.set("storage_order", std::int64_t{1});
  samples.push_back(std::move(columns));
  return samples;
}

std::vector<Sample> average_pool_samples(DType t) {
  auto samples = pool_samples(t);
  for (const std::size_t i : {2U, 3U, 4U}) {
    Sample counted = samples[i];
    counted.label += ", padding counts";
    counted.attributes.set("count_include_pad", std::int64_t{1});
    samples.push_back(std::move(counted));
  }
  return samples;
}

std::vector<Sample> lp_pool_samples(DType t) {
  std::vector<Sample> samples;
  for (const std::int64_t p : {1, 2, 3}) {
    for (Sample sample : pool_samples(t)) {
      if (p != 2 && sample.inputs[0].rank() != 3) continue;
      sample.label += fmt::format(", p = {}", p);
      sample.attributes.set("p", p);
      samples.push_back(std::move(sample));
    }
  }
  return samples;
}

std::vector<Sample> global_samples(DType t) {
  return {{"1-d", {sample_tensor(t, {2, 3, 17}, Fill::normal)}, {}, {}},
          {"2-d", {sample_tensor(t, {1, 4, 5, 9}, Fill::wide)}, {}, {}},
          {"special values", {sample_tensor(t, {1, 2, 16}, Fill::special)}, {}, {}}};
}

constexpr AttributeDef kAutoPad = {"auto_pad", AttributeKind::text, "NOTSET",
                                   "or VALID, SAME_UPPER, SAME_LOWER"};
constexpr AttributeDef kCeil = {"ceil_mode", AttributeKind::integer, "0",
                                "the last window may hang over the end"};
constexpr AttributeDef kDilations = {"dilations", AttributeKind::integers, "1 each",
                                     "distance of window elements"};
constexpr AttributeDef kKernel = {"kernel_shape", AttributeKind::integers, "", "window sizes"};
constexpr AttributeDef kPads = {"pads", AttributeKind::integers, "0 each", "low ends, then high ends"};
constexpr AttributeDef kStrides = {"strides", AttributeKind::integers, "1 each", ""};
constexpr AttributeDef kExponent = {"p", AttributeKind::integer, "2", "at least 1"};
constexpr DTypeSet kPooled = static_cast<DTypeSet>(kFloating | kI8 | kU8);

constexpr std::array kOps = {
    OpDef{.name = "max_pool",
          .doc = "Maximum of each window and the flat position of its first largest cell; any NaN wins.",
          .inputs = {{"x", "[N, C, in...]", kPooled}},
          .outputs = {{"y", "[N, C, out...]", kPooled}, {"indices", "[N, C, out...]", kI64, "index"}},
          .attributes = {kAutoPad,
                         kCeil,
                         kDilations,
                         kKernel,
                         kPads,
                         {"storage_order", AttributeKind::integer, "0",
                          "1: positions with the first spatial axis fastest"},
                         kStrides},
          .decompose = max_pool,
          .samples = max_pool_samples,
          .onnx = {"MaxPool", {1, 8, 10, 11, 12, 22}},
          .oracle = "onnx-node:test_maxpool"},
    OpDef{.name = "average_pool",
          .doc =
              "Mean of the cells of each window; with count_include_pad also over its padding, never beyond.",
          .inputs = {{"x", "[N, C, in...]", kFloating}},
          .outputs = {{"y", "[N, C, out...]", kFloating}},
          .attributes = {kAutoPad,
                         kCeil,
                         {"count_include_pad", AttributeKind::integer, "0", "padding counts as zeros"},
                         kDilations,
                         kKernel,
                         kPads,
                         kStrides},
          .decompose = average_pool,
          .samples = average_pool_samples,
          .onnx = {"AveragePool", {1, 7, 10, 11, 19, 22}},
          .oracle = "onnx-node:test_averagepool"},
    OpDef{.name = "lp_pool",
          .doc = "The p-norm of each window, (Σ |x|^p)^(1/p).",
          .inputs = {{"x", "[N, C, in...]", kFloating}},
          .outputs = {{"y", "[N, C, out...]", kFloating}},
          .attributes = {kAutoPad, kCeil, kDilations, kKernel, kExponent, kPads, kStrides},
          .decompose = lp_pool,
          .samples = lp_pool_samples,
          .onnx = {"LpPool", {1, 2, 11, 18, 22}, whole_exponent},
          .oracle = "onnx-node:test_lppool"},
    OpDef{.name = "global_lp_pool",
          .doc = "The p-norm over all spatial axes: [N, C, ...] -> [N, C, 1...].",
          .inputs = {{"x", "[N, C, ...]", kFloating}},
          .outputs = {{"y", "[N, C, 1...]", kFloating}},
          .attributes = {kExponent},
          .decompose = global_lp_pool,
          .samples = global_samples,
          .onnx = {"GlobalLpPool", {1, 2, 22}, whole_exponent},
          .oracle = "file:contrib.py"},
};

}  // namespace

std::span<const OpDef> pooling_ops() { return kOps; }

}  // namespace diji
