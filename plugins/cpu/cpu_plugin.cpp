// The CPU plugin's table, its one device and its memory.
#include "plugins/cpu/cpu_plugin.h"

#include "plugins/cpu/cc/c_compiler.h"
#include "plugins/cpu/cpu_device.h"
#include "plugins/cpu/llvm_compiler.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>

#include <sys/utsname.h>
#include <unistd.h>

namespace diji::cpu {
namespace {

// Plain bytes instead of a string: a thread may still ask while its thread-local objects are being destroyed.
thread_local char last_sentence[2048];

/// The first number in a file of the cgroup file system, or 0.
std::uint64_t number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : 0;
}

/// What the machine has, or what the process's control group (v2, v1) lets it have.
std::uint64_t memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return 0;
  std::uint64_t bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const std::uint64_t limit = number_in(path);
    if (limit != 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

/// Facts that the properties point to, kept for the life of the process.
struct Strings {
  CpuTarget target;
  bool in_c = false;
  std::string kernel;
  std::uint64_t memory = 0;
};

// With the C compiler and its options instead of LLVM's version.
std::string c_fingerprint(const CpuTarget& target) {
  const auto compiler = find_c_compiler(target);
  if (!compiler) return fmt::format("{} without a C compiler", target.words);
  return fmt::format("c {} ({})", fmt::join(compiler->command, " "), compiler->version);
}

/// One entry for each value that DIJI_CPU and the choice of a compiler have had: the strings of an answer
/// must outlive later answers.
Result<const Strings*> current_strings() {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<Strings>> kept;
  CpuTarget target = TRY(current_target());
  const bool in_c = TRY(compiles_c());
  if (in_c) target.fingerprint = c_fingerprint(target);
  // Whoever sees "c" as kernel text shall see why.
  if (in_c && !target.llvm_triple.empty() && !has_llvm()) target.words += " without-libdiji_llvm.so";
  const std::scoped_lock lock(mutex);
  for (const auto& strings : kept) {
    const CpuTarget& known = strings->target;
    if (known.fingerprint == target.fingerprint && known.words == target.words) return strings.get();
  }
  utsname system{};
  const bool known = uname(&system) == 0;
  kept.push_back(std::make_unique<Strings>(
      Strings{std::move(target), in_c, known ? fmt::format("{} {}", system.sysname, system.release) : "",
              memory_bytes()}));
  return kept.back().get();
}

diji_status device_count(std::int32_t* count) {
  *count = 1;
  return DIJI_OK;
}

diji_status device_properties(std::int32_t ordinal, diji_device_properties* out) {
  if (ordinal != 0)
    return fail_with(DIJI_ERROR_INVALID, "there is one CPU device, cpu:0, and no cpu:{}", ordinal);
  const auto strings = current_strings();
  if (!strings) return fail_with(strings.error());
  const CpuTarget& target = (*strings)->target;
  diji_device_properties full{};
  full.struct_size = out->struct_size;
  full.name = cpu_facts().model.c_str();
  full.vendor = cpu_facts().vendor.c_str();
  full.driver_version = (*strings)->kernel.c_str();
  full.features = target.words.c_str();
  full.fingerprint = target.fingerprint.c_str();
  full.dialect = (*strings)->in_c ? "c" : "llvm-ir";
  full.memory_bytes = (*strings)->memory;
  full.alignment = kAlignment;
  full.vector_bytes = target.vector_bytes;
  full.vector_registers = target.vector_registers;
  full.host_visible = 1;
  std::memcpy(out, &full, std::min<std::size_t>(out->struct_size, sizeof(full)));
  return DIJI_OK;
}

diji_status open(std::int32_t ordinal, const diji_host_services* host, diji_device** out) {
  if (ordinal != 0)
    return fail_with(DIJI_ERROR_INVALID, "there is one CPU device, cpu:0, and no cpu:{}", ordinal);
  auto target = current_target();
  if (!target) return fail_with(target.error());
  const auto in_c = compiles_c();
  if (!in_c) return fail_with(in_c.error());
  auto device = std::make_unique<CpuDevice>();
  device->host = host;
  device->target = *std::move(target);
  device->in_c = *in_c;
  device->idle_scratch.reserve(kScratchesMax);
  *out = reinterpret_cast<diji_device*>(device.release());
  return DIJI_OK;
}

void close(diji_device* device) {
  const std::unique_ptr<CpuDevice> owned(&own<CpuDevice>(device));
  for (const CpuScratch& scratch : owned->idle_scratch) free_host(scratch.pointer);
}

diji_status alloc(diji_device*, std::uint64_t bytes, diji_buffer** out) {
  if (bytes == 0) return fail_with(DIJI_ERROR_INVALID, "alloc: 0 bytes");
  auto buffer = std::make_unique<CpuBuffer>(CpuBuffer{nullptr, bytes, nullptr, nullptr, false});
  buffer->pointer = allocate_host(bytes);
  if (buffer->pointer == nullptr) {
    return fail_with(DIJI_ERROR_OUT_OF_MEMORY, "alloc: no {} bytes; the process may have {}", bytes,
                     memory_bytes());
  }
  *out = reinterpret_cast<diji_buffer*>(buffer.release());
  return DIJI_OK;
}

// Work ran when it was submitted: whatever stream used the memory, it is idle.
void free_buffer(diji_device*, diji_stream*, diji_buffer* buffer) {
  const std::unique_ptr<CpuBuffer> owned(&own<CpuBuffer>(buffer));
  if (!owned->imported) return free_host(owned->pointer);
  if (owned->release != nullptr) owned->release(owned->context);
}

diji_status import_host(diji_device*, const void* pointer, std::uint64_t bytes,
                        void (*release)(void* context), void* context, diji_buffer** out) {
  if (pointer == nullptr || bytes == 0)
    return fail_with(DIJI_ERROR_INVALID, "import_host: no memory was given");
  auto* writable = static_cast<std::byte*>(const_cast<void*>(pointer));
  auto buffer = std::make_unique<CpuBuffer>(CpuBuffer{writable, bytes, release, context, true});
  *out = reinterpret_cast<diji_buffer*>(buffer.release());
  return DIJI_OK;
}

diji_status map(diji_buffer* buffer, void** out) {
  *out = own<CpuBuffer>(buffer).pointer;
  return DIJI_OK;
}

const char* last_error() { return last_sentence; }

diji_device_plugin_table make_table() {
  diji_device_plugin_table table{};
  table.struct_size = sizeof(table);
  table.abi_major = DIJI_DEVICE_ABI_MAJOR;
  table.abi_minor = DIJI_DEVICE_ABI_MINOR;
  table.name = "cpu";
  table.version = DIJI_VERSION;
  // The number changes with whatever changes the code that comes out of one text (compile_llvm.cpp).
  table.build_id = DIJI_VERSION " code 1 " __VERSION__;
  table.device_count = device_count;
  table.device_properties = guarded<device_properties>;
  table.open = guarded<open>;
  table.close = close;
  table.alloc = guarded<alloc>;
  table.free = free_buffer;
  table.last_error = last_error;
  table.import_host = guarded<import_host>;
  table.map = map;
  add_stream_functions(table);
  add_module_functions(table);
  add_compile_functions(table);
  return table;
}

}  // namespace

diji_status fail_with(diji_status status, std::string_view sentence) {
  const std::size_t length = std::min(sentence.size(), sizeof(last_sentence) - 1);
  std::memcpy(last_sentence, sentence.data(), length);
  last_sentence[length] = '\0';
  return status;
}

diji_status fail_with(const Error& error) {
  switch (error.code) {
    case ErrorCode::out_of_memory:
      return fail_with(DIJI_ERROR_OUT_OF_MEMORY, std::string_view(error.message));
    case ErrorCode::unsupported: return fail_with(DIJI_ERROR_UNSUPPORTED, std::string_view(error.message));
    case ErrorCode::device:
    case ErrorCode::deadline:
    case ErrorCode::io: return fail_with(DIJI_ERROR_DEVICE, std::string_view(error.message));
    default: return fail_with(DIJI_ERROR_INVALID, std::string_view(error.message));
  }
}

std::byte* allocate_host(std::uint64_t bytes) {
  // Linux would promise more than there is and end the process when it is touched; a sanitizer's allocator
  // ends it at once. More than the whole machine is refused here.
  static const std::uint64_t most = memory_bytes();
  if ((most != 0 && bytes > most) || bytes > UINT64_MAX - kAlignment) return nullptr;
  const std::uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return static_cast<std::byte*>(::operator new(rounded, std::align_val_t{kAlignment}, std::nothrow));
}

void free_host(std::byte* pointer) { ::operator delete(pointer, std::align_val_t{kAlignment}); }

bool in_range(const diji_place& place, std::uint64_t bytes) {
  if (place.buffer == nullptr) return false;
  const std::uint64_t size = own<CpuBuffer>(place.buffer).bytes;
  return place.offset <= size && bytes <= size - place.offset;
}

}  // namespace diji::cpu

extern "C" const diji_device_plugin_table* diji_plugin_cpu(void) {
  static const diji_device_plugin_table table = diji::cpu::make_table();
  return &table;
}
