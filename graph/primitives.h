// The closed set of primitives: what code generators know. A change here is a design decision.
#pragma once

#include "base/error.h"
#include "graph/graph.h"
#include "graph/op_def.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace diji {

enum class Primitive : std::uint8_t {
  // scalar maps: all operands and the result have one shape
  add,
  subtract,
  multiply,
  divide,
  remainder,
  power,
  minimum,
  maximum,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  equal,
  less,
  select,
  absolute,
  floor,
  ceil,
  round_even,
  sqrt,
  exp,
  expm1,
  log,
  log1p,
  erf,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  convert,
  // integers that are known as expressions of sizes, and coordinates
  dims,
  iota,
  // views: the same elements under other coordinates
  reshape,
  transpose,
  broadcast,
  slice,
  // elements of one tensor by computed coordinates
  gather,
  // kernels with loops of their own
  concatenate,
  scatter,
  reduce,
  arg_reduce,
  prefix_scan,
  sort_indices,
  compact,
  dot_general,
  convolution,
  // data becomes sizes: the host reads it between two segments
  observe,
  // between the ranks of a group
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  collective_broadcast,
  // bodies run by the runtime
  conditional,
  loop,
  // a group of the above that becomes one kernel; its meaning is its body
  fusion,
};
inline constexpr std::size_t kPrimitiveCount = static_cast<std::size_t>(Primitive::fusion) + 1;

/// The record, named "prim.<name>" in the text form.
const OpDef& op_of(Primitive primitive);
/// Nothing for operators of the catalogue.
std::optional<Primitive> primitive_of(const OpDef* op);
/// By the name of the text form.
const OpDef* find_primitive(std::string_view name);

bool is_map(Primitive primitive);   ///< a scalar map
bool is_view(Primitive primitive);  ///< reshape, transpose, broadcast, slice
bool is_root(Primitive primitive);  ///< has loops of its own: at most one in a kernel
/// Between ranks: all_reduce to collective_broadcast. It is neither folded, merged, dropped nor moved past
/// another one of its group.
bool is_collective(Primitive primitive);
/// observe, collectives, conditional, loop, fusion: never part of a kernel's body. A list of sizes (dims) is
/// only where it has one element.
bool stands_alone(Primitive primitive);
/// How many operands a scalar map takes: 1, 2 or 3.
int arity(Primitive map);

/// What a reduction folds with. Sum starts from 0; product from 1; min and max from ±inf or the largest or
/// smallest integer, and any NaN wins.
enum class Reduction : std::uint8_t { sum, product, min, max };
std::string_view name_of(Reduction reduction);
std::optional<Reduction> parse_reduction(std::string_view name);
/// The map that folds two partial results.
Primitive step_of(Reduction reduction);

/// How scatter treats what a cell holds already.
enum class Update : std::uint8_t { set, add, multiply, minimum, maximum };
std::string_view name_of(Update update);
std::optional<Update> parse_update(std::string_view name);

/// Where a collective stands: in which group of ranks, and in that group's order of collectives, which is
/// that of the numbers.
struct GroupChannel {
  std::string group;  ///< a mesh axis
  std::int64_t number = 0;
  Dim ranks = 1;  ///< of the group: a number, or a symbol that a run's communicator tells
};
GroupChannel channel_of(const Attributes& attributes);

/// Dimension numbers of dot_general (as in StableHLO): result is [batch..., lhs free..., rhs free...].
struct DotDims {
  Ints lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
  Ints lhs_free(std::int64_t rank) const;
  Ints rhs_free(std::int64_t rank) const;
};
DotDims dot_dims(const Attributes& attributes);

/// Geometry of a convolution: x [N, C, spatial...], w [O, C/groups, kernel...], result [N, O, out...].
struct ConvolutionDims {
  Ints strides, dilations;
  Shape pads_low, pads_high;  ///< not negative; may depend on sizes (SAME padding)
  std::int64_t groups = 1;
  std::int64_t padding_value = 0;  ///< what stands outside of x, an integer: a zero point
};
ConvolutionDims convolution_dims(const Attributes& attributes);

/// Result types of a primitive, or what is wrong with its operands. Assumptions on symbolic sizes are added
/// to `graph` as constraints.
Result<std::vector<Type>> infer_primitive(Graph& graph, Primitive primitive, const Values& inputs,
                                          const Attributes& attributes);

/// The same for conditional and loop, whose types come from their bodies. Result sizes that only a run tells
/// are the node's fresh symbols: taken from the attribute "symbols" where it is there, else made by `graph`
/// and written to it.
Result<std::vector<Type>> infer_structured(Graph& graph, Node& node);

/// Operands of a loop in the order in which node, body inputs and body outputs have them.
struct LoopForm {
  std::size_t carried = 0, scanned = 0, captures = 0, stacked = 0;
  bool conditional = false;  ///< the body computes whether to go on
  // positions among the node's inputs: [limit, condition, carried..., scanned..., captures...]
  std::size_t first_carried() const { return 2; }
  std::size_t first_scanned() const { return 2 + carried; }
  std::size_t first_capture() const { return 2 + carried + scanned; }
  // body inputs are [iteration i64, carried..., slices..., captures...],
  // body outputs [condition where conditional, carried..., stacked...]
  std::size_t first_result() const { return conditional ? 1 : 0; }
};
LoopForm loop_form(const Node& node);

/// Contents of the (single) result where they follow from the operands' contents.
std::optional<Shape> propagate_contents(Graph& graph, Primitive primitive, const Values& inputs,
                                        const Attributes& attributes, const Type& result);

}  // namespace diji
