// The closed set of primitives: what code generators know. A change here is a design decision.
#pragma once

#include "base/error.h"
#include "graph/graph.h"
#include "graph/op_def.h"

#include <optional>
#include <string_view>
#include <vector>

namespace diji {

enum class Primitive : std::uint8_t {
  // scalar maps: all operands and the result have one shape
  add,
  subtract,
  multiply,
  divide,
  maximum,
  equal,
  exp,
  tanh,
  sqrt,
  convert,
  // integers that are known as expressions of sizes
  dims,
  // views: the same elements under other coordinates
  reshape,
  transpose,
  broadcast,
  slice,
  concatenate,
  reduce,
  dot_general,
  convolution,
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

/// What a reduction folds with. Sum starts from 0; max from −inf or the smallest integer, and any NaN wins.
enum class Reduction : std::uint8_t { sum, max };
std::string_view name_of(Reduction reduction);
std::optional<Reduction> parse_reduction(std::string_view name);

/// Dimension numbers of dot_general (as in StableHLO): result is [batch..., lhs free..., rhs free...].
struct DotDims {
  Ints lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
  Ints lhs_free(std::int64_t rank) const;
  Ints rhs_free(std::int64_t rank) const;
};
DotDims dot_dims(const Attributes& attributes);

/// Geometry of a convolution: x [N, C, spatial...], w [O, C/groups, kernel...], result [N, O, out...].
struct ConvolutionDims {
  Ints strides, dilations, pads_low, pads_high;
  std::int64_t groups = 1;
};
ConvolutionDims convolution_dims(const Attributes& attributes);

/// Result types of a primitive, or what is wrong with its operands. Assumptions on symbolic sizes are added
/// to `graph` as constraints.
Result<std::vector<Type>> infer_primitive(Graph& graph, Primitive primitive, const Values& inputs,
                                          const Attributes& attributes);

/// Contents of the (single) result where they follow from the operands' contents.
std::optional<Shape> propagate_contents(Graph& graph, Primitive primitive, const Values& inputs,
                                        const Attributes& attributes, const Type& result);

}  // namespace diji
