// The two C functions of libdiji_llvm.so: LLVM IR text in, x86-64 object file out.
#pragma once

#include <stddef.h>

extern "C" {

/// Returns 0 and the object in *blob, or another value and a sentence in *error; what was returned is given
/// back with diji_llvm_free. Thread-safe: every call has an LLVM context of its own. `cpu` and `features` are
/// LLVM's words.
int diji_llvm_compile(const char* text, size_t bytes, const char* cpu, const char* features,
                      const void** blob, size_t* blob_bytes, char** error);
void diji_llvm_free(const void* pointer);

using diji_llvm_compile_function = decltype(&diji_llvm_compile);
using diji_llvm_free_function = decltype(&diji_llvm_free);
}
