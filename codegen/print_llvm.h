// Loop nests as LLVM 19 IR with explicit vectors: the dialect "llvm-ir" of device_plugin.h.
#pragma once

#include "codegen/loop_nest.h"

namespace diji {

KernelText print_llvm(const LoopNest& nest);

}  // namespace diji
