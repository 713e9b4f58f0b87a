// Takes plugin tables in: nothing of a plugin is believed before it was checked here.
#include "device/plugin.h"

#include "base/checksum.h"
#include "base/files.h"
#include "device/plugin_file.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

namespace diji {
namespace {

constexpr int kDevicesMax = 256;
constexpr std::size_t kStringBytesMax = 4096;
constexpr std::size_t kNameBytesMax = 32;
constexpr std::uint32_t kKernelRowsMax = 1u << 16;
constexpr std::uint64_t kMemoryBytesMax = std::uint64_t{1}
                                          << 56;  // 64 PiB: more is a lie or a negative number
constexpr std::uint32_t kAlignmentMin = 4;
constexpr std::uint32_t kAlignmentMax = 1u << 21;    // a huge page
constexpr std::uint32_t kVectorBytesMax = 1u << 13;  // RISC-V allows 65,536 bits
constexpr std::uint32_t kVectorRegistersMax = 1u << 12;
constexpr const char* kSymbol = "diji_device_plugin";

/// A string literal as a template argument.
template <std::size_t N>
struct Literal {
  char text[N];
  consteval Literal(const char (&literal)[N]) {
    std::copy_n(literal, N, text);
  }  // NOLINT: implicit on purpose
};

/// The stub that this thread called last, null after the plugin's own functions were asked about.
thread_local const char* not_offered = nullptr;

/// The one place where a null pointer is answered for: an optional function that is missing becomes one that
/// says so.
template <Literal Name, typename... Args>
void fill_in(diji_status (*&slot)(Args...)) {
  if (slot != nullptr) return;
  slot = [](Args...) -> diji_status {
    not_offered = Name.text;
    return DIJI_ERROR_UNSUPPORTED;
  };
}
template <typename... Args>
void fill_in_void(void (*&slot)(Args...)) {
  if (slot == nullptr) slot = [](Args...) {};
}

void fill_in_optional(diji_device_plugin_table& table) {
  fill_in<"import_host">(table.import_host);
  fill_in<"map">(table.map);
  fill_in<"compile">(table.compile);
  fill_in_void(table.blob_free);
  fill_in<"load">(table.load);
  fill_in_void(table.unload);
  fill_in<"launch">(table.launch);
  fill_in<"event_new">(table.event_new);
  fill_in_void(table.event_free);
  fill_in<"event_record">(table.event_record);
  fill_in<"event_wait">(table.event_wait);
  fill_in<"event_sync">(table.event_sync);
  fill_in<"event_elapsed_ns">(table.event_elapsed_ns);
  fill_in<"telemetry">(table.telemetry);
  fill_in<"exchanged">(table.exchanged);
  if (table.kernels == nullptr) {
    table.kernels = [](std::uint32_t* count) -> const diji_kernel_row* {
      *count = 0;
      return nullptr;
    };
  }
}

/// The name of the first required function that is missing, or null.
const char* missing_function(const diji_device_plugin_table& table) {
  const std::pair<bool, const char*> required[] = {{table.device_count != nullptr, "device_count"},
                                                   {table.device_properties != nullptr, "device_properties"},
                                                   {table.open != nullptr, "open"},
                                                   {table.close != nullptr, "close"},
                                                   {table.alloc != nullptr, "alloc"},
                                                   {table.free != nullptr, "free"},
                                                   {table.copy_to_device != nullptr, "copy_to_device"},
                                                   {table.copy_to_host != nullptr, "copy_to_host"},
                                                   {table.copy_on_device != nullptr, "copy_on_device"},
                                                   {table.stream_new != nullptr, "stream_new"},
                                                   {table.stream_free != nullptr, "stream_free"},
                                                   {table.stream_sync != nullptr, "stream_sync"},
                                                   {table.last_error != nullptr, "last_error"}};
  for (const auto& [there, name] : required) {
    if (!there) return name;
  }
  return nullptr;
}

template <typename... Args>
std::unexpected<Error> refuse(const std::string& origin, fmt::format_string<Args...> text, Args&&... args) {
  return fail(ErrorCode::no_device, "plugin {}: {}", origin, fmt::format(text, std::forward<Args>(args)...));
}

/// A plugin's string as our own. Null and endless strings are refused.
Result<std::string> checked_string(const char* text, std::string_view what, const std::string& origin) {
  if (text == nullptr) return refuse(origin, "its {} is a null string", what);
  const std::size_t length = strnlen(text, kStringBytesMax + 1);
  if (length > kStringBytesMax)
    return refuse(origin, "its {} is longer than {} bytes", what, kStringBytesMax);
  // A terminal would obey them, and a log would lie.
  if (std::any_of(text, text + length, [](unsigned char c) { return c < ' ' || c == 0x7f; }))
    return refuse(origin, "its {} has a control character", what);
  return std::string(text, length);
}

bool is_plugin_name(std::string_view name) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() <= kNameBytesMax && std::ranges::all_of(name, allowed);
}

/// All of tier 1's compile group or nothing of it: half a tier could only fail later. 0 or 1, or an error.
Result<int> compile_tier(const diji_device_plugin_table& table, const std::string& origin) {
  const std::pair<bool, const char*> group[] = {{table.compile != nullptr, "compile"},
                                                {table.blob_free != nullptr, "blob_free"},
                                                {table.load != nullptr, "load"},
                                                {table.unload != nullptr, "unload"},
                                                {table.launch != nullptr, "launch"}};
  const char* offered = nullptr;
  const char* missing = nullptr;
  for (const auto& [there, name] : group) (there ? offered : missing) = name;
  if (offered != nullptr && missing != nullptr) {
    return refuse(origin,
                  "it offers {} but not {}; tier 1 is compile, blob_free, load, unload and launch together",
                  offered, missing);
  }
  const bool event_new = table.event_new != nullptr;
  for (const bool there : {table.event_free != nullptr, table.event_record != nullptr,
                           table.event_wait != nullptr, table.event_sync != nullptr}) {
    if (there != event_new)
      return refuse(origin, "it offers some of the event functions but not all of them");
  }
  return offered == nullptr ? 0 : 1;
}

Result<void> check_kernel_rows(const diji_device_plugin_table& table, const std::string& origin) {
  std::uint32_t count = 0;
  const diji_kernel_row* rows = table.kernels(&count);
  if (count > kKernelRowsMax || (count != 0 && rows == nullptr)) {
    return refuse(origin, "its kernels() gives {} rows at {}", count,
                  rows == nullptr ? "null" : "an address");
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const diji_kernel_row& row = rows[i];
    if (row.struct_size != sizeof(row))
      return refuse(origin, "its kernel row {} has {} bytes", i, row.struct_size);
    if (row.op == nullptr || row.dtypes == nullptr || row.layout == nullptr || row.run == nullptr) {
      return refuse(origin, "its kernel row {} lacks op, dtypes, layout or run", i);
    }
  }
  return {};
}

}  // namespace

Result<Plugin> Plugin::check(const diji_device_plugin_table* table, std::string origin) {
  if (table == nullptr) return refuse(origin, "{}() returned null", kSymbol);
  constexpr std::size_t kHeaderBytes = offsetof(diji_device_plugin_table, name);
  if (table->struct_size < kHeaderBytes) {
    return refuse(origin, "its table has {} bytes; even the version needs {}", table->struct_size,
                  kHeaderBytes);
  }
  if (table->abi_major != DIJI_DEVICE_ABI_MAJOR) {
    return refuse(
        origin, "it was built for plugin ABI {}.{}, this diji has {}.{}; rebuild it with this diji's header",
        table->abi_major, table->abi_minor, DIJI_DEVICE_ABI_MAJOR, DIJI_DEVICE_ABI_MINOR);
  }
  constexpr std::size_t kTierZeroBytes = offsetof(diji_device_plugin_table, import_host);
  if (table->struct_size < kTierZeroBytes) {
    return refuse(origin, "its table has {} bytes; the required functions need {}", table->struct_size,
                  kTierZeroBytes);
  }
  Plugin plugin;
  diji_device_plugin_table& own = plugin.table_;
  std::memcpy(&own, table, std::min<std::size_t>(table->struct_size, sizeof(own)));
  own.struct_size = sizeof(own);
  plugin.name_ = TRY(checked_string(own.name, "name", origin));
  plugin.version_ = TRY(checked_string(own.version, "version", origin));
  plugin.build_id_ = TRY(checked_string(own.build_id, "build_id", origin));
  if (!is_plugin_name(plugin.name_)) {
    return refuse(origin, "its name '{}' is not 1 to {} characters of a-z, 0-9 and _", plugin.name_,
                  kNameBytesMax);
  }
  if (const char* missing = missing_function(own)) {
    return refuse(origin, "its table lacks the required function {}", missing);
  }
  plugin.tier_ = TRY(compile_tier(own, origin));
  if (own.kernels != nullptr) {
    TRY(check_kernel_rows(own, origin));
    plugin.tier_ = 2;
  }
  fill_in_optional(own);
  plugin.origin_ = std::move(origin);
  return plugin;
}

Result<Plugin> Plugin::load(const std::string& path) {
  if (auto checked = check_plugin_file(path); !checked) return refuse(path, "{}", checked.error().message);
  // A name without a slash would be searched for in the system's folders instead.
  const std::string file = path.contains('/') ? path : "./" + path;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return refuse(path, "it could not be loaded: {}", dlerror());
  const auto symbol = reinterpret_cast<decltype(&diji_device_plugin)>(dlsym(library, kSymbol));
  if (symbol == nullptr) return refuse(path, "it exports no {}()", kSymbol);
  Plugin plugin = TRY(check(symbol(), path));
  // Who changes compile() and forgets the build id would get the old build's kernels from the cache.
  const auto bytes = TRY(read_file(path));
  plugin.build_id_ += fmt::format(" file {:016x}", checksum_of(bytes));
  return plugin;
}

Result<int> Plugin::device_count() const {
  std::int32_t count = 0;
  const diji_status status = table_.device_count(&count);
  if (status != DIJI_OK) return refuse(name_, "device_count failed: {}", last_error(status));
  if (count < 0 || count > kDevicesMax) {
    return refuse(name_, "it says that it has {} devices; 0 to {} can be", count, kDevicesMax);
  }
  return count;
}

Result<DeviceInfo> Plugin::device_info(int ordinal) const {
  diji_device_properties raw{};
  raw.struct_size = sizeof(raw);
  const diji_status status = table_.device_properties(ordinal, &raw);
  const std::string who = fmt::format("{}:{}", name_, ordinal);
  if (status != DIJI_OK) return fail(ErrorCode::no_device, "{}: {}", who, last_error(status));
  DeviceInfo info;
  info.name = TRY(checked_string(raw.name, "device name", who));
  info.vendor = TRY(checked_string(raw.vendor, "vendor", who));
  info.driver_version = TRY(checked_string(raw.driver_version, "driver version", who));
  info.features = TRY(checked_string(raw.features, "list of features", who));
  info.fingerprint = TRY(checked_string(raw.fingerprint, "fingerprint", who));
  info.dialect = TRY(checked_string(raw.dialect, "dialect", who));
  info.memory_bytes = raw.memory_bytes;
  info.alignment = raw.alignment;
  info.vector_bytes = raw.vector_bytes;
  info.vector_registers = raw.vector_registers;
  info.host_visible = raw.host_visible != 0;
  info.lanes_max = raw.lanes_max;
  info.without_f64 = raw.without_f64 != 0;
  info.simt = raw.simt != 0;
  if (raw.memory_bytes > kMemoryBytesMax) {
    return refuse(who, "it says that it has {} bytes of memory; at most {} are believed", raw.memory_bytes,
                  kMemoryBytesMax);
  }
  if (!std::has_single_bit(raw.alignment) || raw.alignment < kAlignmentMin || raw.alignment > kAlignmentMax) {
    return refuse(who, "its alignment {} is not a power of two from {} to {}", raw.alignment, kAlignmentMin,
                  kAlignmentMax);
  }
  if (!std::has_single_bit(raw.vector_bytes) || raw.vector_bytes < 4 || raw.vector_bytes > kVectorBytesMax) {
    return refuse(who, "its vector_bytes {} is not a power of two from 4 to {}", raw.vector_bytes,
                  kVectorBytesMax);
  }
  if (raw.vector_registers == 0 || raw.vector_registers > kVectorRegistersMax) {
    return refuse(who, "its vector_registers {} is not 1 to {}", raw.vector_registers, kVectorRegistersMax);
  }
  if (!info.dialect.empty() && tier_ == 0) {
    return refuse(who, "it claims the dialect '{}' but its table offers no compile", info.dialect);
  }
  return info;
}

DeviceState Plugin::device_state(int ordinal) const {
  constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
  diji_telemetry raw{};
  raw.struct_size = sizeof(raw);
  raw.temperature_c = raw.clock_mhz = raw.utilisation = kUnknown;
  const bool told = table_.telemetry(ordinal, &raw) == DIJI_OK;
  not_offered = nullptr;
  if (!told) return {kUnknown, kUnknown, kUnknown};
  return {raw.temperature_c, raw.clock_mhz, raw.utilisation};
}

std::string Plugin::last_error(diji_status status) const {
  if (const char* function = std::exchange(not_offered, nullptr); function != nullptr) {
    if (status == DIJI_ERROR_UNSUPPORTED) {
      return fmt::format("plugin {} (tier {}) does not offer {}", name_, tier_, function);
    }
  }
  const char* sentence = table_.last_error();
  if (sentence == nullptr || *sentence == '\0') return fmt::format("status {} without a reason", status);
  return std::string(sentence, strnlen(sentence, kStringBytesMax));
}

}  // namespace diji
