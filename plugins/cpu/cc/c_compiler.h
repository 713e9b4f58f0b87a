// The system's C compiler as the second way from kernel text to an object: the dialect "c".
#pragma once

#include "plugins/cpu/cpu_features.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace diji::cpu {

struct CCompiler {
  std::string version;               ///< the first line of what it says of itself
  std::vector<std::string> command;  ///< the program and its options, without files
};

/// DIJI_CPU_COMPILER: "llvm" or "c". The default is llvm on x86-64, and elsewhere where diji knows the
/// processor's objects and libdiji_llvm.so is found. Errors: usage.
Result<bool> compiles_c();

/// $CC, else the first of clang-19, gcc and cc that starts; $DIJI_CFLAGS come behind the options. Errors:
/// unsupported, where none starts.
Result<CCompiler> find_c_compiler(const CpuTarget& target);

/// Errors: malformed with the compiler's words, io, deadline.
Result<std::vector<std::byte>> compile_c(const CCompiler& compiler, std::string_view text);

}  // namespace diji::cpu
