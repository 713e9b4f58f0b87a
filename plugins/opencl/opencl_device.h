// What the handles of the OpenCL plugin stand for, and how its functions fail.
#pragma once

#include "diji/device_plugin.h"
#include "plugins/opencl/opencl_api.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

namespace diji::opencl {

/// A device of some platform, with the strings that properties point to.
struct DeviceFacts {
  cl_platform_id platform = nullptr;
  cl_device_id id = nullptr;
  std::string name, vendor, driver, features, fingerprint;
  std::uint64_t memory_bytes = 0, allocation_max = 0;
  std::size_t argument_bytes_max = 0;
  std::uint32_t alignment = 64, vector_bytes = 4, compute_units = 1;
  bool is_cpu = false, simt = false, has_f64 = false, rounds_division = false;
  /// The driver makes a kernel's code at its first launch (PoCL): binaries cost it the same once more.
  bool compiles_at_launch = false;
};
/// All devices of all platforms, in the loader's order; read once.
const std::vector<DeviceFacts>& all_devices();

/// A handle that one function of the driver gives back.
template <auto kRelease>
struct GiveBack {
  void operator()(auto* handle) const { (api()->*kRelease)(handle); }
};
template <typename Handle, auto kRelease>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, GiveBack<kRelease>>;
using Memory = Owned<cl_mem, &Api::release_buffer>;
using Program = Owned<cl_program, &Api::release_program>;
using Kernel = Owned<cl_kernel, &Api::release_kernel>;

struct Device {
  const DeviceFacts* facts = nullptr;
  Owned<cl_context, &Api::release_context> context;
  std::mutex mutex;
  /// What compile() has built and load() not taken yet, by blob: most blobs are loaded where they are made.
  std::map<std::string, Program> built;
};
struct Buffer {
  Memory memory;
  std::uint64_t bytes = 0;
};
struct Stream {
  Device* device = nullptr;
  Owned<cl_command_queue, &Api::release_queue> queue;
  Memory scratch;  ///< of kernels that run; grows
  std::uint64_t scratch_bytes = 0;
};
struct Event {
  Owned<cl_event, &Api::release_event> event;  ///< null: never recorded
};
struct Module {
  Program program;
  std::mutex mutex;  ///< a kernel's arguments are set and used under it
  std::map<std::string, Kernel, std::less<>> kernels;
};

inline Device& of(diji_device* handle) { return *reinterpret_cast<Device*>(handle); }
inline Buffer& of(diji_buffer* handle) { return *reinterpret_cast<Buffer*>(handle); }
inline Stream& of(diji_stream* handle) { return *reinterpret_cast<Stream*>(handle); }
inline Event& of(diji_event* handle) { return *reinterpret_cast<Event*>(handle); }
inline Module& of(diji_module* handle) { return *reinterpret_cast<Module*>(handle); }

diji_status fail(diji_status status, const std::string& sentence);
/// DIJI_OK, or the status that fits the error, with "what: CL_…" as the sentence.
diji_status checked(cl_int error, const char* what);
const char* last_error();

// opencl_program.cpp: tier 1
diji_status compile(diji_device* device, const diji_kernel_text* text, const void** blob, size_t* blob_bytes);
void blob_free(const void* blob);
diji_status load(diji_device* device, const void* blob, size_t blob_bytes, diji_module** out);
void unload(diji_module* module);
diji_status launch(diji_stream* stream, diji_module* module, const diji_launch* launch);

}  // namespace diji::opencl
