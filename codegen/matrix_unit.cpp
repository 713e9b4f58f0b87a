// The layouts of fragments, from the makers' manuals.
#include "codegen/matrix_unit.h"

namespace diji {
namespace {

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": groupID is `high`, threadID_in_group
// `low`.
constexpr MatrixUnit kMma = {.lanes = 32,
                             .rows = 16,
                             .columns = 8,
                             .depth = 16,
                             .lhs_pairs = 4,
                             .rhs_pairs = 2,
                             .sums = 4,
                             .split = 4,
                             .lhs_row = {1, 0, {0, 8, 0, 8}},
                             .lhs_depth = {0, 2, {0, 0, 8, 8}},
                             .rhs_depth = {0, 2, {0, 8}},
                             .rhs_column = {1, 0, {0, 0}},
                             .sum_row = {1, 0, {0, 0, 8, 8}},
                             .sum_column = {0, 2, {0, 1, 0, 1}}};

// AMD CDNA2 ISA, V_MFMA_F32_16X16X16_F16 and V_MFMA_F32_16X16X16_BF16_1K.
constexpr MatrixUnit kMfma = {.lanes = 64,
                              .rows = 16,
                              .columns = 16,
                              .depth = 16,
                              .lhs_pairs = 2,
                              .rhs_pairs = 2,
                              .sums = 4,
                              .split = 16,
                              .lhs_row = {0, 1, {0, 0}},
                              .lhs_depth = {4, 0, {0, 2}},
                              .rhs_depth = {4, 0, {0, 2}},
                              .rhs_column = {0, 1, {0, 0}},
                              .sum_row = {4, 0, {0, 1, 2, 3}},
                              .sum_column = {0, 1, {0, 0, 0, 0}}};

}  // namespace

const MatrixUnit* matrix_unit(std::string_view dialect, DType sides) {
  if (sides != DType::f16 && sides != DType::bf16) return nullptr;
  if (dialect == "cuda-mma") return &kMma;
  return dialect == "hip-mfma" ? &kMfma : nullptr;
}

}  // namespace diji
