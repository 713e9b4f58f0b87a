// A plugin with one mistake, which DIJI_FAULT names: the mock or the CPU device with some functions replaced.
// tests/faults/plugin_faults.py says what each must be caught by.
#include "plugins/cpu/cpu_plugin.h"
#include "plugins/mock/mock_plugin.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

namespace {

using Table = diji_device_plugin_table;

/// The table of the device underneath, set before any fault is called.
Table base;

/// Never returns; not by its type, so that it stands where a status is wanted.
diji_status hang() {
  for (;;) ::pause();
}
/// Lets an exception out.
diji_status let_out() { return std::vector<diji_status>().at(1); }
diji_status crash() {
  static diji_status* volatile nowhere = nullptr;
  return *nowhere;
}

template <void (*Change)(diji_device_properties&)>
diji_status properties(std::int32_t ordinal, diji_device_properties* out) {
  const diji_status status = base.device_properties(ordinal, out);
  Change(*out);
  return status;
}

// ---- memory ----

std::mutex mutex;                             // guards the next
std::map<diji_buffer*, std::uint64_t> sizes;  // of buffers, for faults that need them
std::uint64_t size_of(diji_buffer* buffer) {
  const std::scoped_lock lock(mutex);
  return sizes[buffer];
}
diji_status counted_alloc(diji_device* device, std::uint64_t bytes, diji_buffer** out) {
  const diji_status status = base.alloc(device, bytes, out);
  const std::scoped_lock lock(mutex);
  if (status == DIJI_OK) sizes[*out] = bytes;
  return status;
}
diji_buffer* only = nullptr;
diji_status same_buffer(diji_device* device, std::uint64_t, diji_buffer** out) {
  const diji_status status = only == nullptr ? base.alloc(device, 1 << 22, &only) : DIJI_OK;
  *out = only;
  return status;
}
void close_and_forget(diji_device* device) {
  only = nullptr;
  base.close(device);
}
/// Somebody else has the memory before the work on the stream that frees it is done.
void free_early(diji_device* device, diji_stream* stream, diji_buffer* buffer) {
  static const std::vector<unsigned char> other(1 << 20, 0xEE);
  diji_stream* theirs = nullptr;
  if (stream != nullptr && base.stream_new(device, &theirs) == DIJI_OK) {
    base.copy_to_device(theirs, {buffer, 0}, other.data(), std::min<std::uint64_t>(size_of(buffer), 1 << 20));
    base.stream_free(theirs);
  }
  base.free(device, stream, buffer);
}

// ---- kernels: the CPU's are done when launch returns, so its output can be spoiled ----

const void* last_blob = nullptr;
std::size_t last_blob_bytes = 0;
diji_status kept_compile(diji_device* device, const diji_kernel_text* text, const void** blob,
                         std::size_t* bytes) {
  const diji_status status = base.compile(device, text, blob, bytes);
  if (status == DIJI_OK) {
    last_blob = std::memcpy(std::malloc(*bytes), *blob, *bytes);  // for good: the process is short
    last_blob_bytes = *bytes;
    return status;
  }
  *blob = std::malloc(1);
  *bytes = 1;
  return DIJI_OK;
}
void free_nothing(const void*) {}

/// `spoil(first, last)` over the 32-bit words from the last place to the end of its buffer.
template <void (*Spoil)(std::uint32_t* first, std::uint32_t* last)>
diji_status spoiled_launch(diji_stream* stream, diji_module* module, const diji_launch* launch) {
  const diji_status status = base.launch(stream, module, launch);
  if (status != DIJI_OK || launch->place_count == 0 || launch->grid == 0) return status;
  const diji_place out = launch->places[launch->place_count - 1];
  void* address = nullptr;
  if (base.map(out.buffer, &address) != DIJI_OK) return DIJI_ERROR_DEVICE;
  auto* first = reinterpret_cast<std::uint32_t*>(static_cast<unsigned char*>(address) + out.offset);
  Spoil(first, first + (size_of(out.buffer) - out.offset) / sizeof(std::uint32_t));
  return status;
}
template <void (*Change)(diji_launch&)>
diji_status changed_launch(diji_stream* stream, diji_module* module, const diji_launch* launch) {
  diji_launch other = *launch;
  Change(other);
  return base.launch(stream, module, &other);
}
diji_status launch_without_error(diji_stream* stream, diji_module* module, const diji_launch* launch) {
  const diji_status status = base.launch(stream, module, launch);
  void* address = nullptr;
  if (base.map(launch->error_word.buffer, &address) == DIJI_OK)
    std::memset(static_cast<unsigned char*>(address) + launch->error_word.offset, 0, 8);
  return status;
}

struct Fault {
  std::string_view name;
  const diji_device_plugin_table* (*on)(void);
  void (*plant)(Table& table);
};

constexpr auto kMock = diji_plugin_mock;
constexpr auto kCpu = diji_plugin_cpu;

const Fault kFaults[] = {
    {"none_on_mock", kMock, [](Table&) {}},
    {"none_on_cpu", kCpu, [](Table&) {}},
    // the table
    {"major_is_another", kMock, [](Table& t) { ++t.abi_major; }},
    {"table_is_short", kMock, [](Table& t) { t.struct_size = 40; }},
    {"alloc_is_missing", kMock, [](Table& t) { t.alloc = nullptr; }},
    {"load_is_missing", kCpu, [](Table& t) { t.load = nullptr; }},
    {"name_has_control_characters", kMock, [](Table& t) { t.name = "fau\x1b[31mlty"; }},
    // what is asked before a device is open
    {"count_hangs", kMock, [](Table& t) { t.device_count = [](std::int32_t*) { return hang(); }; }},
    {"count_lets_an_exception_out", kMock,
     [](Table& t) { t.device_count = [](std::int32_t*) { return let_out(); }; }},
    {"count_crashes", kMock, [](Table& t) { t.device_count = [](std::int32_t*) { return crash(); }; }},
    {"count_exits", kMock,
     [](Table& t) { t.device_count = [](std::int32_t*) -> diji_status { ::_exit(0); }; }},
    {"count_is_negative", kMock,
     [](Table& t) { t.device_count = [](std::int32_t* count) { return *count = -1, DIJI_OK; }; }},
    {"count_changes", kMock,
     [](Table& t) {
       t.device_count = [](std::int32_t* count) {
         static std::int32_t next = 1;
         *count = next++;
         return DIJI_OK;
       };
     }},
    {"memory_is_absurd", kMock,
     [](Table& t) {
       t.device_properties = properties<[](diji_device_properties& p) { p.memory_bytes = UINT64_MAX; }>;
     }},
    {"device_name_has_control_characters", kMock,
     [](Table& t) {
       t.device_properties = properties<[](diji_device_properties& p) { p.name = "fast\rslow"; }>;
     }},
    {"open_gives_nothing", kMock,
     [](Table& t) {
       t.open = [](std::int32_t, const diji_host_services*, diji_device**) { return DIJI_OK; };
     }},
    // memory
    {"alignment_is_a_lie", kCpu,
     [](Table& t) {
       t.device_properties = properties<[](diji_device_properties& p) { p.alignment = 1 << 20; }>;
     }},
    {"alloc_gives_one_buffer_twice", kMock,
     [](Table& t) {
       t.alloc = same_buffer;
       t.close = close_and_forget;
     }},
    {"alloc_hangs", kMock,
     [](Table& t) { t.alloc = [](diji_device*, std::uint64_t, diji_buffer**) { return hang(); }; }},
    {"alloc_lets_an_exception_out", kMock,
     [](Table& t) { t.alloc = [](diji_device*, std::uint64_t, diji_buffer**) { return let_out(); }; }},
    {"alloc_promises_too_much", kMock,
     [](Table& t) {
       t.alloc = [](diji_device* device, std::uint64_t bytes, diji_buffer** out) {
         return base.alloc(device, std::min<std::uint64_t>(bytes, 1 << 22), out);
       };
     }},
    {"out_of_memory_is_another_status", kMock,
     [](Table& t) {
       t.alloc = [](diji_device* device, std::uint64_t bytes, diji_buffer** out) {
         return base.alloc(device, bytes, out) == DIJI_OK ? DIJI_OK : DIJI_ERROR_DEVICE;
       };
     }},
    {"last_error_is_null", kMock, [](Table& t) { t.last_error = []() -> const char* { return nullptr; }; }},
    {"free_does_nothing", kCpu, [](Table& t) { t.free = [](diji_device*, diji_stream*, diji_buffer*) {}; }},
    {"free_is_early", kMock,
     [](Table& t) {
       t.alloc = counted_alloc;
       t.free = free_early;
     }},
    {"copy_to_host_ignores_the_offset", kMock,
     [](Table& t) {
       t.copy_to_host = [](diji_stream* stream, void* dst, diji_place src, std::uint64_t bytes) {
         return base.copy_to_host(stream, dst, {src.buffer, src.offset < 4 ? 0 : src.offset}, bytes);
       };
     }},
    {"copy_drops_the_odd_bytes", kMock,
     [](Table& t) {
       t.copy_to_device = [](diji_stream* stream, diji_place dst, const void* src, std::uint64_t bytes) {
         return base.copy_to_device(stream, dst, src, bytes / 4 * 4);
       };
     }},
    {"copy_starts_a_byte_late", kMock,
     [](Table& t) {
       t.copy_on_device = [](diji_stream* stream, diji_place dst, diji_place src, std::uint64_t bytes) {
         return base.copy_on_device(stream, dst, {src.buffer, src.offset + (bytes < 8192 ? 1 : 0)}, bytes);
       };
     }},
    {"copies_out_of_range_are_dropped", kMock,
     [](Table& t) {
       t.copy_to_device = [](diji_stream* stream, diji_place dst, const void* src, std::uint64_t bytes) {
         base.copy_to_device(stream, dst, src, bytes);
         return DIJI_OK;
       };
     }},
    {"import_never_releases", kCpu,
     [](Table& t) {
       t.import_host = [](diji_device* device, const void* pointer, std::uint64_t bytes, void (*)(void*),
                          void*, diji_buffer** out) {
         return base.import_host(device, pointer, bytes, nullptr, nullptr, out);
       };
     }},
    {"map_gives_a_copy", kCpu,
     [](Table& t) {
       t.map = [](diji_buffer*, void** out) {
         alignas(64) static std::array<unsigned char, 8192> other{};
         return *out = other.data(), DIJI_OK;
       };
     }},
    // streams and events
    {"sync_returns_early", kMock, [](Table& t) { t.stream_sync = [](diji_stream*) { return DIJI_OK; }; }},
    {"stream_free_drops_work", kMock, [](Table& t) { t.stream_free = [](diji_stream*) {}; }},
    {"event_wait_is_ignored", kMock,
     [](Table& t) { t.event_wait = [](diji_event*, diji_stream*) { return DIJI_OK; }; }},
    {"event_sync_returns_early", kMock, [](Table& t) { t.event_sync = [](diji_event*) { return DIJI_OK; }; }},
    {"time_is_a_constant", kCpu,
     [](Table& t) {
       t.event_elapsed_ns = [](diji_event*, diji_event*, std::uint64_t* ns) { return *ns = 5, DIJI_OK; };
     }},
    // kernels
    {"compile_gives_garbage", kCpu,
     [](Table& t) {
       t.blob_free = free_nothing;
       t.compile = [](diji_device*, const diji_kernel_text*, const void** blob, std::size_t* bytes) {
         static constexpr std::array<unsigned char, 256> kGarbage = {1, 2, 3};
         *blob = kGarbage.data();
         *bytes = kGarbage.size();
         return DIJI_OK;
       };
     }},
    {"compile_takes_any_text", kCpu,
     [](Table& t) {
       t.blob_free = free_nothing;
       t.compile = kept_compile;
     }},
    {"load_takes_any_blob", kCpu,
     [](Table& t) {
       t.blob_free = free_nothing;
       t.compile = kept_compile;
       t.load = [](diji_device* device, const void* blob, std::size_t bytes, diji_module** out) {
         const diji_status status = base.load(device, blob, bytes, out);
         return status == DIJI_OK ? status : base.load(device, last_blob, last_blob_bytes, out);
       };
     }},
    {"launch_ignores_its_failure", kCpu,
     [](Table& t) {
       t.launch = [](diji_stream* stream, diji_module* module, const diji_launch* launch) {
         base.launch(stream, module, launch);
         return DIJI_OK;
       };
     }},
    {"launch_runs_an_empty_grid", kCpu,
     [](Table& t) {
       t.launch = changed_launch<[](diji_launch& l) { l.grid = std::max<std::int64_t>(l.grid, 1); }>;
     }},
    {"launch_leaves_out_the_last_index", kCpu,
     [](Table& t) { t.launch = changed_launch<[](diji_launch& l) { l.grid -= l.grid > 0 ? 1 : 0; }>; }},
    {"launch_drops_offsets", kCpu,
     [](Table& t) {
       t.launch = changed_launch<[](diji_launch& l) {
         static thread_local std::vector<diji_place> places;
         places.assign(l.places, l.places + l.place_count);
         for (diji_place& place : places) place.offset -= place.offset % 16;
         l.places = places.data();
       }>;
     }},
    {"launch_writes_behind_its_output", kCpu,
     [](Table& t) {
       t.alloc = counted_alloc;
       t.launch = spoiled_launch<[](std::uint32_t*, std::uint32_t* last) { last[-1] ^= 1; }>;
     }},
    {"one_lane_is_wrong", kCpu,
     [](Table& t) {
       t.alloc = counted_alloc;
       t.launch = spoiled_launch<[](std::uint32_t* first, std::uint32_t* last) {
         if (last - first > 19) first[3] ^= 1u << 20;
       }>;
     }},
    {"nan_is_swallowed", kCpu,
     [](Table& t) {
       t.alloc = counted_alloc;
       t.launch = spoiled_launch<[](std::uint32_t* first, std::uint32_t* last) {
         std::replace_if(first, last, [](auto w) { return (w & 0x7fffffff) > 0x7f800000; }, 0u);
       }>;
     }},
    {"minus_zero_is_lost", kCpu,
     [](Table& t) {
       t.alloc = counted_alloc;
       t.launch = spoiled_launch<[](std::uint32_t* first, std::uint32_t* last) {
         std::replace(first, last, 0x80000000u, 0u);
       }>;
     }},
    {"errors_of_kernels_are_lost", kCpu, [](Table& t) { t.launch = launch_without_error; }},
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const diji_device_plugin_table* diji_device_plugin(void) {
  static Table table;
  const char* wanted = std::getenv("DIJI_FAULT");
  for (const Fault& fault : kFaults) {
    if (wanted == nullptr || fault.name != wanted) continue;
    base = table = *fault.on();
    table.name = "faulty";
    fault.plant(table);
    return &table;
  }
  return nullptr;  // which is a fault too
}
