// Windows that slide over spatial axes: the geometry of convolutions, their transposes and pools.
#pragma once

#include "graph/builder.h"

#include <optional>

namespace diji {

/// Per spatial axis. Window p covers the cells p · stride + k · dilation − pad_low, 0 ≤ k < kernel.
struct Windows {
  Ints kernel, strides, dilations;
  Shape pads_low, pads_high;  ///< not negative; expressions of sizes under SAME padding
  Shape out;                  ///< how many windows
  /// No window touches a cell that does not exist.
  bool inside = false;

  std::size_t spatial() const { return kernel.size(); }
  std::int64_t reach(std::size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
};

/// From the attributes strides, dilations, pads, auto_pad and ceil_mode, for x [N, C, in...].
std::optional<Windows> windows_of(Builder& b, const OpCall& call, const Shape& x, const Ints& kernel);
/// The same without auto_pad and window counts: what a transposed convolution starts from.
std::optional<Windows> window_attributes(Builder& b, const OpCall& call, const Ints& kernel);
/// Attribute kernel_shape, one positive entry a spatial axis.
std::optional<Ints> kernel_attribute(Builder& b, const OpCall& call, std::size_t spatial);

/// [N, C, kernel..., out...]: the axes on which cells of windows are looked at.
Shape window_space(const Windows& windows, const Shape& x);
/// The cell of spatial axis i that each element of the space looks at.
ValueId window_cell(Builder& b, const Windows& windows, const Shape& space, std::size_t i);
/// Cells of x; 0 where there is none.
ValueId gather_windows(Builder& b, ValueId x, const Windows& windows);
/// Which elements of the space look at a cell of x.
ValueId window_mask(Builder& b, const Windows& windows, Shape x);
/// The axes of the kernel in the space.
Ints kernel_axes(const Windows& windows);

/// The transpose of gather_windows: columns [N, C, kernel..., out...] are summed where their cells lie, into
/// [N, C, in...].
ValueId fold_windows(Builder& b, ValueId columns, const Windows& windows, Shape in);

}  // namespace diji
