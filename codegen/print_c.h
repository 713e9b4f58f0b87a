// Loop nests as C with the vector extensions of GCC and Clang: the dialect "c" of device_plugin.h.
#pragma once

#include "codegen/loop_nest.h"

namespace diji {

KernelText print_c(const LoopNest& nest);

}  // namespace diji
