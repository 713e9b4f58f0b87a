// Small steps that many formulas share: operands, scalars of sizes, coordinates, accumulation dtypes.
#pragma once

#include "graph/builder.h"

#include <string_view>

namespace diji {

/// Operand i of the call, or none where it is absent.
inline ValueId operand(const OpCall& call, std::size_t i) {
  return i < call.inputs.size() ? call.inputs[i] : ValueId::none;
}
inline bool flag(const OpCall& call, std::string_view name, bool otherwise = false) {
  return call.attributes.get_or<std::int64_t>(name, otherwise ? 1 : 0) != 0;
}
inline std::string word(const OpCall& call, std::string_view name, std::string_view otherwise) {
  return call.attributes.get_or(name, std::string(otherwise));
}
inline bool is_16_bit_float(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
/// f32 for 16-bit floats, whose intermediate results would round or overflow; else the dtype itself.
inline DType wider(DType dtype) { return is_16_bit_float(dtype) ? DType::f32 : dtype; }

/// The element of a constant scalar; nothing where it is computed.
std::optional<double> constant_number(Builder& b, ValueId id);
/// A scalar that is an expression of sizes.
ValueId size_scalar(Builder& b, const Dim& size, DType dtype = DType::i64);
/// The smallest number of the dtype: −inf for floats.
ValueId lowest(Builder& b, DType dtype);
/// x − size; no node for 0.
ValueId minus_size(Builder& b, ValueId x, const Dim& size);
/// x · factor; no node for 1.
ValueId times(Builder& b, ValueId x, std::int64_t factor);
/// Elements kept between low and high.
ValueId clamp(Builder& b, ValueId x, ValueId low, ValueId high);
/// 0 ≤ x < size, for integers.
ValueId in_range(Builder& b, ValueId x, Dim size);
/// x modulo a positive size, never negative, for integers.
ValueId floor_mod(Builder& b, ValueId x, Dim size);
/// x with elements `size` from `start` on, on one axis.
ValueId slice_axis(Builder& b, ValueId x, std::int64_t axis, Dim start, Dim size);
/// [0, 1, ... size) along `axis` of a tensor of this rank; the other axes have size 1.
ValueId coordinates(Builder& b, std::int64_t rank, std::int64_t axis, const Dim& size,
                    DType dtype = DType::i64);
/// The elements of a small known list operand (sizes, pads, axes), or the error that names it.
std::optional<Shape> known_list(Builder& b, ValueId id, std::string_view name);
std::optional<Ints> known_numbers(Builder& b, ValueId id, std::string_view name);
/// The one element of such an operand.
std::optional<Dim> known_size(Builder& b, ValueId id, std::string_view name);

}  // namespace diji
