// What the files of the CPU plugin share: its device, buffers, streams and modules, and how a call fails.
#pragma once

#include "base/error.h"
#include "diji/device_plugin.h"
#include "plugins/cpu/cpu_features.h"
#include "plugins/cpu/object_loader.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace diji::cpu {

// The handles of device_plugin.h are never defined: several plugins live in one program, and each casts them
// to types of its own namespace instead.
template <typename Own, typename Handle>
Own& own(Handle* handle) {
  return *reinterpret_cast<Own*>(handle);
}

/// Memory with 64-byte aligned base, so that a whole vector register fits a cache line.
inline constexpr std::size_t kAlignment = 64;

struct CpuBuffer {
  std::byte* pointer = nullptr;
  std::uint64_t bytes = 0;
  void (*release)(void* context) = nullptr;  ///< of imported memory, may be null there too
  void* context = nullptr;
  bool imported = false;
};

/// Scratch memory of one launch at a time: workers x stride bytes. The device keeps them for the next launch.
struct CpuScratch {
  std::byte* pointer = nullptr;
  std::size_t bytes = 0;
};

/// So many are kept: one for each stream that launches at the same time.
inline constexpr std::size_t kScratchesMax = 64;

/// Thread-safe: `mutex` guards what is not constant after open.
struct CpuDevice {
  const diji_host_services* host = nullptr;
  CpuTarget target;
  bool in_c = false;  ///< kernel text is C, not LLVM IR
  std::mutex mutex;
  std::vector<CpuScratch> idle_scratch;
};

/// Work runs in the call that submits it, spread over the host's threads, so a stream is only the memory of
/// its first failure: after one, everything on the stream is refused with it until stream_sync reports and
/// clears it.
struct CpuStream {
  CpuDevice* device = nullptr;
  diji_status failure = DIJI_OK;
  std::string reason;
};

struct CpuModule {
  std::unique_ptr<LoadedObject> object;
};

/// Remembers the sentence for last_error() of this thread; returns the status.
diji_status fail_with(diji_status status, std::string_view sentence);
template <typename... Args>
diji_status fail_with(diji_status status, fmt::format_string<Args...> text, Args&&... args) {
  return fail_with(status, std::string_view(fmt::format(text, std::forward<Args>(args)...)));
}
/// An Error of base/ as status and sentence.
diji_status fail_with(const Error& error);

template <auto function>
struct Guarded;
template <typename... Arguments, diji_status (*function)(Arguments...)>
struct Guarded<function> {
  static diji_status call(Arguments... arguments) {
    try {
      return function(arguments...);
    } catch (const std::bad_alloc&) {
      return fail_with(DIJI_ERROR_OUT_OF_MEMORY, std::string_view("no host memory"));
    }
  }
};
/// `function` for the table: nothing is thrown into C.
template <auto function>
inline constexpr auto guarded = &Guarded<function>::call;

/// `bytes` of memory aligned to kAlignment, or null.
std::byte* allocate_host(std::uint64_t bytes);
void free_host(std::byte* pointer);

/// Whether [offset, offset + bytes) lies in the buffer.
bool in_range(const diji_place& place, std::uint64_t bytes);

/// Fills in the table's functions of cpu_stream.cpp, cpu_launch.cpp and compile.cpp.
void add_stream_functions(diji_device_plugin_table& table);
void add_module_functions(diji_device_plugin_table& table);
void add_compile_functions(diji_device_plugin_table& table);

}  // namespace diji::cpu
