// A driver API like CUDA's: handles are opaque, an int says what went wrong. The functions of all makers have
// these parameters; only their names differ.
#pragma once

#include "diji/device_plugin.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji::cuda_like {

using Handle = void*;
using Address = std::uint64_t;

struct Driver {
  int (*init)(unsigned flags);
  int (*driver_version)(int* version);
  int (*device_count)(int* count);
  int (*device)(int* device, int ordinal);
  int (*device_name)(char* name, int length, int device);
  int (*memory_bytes)(std::size_t* bytes, int device);
  int (*context_retain)(Handle* context, int device);
  int (*context_release)(int device);
  int (*context_set)(Handle context);
  int (*alloc)(Address* out, std::size_t bytes);
  int (*free)(Address memory);
  int (*to_device)(Address dst, const void* src, std::size_t bytes, Handle stream);
  int (*to_host)(void* dst, Address src, std::size_t bytes, Handle stream);
  int (*on_device)(Address dst, Address src, std::size_t bytes, Handle stream);
  int (*stream_new)(Handle* out, unsigned flags);
  int (*stream_free)(Handle stream);
  int (*stream_sync)(Handle stream);
  int (*event_new)(Handle* out, unsigned flags);
  int (*event_free)(Handle event);
  int (*event_record)(Handle event, Handle stream);
  int (*event_wait)(Handle stream, Handle event, unsigned flags);
  int (*event_sync)(Handle event);
  int (*event_elapsed_ms)(float* out, Handle from, Handle to);
  int (*module_load)(Handle* out, const void* image);
  int (*module_unload)(Handle module);
  int (*module_function)(Handle* out, Handle module, const char* name);
  int (*launch)(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned group_x,
                unsigned group_y, unsigned group_z, unsigned shared_bytes, Handle stream, void** parameters,
                void** extra);
  int (*error_name)(int error, const char** name);  ///< may be null
};
inline constexpr std::size_t kDriverFunctions = sizeof(Driver) / sizeof(void (*)());

/// The maker's compiler of kernel text, another library.
struct Compiler {
  int (*create)(Handle* out, const char* text, const char* name, int headers, const char* const* header_texts,
                const char* const* header_names);
  int (*compile)(Handle program, int count, const char* const* options);
  int (*log_bytes)(Handle program, std::size_t* bytes);
  int (*log)(Handle program, char* text);
  int (*code_bytes)(Handle program, std::size_t* bytes);
  int (*code)(Handle program, char* code);
  int (*destroy)(Handle* program);
  int (*version)(int* major, int* minor);
};
inline constexpr std::size_t kCompilerFunctions = sizeof(Compiler) / sizeof(void (*)());

/// Names of functions: all begin with the maker's own letters.
struct Api {
  const char* prefix;  ///< "cu"
  std::span<const char* const> names;
};

/// What differs between makers.
struct Maker {
  const char* name;  ///< of the plugin: "cuda"
  const char* vendor;
  std::span<const char* const> driver_libraries, compiler_libraries;  ///< the first one that opens is taken
  Api driver, compiler;  ///< in the order of Driver and of Compiler
  /// "sm_90", "gfx90a"; `library` is the driver's.
  std::string (*chip)(void* library, int device);
  std::string_view chip_option;  ///< what stands before it; empty: the compiler knows the chip
  std::span<const char* const> options;
  /// The dialect for a chip, with its matrix unit where it has one.
  const char* (*dialect)(const std::string& chip);
};
extern const Maker kCuda, kHip, kMusa, kMaca;

struct DeviceFacts {
  std::string name, driver, chip, fingerprint, features;
  std::uint64_t memory_bytes = 0;
  int id = 0;
};

/// A maker's libraries, opened when first asked for, and the devices they show.
struct Loaded {
  const Maker* maker;
  Driver driver{};
  Compiler compiler{};
  bool compiles = false;            ///< else no_compiler says why not
  std::string absent, no_compiler;  ///< why there is no device, or no kernel can be compiled
  std::vector<DeviceFacts> devices;

  explicit Loaded(const Maker& which);
};

struct Device {
  const Loaded* loaded = nullptr;
  const DeviceFacts* facts = nullptr;
  Handle context = nullptr;
  const Driver& driver() const { return loaded->driver; }
};
struct Buffer {
  Address memory = 0;
  std::uint64_t bytes = 0;
};
struct Stream {
  Device* device = nullptr;
  Handle handle = nullptr;
  Address scratch = 0;  ///< of kernels that run; grows
  std::uint64_t scratch_bytes = 0;
};
struct Event {
  Device* device = nullptr;
  Handle handle = nullptr;
  bool recorded = false;
};
struct Module {
  Device* device = nullptr;
  Handle handle = nullptr;
  std::mutex mutex;
  std::map<std::string, Handle, std::less<>> functions;
};

inline Device& of(diji_device* handle) { return *reinterpret_cast<Device*>(handle); }
inline Buffer& of(diji_buffer* handle) { return *reinterpret_cast<Buffer*>(handle); }
inline Stream& of(diji_stream* handle) { return *reinterpret_cast<Stream*>(handle); }
inline Event& of(diji_event* handle) { return *reinterpret_cast<Event*>(handle); }
inline Module& of(diji_module* handle) { return *reinterpret_cast<Module*>(handle); }

diji_status fail(diji_status status, const std::string& sentence);
const char* last_error();
void forget_error();
/// DIJI_OK, or the status that fits the driver's error, with "what: CUDA_ERROR_…" as the sentence.
diji_status checked(const Driver& driver, int error, const char* what);
/// Makes the device the calling thread's: every other call needs that first.
diji_status enter(const Device& device);

// program.cpp: tier 1
diji_status compile(diji_device* device, const diji_kernel_text* text, const void** blob, size_t* blob_bytes);
void blob_free(const void* blob);
diji_status load(diji_device* device, const void* blob, size_t blob_bytes, diji_module** out);
void unload(diji_module* module);
diji_status launch(diji_stream* stream, diji_module* module, const diji_launch* launch);

}  // namespace diji::cuda_like
