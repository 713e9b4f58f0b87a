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

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <iterator>
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

/// What differs between processors: LLVM's parts, and its words for what diji's kernels mean.
struct Architecture {
  std::string_view name;  // the triple's first word
  void (*initialize)();
  const char* attribute;  // of every function, with its value; null: none
  const char* value;
};

// The assembly parser: without it, inline assembly would be a fatal error instead of a sentence.
constexpr Architecture kArchitectures[] = {
    {"x86_64",
     [] {
       LLVMInitializeX86TargetInfo();
       LLVMInitializeX86Target();
       LLVMInitializeX86TargetMC();
       LLVMInitializeX86AsmPrinter();
       LLVMInitializeX86AsmParser();
     },
     // x86-64-v4 is tuned to avoid 512-bit registers; kernels that use them mean it.
     "prefer-vector-width", "512"},
    {"aarch64",
     [] {
       LLVMInitializeAArch64TargetInfo();
       LLVMInitializeAArch64Target();
       LLVMInitializeAArch64TargetMC();
       LLVMInitializeAArch64AsmPrinter();
       LLVMInitializeAArch64AsmParser();
     },
     nullptr, nullptr},
    {"riscv64",
     [] {
       LLVMInitializeRISCVTargetInfo();
       LLVMInitializeRISCVTarget();
       LLVMInitializeRISCVTargetMC();
       LLVMInitializeRISCVAsmPrinter();
       LLVMInitializeRISCVAsmParser();
     },
     nullptr, nullptr},
};

const Architecture* architecture_of(std::string_view triple) {
  for (const Architecture& architecture : kArchitectures) {
    if (triple.substr(0, triple.find('-')) == architecture.name) return &architecture;
  }
  return nullptr;
}

void initialize(const Architecture& architecture) {
  static std::once_flag handler, once[std::size(kArchitectures)];
  std::call_once(handler, [] { LLVMInstallFatalErrorHandler(on_fatal_error); });
  std::call_once(once[&architecture - kArchitectures], architecture.initialize);
}

/// The processor's instruction for diji.dot4 on vectors of these bits.
struct Dot4Instruction {
  std::string_view feature;  // that has it
  unsigned bits;
  const char* intrinsic;  // (sums, bytes as sums' type, bytes as sums' type)
};
constexpr Dot4Instruction kDot4[] = {
    {"+avx512vnni", 512, "llvm.x86.avx512.vpdpbusd.512"},
    {"+avx512vnni", 256, "llvm.x86.avx512.vpdpbusd.256"},
    {"+avx512vnni", 128, "llvm.x86.avx512.vpdpbusd.128"},
    {"+avxvnni", 256, "llvm.x86.avx512.vpdpbusd.256"},
    {"+avxvnni", 128, "llvm.x86.avx512.vpdpbusd.128"},
};

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

  bool set_target(const Architecture& architecture, const diji_llvm_target& wanted) {
    LLVMTargetRef target = nullptr;
    char* message = nullptr;
    if (LLVMGetTargetFromTriple(wanted.triple, &target, &message) != 0) {
      error = take(message);
      return false;
    }
    LLVMTargetMachineOptionsRef options = LLVMCreateTargetMachineOptions();
    LLVMTargetMachineOptionsSetCPU(options, wanted.cpu);
    LLVMTargetMachineOptionsSetFeatures(options, wanted.features);
    LLVMTargetMachineOptionsSetABI(options, wanted.abi);
    LLVMTargetMachineOptionsSetCodeGenOptLevel(options, LLVMCodeGenLevelDefault);
    // Relative addresses within one image: what the object loader has relocations for.
    LLVMTargetMachineOptionsSetRelocMode(options, LLVMRelocPIC);
    LLVMTargetMachineOptionsSetCodeModel(options, LLVMCodeModelSmall);
    machine = LLVMCreateTargetMachineWithOptions(target, wanted.triple, options);
    LLVMDisposeTargetMachineOptions(options);
    layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetTarget(module, wanted.triple);
    LLVMSetModuleDataLayout(module, layout);
    for (LLVMValueRef function = LLVMGetFirstFunction(module); function != nullptr;
         function = LLVMGetNextFunction(function)) {
      if (LLVMIsDeclaration(function) != 0) continue;
      set_attribute_if_absent(function, "target-cpu", wanted.cpu);
      set_attribute_if_absent(function, "target-features", wanted.features);
      if (architecture.attribute != nullptr)
        set_attribute_if_absent(function, architecture.attribute, architecture.value);
      set_nounwind(function);
    }
    return true;
  }

  // Kernels never unwind: no tables for it, and none of their relocations.
  void set_nounwind(LLVMValueRef function) {
    const unsigned kind = LLVMGetEnumAttributeKindForName("nounwind", std::strlen("nounwind"));
    const auto on_function = static_cast<LLVMAttributeIndex>(LLVMAttributeFunctionIndex);
    LLVMAddAttributeAtIndex(function, on_function, LLVMCreateEnumAttribute(context, kind, 0));
  }

  // The processor's instruction in place of calls of diji.dot4.vNi32; without one, its body inline.
  bool place_dot4(const char* features) {
    const std::string_view has(features);
    const auto instruction_for = [&](unsigned bits) {
      return std::ranges::find_if(
          kDot4, [&](const Dot4Instruction& i) { return i.bits == bits && has.find(i.feature) != has.npos; });
    };
    bool called = false;
    LLVMValueRef next = nullptr;
    for (LLVMValueRef function = LLVMGetFirstFunction(module); function != nullptr; function = next) {
      next = LLVMGetNextFunction(function);
      size_t length = 0;
      const std::string_view name(LLVMGetValueName2(function, &length));
      if (!name.starts_with("diji.dot4.v")) continue;
      const unsigned bits = LLVMGetVectorSize(LLVMGetReturnType(LLVMGlobalGetValueType(function))) * 32;
      const auto* instruction = instruction_for(bits);
      const bool fits = instruction != std::end(kDot4);
      if (fits) replace_calls(function, instruction->intrinsic);
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
  void replace_calls(LLVMValueRef function, const char* intrinsic) {
    const LLVMTypeRef sums = LLVMGetReturnType(LLVMGlobalGetValueType(function));
    LLVMTypeRef types[] = {sums, sums, sums};
    const LLVMTypeRef type = LLVMFunctionType(sums, types, 3, 0);
    const LLVMValueRef instead = LLVMAddFunction(module, intrinsic, type);
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
                                                                        const diji_llvm_target* target,
                                                                        const void** blob, size_t* blob_bytes,
                                                                        char** error) {
  *blob = nullptr;
  *blob_bytes = 0;
  *error = nullptr;
  const Architecture* architecture = architecture_of(target->triple);
  if (architecture == nullptr) {
    *error = copy_of(std::string("no code for the processor ") + target->triple);
    return 1;
  }
  initialize(*architecture);
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
  bool done = compile->parse(text, bytes) && compile->set_target(*architecture, *target) &&
              compile->place_dot4(target->features) && compile->emit();
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
