// What the scalar maps mean, element by element: the part of the reference that needs no shape.
#pragma once

#include "graph/reference.h"

namespace diji {

/// A scalar map of one or two operands (b is ignored by those of one) whose result has the operands' type: T
/// is double, int64, uint64 or, for booleans, uint8. Integers are exact modulo 2^64; the caller wraps them to
/// their width. Errors: data (a zero divisor).
template <typename T>
Result<T> apply_map(Primitive primitive, T a, T b);

extern template Result<double> apply_map(Primitive, double, double);
extern template Result<std::int64_t> apply_map(Primitive, std::int64_t, std::int64_t);
extern template Result<std::uint64_t> apply_map(Primitive, std::uint64_t, std::uint64_t);
extern template Result<std::uint8_t> apply_map(Primitive, std::uint8_t, std::uint8_t);

/// Any scalar map on whole arrays.
Result<Array> map_reference(const ReferenceCall& call);

/// Elements of zero.
Array empty_array(DType dtype, const StaticShape& shape);

/// The largest element type of a dtype's class.
template <typename T>
using Wide = std::conditional_t<
    std::is_same_v<T, bool>, std::uint8_t,
    std::conditional_t<!std::is_integral_v<T>, double,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>>;

}  // namespace diji
