// What the grid indices of a SIMT group do together: partial results meet in the memory they share.
#pragma once

#include "codegen/nest_builder.h"

#include "diji/device_plugin.h"

#include <functional>
#include <span>
#include <vector>

namespace diji {

/// A group of lanes, of which this grid index is number `lane`. All lanes must call its functions together.
class LaneGroup {
 public:
  static constexpr int kLanes = DIJI_SIMT_GROUP;

  LaneGroup(NestBuilder& builder, Reg lane) : b(builder), lane_(lane) {}
  Reg lane() const { return lane_; }

  using Combine = std::function<std::vector<Reg>(std::span<const Reg> low, std::span<const Reg> high)>;
  /// All lanes' values folded in a tree whose shape never changes; every lane gets the result.
  std::vector<Reg> fold(std::span<const Reg> values, const Combine& combine);
  /// What the lanes before this one have, folded in their order by `op` from `start` on.
  Reg before(NestOp op, Reg start, Reg value);

 private:
  // Slot s has one value of at most 8 bytes of each lane.
  Reg load(std::size_t slot, LaneType type, Reg lane);
  void store(std::size_t slot, Reg lane, Reg value);
  Reg index(std::size_t slot, DType dtype, Reg lane);

  NestBuilder& b;
  Reg lane_;
};

}  // namespace diji
