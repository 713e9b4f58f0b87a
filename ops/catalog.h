// The catalogue: every operator diji knows, by its own name and by the names of model formats.
#pragma once

#include "graph/op_def.h"

#include <span>
#include <string_view>
#include <vector>

namespace diji {

/// All records, in the order of their families.
const std::vector<const OpDef*>& catalog();
/// By the record's name ("reduce_sum"); null when there is none.
const OpDef* find_op(std::string_view name);
/// By ONNX's name ("ReduceSum"); null when there is none.
const OpDef* find_onnx(std::string_view type);

}  // namespace diji
