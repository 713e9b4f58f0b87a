// Folding over the lanes of a group. Between two uses of a slot every lane has passed a barrier.
#include "codegen/lane_group.h"

#include <algorithm>
#include <bit>

namespace diji {

Reg LaneGroup::index(std::size_t slot, DType dtype, Reg lane) {
  const auto a_slot = static_cast<std::int64_t>(kLanes) * 8;
  b.nest().group_bytes = std::max(b.nest().group_bytes, static_cast<std::int64_t>(slot + 1) * a_slot);
  return b.add(lane, b.integer(static_cast<std::int64_t>(slot) * a_slot / bytes_of(dtype)));
}

Reg LaneGroup::load(std::size_t slot, LaneType type, Reg lane) {
  return b.load({.space = Space::group, .index = index(slot, type.dtype, lane)}, type);
}

void LaneGroup::store(std::size_t slot, Reg lane, Reg value) {
  b.store({.space = Space::group, .index = index(slot, b.type(value).dtype, lane)}, value);
}

std::vector<Reg> LaneGroup::fold(std::span<const Reg> values, const Combine& combine) {
  const auto load_all = [&](Reg lane) {
    std::vector<Reg> all;
    for (std::size_t i = 0; i < values.size(); ++i) all.push_back(load(i, b.type(values[i]), lane));
    return all;
  };
  const auto store_all = [&](std::span<const Reg> all) {
    for (std::size_t i = 0; i < all.size(); ++i) store(i, lane_, all[i]);
  };
  static_assert(std::has_single_bit(static_cast<unsigned>(kLanes)));
  constexpr int kSteps = std::countr_zero(static_cast<unsigned>(kLanes));
  store_all(values);
  b.barrier();
  b.loop(b.integer(0), b.integer(kSteps), b.integer(1), {b.integer(kLanes / 2)},
         [&](Reg, std::span<const Reg> carried) -> std::vector<Reg> {
           const Reg half = carried[0];
           b.when(b.less(lane_, half),
                  [&] { store_all(combine(load_all(lane_), load_all(b.add(lane_, half)))); });
           b.barrier();
           return {b.divide(half, b.integer(2))};
         });
  std::vector<Reg> result = load_all(b.integer(0));
  b.barrier();
  return result;
}

Reg LaneGroup::before(NestOp op, Reg start, Reg value) {
  store(0, lane_, value);
  b.barrier();
  const Reg sum =
      b.loop(b.integer(0), lane_, b.integer(1), {start}, [&](Reg i, std::span<const Reg> carried) {
        return std::vector<Reg>{b.binary(op, carried[0], load(0, b.type(value), i))};
      })[0];
  b.barrier();
  return sum;
}

}  // namespace diji
