// Elementary functions in vector registers, from the instructions of loop nests alone, so that every device
// has them.
//
// All compute in f64: `single` results are good to be rounded once to f32 (within 0.51 ULP or so after it),
// `full` ones are within 4 ULP of f64 and, rounded to 16 bits, correctly rounded. Special values are IEEE
// 754's; subnormal results are kept. The polynomials interpolate at Chebyshev nodes.
#pragma once

#include "codegen/formula.h"

namespace diji {

Real emit_exp(Real x, Precision precision);
/// exp(high + low) in full precision.
Real emit_exp_of(Pair x);
Real emit_expm1(Real x, Precision precision);
Real emit_erf(Real x, Precision precision);
Real emit_sinh(Real x, Precision precision);
Real emit_cosh(Real x, Precision precision);
Real emit_tanh(Real x, Precision precision);

Real emit_log(Real x, Precision precision);
Real emit_log1p(Real x, Precision precision);
Real emit_asinh(Real x, Precision precision);
Real emit_acosh(Real x, Precision precision);
Real emit_atanh(Real x, Precision precision);

Real emit_sin(Real x, Precision precision);
Real emit_cos(Real x, Precision precision);
Real emit_tan(Real x, Precision precision);
Real emit_asin(Real x, Precision precision);
Real emit_acos(Real x, Precision precision);
Real emit_atan(Real x, Precision precision);

Real emit_power(Real x, Real y, Precision precision);
/// Exact, with the sign of x. `single`: both have at most 24 significant bits.
Real emit_remainder(Real x, Real y, Precision precision);

}  // namespace diji
