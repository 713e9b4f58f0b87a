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

/// One scalar step. Operands are numbers of earlier steps.
struct ScalarStep {
  enum class Kind : std::uint8_t {
    load,      ///< element `access` of input `input`
    constant,  ///< `number`
    result,    ///< what the root computed at this coordinate (epilogue only)
    map,       ///< `primitive` of the operands
  };
  Kind kind = Kind::map;
  DType dtype = DType::f32;  ///< of the value
  Primitive primitive = Primitive::add;
  std::vector<int> operands;
  int input = -1;
  Access access;
  HostTensor constant;  ///< one element
};

/// Scalar steps over one set of loop axes; the last step is the value.
struct ScalarProgram {
  std::vector<ScalarStep> steps;
};

struct KernelBody {
  enum class Root : std::uint8_t { map, reduce, dot, convolution, concatenate };
  Root root = Root::map;
  const Node* root_node = nullptr;  ///< in the body graph; null for map
  Shape space;                      ///< loop axes: of the output; for reduce of its input
  std::vector<bool> reduced;        ///< by loop axis, of a reduction
  /// Map: the whole computation. Reduce: what is folded. Concatenate: one per part, over the part's axes.
  std::vector<ScalarProgram> programs;
  /// Reduce, dot, convolution: what happens to each result, over the root's output axes. Its only step is
  /// `result` when there is nothing to do.
  ScalarProgram epilogue;
};

/// Errors (unsupported) say why the body is not one kernel. Rules: at most one reduce, dot_general,
/// convolution or concatenate; dot and convolution read inputs of the body directly; whatever lies behind the
/// root reads the root at its own coordinates; views are affine (reshape only drops or adds axes of size 1).
Result<KernelBody> flatten(const Graph& body);

/// Sizes equal once axes of size 1 are left out.
bool same_but_for_ones(const Shape& a, const Shape& b);
/// Row-major strides as expressions.
std::vector<Dim> strides_of(const Shape& shape);

}  // namespace diji
