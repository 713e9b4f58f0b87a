// Linear quantisation, value = (stored - zero_point) · scale, as other formulas use it.
#pragma once

#include "graph/builder.h"

namespace diji {

/// saturate(round_even(x / scale) + zero_point): rounded before the zero point is added. x and scale have one
/// float dtype, in which the division happens; `zero_point` may be none. Operands stretch to x.
ValueId quantize(Builder& b, ValueId x, ValueId scale, ValueId zero_point, DType to);

/// (x - zero_point) · scale in f32; the difference is exact.
ValueId dequantize(Builder& b, ValueId x, ValueId scale, ValueId zero_point);

struct Quantized {
  ValueId values, scale, zero_point;  ///< u8; scalars f32 and u8
};
/// One scale for all of x (f32), so that 0 … 255 spans its values and zero: ONNX's DynamicQuantizeLinear.
Quantized quantize_dynamically(Builder& b, ValueId x);

/// A scalar, also from one element; a vector of one an element of `axis` lies along it; else as it is.
ValueId per_element(Builder& b, ValueId id, std::int64_t axis, std::int64_t rank);

/// (x - zero_x) · (y - zero_y) summed in i32, as NumPy's matmul. Zero points (may be none) are scalars, one a
/// row of x or column of y, or tensors that stretch.
ValueId integer_matmul(Builder& b, ValueId x, ValueId y, ValueId zero_x, ValueId zero_y);

}  // namespace diji
