// The families of records, a file each.
#pragma once

#include "graph/op_def.h"

#include <span>

namespace diji {

std::span<const OpDef> elementwise_ops();
std::span<const OpDef> function_ops();
std::span<const OpDef> activation_ops();
std::span<const OpDef> indexing_ops();
std::span<const OpDef> layout_ops();
std::span<const OpDef> shape_ops();
std::span<const OpDef> reduction_ops();
std::span<const OpDef> contraction_ops();
std::span<const OpDef> normalization_ops();
std::span<const OpDef> quantization_ops();
std::span<const OpDef> integer_product_ops();
std::span<const OpDef> convolution_ops();
std::span<const OpDef> pooling_ops();
std::span<const OpDef> einsum_ops();
std::span<const OpDef> attention_ops();
std::span<const OpDef> padding_ops();
std::span<const OpDef> resize_ops();
std::span<const OpDef> image_ops();
std::span<const OpDef> signal_ops();
std::span<const OpDef> loss_ops();
std::span<const OpDef> selection_ops();
std::span<const OpDef> recurrent_ops();
std::span<const OpDef> state_space_ops();
std::span<const OpDef> minifloat_ops();
std::span<const OpDef> fused_ops();
std::span<const OpDef> random_ops();

}  // namespace diji
