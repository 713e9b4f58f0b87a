// Kernels as a shared object, which is what C compilers make on processors other than x86-64: the system's
// dynamic linker loads them, from memory.
#include "plugins/cpu/object_loader.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace diji::cpu {

Result<std::unique_ptr<LoadedObject>> LoadedObject::load_shared(std::span<const std::byte> blob) {
  const int file = memfd_create("kernels", MFD_CLOEXEC);
  if (file < 0) return fail(ErrorCode::out_of_memory, "no memory for compiled kernels: {}", strerror(errno));
  std::size_t written = 0;
  while (written < blob.size()) {
    const ssize_t bytes = write(file, blob.data() + written, blob.size() - written);
    if (bytes <= 0) break;
    written += static_cast<std::size_t>(bytes);
  }
  // The linker knows a library by this name first: the number must not be used again while it is loaded.
  void* library = written < blob.size()
                      ? nullptr
                      : dlopen(fmt::format("/proc/self/fd/{}", file).c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* reason = library == nullptr ? dlerror() : nullptr;
  if (library == nullptr) {
    close(file);
    return fail(ErrorCode::malformed, "kernel blob: {}", reason == nullptr ? strerror(errno) : reason);
  }
  std::unique_ptr<LoadedObject> loaded(new LoadedObject());
  loaded->library_ = library;
  loaded->file_ = file;
  return loaded;
}

KernelFunction LoadedObject::find_shared(std::string_view name) const {
  return std::bit_cast<KernelFunction>(dlsym(library_, std::string(name).c_str()));
}

void LoadedObject::unload_shared() {
  if (library_ == nullptr) return;
  dlclose(library_);
  close(file_);
}

}  // namespace diji::cpu
