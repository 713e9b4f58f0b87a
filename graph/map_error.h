// How far a kernel's scalar map may be from the truth, one rule a map: what the operands' errors cause, plus
// the rounding of the map itself.
#pragma once

#include "graph/error_rules.h"

#include <span>
#include <vector>

namespace diji {

/// The kernel's operand lies within `error` of the true `value`. An infinite error: nothing is known, the
/// kernel may even have NaN there.
struct Uncertain {
  double value, error;
};

/// How exactly a kernel must compute a map, in units of the unit roundoff u: 0 for exact ones (minimum,
/// floor, remainder, …), 1 for correctly rounded ones, 2 for functions (within 1 ULP), and 4 for functions in
/// f64, where the reference is itself only a double.
double rounding_factor(Primitive map, DType dtype);

/// Bounds for every element of a scalar map's result.
std::vector<double> map_bound(const ReferenceCall& call, std::span<const std::vector<double>* const> bounds,
                              const std::vector<double>& result, double u);

/// The rule for one element; convert is not among them (its rule is part of map_bound). `operands` has
/// arity(map) elements.
double map_error(Primitive map, std::span<const Uncertain> operands, double result, DType dtype, double u);

}  // namespace diji
