// One scalar map in registers.
#pragma once

#include "codegen/kernel_body.h"
#include "codegen/nest_builder.h"

#include <span>

namespace diji {

/// `step` of operands in register_dtype of theirs, in register_dtype of its own. Lanes outside `mask` report
/// no errors.
Reg map_step(NestBuilder& b, const ScalarStep& step, DType operand_dtype, std::span<const Reg> operands,
             Reg mask);

}  // namespace diji
