// What one kernel computes: a fusion's body flattened to scalar steps over affine accesses. The fusion pass
// asks this whether a group is one kernel; lowering works from it. So both always agree.
#pragma once

#include "base/error.h"
#include "graph/graph.h"
#include "graph/primitives.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace diji {

/// Element number of a tensor as a function of the loop coordinates: offset + Σ coordinate[i] · strides[i].
struct Access {
  Dim offset;
  std::vector<Dim> strides;  ///< one a loop axis
  bool operator==(const Access&) const = default;
};

/// What data adds to an element number: the value of an earlier step (an integer) times a stride.
struct IndexTerm {
  int step = -1;
  Dim stride;
  bool operator==(const IndexTerm&) const = default;
};

/// 0 <= index + Σ terms < size, wherever it is not known to hold.
struct IndexCheck {
  Access index;
  std::vector<IndexTerm> terms;
  Dim size;
};

/// One scalar step. Operands are numbers of earlier steps.
struct ScalarStep {
  enum class Kind : std::uint8_t {
    load,        ///< element `access` + `terms` of input `input`
    coordinate,  ///< `access` + `terms` itself, as a number
    constant,    ///< `constant`
    result,      ///< what the root computed at this coordinate (epilogue only)
    map,         ///< `primitive` of the operands
  };
  Kind kind = Kind::map;
  DType dtype = DType::f32;  ///< of the value
  Primitive primitive = Primitive::add;
  std::vector<int> operands;
  int input = -1;
  Access access;
  std::vector<IndexTerm> terms;
  std::vector<IndexCheck> checks;  ///< of a load: outside of one it gives 0,
  bool outside_is_zero = false;    ///< ... and reports an error unless this is set
  HostTensor constant;             ///< one element
};

/// Scalar steps over one set of loop axes; the last step is the value.
struct ScalarProgram {
  std::vector<ScalarStep> steps;
};

struct KernelBody {
  enum class Root : std::uint8_t {
    map,
    reduce,
    dot,
    convolution,
    concatenate,
    scatter,
    arg_reduce,
    prefix_scan,
    sort_indices,
    compact
  };
  Root root = Root::map;
  const Node* root_node = nullptr;  ///< in the body graph; null for map
  Shape space;                      ///< loop axes: of the output; else of the root's first operand
  std::vector<bool> reduced;        ///< by loop axis, of a reduction
  /// Map: the whole computation. Reduce, arg_reduce, prefix_scan: what is folded. Concatenate, sort_indices,
  /// compact: one an operand, over the operand's axes. Scatter: x over its axes, then over those of the
  /// updates the updates and the cells, whose last step is no load but the place of one.
  std::vector<ScalarProgram> programs;
  std::vector<bool> apart;  ///< of a scatter, by axis of the updates: different places go to different cells
  /// Reduce, arg_reduce, prefix_scan, dot, convolution: what happens to each result, over the root's output
  /// axes. Its only step is `result` when there is nothing to do.
  ScalarProgram epilogue;
};

/// Errors (unsupported) say why the body is not one kernel. Rules: at most one root; dot and convolution read
/// inputs of the body directly, gathers read them through views; whatever lies behind the root reads the root
/// at its own coordinates; views are affine (reshape only drops or adds axes of size 1).
Result<KernelBody> flatten(const Graph& body);

/// Sizes equal once axes of size 1 are left out.
bool same_but_for_ones(const Shape& a, const Shape& b);
/// Row-major strides as expressions.
std::vector<Dim> strides_of(const Shape& shape);

}  // namespace diji
