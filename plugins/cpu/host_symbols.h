// The few host functions that compiled kernels may call.
#pragma once

#include <cstdint>
#include <string_view>

namespace diji::cpu {

/// The address of a function in the fixed table, or 0. Kernel text has no external symbols; these are what
/// LLVM's code generator itself calls where the instruction set lacks an operation (rounding without SSE4.1,
/// fma without FMA, 16-bit floats without F16C, copies). All of them are exact or correctly rounded, so bits
/// do not depend on them.
std::uint64_t host_symbol(std::string_view name);

}  // namespace diji::cpu
