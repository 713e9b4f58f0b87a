// Loop nests in the C of kernel languages. OpenCL C 1.2 is written with its vectors; the C++ of SIMT devices
// (CUDA, HIP and their relatives) is the same text without vectors behind a prelude that defines OpenCL's
// words.
#pragma once

#include "codegen/loop_nest.h"

namespace diji {

/// Dialect "opencl-c" of device_plugin.h: vectors have at most 16 lanes.
KernelText print_opencl(const LoopNest& nest);

/// The dialects of SIMT devices: nests whose registers have one lane, behind simt_words().
KernelText print_simt(const LoopNest& nest);

}  // namespace diji
