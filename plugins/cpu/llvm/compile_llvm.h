// The two C functions of libdiji_llvm.so: LLVM IR text in, object file out.
#pragma once

#include <stddef.h>

extern "C" {

/// What code is made for, in LLVM's words: any processor of x86-64, aarch64 and riscv64, whichever this is.
typedef struct diji_llvm_target {
  const char* triple;
  const char* abi; /* "": what the triple says */
  const char* cpu;
  const char* features;
} diji_llvm_target;

/// Returns 0 and the object in *blob, or another value and a sentence in *error; what was returned is given
/// back with diji_llvm_free. Thread-safe: every call has an LLVM context of its own.
int diji_llvm_compile(const char* text, size_t bytes, const diji_llvm_target* target, const void** blob,
                      size_t* blob_bytes, char** error);
void diji_llvm_free(const void* pointer);

using diji_llvm_compile_function = decltype(&diji_llvm_compile);
using diji_llvm_free_function = decltype(&diji_llvm_free);
}
