// LLVM as the first way from kernel text to an object: the dialect "llvm-ir", by libdiji_llvm.so.
#pragma once

#include "base/error.h"
#include "plugins/cpu/cpu_features.h"

#include <cstddef>
#include <string_view>

namespace diji::cpu {

/// Whether the library is where it is looked for. It is not loaded, so it may still lack its LLVM.
bool has_llvm();

/// An object file, malloc'd: whoever takes it frees it.
struct LlvmBlob {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

/// Code for the target, which need not be this processor. Errors: malformed with LLVM's words about the text,
/// unsupported where the library cannot be loaded.
Result<LlvmBlob> compile_llvm(const CpuTarget& target, std::string_view text);

}  // namespace diji::cpu
