// Kernel text to an object file: by the system's C compiler, or by libdiji_llvm.so, which is looked for and
// loaded at the first compile only: a program whose kernels come from the cache never pays LLVM's 32 ms and
// 48 MiB.
#include "plugins/cpu/cc/c_compiler.h"
#include "plugins/cpu/cpu_device.h"
#include "plugins/cpu/llvm/compile_llvm.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

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
      "it beside diji or name it in DIJI_LLVM_LIBRARY",
      kLibrary, tried, DIJI_LLVM_MAJOR, DIJI_LLVM_MAJOR);
}

Result<diji_llvm_compile_function> compile_function() {
  Generator& shared = generator();
  const std::scoped_lock lock(shared.mutex);
  if (shared.compile == nullptr) TRY(load_generator(shared));
  return shared.compile;
}

// As libdiji_llvm.so gives a blob: malloc'd.
diji_status compile_text_in_c(const CpuDevice& device, const diji_kernel_text& text, const void** blob,
                              std::size_t* blob_bytes) {
  const auto compiler = find_c_compiler(device.target);
  if (!compiler) return fail_with(compiler.error());
  const auto object = compile_c(*compiler, {text.text, text.text_bytes});
  if (!object && object.error().code == ErrorCode::malformed)
    return fail_with(DIJI_ERROR_COMPILE, std::string_view(object.error().message));
  if (!object) return fail_with(object.error());
  void* copy = std::malloc(object->size());
  if (copy == nullptr) return fail_with(DIJI_ERROR_OUT_OF_MEMORY, "no memory for the object file");
  std::memcpy(copy, object->data(), object->size());
  *blob = copy;
  *blob_bytes = object->size();
  return DIJI_OK;
}

diji_status compile(diji_device* handle, const diji_kernel_text* text, const void** blob,
                    std::size_t* blob_bytes) {
  if (own<CpuDevice>(handle).in_c) return compile_text_in_c(own<CpuDevice>(handle), *text, blob, blob_bytes);
  if (!cpu_facts().loads_llvm) {
    return fail_with(DIJI_ERROR_UNSUPPORTED, "compile: LLVM's kernels are not built for this CPU yet");
  }
  const auto function = compile_function();
  if (!function) return fail_with(function.error());
  const CpuTarget& target = own<CpuDevice>(handle).target;
  char* error = nullptr;
  const int failed = (*function)(text->text, text->text_bytes, target.llvm_cpu.c_str(),
                                 target.llvm_features.c_str(), blob, blob_bytes, &error);
  if (failed == 0) return DIJI_OK;
  fail_with(DIJI_ERROR_COMPILE,
            std::string_view(error == nullptr ? "no memory for the compiler's words" : error));
  generator().release(error);
  return DIJI_ERROR_COMPILE;
}

// Both kinds of blob are malloc'd.
void blob_free(const void* blob) { std::free(const_cast<void*>(blob)); }

}  // namespace

void add_compile_functions(diji_device_plugin_table& table) {
  table.compile = compile;
  table.blob_free = blob_free;
}

}  // namespace diji::cpu
