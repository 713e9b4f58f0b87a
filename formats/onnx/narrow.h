// Casts and quantisation to and from types that are narrower than any dtype: INT4, FLOAT8E4M3FN and their
// like.
#pragma once

#include "formats/onnx/special.h"

#include <optional>

namespace diji::onnx {

/// Cast, CastLike, QuantizeLinear and DequantizeLinear.
bool may_be_narrow(const NodeProto& node);

/// Such a node where a narrow type takes part that its record cannot
/// do; nothing for every other. Errors without a place get the node's.
Result<std::optional<ImportedList>> import_narrow(Site& site);

}  // namespace diji::onnx
