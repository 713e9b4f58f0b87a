// OpenCL's words for the C++ of SIMT devices: what stands before a kernel so that the C of print_kernel_c is
// CUDA or HIP.
#pragma once

#include <string>

namespace diji {

/// Needs no header of a vendor: NVRTC, clang for NVPTX and clang for AMDGPU (HIPRTC is one) have all of it
/// built in; other compilers are taken to know CUDA's names. Multiplications and additions stay apart only
/// where the compiler is told not to contract them: -ffp-contract=off, --fmad=false. DIJI_SIMT_WORDS, defined
/// before, puts other words in their place.
const std::string& simt_words();

}  // namespace diji
