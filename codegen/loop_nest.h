// The loop nest: a small structured program that every printer can spell. One nest is one kernel.
#pragma once

#include "base/dim.h"
#include "base/dtype.h"

#include <cstdint>
#include <string>
#include <vector>

namespace diji {

/// A register: a scalar or an explicit vector. Booleans of many lanes are masks.
struct LaneType {
  DType dtype = DType::f32;
  int lanes = 1;
  bool operator==(const LaneType&) const = default;
};

/// Registers are assigned once (SSA). `none` is an absent operand, such as no mask.
enum class Reg : std::int32_t { none = -1 };

/// Where memory lies. Registers are the third space: tiles of accumulators are carried by loops.
enum class Space : std::uint8_t {
  global,  ///< a buffer argument
  local,   ///< scratch of this grid index: packed tiles
  group,   ///< shared by the grid indices of a SIMT group (lane_group.h): partial results, tiles
};

enum class NestOp : std::uint8_t {
  constant,    ///< type; integer or real
  size,        ///< i64: size argument number `integer`
  grid_index,  ///< i64: which index of the grid this is
  // arithmetic, lane by lane; integers wrap, division truncates
  add,
  subtract,
  multiply,
  divide,
  remainder,
  minimum,
  maximum,
  multiply_add,        ///< a·b + c, fused or not, as is fastest
  fused_multiply_add,  ///< a·b + c with one rounding, whatever it costs
  dot4,                ///< a u8, b i8, c i32: each lane of c gains the four products of its bytes of a and b
  sqrt,
  absolute,   ///< of floats
  copy_sign,  ///< the first's magnitude under the second's sign
  floor,
  ceil,
  round_even,
  // bits of integers and booleans
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  // comparisons and masks
  less,
  less_equal,
  equal,
  select,
  any,
  // between types
  convert,       ///< numeric; float to integer truncates and saturates, NaN gives 0
  bitcast,       ///< as many bytes, other lanes
  splat,         ///< one lane to all
  lane_numbers,  ///< 0, 1, 2, … of an integer type
  // across lanes, as a tree of halves so that the order is fixed
  fold_add,
  fold_multiply,
  fold_minimum,
  fold_maximum,
  zip_low,     ///< the lower halves of two vectors, lane by lane in turn: a0 b0 a1 b1 …
  zip_high,    ///< the same of the upper halves
  even_lanes,  ///< lanes 0, 2, 4, … of two vectors, one behind the other
  // across the lanes of a matrix unit (codegen/matrix_unit.h): grid indices that run in lockstep
  matrix_step,  ///< operands: this lane's pairs of lhs, pairs of rhs (u32), sums (f32); results: new sums
  barrier,      ///< all indices of a group come here, then each sees what the others wrote to Space::group
  // memory: element index (of lane 0, or one for each lane), optional stride (in elements, between lanes),
  // optional mask (off lanes give 0)
  load,
  store,
  prefetch,  ///< a hint that this address is read soon; it need not exist
  // control
  loop,          ///< operands: lower, upper, step, initial values; results: final values
  when,          ///< operand: condition (i1) under which the body runs; `integer` 1: it hardly ever does
  report_error,  ///< operands: condition (i1), value (i64); `integer` is the code
};

struct NestInstruction {
  NestOp op;
  LaneType type;  ///< of the result, or of the stored value
  std::vector<Reg> operands;
  std::vector<Reg> results;
  std::int64_t integer = 0;
  double real = 0;
  // load and store
  Space space = Space::global;
  int place = 0;         ///< which buffer argument
  bool aligned = false;  ///< the address is a multiple of the vector's size
  // loop; of these, `when` has the body
  Reg induction = Reg::none;
  std::vector<Reg> carried;  ///< values inside, one for each result
  std::vector<NestInstruction> body;
  std::vector<Reg> yielded;  ///< values of the next iteration
};

/// A whole kernel before printing.
struct LoopNest {
  std::string entry;
  std::vector<NestInstruction> body;  ///< run once for each grid index
  std::vector<LaneType> registers;    ///< by Reg
  std::vector<DType> places;          ///< element type of each buffer argument
  std::vector<Dim> sizes;             ///< what each size argument is worth
  Dim grid;
  Dim local_bytes = 0;
  std::int64_t group_bytes = 0;  ///< of Space::group

  LaneType type(Reg reg) const { return registers[static_cast<std::size_t>(reg)]; }
};

/// A kernel in a device's language, in two parts, so that one module can hold many: what stands there once
/// for all kernels that need it, in this order, and the kernel, in which the entry's name stands once.
struct KernelText {
  std::vector<std::string> declarations;
  std::string function;
};

}  // namespace diji
