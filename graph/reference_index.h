// The primitives that work by coordinates, for reference and error bound.
#pragma once

#include "graph/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diji {

/// iota, gather, scatter, arg_reduce, prefix_scan, sort_indices and compact (whose count is the shape
/// already).
Result<Array> reference_by_index(const ReferenceCall& call);

/// Which element of operand 0 each coordinate names, given by the index tensors from operand `first` on; -1
/// where one is out of range and "outside" is zero, else an error.
Result<std::vector<std::int64_t>> indexed_cells(const ReferenceCall& call, std::size_t first);

/// Calls visit(first element, stride, count) for every line along `axis`, in row-major order of the other
/// axes.
template <typename Visit>
void for_each_line(const StaticShape& shape, std::size_t axis, Visit&& visit) {
  const auto strides = row_major_strides(shape);
  StaticShape others = shape;
  others[axis] = 1;
  for_each_index(others, [&](const std::vector<std::int64_t>& at) {
    std::int64_t start = 0;
    for (std::size_t i = 0; i < at.size(); ++i) start += at[i] * strides[i];
    visit(start, strides[axis], shape[axis]);
  });
}

/// A cell after an update; integers wrap at 64 bits.
template <typename T>
T update_cell(Update update, T cell, T value) {
  constexpr bool kFloat = std::is_same_v<T, double>;
  using U = std::conditional_t<kFloat, double, std::uint64_t>;
  const auto either_nan = [&] {
    if constexpr (kFloat) return std::isnan(cell) || std::isnan(value);
    return false;
  };
  const auto first_is_less = [&] {
    if constexpr (kFloat) {
      if (cell == value) return std::signbit(cell) && !std::signbit(value);  // -0 is below +0
    }
    return cell < value;
  };
  switch (update) {
    case Update::set: return value;
    case Update::add: return static_cast<T>(static_cast<U>(cell) + static_cast<U>(value));
    case Update::multiply: return static_cast<T>(static_cast<U>(cell) * static_cast<U>(value));
    case Update::minimum:
    case Update::maximum: break;
  }
  if constexpr (kFloat) {
    if (either_nan()) return std::numeric_limits<double>::quiet_NaN();
  }
  return first_is_less() == (update == Update::maximum) ? value : cell;
}

/// What a reduction does to its partial result.
Update update_of(Reduction reduction);
/// What a reduction starts from: 0, 1, or the end of the dtype's range.
template <typename T>
T reduction_start(Reduction reduction, DType dtype) {
  if (reduction == Reduction::sum) return T{0};
  if (reduction == Reduction::product) return T{1};
  const bool max = reduction == Reduction::max;
  if constexpr (std::is_same_v<T, double>) {
    return max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  return visit_dtype(dtype, [max](auto tag) -> T {
    using Element = typename decltype(tag)::type;
    using Limits = std::numeric_limits<Element>;
    if constexpr (std::is_integral_v<Element>) return static_cast<T>(max ? Limits::min() : Limits::max());
    return T{0};
  });
}

}  // namespace diji
