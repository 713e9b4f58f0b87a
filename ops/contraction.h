// Products that other families are made of: NumPy's matmul and the geometry of convolutions.
#pragma once

#include "graph/builder.h"

namespace diji {

/// NumPy's matmul: vectors are rows or columns of matrices, leading axes are batches and broadcast. `sums` as
/// in Builder::dot_general.
ValueId matmul(Builder& b, ValueId x, ValueId y, std::optional<DType> sums = {});

/// Strides, dilations, groups and padding from the attributes that all convolutions of ONNX share; nothing
/// after an error.
std::optional<ConvolutionDims> conv_geometry(Builder& b, const OpCall& call, ValueId x, ValueId w);

}  // namespace diji
