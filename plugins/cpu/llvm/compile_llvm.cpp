// LLVM behind two C functions: parse, verify, generate code for one processor. No optimisation passes:
// kernels arrive with explicit vectors, and the middle end cost 10-27 ms a kernel and made some of them
// slower.
#include "plugins/cpu/llvm/compile_llvm.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

namespace {

/// Where a fatal error of LLVM returns to, while a thread is inside compile().
thread_local std::jmp_buf* fatal_exit = nullptr;
thread_local char fatal_reason[1024];

// LLVM ends the process after this handler ("Cannot select ..."). Kernel text must not be able to do that, so
// leave as LLVM's own CrashRecoveryContext does. What the compile had allocated is lost; LLVM holds no lock
// here.
void on_fatal_error(const char* reason) {
  std::strncpy(fatal_reason, reason, sizeof(fatal_reason) - 1);
  if (fatal_exit != nullptr) std::longjmp(*fatal_exit, 1);
}

void initialize_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMInitializeNativeAsmParser();  // without it, inline assembly would be a fatal error instead of a
                                      // sentence
    LLVMInstallFatalErrorHandler(on_fatal_error);
  });
}

/// Takes LLVM's message and frees it.
std::string take(char* message) {
  std::string text = message == nullptr ? "" : message;
  LLVMDisposeMessage(message);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// The default handler prints and ends the process on an error; keep the first error instead.
void on_diagnostic(LLVMDiagnosticInfoRef diagnostic, void* data) {
  if (LLVMGetDiagInfoSeverity(diagnostic) != LLVMDSError) return;
  const std::string text = take(LLVMGetDiagInfoDescription(diagnostic));
  auto& error = *static_cast<std::string*>(data);
  if (error.empty()) error = text;
}

/// All that one compile owns; plain handles, so that a longjmp past it skips no destructor that matters.
struct Compile {
  LLVMContextRef context = nullptr;
  LLVMModuleRef module = nullptr;
  LLVMTargetMachineRef machine = nullptr;
  LLVMTargetDataRef layout = nullptr;
  LLVMMemoryBufferRef object = nullptr;
  std::string error;

  bool parse(const char* text, size_t bytes) {
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, bytes, "kernel text");
    char* message = nullptr;
    if (LLVMParseIRInContext(context, buffer, &module, &message) != 0) {  // takes the buffer
      error = take(message);
      return false;
    }
    if (LLVMVerifyModule(module, LLVMReturnStatusAction, &message) != 0) {
      error = "the kernel text breaks LLVM's rules: " + take(message);
      return false;
    }
    LLVMDisposeMessage(message);
    return true;
  }

  void set_attribute_if_absent(LLVMValueRef function, const char* name, const char* value) {
    const auto length = static_cast<unsigned>(std::strlen(name));
    const auto on_function = static_cast<LLVMAttributeIndex>(LLVMAttributeFunctionIndex);
    if (LLVMGetStringAttributeAtIndex(function, on_function, name, length) != nullptr) return;
    LLVMAddTargetDependentFunctionAttr(function, name, value);
  }

  bool set_target(const char* cpu, const char* features) {
    char* triple = LLVMGetDefaultTargetTriple();
    LLVMTargetRef target = nullptr;
    char* message = nullptr;
    if (LLVMGetTargetFromTriple(triple, &target, &message) != 0) {
      error = take(message);
      LLVMDisposeMessage(triple);
      return false;
    }
    machine = LLVMCreateTargetMachine(target, triple, cpu, features, LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                      LLVMCodeModelSmall);
    layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetTarget(module, triple);
    LLVMSetModuleDataLayout(module, layout);
    LLVMDisposeMessage(triple);
    for (LLVMValueRef function = LLVMGetFirstFunction(module); function != nullptr;
         function = LLVMGetNextFunction(function)) {
      if (LLVMIsDeclaration(function) != 0) continue;
      set_attribute_if_absent(function, "target-cpu", cpu);
      set_attribute_if_absent(function, "target-features", features);
      // x86-64-v4 is tuned to avoid 512-bit registers; kernels that use them mean it.
      set_attribute_if_absent(function, "prefer-vector-width", "512");
    }
    return true;
  }

  // The processor's instruction in place of calls of diji.dot4.vNi32; without one, its body inline.
  bool place_dot4(const char* features) {
    const std::string_view has(features);
    const bool vnni = has.find("+avx512vnni") != has.npos, avx_vnni = has.find("+avxvnni") != has.npos;
    bool called = false;
    LLVMValueRef next = nullptr;
    for (LLVMValueRef function = LLVMGetFirstFunction(module); function != nullptr; function = next) {
      next = LLVMGetNextFunction(function);
      size_t length = 0;
      const std::string_view name(LLVMGetValueName2(function, &length));
      if (!name.starts_with("diji.dot4.v")) continue;
      const unsigned bits = LLVMGetVectorSize(LLVMGetReturnType(LLVMGlobalGetValueType(function))) * 32;
      const bool fits = bits == 512 ? vnni : (bits == 256 || bits == 128) && (vnni || avx_vnni);
      if (fits) replace_calls(function, "llvm.x86.avx512.vpdpbusd." + std::to_string(bits));
      called |= !fits;
    }
    if (!called) return true;
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    const LLVMErrorRef failed = LLVMRunPasses(module, "always-inline", machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (failed == nullptr) return true;
    char* message = LLVMGetErrorMessage(failed);
    error = message;
    LLVMDisposeErrorMessage(message);
    return false;
  }

  // intrinsic(sums, bytes as sums' type, bytes as sums' type)
  void replace_calls(LLVMValueRef function, const std::string& intrinsic) {
    const LLVMTypeRef sums = LLVMGetReturnType(LLVMGlobalGetValueType(function));
    LLVMTypeRef types[] = {sums, sums, sums};
    const LLVMTypeRef type = LLVMFunctionType(sums, types, 3, 0);
    const LLVMValueRef instead = LLVMAddFunction(module, intrinsic.c_str(), type);
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(context);
    while (LLVMUseRef use = LLVMGetFirstUse(function)) {
      const LLVMValueRef call = LLVMGetUser(use);
      LLVMPositionBuilderBefore(builder, call);
      LLVMValueRef arguments[] = {LLVMGetOperand(call, 2),
                                  LLVMBuildBitCast(builder, LLVMGetOperand(call, 0), sums, ""),
                                  LLVMBuildBitCast(builder, LLVMGetOperand(call, 1), sums, "")};
      LLVMReplaceAllUsesWith(call, LLVMBuildCall2(builder, type, instead, arguments, 3, ""));
      LLVMInstructionEraseFromParent(call);
    }
    LLVMDisposeBuilder(builder);
    LLVMDeleteFunction(function);
  }

  bool emit() {
    char* message = nullptr;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &message, &object) != 0) {
      error = take(message);
      return false;
    }
    return error.empty();  // the diagnostic handler may have heard of an error
  }

  void dispose() {
    if (object != nullptr) LLVMDisposeMemoryBuffer(object);
    if (layout != nullptr) LLVMDisposeTargetData(layout);
    if (machine != nullptr) LLVMDisposeTargetMachine(machine);
    if (module != nullptr) LLVMDisposeModule(module);
    if (context != nullptr) LLVMContextDispose(context);
  }
};

char* copy_of(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int diji_llvm_compile(const char* text, size_t bytes,
                                                                        const char* cpu, const char* features,
                                                                        const void** blob, size_t* blob_bytes,
                                                                        char** error) {
  *blob = nullptr;
  *blob_bytes = 0;
  *error = nullptr;
  initialize_once();
  auto* compile = new Compile();  // on the heap: its fields must be what they were when a longjmp comes back
  std::jmp_buf exit_point;
  if (setjmp(exit_point) != 0) {
    fatal_exit = nullptr;
    *error = copy_of(std::string("LLVM gave up: ") + fatal_reason);
    return 1;
  }
  fatal_exit = &exit_point;
  compile->context = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(compile->context, on_diagnostic, &compile->error);
  bool done = compile->parse(text, bytes) && compile->set_target(cpu, features) &&
              compile->place_dot4(features) && compile->emit();
  if (done) {
    const size_t size = LLVMGetBufferSize(compile->object);
    void* copy = std::malloc(size);
    if (copy != nullptr) std::memcpy(copy, LLVMGetBufferStart(compile->object), size);
    *blob = copy;
    *blob_bytes = size;
    done = copy != nullptr;
    if (!done) compile->error = "no memory for the object file";
  }
  fatal_exit = nullptr;
  if (!done) *error = copy_of(compile->error);
  compile->dispose();
  delete compile;
  return done ? 0 : 1;
}

extern "C" __attribute__((visibility("default"))) void diji_llvm_free(const void* pointer) {
  std::free(const_cast<void*>(pointer));
}
