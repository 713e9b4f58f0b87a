// What each primitive means, on plain arrays: floats in double, integers in 64 bits of their own sign, bool.
#pragma once

#include "base/checked.h"
#include "base/error.h"
#include "base/host_tensor.h"
#include "graph/primitives.h"

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace diji {

/// Integers never pass through floats: each class of dtype has an element type of its own.
struct Array {
  DType dtype = DType::f32;
  StaticShape shape;
  std::variant<std::vector<double>, std::vector<std::int64_t>, std::vector<std::uint64_t>,
               std::vector<std::uint8_t>>
      elements;

  std::int64_t count() const;
  const std::vector<double>& doubles() const { return std::get<0>(elements); }
};

/// Zeros.
Array empty_array(DType dtype, const StaticShape& shape);
/// Exact.
Array array_of(const HostTensor& tensor);
/// Rounds floats to the dtype once (nearest even); everything else is exact.
Result<HostTensor> tensor_of(const Array& array);
/// Rounds floats to the dtype, wraps integers to its width.
void round_to_dtype(Array& array);

/// A primitive with every size known.
struct ReferenceCall {
  Primitive primitive;
  std::span<const Array* const> inputs;
  const Attributes& attributes;
  DType dtype;               ///< of the result
  const StaticShape& shape;  ///< of the result
  const Bindings& bindings;  ///< for attributes that hold expressions
};

/// The result, floats not rounded, integers wrapped to their dtype. Errors: data (a zero divisor).
Result<Array> reference(const ReferenceCall& call);

/// For the primitives that only move elements (views): which element of the input each result element is.
Result<std::vector<std::int64_t>> source_indices(const ReferenceCall& call);

/// Calls visit(coordinates) for every element of a shape in row-major order.
template <typename Visit>
void for_each_index(const StaticShape& shape, Visit&& visit) {
  std::vector<std::int64_t> at(shape.size(), 0);
  for (const std::int64_t size : shape) {
    if (size == 0) return;
  }
  while (true) {
    visit(at);
    std::size_t axis = shape.size();
    while (axis > 0 && ++at[axis - 1] == shape[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}
std::vector<std::int64_t> row_major_strides(const StaticShape& shape);

/// Geometry with which reference and error bound walk a dot_general: result element -> start offsets of both
/// sides.
struct DotWalk {
  std::int64_t depth = 1;                          ///< elements contracted
  std::vector<std::int64_t> lhs_steps, rhs_steps;  ///< offset of contracted element k
  std::vector<std::int64_t> lhs_start, rhs_start;  ///< by result element
};
DotWalk dot_walk(const ReferenceCall& call);

/// Calls visit(result element, x element, w element) for every product of a convolution; the x element is -1
/// outside of x.
template <typename Visit>
void for_each_product(const ReferenceCall& call, Visit&& visit) {
  const ConvolutionDims dims = convolution_dims(call.attributes);
  const StaticShape pads_low = *evaluate(dims.pads_low, call.bindings);
  const StaticShape& x = call.inputs[0]->shape;
  const StaticShape& w = call.inputs[1]->shape;
  const auto x_strides = row_major_strides(x);
  const StaticShape kernel(w.begin() + 1, w.end());  // [C/groups, kernel...]
  const std::int64_t filters_per_group = std::max<std::int64_t>(w[0] / dims.groups, 1);
  std::int64_t element = 0;
  for_each_index(call.shape, [&](const std::vector<std::int64_t>& out) {
    const std::int64_t group = out[1] / filters_per_group;
    std::int64_t weight = out[1] * *checked_product(kernel);
    for_each_index(kernel, [&](const std::vector<std::int64_t>& k) {
      std::int64_t source = out[0] * x_strides[0] + (group * w[1] + k[0]) * x_strides[1];
      bool inside = true;
      for (std::size_t i = 0; i < dims.strides.size(); ++i) {
        const std::int64_t at = out[i + 2] * dims.strides[i] + k[i + 1] * dims.dilations[i] - pads_low[i];
        inside &= at >= 0 && at < x[i + 2];
        source += at * x_strides[i + 2];
      }
      visit(element, inside ? source : -1, weight);
      ++weight;
    });
    ++element;
  });
}

/// Result element of each input element of a reduction.
std::vector<std::int64_t> reduce_targets(const ReferenceCall& call);

}  // namespace diji
