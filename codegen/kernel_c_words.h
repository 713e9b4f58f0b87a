// How the C of kernel languages spells types, literals and the functions that it does not have.
#pragma once

#include "codegen/loop_nest.h"

#include <map>
#include <string>
#include <string_view>

namespace diji {

/// "float", "ulong"; f16 is its bits ("ushort"), booleans in registers are "int": 0 and 1, or 0 and -1 in
/// lanes.
std::string_view kernel_c_scalar(DType dtype);
/// "float16"
std::string kernel_c_type(LaneType type);
/// What a register's elements are in memory: booleans are bytes.
LaneType kernel_c_stored(LaneType type);
/// One element of a constant.
std::string kernel_c_literal(DType dtype, const NestInstruction& constant);
/// Lane `lane` of a value: "x.sa", or "x" itself.
std::string kernel_c_lane(std::string_view value, int lanes, int lane);

/// Functions that a text needs, by name, each written once: guarded, since one module holds many kernels.
class KernelCHelpers {
 public:
  /// min(a, b) and max(a, b) as IEEE 754-2019 minimum and maximum: NaN wins, and -0 is below 0.
  std::string extreme(bool maximum, LaneType type);
  /// Saturating and truncating; NaN gives 0. Both types have the same lanes.
  std::string float_to_integer(LaneType from, LaneType to);
  std::string half_to_float(int lanes);
  std::string float_to_half(int lanes);
  /// A struct of one vector `v` that may begin at any element.
  std::string neighbours(LaneType stored);
  /// load(pointer, mask) and store(pointer, mask, value): neighbours, off lanes give 0 and are not touched.
  std::string masked_load(LaneType stored);
  std::string masked_store(LaneType stored);
  /// The same at the indices of a vector: gather(pointer, indices, mask), scatter(pointer, indices, mask,
  /// value).
  std::string masked_gather(LaneType stored);
  std::string masked_scatter(LaneType stored);
  std::string report();
  /// `before` each function: "inline ".
  std::string text(std::string_view before) const;

 private:
  std::string add(std::string name, const std::string& definition);
  std::map<std::string, std::string> types_, functions_;
};

}  // namespace diji
