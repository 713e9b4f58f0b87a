// Conversions between dtypes in registers, and between registers and memory.
#pragma once

#include "codegen/nest_builder.h"

namespace diji {

/// What a dtype is loaded and stored as: bf16 as u16.
DType memory_dtype(DType storage);
Reg to_storage(NestBuilder& b, Reg value, DType storage);
Reg from_storage(NestBuilder& b, Reg value, DType storage);

/// f64 to f32 so that a further rounding to 16 bits gives what one rounding would have given.
Reg round_to_odd(NestBuilder& b, Reg wide);

/// prim.convert of a value in register_dtype(from).
Reg convert_step(NestBuilder& b, Reg x, DType from, DType to);

}  // namespace diji
