// libdiji_llvm.so is looked for and loaded at the first compile only: a program whose kernels come from the
// cache never pays LLVM's 32 ms and 48 MiB.
#include "plugins/cpu/llvm_compiler.h"

#include "plugins/cpu/llvm/compile_llvm.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>

namespace diji::cpu {
namespace {

constexpr const char* kLibrary = "libdiji_llvm.so";

/// The generator's two functions once it is loaded; it stays loaded.
struct Generator {
  std::mutex mutex;
  diji_llvm_compile_function compile = nullptr;
  diji_llvm_free_function release = nullptr;
};

// One a process, as the shared library is: which device asked first makes no difference.
Generator& generator() {
  static Generator instance;
  return instance;
}

/// Where the library may be: what the user names, lib/ beside the program's folder, and beside this code
/// itself (which is a Python extension where the program is the Python interpreter).
std::vector<std::filesystem::path> candidates() {
  if (const char* named = std::getenv("DIJI_LLVM_LIBRARY"); named != nullptr && *named != '\0')
    return {named};
  std::vector<std::filesystem::path> paths;
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!program.empty()) paths.push_back(program.parent_path().parent_path() / "lib" / kLibrary);
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&generator), &self) != 0 && self.dli_fname != nullptr) {
    const auto folder = std::filesystem::absolute(self.dli_fname, ignored).parent_path();
    paths.push_back(folder / kLibrary);
  }
  return paths;
}

/// Under the lock.
Result<void> load_generator(Generator& target) {
  std::string tried;
  for (const std::filesystem::path& path : candidates()) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* reason = dlerror();
      tried += fmt::format("{}{}", tried.empty() ? "" : "; ", reason == nullptr ? path.c_str() : reason);
      continue;
    }
    const auto compile = reinterpret_cast<diji_llvm_compile_function>(dlsym(library, "diji_llvm_compile"));
    const auto release = reinterpret_cast<diji_llvm_free_function>(dlsym(library, "diji_llvm_free"));
    if (compile == nullptr || release == nullptr) {
      return fail(ErrorCode::unsupported, "{} is not diji's kernel compiler: it lacks diji_llvm_compile",
                  path.c_str());
    }
    target.compile = compile;
    target.release = release;
    return {};
  }
  return fail(
      ErrorCode::unsupported,
      "the kernel compiler {} could not be loaded ({}); it needs LLVM {} (Debian's libllvm{}); install "
      "it beside diji or name it in DIJI_LLVM_LIBRARY, or let a C compiler make kernels: DIJI_CPU_COMPILER=c",
      kLibrary, tried, DIJI_LLVM_MAJOR, DIJI_LLVM_MAJOR);
}

Result<diji_llvm_compile_function> compile_function() {
  Generator& shared = generator();
  const std::scoped_lock lock(shared.mutex);
  if (shared.compile == nullptr) TRY(load_generator(shared));
  return shared.compile;
}

}  // namespace

bool has_llvm() {
  return std::ranges::any_of(candidates(), [](const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
  });
}

Result<LlvmBlob> compile_llvm(const CpuTarget& target, std::string_view text) {
  if (target.llvm_triple.empty())
    return fail(ErrorCode::unsupported, "diji has no loader of LLVM's kernels for this processor");
  const auto function = TRY(compile_function());
  const diji_llvm_target wanted = {.triple = target.llvm_triple.c_str(),
                                   .abi = target.llvm_abi.c_str(),
                                   .cpu = target.llvm_cpu.c_str(),
                                   .features = target.llvm_features.c_str()};
  LlvmBlob blob;
  char* error = nullptr;
  if ((*function)(text.data(), text.size(), &wanted, &blob.data, &blob.bytes, &error) == 0) return blob;
  std::string sentence = error == nullptr ? "no memory for the compiler's words" : error;
  generator().release(error);
  return fail(ErrorCode::malformed, "{}", sentence);
}

}  // namespace diji::cpu
