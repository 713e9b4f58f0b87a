// Multilinear interpolation.
#include "ops/sampling.h"

#include "ops/formula.h"

namespace diji {

Split split(Builder& b, ValueId x, DType weights) {
  const ValueId whole = b.map(Primitive::floor, {x});
  return {b.convert(whole, DType::i64), b.convert(b.subtract(x, whole), weights)};
}

ValueId sample_linear(Builder& b, ValueId x, const Values& lead, const Values& at, const FoldIndex& fold) {
  if (!b.ok()) return ValueId::none;
  const DType dtype = b.dtype(x);
  const ValueId one = b.scalar(dtype, 1);
  // Per axis: the lower and the upper cell with their weights.
  std::vector<std::array<ValueId, 2>> cells, weights;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const Split parts = split(b, at[i], dtype);
    std::array<ValueId, 2> pair = {parts.cell, b.add(parts.cell, size_scalar(b, 1))};
    if (fold) pair = {fold(i, pair[0]), fold(i, pair[1])};
    cells.push_back(pair);
    weights.push_back({b.subtract(one, parts.rest), parts.rest});
  }
  ValueId sum = ValueId::none;
  for (std::size_t corner = 0; corner < (std::size_t{1} << at.size()); ++corner) {
    Values indices = lead;
    ValueId weight = ValueId::none;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const std::size_t side = (corner >> (at.size() - 1 - i)) & 1;
      indices.push_back(cells[i][side]);
      weight = i == 0 ? weights[i][side] : b.multiply(weight, weights[i][side]);
    }
    const ValueId term = b.multiply(b.gather(x, std::move(indices), !fold), weight);
    sum = corner == 0 ? term : b.add(sum, term);
  }
  return sum;
}

}  // namespace diji
