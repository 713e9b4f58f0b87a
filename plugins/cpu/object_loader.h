// Compiled kernels in executable memory: an object file loaded without LLVM and without the dynamic linker.
#pragma once

#include "base/error.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji::cpu {

/// The kernel contract of device_plugin.h.
using KernelFunction = void (*)(void* const* places, const std::int64_t* sizes, void* error_word, void* local,
                                std::int64_t begin, std::int64_t end);

// Clang's -fsanitize=function reads a type's hash in front of a function before it calls it; compiled kernels
// have none.
#if defined(__clang__)
#define DIJI_CALLS_KERNEL __attribute__((no_sanitize("function")))
#else
#define DIJI_CALLS_KERNEL
#endif

/// Immutable after load(), so safe to call from many threads. Nothing is executed by loading.
class LoadedObject {
 public:
  /// `blob` is untrusted cache data: refused with malformed rather than believed; what is inside functions
  /// cannot be checked, so whoever stores a blob also stores its checksum. Errors besides: device where the
  /// system gives no executable memory.
  static Result<std::unique_ptr<LoadedObject>> load(std::span<const std::byte> blob);
  /// The same of a shared object, by the dynamic linker: what a C compiler makes on processors other than
  /// x86-64. Less is checked, so a damaged blob is dangerous where its checksum is not.
  static Result<std::unique_ptr<LoadedObject>> load_shared(std::span<const std::byte> blob);
  /// By what the blob says that it is.
  static Result<std::unique_ptr<LoadedObject>> load_either(std::span<const std::byte> blob);
  ~LoadedObject();
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  /// The global function of that name, or null.
  KernelFunction find(std::string_view name) const;
  /// All names, sorted; of a shared object none.
  std::vector<std::string> names() const;

 private:
  struct Entry {
    std::string name;
    KernelFunction function;
  };
  LoadedObject() = default;
  KernelFunction find_shared(std::string_view name) const;
  void unload_shared();
  void* memory_ = nullptr;
  std::size_t memory_bytes_ = 0;
  std::vector<Entry> entries_;  ///< sorted by name; of a relocated object
  void* library_ = nullptr;     ///< of a shared one
  int file_ = -1;
};

}  // namespace diji::cpu
