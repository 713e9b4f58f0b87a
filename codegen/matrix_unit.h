// Matrix units of SIMT devices: neighbouring grid indices hold a small product of matrices together.
#pragma once

#include "base/dtype.h"

#include <array>
#include <string_view>

namespace diji {

/// One step adds a rows × depth tile of 16-bit floats times a depth × columns one to a rows × columns tile of
/// f32 sums, which `lanes` grid indices hold in pieces: each has some pairs (of neighbours in the contracted
/// axis, the first in the low half of a u32) of either side and some sums.
struct MatrixUnit {
  int lanes, rows, columns, depth;
  int lhs_pairs, rhs_pairs, sums;
  int split;  ///< lane = high · split + low

  /// Where piece i of a lane lies on one axis: high · from_high + low · from_low + at[i].
  struct Place {
    int from_high, from_low;
    std::array<int, 4> at;
  };
  Place lhs_row, lhs_depth, rhs_depth, rhs_column, sum_row, sum_column;
};

/// The unit that kernels of a dialect may use for sides of this dtype: "cuda-mma" is mma.m16n8k16 (sm_80 on),
/// "hip-mfma" is v_mfma_f32_16x16x16 (gfx90a, gfx94x). Null: none.
const MatrixUnit* matrix_unit(std::string_view dialect, DType sides);

}  // namespace diji
