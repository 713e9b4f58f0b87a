// The pieces that every elementary function is made of.
#include "codegen/formula.h"

#include <bit>

namespace diji {

Real polynomial(Real x, std::span<const double> coefficients) {
  Real sum = x.like(coefficients[0]);
  for (const double c : coefficients.subspan(1)) sum = multiply_add(sum, x, x.like(c));
  return sum;
}

Real clamp(Real x, double low, double high) {
  const Real raised = select(x < low, low, x);
  return select(high < raised, high, raised);
}

Pair two_sum(Real x, Real y) {
  const Real sum = x + y, of_y = sum - x;
  return {sum, (x - (sum - of_y)) + (y - of_y)};
}

Pair fast_two_sum(Real x, Real y) {
  const Real sum = x + y;
  return {sum, y - (sum - x)};
}

Pair two_product(Real x, Real y) {
  const Real product = x * y;
  return {product, fused(x, y, 0.0 - product)};
}

// At 1.5·2^52 the unit in the last place of a double is 1: adding rounds to a whole number, in either
// direction of zero.
constexpr double kWhole = 0x1.8p52;

Nearest nearest(Real x, double factor) {
  const Real shifted = multiply_add(x, factor, kWhole);
  return {shifted - kWhole, bits(shifted)};
}

Real power_of_two(Bits shifted) { return real((shifted + 1023) << 52); }

}  // namespace diji
