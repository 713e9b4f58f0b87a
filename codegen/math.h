// Elementary functions in vector registers, from additions and multiplications alone, so that every device
// has them.
#pragma once

#include "codegen/nest_builder.h"

namespace diji {

/// Within 1 ULP in f32 (computed in f64, rounded once) and f64; subnormal results are kept. x in f32 or f64.
Reg emit_exp(NestBuilder& b, Reg x);
/// Within 1 ULP in f32 (computed in f64, rounded once), within 4 ULP in f64.
Reg emit_tanh(NestBuilder& b, Reg x);

}  // namespace diji
