// Keys: integers that stand in the order of any dtype's values, so that comparing has one form.
#pragma once

#include "codegen/nest_builder.h"

namespace diji {

/// i32, or i64 for dtypes of 64 bits.
DType key_dtype(DType dtype);

/// Signed integers in the order of `value` (in register_dtype(dtype)): -0 equals +0, and NaN is the largest
/// of all, or with `nan_lowest` the smallest.
Reg order_key(NestBuilder& b, Reg value, DType dtype, bool nan_lowest = false);

/// The other way round.
Reg reversed_key(NestBuilder& b, Reg key);

/// The smallest key there is.
Reg smallest_key(NestBuilder& b, LaneType type);

}  // namespace diji
