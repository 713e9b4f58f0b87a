// Loop axes in groups, and the sizes of register tiles.
#include "codegen/tile.h"

namespace diji {

Dim TileAxes::extent(int group) const {
  Dim product = 1;
  for (const std::size_t axis : of_group(group)) product = product * sizes[axis];
  return product;
}

Dim TileAxes::stride(const Access& access, int group) const {
  const auto axes = of_group(group);
  return axes.empty() ? Dim(0) : access.strides[axes[0]];
}

void TileAxes::place(NestBuilder& b, int group, Reg index) {
  const auto axes = of_group(group);
  std::vector<Dim> group_sizes;
  for (const std::size_t axis : axes) group_sizes.push_back(sizes[axis]);
  const auto split = split_index(b, index, group_sizes);
  at.resize(sizes.size(), Reg::none);
  for (std::size_t i = 0; i < axes.size(); ++i) at[axes[i]] = split[i];
}

std::vector<Reg> TileAxes::coordinates(NestBuilder& b) const {
  std::vector<Reg> result = at;
  result.resize(sizes.size(), Reg::none);
  for (Reg& reg : result) {
    if (reg == Reg::none) reg = b.integer(0);
  }
  return result;
}

// Two vectors a row and R rows need 2R accumulators, 2 registers for the right side and 1 for the left: R =
// 12 fills 27 of 32 registers, R = 6 fills 15 of 16.
TileShape tile_shape(const DeviceTraits& traits, DType sums, DType lhs, DType rhs) {
  const auto is_byte = [](DType dtype) { return dtype == DType::i8 || dtype == DType::u8; };
  const int lanes = lanes_for(traits, sums);
  // One lane cannot be masked off, so a panel is one column then.
  return {.lanes = lanes,
          .vectors = lanes > 1 ? 2 : 1,
          .rows = traits.vector_registers >= 32 ? 12 : 6,
          .quads = lanes > 1 && (traits.lanes_max == 0 || 4 * lanes <= traits.lanes_max) &&
                   sums == DType::i32 && is_byte(lhs) && is_byte(rhs)};
}

}  // namespace diji
