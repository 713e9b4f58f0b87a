// Convolutions and what undoes them: products of windows with weights.
#include "ops/contraction.h"
#include "ops/families.h"
#include "ops/formula.h"
#include "ops/samples.h"
#include "ops/sampling.h"
#include "ops/window.h"

#include <algorithm>
#include <array>

namespace diji {
namespace {

// Sizes of w's spatial axes, against the attribute kernel_shape where it is given.
std::optional<Ints> kernel_of(Builder& b, const OpCall& call, ValueId x, ValueId w) {
  if (b.rank(x) < 3 || b.rank(w) != b.rank(x)) {
    b.fail(ErrorCode::mismatch, "x {} and w {} need equal ranks of at least 3", text_of(b.shape(x)),
           text_of(b.shape(w)));
    return std::nullopt;
  }
  Ints kernel;
  for (std::size_t i = 2; i < b.shape(w).size(); ++i) kernel.push_back(b.shape(w)[i].constant().value_or(0));
  const auto given = call.attributes.get_or("kernel_shape", Ints{});
  if (std::ranges::find(kernel, 0) != kernel.end() || (!given.empty() && given != kernel)) {
    b.fail(ErrorCode::mismatch, "kernel_shape [{}] does not fit w {}", fmt::join(given, ", "),
           text_of(b.shape(w)));
    return std::nullopt;
  }
  return kernel;
}

std::optional<std::int64_t> group_of(Builder& b, const OpCall& call) {
  const auto group = call.attributes.get_or<std::int64_t>("group", 1);
  if (group >= 1) return group;
  b.fail(ErrorCode::mismatch, "group {} must be at least 1", group);
  return std::nullopt;
}

ValueId add_bias(Builder& b, ValueId y, ValueId bias) {
  if (bias == ValueId::none || !b.ok()) return y;
  Shape shape(b.shape(y).size(), Dim(1));
  shape[1] = b.shape(y)[1];
  return b.add(y, b.reshape(b.convert(bias, b.dtype(y)), std::move(shape)));
}

}  // namespace

std::optional<ConvolutionDims> conv_geometry(Builder& b, const OpCall& call, ValueId x, ValueId w) {
  const auto kernel = kernel_of(b, call, x, w);
  const auto group = group_of(b, call);
  if (!kernel || !group) return std::nullopt;
  const auto windows = windows_of(b, call, b.shape(x), *kernel);
  if (!windows) return std::nullopt;
  return ConvolutionDims{.strides = windows->strides,
                         .dilations = windows->dilations,
                         .pads_low = windows->pads_low,
                         .pads_high = windows->pads_high,
                         .groups = *group};
}

namespace {

Values conv(Builder& b, const OpCall& call) {
  const auto dims = conv_geometry(b, call, call.inputs[0], call.inputs[1]);
  if (!dims) return {ValueId::none};
  return {add_bias(b, b.convolution(call.inputs[0], call.inputs[1], *dims), operand(call, 2))};
}

// Axis `axis` as two axes, of sizes [parts, size / parts].
ValueId split_axis(Builder& b, ValueId x, std::size_t axis, std::int64_t parts) {
  if (!b.ok()) return ValueId::none;
  Shape shape = b.shape(x);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), Dim(parts));
  shape[axis + 1] = floor_div(shape[axis + 1], Dim(parts));
  return b.reshape(x, std::move(shape));
}

// Axis `axis` and the one behind it as one.
ValueId merge_axes(Builder& b, ValueId x, std::size_t axis) {
  if (!b.ok()) return ValueId::none;
  Shape shape = b.shape(x);
  shape[axis] = shape[axis] * shape[axis + 1];
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
  return b.reshape(x, std::move(shape));
}

// Sum over the channels of each group: x [N, groups, K, at...] times w [groups, K, O] to [groups, N, at...,
// O], which the caller takes apart and puts in order. One axis of w stays and one is folded, as products like
// it.
ValueId grouped_product(Builder& b, ValueId x, ValueId w) {
  return b.dot_general(x, w,
                       {.lhs_batch = {1}, .rhs_batch = {0}, .lhs_contracting = {2}, .rhs_contracting = {1}});
}

// Sizes of a transposed convolution's result per spatial axis; padding follows where the sizes are given.
std::optional<Shape> transposed_sizes(Builder& b, const OpCall& call, Windows& windows, const Shape& x) {
  const std::size_t spatial = windows.spatial();
  Ints extra = call.attributes.get_or("output_padding", Ints{});
  if (extra.empty()) extra.assign(spatial, 0);
  Ints given = call.attributes.get_or("output_shape", Ints{});
  if (given.size() == spatial + 2) given.erase(given.begin(), given.begin() + 2);
  const bool negative = std::ranges::any_of(extra, [](std::int64_t e) { return e < 0; });
  if (extra.size() != spatial || negative || (!given.empty() && given.size() != spatial)) {
    b.fail(ErrorCode::mismatch, "output_padding [{}] and output_shape [{}] do not fit {} spatial axes",
           fmt::join(extra, ", "), fmt::join(given, ", "), spatial);
    return std::nullopt;
  }
  const std::string mode = word(call, "auto_pad", "NOTSET");
  Shape out;
  for (std::size_t i = 0; i < spatial; ++i) {
    const Dim full = Dim(windows.strides[i]) * (x[i + 2] - 1) + Dim(extra[i] + windows.reach(i));
    if (mode == "VALID") windows.pads_low[i] = windows.pads_high[i] = 0;
    if (given.empty() && !mode.starts_with("SAME")) {
      out.push_back(full - windows.pads_low[i] - windows.pads_high[i]);
      continue;
    }
    out.push_back(given.empty() ? x[i + 2] * Dim(windows.strides[i]) : Dim(given[i]));
    const Dim total = max(full - out.back(), 0), half = floor_div(total, 2);
    windows.pads_low[i] = mode == "SAME_UPPER" ? half : total - half;
  }
  return out;
}

// Output cells s·m + r of one rest r depend on the cells m + low … m + high of x.
struct Phases {
  std::int64_t low = 0, high = 0;
  Dim count;  ///< values of m
};

// Weights of all phases: w'[group, o, r..., c, t...] = w[group · C + c, o, k...] with k · dilation = r + pad
// − stride · (t + low), 0 where no k does it.
ValueId phase_weights(Builder& b, ValueId w, const Windows& windows, const std::vector<Phases>& phases,
                      std::int64_t group) {
  const Shape from = b.shape(w);
  const std::size_t spatial = windows.spatial();
  const Dim depth = floor_div(from[0], Dim(group));
  Shape space = {group, from[1]};
  for (const std::int64_t stride : windows.strides) space.emplace_back(stride);
  space.push_back(depth);
  for (const Phases& phase : phases) space.emplace_back(phase.high - phase.low + 1);
  const auto c = static_cast<std::int64_t>(2 + spatial);
  Values indices = {b.add(b.multiply(b.iota(space, 0), size_scalar(b, depth)), b.iota(space, c)),
                    b.iota(space, 1)};
  for (std::size_t i = 0; i < spatial; ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    const ValueId rest =
        minus_size(b, b.iota(space, 2 + axis), Dim(windows.strides[i] * phases[i].low) - windows.pads_low[i]);
    ValueId k = b.subtract(rest, times(b, b.iota(space, c + 1 + axis), windows.strides[i]));
    if (windows.dilations[i] > 1) {
      const ValueId dilation = size_scalar(b, windows.dilations[i]);
      const ValueId divides = b.equal(b.map(Primitive::remainder, {k, dilation}), size_scalar(b, 0));
      k = b.select(divides, b.divide(k, dilation), size_scalar(b, -1));
    }
    indices.push_back(k);
  }
  const ValueId all = b.gather(w, std::move(indices), true);
  Shape to = {Dim(group) * from[1], depth};
  for (std::size_t i = 0; i < spatial; ++i) to[0] = to[0] * Dim(windows.strides[i]);
  to.insert(to.end(), space.begin() + c + 1, space.end());
  return b.reshape(all, std::move(to));
}

// The transpose as a convolution: every phase of the result is one, of x with the weights that meet its
// cells. All together they are one convolution with a channel a phase, whose results interleave.
ValueId by_phases(Builder& b, ValueId x, ValueId w, const Windows& windows, const Shape& out,
                  std::int64_t group) {
  const Shape from = b.shape(x);
  const std::size_t spatial = windows.spatial();
  std::vector<Phases> phases;
  ConvolutionDims dims{.strides = Ints(spatial, 1), .dilations = Ints(spatial, 1), .groups = group};
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t stride = windows.strides[i], pad = windows.pads_low[i].constant().value_or(0);
    const std::int64_t behind = windows.reach(i) - 1 - pad;  // ⌈−behind / stride⌉ is the first cell
    Phases phase{.low = behind > 0 ? -(behind / stride) : 0, .high = (stride - 1 + pad) / stride};
    const Dim last = from[i + 2] - Dim(phase.high);
    phase.count = max(floor_div(out[i] + Dim(stride - 1), Dim(stride)), last);
    dims.pads_low.emplace_back(-phase.low);
    dims.pads_high.push_back(phase.count - last);
    phases.push_back(std::move(phase));
  }
  const ValueId y = b.convolution(x, phase_weights(b, w, windows, phases, group), dims);
  if (!b.ok()) return ValueId::none;
  Shape apart = {from[0], b.shape(w)[1] * Dim(group)}, together = apart;
  Ints order = {0, 1};
  for (const std::int64_t stride : windows.strides) apart.emplace_back(stride);
  for (std::size_t i = 0; i < spatial; ++i) {
    apart.push_back(phases[i].count);
    together.push_back(phases[i].count * Dim(windows.strides[i]));
    order.push_back(static_cast<std::int64_t>(2 + spatial + i));
    order.push_back(static_cast<std::int64_t>(2 + i));
  }
  const ValueId all = b.reshape(b.transpose(b.reshape(y, std::move(apart)), std::move(order)), together);
  if (!b.ok()) return ValueId::none;
  Shape to(together.begin(), together.begin() + 2);
  to.insert(to.end(), out.begin(), out.end());
  return b.slice(all, Shape(to.size(), Dim(0)), to, Ints(to.size(), 1));
}

// The transpose as a product and a sum where windows overlap: for padding that is an expression of sizes.
ValueId by_folding(Builder& b, ValueId x, ValueId w, const Windows& windows, const Shape& out,
                   std::int64_t group) {
  const Shape from = b.shape(x), weights = b.shape(w);
  Dim taps = 1;
  for (const std::int64_t size : windows.kernel) taps = taps * Dim(size);
  const Dim depth = floor_div(weights[0], Dim(group));
  const ValueId product =
      grouped_product(b, split_axis(b, x, 1, group), b.reshape(w, {group, depth, weights[1] * taps}));
  // [groups, N, in..., O, kernel...] to [N, groups · O, kernel..., in...]
  const auto spatial = static_cast<std::int64_t>(windows.spatial());
  Shape apart = {group, from[0]};
  apart.insert(apart.end(), from.begin() + 2, from.end());
  apart.push_back(weights[1]);
  apart.insert(apart.end(), weights.begin() + 2, weights.end());
  Ints order = {1, 0, 2 + spatial};
  for (std::int64_t i = 0; i < spatial; ++i) order.push_back(3 + spatial + i);
  for (std::int64_t i = 0; i < spatial; ++i) order.push_back(2 + i);
  const ValueId columns =
      merge_axes(b, b.transpose(b.reshape(product, std::move(apart)), std::move(order)), 1);
  Shape to = {from[0], weights[1] * Dim(group)};
  to.insert(to.end(), out.begin(), out.end());
  return fold_windows(b, columns, windows, std::move(to));
}

Values conv_transpose(Builder& b, const OpCall& call) {
  const auto kernel = kernel_of(b, call, call.inputs[0], call.inputs[1]);
  const auto group = group_of(b, call);
  if (!kernel || !group) return {ValueId::none};
  auto windows = window_attributes(b, call, *kernel);
  const auto out = windows ? transposed_sizes(b, call, *windows, b.shape(call.inputs[0])) : std::nullopt;
  if (!out) return {ValueId::none};
  const DType dtype = b.dtype(call.inputs[0]);
  const Dim &channels = b.shape(call.inputs[0])[1], &expected = b.shape(call.inputs[1])[0];
  if (channels.constant() && expected.constant() && !(channels == expected)) {
    return {b.fail(ErrorCode::mismatch, "x has {} channels, w is for {}", channels.text(), expected.text())};
  }
  const ValueId x = b.convert(call.inputs[0], wider(dtype)), w = b.convert(call.inputs[1], wider(dtype));
  const bool known =
      std::ranges::all_of(windows->pads_low, [](const Dim& pad) { return pad.constant().has_value(); });
  const ValueId y =
      known ? by_phases(b, x, w, *windows, *out, *group) : by_folding(b, x, w, *windows, *out, *group);
  return {b.convert(add_bias(b, y, operand(call, 2)), dtype)};
}

Values col2im(Builder& b, const OpCall& call) {
  const auto image = known_list(b, operand(call, 1), "image_shape");
  const auto block = known_numbers(b, operand(call, 2), "block_shape");
  if (!image || !block) return {ValueId::none};
  const Shape from = b.shape(call.inputs[0]);
  if (from.size() != 3 || block->size() != image->size() || std::ranges::min(*block) < 1) {
    return {b.fail(ErrorCode::mismatch,
                   "input {} must be [N, C·blocks, L], block_shape [{}] fit image_shape {}", text_of(from),
                   fmt::join(*block, ", "), text_of(*image))};
  }
  Dim cells = 1;
  for (const std::int64_t size : *block) cells = cells * Dim(size);
  Shape to = {from[0], floor_div(from[1], cells)};
  to.insert(to.end(), image->begin(), image->end());
  const auto windows = windows_of(b, call, to, *block);
  if (!windows) return {ValueId::none};
  return {fold_windows(b, b.reshape(call.inputs[0], window_space(*windows, to)), *windows, to)};
}

// An offset or mask [N, groups · kernel..., out...] as [N, groups, 1, kernel..., last, out...].
ValueId by_kernel(Builder& b, ValueId x, const Windows& windows, std::int64_t groups, std::int64_t last) {
  if (!b.ok()) return ValueId::none;
  Shape shape = {b.shape(x)[0], groups, 1};
  for (const std::int64_t size : windows.kernel) shape.emplace_back(size);
  shape.emplace_back(last);
  shape.insert(shape.end(), windows.out.begin(), windows.out.end());
  return b.reshape(x, std::move(shape));
}

ValueId without_axis(Builder& b, ValueId x, std::size_t axis) {
  if (!b.ok()) return ValueId::none;
  Shape shape = b.shape(x);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return b.reshape(x, std::move(shape));
}

// The cells that deformed windows look at, times the mask: [N, offset groups, C / groups, kernel..., out...].
ValueId deformed_columns(Builder& b, const OpCall& call, ValueId x, const Windows& windows,
                         std::int64_t groups) {
  const std::size_t spatial = windows.spatial();
  const ValueId offset = by_kernel(b, call.inputs[2], windows, groups, static_cast<std::int64_t>(spatial));
  if (!b.ok()) return ValueId::none;
  const std::size_t last = 3 + spatial;
  Shape space = b.shape(offset);
  space.erase(space.begin() + static_cast<std::ptrdiff_t>(last));
  space[2] = floor_div(b.shape(x)[1], Dim(groups));
  const ValueId grouped = split_axis(b, x, 1, groups);
  const Values lead = {b.iota(space, 0), b.iota(space, 1), b.iota(space, 2)};
  Shape plane = space;
  plane[2] = 1;
  std::vector<Taps> at;
  for (std::size_t i = 0; i < spatial; ++i) {
    const auto k = static_cast<std::int64_t>(3 + i), p = k + static_cast<std::int64_t>(spatial);
    const ValueId start = minus_size(b, times(b, b.iota(plane, p), windows.strides[i]), windows.pads_low[i]);
    const ValueId cell = b.add(start, times(b, b.iota(plane, k), windows.dilations[i]));
    const ValueId shift = without_axis(
        b, slice_axis(b, offset, static_cast<std::int64_t>(last), static_cast<std::int64_t>(i), 1), last);
    // The offset's own whole part is exact in its dtype, as the position is not.
    const ValueId whole = b.map(Primitive::floor, {shift});
    Taps taps = linear_taps(b, {b.convert(whole, DType::i64),
                                b.subtract(b.convert(shift, b.dtype(x)), b.convert(whole, b.dtype(x)))});
    for (Tap& tap : taps) tap.cell = b.add(tap.cell, cell);
    at.push_back(std::move(taps));
  }
  const ValueId columns = sum_taps(b, grouped, lead, at, true);
  const ValueId mask = operand(call, 4);
  if (mask == ValueId::none) return columns;
  return b.multiply(columns,
                    without_axis(b, by_kernel(b, b.convert(mask, b.dtype(x)), windows, groups, 1), last));
}

Values deform_conv(Builder& b, const OpCall& call) {
  const auto kernel = kernel_of(b, call, call.inputs[0], call.inputs[1]);
  const auto group = group_of(b, call);
  if (!kernel || !group) return {ValueId::none};
  const auto windows = windows_of(b, call, b.shape(call.inputs[0]), *kernel);
  const auto offset_groups = call.attributes.get_or<std::int64_t>("offset_group", 1);
  if (!windows) return {ValueId::none};
  if (offset_groups < 1)
    return {b.fail(ErrorCode::mismatch, "offset_group {} must be at least 1", offset_groups)};
  const DType dtype = b.dtype(call.inputs[0]);
  const ValueId x = b.convert(call.inputs[0], wider(dtype)), w = b.convert(call.inputs[1], wider(dtype));
  const ValueId columns = deformed_columns(b, call, x, *windows, offset_groups);
  if (!b.ok()) return {ValueId::none};
  const Shape from = b.shape(x), weights = b.shape(w);
  Dim depth = floor_div(from[1], Dim(*group)), taps = 1;
  for (const std::int64_t size : *kernel) taps = taps * Dim(size);
  Shape grouped = {from[0], *group, depth * taps};
  grouped.insert(grouped.end(), windows->out.begin(), windows->out.end());
  // [groups, depth, O / groups]
  const ValueId rows =
      b.transpose(b.reshape(w, {*group, floor_div(weights[0], Dim(*group)), weights[1] * taps}), {0, 2, 1});
  const ValueId product = grouped_product(b, b.reshape(columns, std::move(grouped)), rows);
  // [groups, N, out..., O] to [N, groups · O, out...]
  const auto spatial = static_cast<std::int64_t>(kernel->size());
  Ints order = {1, 0, 2 + spatial};
  for (std::int64_t i = 0; i < spatial; ++i) order.push_back(2 + i);
  const ValueId y = merge_axes(b, b.transpose(product, std::move(order)), 1);
  return {b.convert(add_bias(b, y, operand(call, 3)), dtype)};
}

// Each value goes back to the flat position that max_pool named, counted in the smallest shape that pools so.
Values max_unpool(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  const Shape from = b.shape(x);
  if (from.size() < 3) return {b.fail(ErrorCode::mismatch, "x {} has no spatial axes", text_of(from))};
  const auto kernel = kernel_attribute(b, call, from.size() - 2);
  const auto windows = kernel ? window_attributes(b, call, *kernel) : std::nullopt;
  if (!windows) return {ValueId::none};
  Shape pooled = {from[0], from[1]};
  for (std::size_t i = 0; i < windows->spatial(); ++i) {
    pooled.push_back((from[i + 2] - 1) * Dim(windows->strides[i]) + Dim(windows->kernel[i]) -
                     windows->pads_low[i] - windows->pads_high[i]);
  }
  Shape to = pooled;
  if (operand(call, 2) != ValueId::none) {
    const auto given = known_list(b, operand(call, 2), "output_shape");
    if (!given) return {ValueId::none};
    if (given->size() != to.size())
      return {b.fail(ErrorCode::mismatch, "output_shape {} for x {}", text_of(*given), text_of(from))};
    to = *given;
  }
  Values indices(from.size());
  ValueId rest = call.inputs[1];
  for (std::size_t axis = from.size(); axis-- > 1;) {
    const ValueId size = size_scalar(b, pooled[axis]);
    indices[axis] = b.map(Primitive::remainder, {rest, size});
    rest = b.divide(rest, size);
  }
  indices[0] = rest;
  const ValueId zeros = b.broadcast(b.scalar(b.dtype(x), 0), to);
  return {b.scatter(zeros, x, std::move(indices), Update::set)};
}

Sample image_and_weights(DType t, std::string label, StaticShape x, StaticShape w, Attributes attributes) {
  return {std::move(label),
          {sample_tensor(t, std::move(x), Fill::normal, 1), sample_tensor(t, std::move(w), Fill::normal, 2)},
          std::move(attributes),
          {}};
}

std::vector<Sample> conv_samples(DType t) {
  const auto sample = [t](std::string label, StaticShape x, StaticShape w, Attributes attributes) {
    return image_and_weights(t, std::move(label), std::move(x), std::move(w), std::move(attributes));
  };
  return {
      sample("1-d", {2, 5, 40}, {13, 5, 5}, {}),
      sample("2-d padded", {1, 3, 9, 21}, {4, 3, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}),
      sample("strides", {1, 2, 11, 37}, {3, 2, 3, 2}, {{"strides", Ints{2, 3}}, {"pads", Ints{0, 1, 2, 1}}}),
      sample("dilated", {1, 2, 20}, {3, 2, 3}, {{"dilations", Ints{4}}}),
      sample("groups", {2, 6, 18}, {4, 3, 2}, {{"group", std::int64_t{2}}}),
      sample("depth-wise", {1, 17, 5, 20}, {17, 1, 3, 3},
             {{"group", std::int64_t{17}}, {"auto_pad", std::string("SAME_UPPER")}}),
      sample("same with a stride", {1, 2, 11, 14}, {3, 2, 3, 3},
             {{"strides", Ints{2, 3}}, {"auto_pad", std::string("SAME_LOWER")}}),
      sample("one wide axis", {1, 4, 50, 1}, {6, 4, 5, 1}, {}),
      sample("no batch", {0, 2, 8}, {3, 2, 3}, {})};
}

std::vector<Sample> conv_transpose_samples(DType t) {
  const auto sample = [t](std::string label, StaticShape x, StaticShape w, Attributes attributes) {
    return image_and_weights(t, std::move(label), std::move(x), std::move(w), std::move(attributes));
  };
  return {
      sample("1-d", {2, 5, 9}, {5, 4, 3}, {}),
      sample("strides and padding", {1, 3, 5, 7}, {3, 2, 3, 4},
             {{"strides", Ints{2, 3}}, {"pads", Ints{1, 0, 1, 2}}, {"output_padding", Ints{1, 0}}}),
      sample("groups and dilations", {1, 4, 6}, {4, 3, 3},
             {{"group", std::int64_t{2}}, {"dilations", Ints{2}}, {"strides", Ints{3}}}),
      sample("given sizes", {1, 2, 4, 4}, {2, 3, 3, 3},
             {{"strides", Ints{2, 2}}, {"output_shape", Ints{10, 8}}}),
      sample("same", {1, 2, 5}, {2, 3, 4}, {{"strides", Ints{2}}, {"auto_pad", std::string("SAME_LOWER")}}),
      sample("no batch", {0, 2, 8}, {2, 3, 3}, {})};
}

std::vector<Sample> col2im_samples(DType t) {
  return {{"2-d",
           {sample_tensor(t, {1, 6, 12}, Fill::normal), ints({5, 4}), ints({2, 1})},
           {{"strides", Ints{1, 1}}, {"pads", Ints{0, 0, 0, 0}}, {"dilations", Ints{2, 1}}},
           {false, true, true}},
          {"strides",
           {sample_tensor(t, {2, 9, 4}, Fill::normal), ints({5, 5}), ints({3, 3})},
           {{"strides", Ints{2, 2}}},
           {false, true, true}},
          {"1-d padded",
           {sample_tensor(t, {1, 6, 7}, Fill::normal), ints({7}), ints({3})},
           {{"pads", Ints{1, 1}}},
           {false, true, true}}};
}

std::vector<Sample> deform_conv_samples(DType t) {
  return {{"plain",
           {sample_tensor(t, {1, 2, 5, 6}, Fill::normal, 1), sample_tensor(t, {3, 2, 2, 2}, Fill::normal, 2),
            sample_tensor(t, {1, 8, 4, 5}, Fill::normal, 3)},
           {},
           {}},
          {"groups, bias, mask",
           {sample_tensor(t, {1, 4, 5, 5}, Fill::normal, 1), sample_tensor(t, {2, 2, 3, 3}, Fill::normal, 2),
            sample_tensor(t, {1, 36, 3, 3}, Fill::normal, 3), sample_tensor(t, {2}, Fill::normal, 4),
            sample_tensor(t, {1, 18, 3, 3}, Fill::positive, 5)},
           {{"group", std::int64_t{2}},
            {"offset_group", std::int64_t{2}},
            {"strides", Ints{2, 2}},
            {"pads", Ints{1, 1, 1, 1}}},
           {}}};
}

std::vector<Sample> max_unpool_samples(DType t) {
  const auto x = sample_tensor(t, {1, 1, 2, 2}, Fill::normal);
  const auto at = HostTensor::of<std::int64_t>({1, 1, 2, 2}, {5, 7, 13, 15});
  const Attributes two = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  return {{"pairs", {x, at}, two, {}},
          {"into a larger shape", {x, at, ints({1, 1, 5, 5})}, two, {false, false, true}}};
}

constexpr AttributeDef kAutoPad = {"auto_pad", AttributeKind::text, "NOTSET",
                                   "or VALID, SAME_UPPER, SAME_LOWER"};
constexpr AttributeDef kDilations = {"dilations", AttributeKind::integers, "1 each",
                                     "distance of kernel elements"};
constexpr AttributeDef kGroup = {"group", AttributeKind::integer, "1", "channel groups"};
constexpr AttributeDef kKernel = {"kernel_shape", AttributeKind::integers, "from w", "checked against w"};
constexpr AttributeDef kPads = {"pads", AttributeKind::integers, "0 each", "low ends, then high ends"};
constexpr AttributeDef kStrides = {"strides", AttributeKind::integers, "1 each", ""};

constexpr std::array kOps = {
    OpDef{.name = "conv",
          .doc = "Cross-correlation over any number of spatial axes with optional bias: x [N, C, in...], w "
                 "[O, C/group, kernel...].",
          .inputs = {{"x", "[N, C, in...]", kFloating},
                     {"w", "[O, C/group, kernel...]", kFloating},
                     {"b", "[O]", kFloating, "T", OperandMode::optional}},
          .outputs = {{"y", "[N, O, out...]", kFloating}},
          .attributes = {kAutoPad, kDilations, kGroup, kKernel, kPads, kStrides},
          .decompose = conv,
          .samples = conv_samples,
          .onnx = {"Conv", {1, 11, 22}},
          .oracle = "onnx-node:test_conv"},
    OpDef{.name = "conv_transpose",
          .doc = "The transpose of conv: cell p · stride + k · dilation − pad of the result gets x[p] · "
                 "w[k], summed; "
                 "x [N, C, in...], w [C, O/group, kernel...]. output_padding adds cells at the high ends, "
                 "output_shape gives the sizes and padding follows.",
          .inputs = {{"x", "[N, C, in...]", kFloating},
                     {"w", "[C, O/group, kernel...]", kFloating},
                     {"b", "[O]", kFloating, "T", OperandMode::optional}},
          .outputs = {{"y", "[N, O, out...]", kFloating}},
          .attributes = {kAutoPad,
                         kDilations,
                         kGroup,
                         kKernel,
                         {"output_padding", AttributeKind::integers, "0 each", "more cells at the high ends"},
                         {"output_shape", AttributeKind::integers, "none", "spatial sizes of the result"},
                         kPads,
                         kStrides},
          .decompose = conv_transpose,
          .samples = conv_transpose_samples,
          .onnx = {"ConvTranspose", {1, 11, 22}},
          .oracle = "onnx-node:test_convtranspose"},
    OpDef{.name = "deform_conv",
          .doc = "conv whose windows look at cells moved by offsets, interpolated linearly, 0 outside, times "
                 "a mask "
                 "(Deformable ConvNets v2, Zhu et al. 2019).",
          .inputs = {{"x", "[N, C, in...]", kFloating},
                     {"w", "[O, C/group, kernel...]", kFloating},
                     {"offset", "[N, offset_group·kernel·axes, out...]", kFloating},
                     {"b", "[O]", kFloating, "T", OperandMode::optional},
                     {"mask", "[N, offset_group·kernel, out...]", kFloating, "T", OperandMode::optional}},
          .outputs = {{"y", "[N, O, out...]", kFloating}},
          .attributes = {kDilations,
                         kGroup,
                         kKernel,
                         {"offset_group", AttributeKind::integer, "1",
                          "channel groups with offsets of their own"},
                         kPads,
                         kStrides},
          .decompose = deform_conv,
          .samples = deform_conv_samples,
          .onnx = {"DeformConv", {19, 22}},
          .oracle = "onnx-node:test_basic_deform_conv"},
    OpDef{
        .name = "col2im",
        .doc =
            "Sums columns of windows into the image they were cut from: [N, C·block, L] -> [N, C, image...].",
        .inputs = {{"input", "[N, C·block, L]", kNumeric},
                   {"image_shape", "[n]", kI64, "index", OperandMode::required, true},
                   {"block_shape", "[n]", kI64, "index", OperandMode::required, true}},
        .outputs = {{"output", "[N, C, image...]", kNumeric}},
        .attributes = {kDilations, kPads, kStrides},
        .decompose = col2im,
        .samples = col2im_samples,
        .onnx = {"Col2Im", {18}},
        .oracle = "onnx-node:test_col2im"},
    OpDef{.name = "max_unpool",
          .doc = "Puts values back at the flat positions that max_pool named; zero elsewhere.",
          .inputs = {{"x", "[N, C, in...]", kFloating},
                     {"indices", "[N, C, in...]", kI64, "index"},
                     {"output_shape", "[n]", kI64, "index", OperandMode::optional, true}},
          .outputs = {{"output", "[N, C, out...]", kFloating}},
          .attributes = {{"kernel_shape", AttributeKind::integers, "", "of the pool"}, kPads, kStrides},
          .decompose = max_unpool,
          .samples = max_unpool_samples,
          .onnx = {"MaxUnpool", {9, 11, 22}},
          .oracle = "onnx-node:test_maxunpool"},
};

}  // namespace

std::span<const OpDef> convolution_ops() { return kOps; }

}  // namespace diji
