// The geometry of sliding windows, as expressions of sizes and as coordinates.
#include "ops/window.h"

#include "ops/formula.h"

#include <algorithm>

namespace diji {
namespace {

// Far above any real stride or dilation, far below where products of two overflow.
constexpr std::int64_t kGeometryMax = (std::int64_t{1} << 31) - 1;

bool all_in(const Ints& list, std::int64_t low) {
  return std::ranges::all_of(list, [low](std::int64_t v) { return v >= low && v <= kGeometryMax; });
}

Dim ceil_div(const Dim& a, std::int64_t by) { return floor_div(a + Dim(by - 1), Dim(by)); }

// Padding of one axis under SAME_UPPER and SAME_LOWER: as much as makes out = ceil(in / stride).
Dim same_padding(const Dim& in, std::int64_t reach, std::int64_t stride) {
  if (stride == 1) return reach - 1;
  return max((ceil_div(in, stride) - 1) * Dim(stride) + Dim(reach) - in, 0);
}

// How many windows one axis has. The last one may hang over the end with ceil_mode, but it never starts
// behind the last cell and its padding in front.
Dim window_count(const Windows& windows, std::size_t i, const Dim& in, bool ceil) {
  const std::int64_t stride = windows.strides[i];
  const Dim room = in + windows.pads_low[i] + windows.pads_high[i] - Dim(windows.reach(i));
  if (!ceil || stride == 1) return floor_div(room, Dim(stride)) + 1;
  return min(ceil_div(room, stride), floor_div(in + windows.pads_low[i] - 1, Dim(stride))) + 1;
}

}  // namespace

std::optional<Ints> kernel_attribute(Builder& b, const OpCall& call, std::size_t spatial) {
  const Ints kernel = call.attributes.get_or("kernel_shape", Ints{});
  if (kernel.size() == spatial && spatial > 0 && all_in(kernel, 1)) return kernel;
  b.fail(ErrorCode::mismatch, "kernel_shape [{}] must have a positive entry for each of {} spatial axes",
         fmt::join(kernel, ", "), spatial);
  return std::nullopt;
}

std::optional<Windows> window_attributes(Builder& b, const OpCall& call, const Ints& kernel) {
  const std::size_t spatial = kernel.size();
  const auto list = [&](std::string_view name, std::size_t count, std::int64_t otherwise) {
    Ints values = call.attributes.get_or(name, Ints{});
    return values.empty() ? Ints(count, otherwise) : values;
  };
  Windows windows{
      .kernel = kernel, .strides = list("strides", spatial, 1), .dilations = list("dilations", spatial, 1)};
  const Ints pads = list("pads", 2 * spatial, 0);
  if (pads.size() != 2 * spatial || windows.strides.size() != spatial ||
      windows.dilations.size() != spatial) {
    b.fail(ErrorCode::mismatch, "pads, strides and dilations need {}, {} and {} entries for {} spatial axes",
           2 * spatial, spatial, spatial, spatial);
    return std::nullopt;
  }
  if (!all_in(windows.strides, 1) || !all_in(windows.dilations, 1)) {
    b.fail(ErrorCode::mismatch, "strides [{}] and dilations [{}] must be 1 … {}",
           fmt::join(windows.strides, ", "), fmt::join(windows.dilations, ", "), kGeometryMax);
    return std::nullopt;
  }
  if (!all_in(pads, 0)) {
    b.fail(ErrorCode::mismatch, "pads [{}] must not be negative", fmt::join(pads, ", "));
    return std::nullopt;
  }
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(spatial);
  windows.pads_low.assign(pads.begin(), middle);
  windows.pads_high.assign(middle, pads.end());
  return windows;
}

std::optional<Windows> windows_of(Builder& b, const OpCall& call, const Shape& x, const Ints& kernel) {
  auto windows = window_attributes(b, call, kernel);
  if (!windows) return std::nullopt;
  const std::string mode = word(call, "auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    b.fail(ErrorCode::mismatch, "auto_pad '{}' is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER", mode);
    return std::nullopt;
  }
  const bool same = mode.starts_with("SAME");
  const bool ceil = flag(call, "ceil_mode") && !same && mode != "VALID";
  windows->inside = !ceil;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const Dim& in = x[i + 2];
    if (mode == "VALID") windows->pads_low[i] = windows->pads_high[i] = 0;
    if (same) {
      const Dim total = same_padding(in, windows->reach(i), windows->strides[i]);
      const Dim half = floor_div(total, 2);
      windows->pads_low[i] = mode == "SAME_UPPER" ? half : total - half;
      windows->pads_high[i] = total - windows->pads_low[i];
    }
    windows->inside &= windows->pads_low[i].is(0) && windows->pads_high[i].is(0);
    windows->out.push_back(window_count(*windows, i, in, ceil));
  }
  return windows;
}

Shape window_space(const Windows& windows, const Shape& x) {
  Shape space = {x[0], x[1]};
  for (const std::int64_t size : windows.kernel) space.emplace_back(size);
  space.insert(space.end(), windows.out.begin(), windows.out.end());
  return space;
}

ValueId window_cell(Builder& b, const Windows& windows, const Shape& space, std::size_t i) {
  const auto k = static_cast<std::int64_t>(2 + i), p = k + std::ssize(windows.kernel);
  const ValueId start = minus_size(b, times(b, b.iota(space, p), windows.strides[i]), windows.pads_low[i]);
  if (windows.kernel[i] == 1) return start;
  return b.add(start, times(b, b.iota(space, k), windows.dilations[i]));
}

ValueId gather_windows(Builder& b, ValueId x, const Windows& windows) {
  const Shape space = window_space(windows, b.shape(x));
  Values indices = {b.iota(space, 0), b.iota(space, 1)};
  for (std::size_t i = 0; i < windows.spatial(); ++i) indices.push_back(window_cell(b, windows, space, i));
  return b.gather(x, std::move(indices), !windows.inside);
}

ValueId window_mask(Builder& b, const Windows& windows, Shape x) {
  const Shape space = window_space(windows, x);
  ValueId mask = ValueId::none;
  for (std::size_t i = 0; i < windows.spatial(); ++i) {
    const ValueId exists = in_range(b, window_cell(b, windows, space, i), x[i + 2]);
    mask = i == 0 ? exists : b.logical_and(mask, exists);
  }
  return mask;
}

Ints kernel_axes(const Windows& windows) {
  Ints axes;
  for (std::size_t i = 0; i < windows.spatial(); ++i) axes.push_back(static_cast<std::int64_t>(2 + i));
  return axes;
}

ValueId fold_windows(Builder& b, ValueId columns, const Windows& windows, Shape in) {
  Shape space = {in[0], in[1]};
  for (const std::int64_t size : windows.kernel) space.emplace_back(size);
  space.insert(space.end(), in.begin() + 2, in.end());
  Values indices = {b.iota(space, 0), b.iota(space, 1)}, positions;
  for (std::size_t i = 0; i < windows.spatial(); ++i) {
    const auto k = static_cast<std::int64_t>(2 + i), cell = k + std::ssize(windows.kernel);
    const ValueId offset = times(b, b.iota(space, k), windows.dilations[i]);
    // cell = p · stride + k · dilation − pad, solved for p; where there is no such window, −1 is outside.
    ValueId p = b.subtract(b.iota(space, cell), offset);
    if (!windows.pads_low[i].is(0)) p = b.add(p, size_scalar(b, windows.pads_low[i]));
    if (windows.strides[i] > 1) {
      const ValueId stride = size_scalar(b, windows.strides[i]);
      const ValueId divides = b.equal(b.map(Primitive::remainder, {p, stride}), size_scalar(b, 0));
      p = b.select(divides, b.divide(p, stride), size_scalar(b, -1));
    }
    indices.push_back(b.iota(space, k));
    positions.push_back(p);
  }
  indices.insert(indices.end(), positions.begin(), positions.end());
  return b.reduce(b.gather(columns, std::move(indices), true), Reduction::sum, kernel_axes(windows));
}

}  // namespace diji
