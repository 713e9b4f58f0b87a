// Template for makers and double for tests: a tier 0 device over malloc, whose copies are done only when
// somebody waits for them, so that a missing wait is found. For your own: copy this, replace what the
// functions do.
#include "diji/device_plugin.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int32_t kDevices = 2;
constexpr uint64_t kMemoryBytes = uint64_t{1} << 30;  // what each device pretends to have
constexpr uint32_t kAlignment = 64;

struct Buffer {
  unsigned char* memory;
  uint64_t bytes;
};

/// Work that waits in line. `done` operations have run.
struct Stream {
  struct Device* device;
  std::deque<std::function<void()>> waiting;
  uint64_t done = 0;
  uint64_t queued() const { return done + waiting.size(); }
};

struct Event {
  Stream* stream = nullptr;  // null: never recorded
  uint64_t mark = 0;         // the event has happened when this many of the stream's operations have run
};

/// One lock for a whole device: this need not be fast, and waiting for an event runs another stream's work.
struct Device {
  std::mutex mutex;
  uint64_t used_bytes = 0;
  std::vector<std::unique_ptr<Stream>> streams;  // kept until close, since an event may outlive its stream
};

// Handles are opaque to diji: cast them to your own types. Do not define struct diji_device itself, because
// another plugin in the same program might.
Device& of(diji_device* handle) { return *reinterpret_cast<Device*>(handle); }
Buffer& of(diji_buffer* handle) { return *reinterpret_cast<Buffer*>(handle); }
Stream& of(diji_stream* handle) { return *reinterpret_cast<Stream*>(handle); }
Event& of(diji_event* handle) { return *reinterpret_cast<Event*>(handle); }

thread_local char last_sentence[256];

diji_status fail(diji_status status, const std::string& sentence) {
  std::snprintf(last_sentence, sizeof(last_sentence), "%s", sentence.c_str());
  return status;
}

void run_until(Stream* stream, uint64_t mark) {
  while (stream != nullptr && stream->done < mark) {
    const std::function<void()> operation = std::move(stream->waiting.front());
    stream->waiting.pop_front();
    ++stream->done;
    operation();
  }
}

bool fits(const diji_place& place, uint64_t bytes) {
  if (place.buffer == nullptr) return false;
  const uint64_t size = of(place.buffer).bytes;
  return place.offset <= size && bytes <= size - place.offset;
}

/// Queues a copy, or refuses it when a side that lies on the device is out of range.
diji_status queue_copy(diji_stream* stream, bool in_range, std::function<void()> copy) {
  const std::scoped_lock lock(of(stream).device->mutex);
  if (!in_range) return fail(DIJI_ERROR_INVALID, "copy: no buffer, or a range outside it");
  of(stream).waiting.push_back(std::move(copy));
  return DIJI_OK;
}

diji_status device_count(int32_t* count) {
  *count = kDevices;
  return DIJI_OK;
}

diji_status device_properties(int32_t ordinal, diji_device_properties* out) {
  if (ordinal < 0 || ordinal >= kDevices) return fail(DIJI_ERROR_INVALID, "there are mock:0 and mock:1");
  diji_device_properties full{};
  full.struct_size = out->struct_size;  // the caller's: it may be older or newer than this plugin
  full.name = "mock device";
  full.vendor = "diji";
  full.driver_version = full.features = full.dialect = "";  // no string is null
  full.fingerprint = "mock";
  full.memory_bytes = kMemoryBytes;
  full.alignment = kAlignment;
  full.vector_bytes = 4;
  full.vector_registers = 16;
  std::memcpy(out, &full, out->struct_size < sizeof(full) ? out->struct_size : sizeof(full));
  return DIJI_OK;
}

diji_status open(int32_t ordinal, const diji_host_services*, diji_device** out) {
  if (ordinal < 0 || ordinal >= kDevices) return fail(DIJI_ERROR_INVALID, "there are mock:0 and mock:1");
  *out = reinterpret_cast<diji_device*>(std::make_unique<Device>().release());
  return DIJI_OK;
}

void close(diji_device* device) { const std::unique_ptr<Device> owned(&of(device)); }

diji_status alloc(diji_device* device, uint64_t bytes, diji_buffer** out) {
  const std::scoped_lock lock(of(device).mutex);
  const uint64_t left = kMemoryBytes - of(device).used_bytes;
  if (bytes > left)
    return fail(DIJI_ERROR_OUT_OF_MEMORY, "alloc: " + std::to_string(left) + " bytes are left");
  void* memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (memory == nullptr) return fail(DIJI_ERROR_OUT_OF_MEMORY, "alloc: malloc has no memory");
  std::memset(memory, 0xCD, bytes);
  of(device).used_bytes += bytes;
  auto buffer = std::make_unique<Buffer>(Buffer{static_cast<unsigned char*>(memory), bytes});
  *out = reinterpret_cast<diji_buffer*>(buffer.release());
  return DIJI_OK;
}

void free_now(Device& device, Buffer* buffer) {
  const std::unique_ptr<Buffer> owned(buffer);
  device.used_bytes -= owned->bytes;
  std::memset(owned->memory, 0xDD, owned->bytes);
  std::free(owned->memory);
}

void free_buffer(diji_device* handle, diji_stream* stream, diji_buffer* buffer) {
  Device& device = of(handle);
  const std::scoped_lock lock(device.mutex);
  // "Idle by now" is believed, so that a lie is found.
  if (stream == nullptr) return free_now(device, &of(buffer));
  of(stream).waiting.push_back([&device, gone = &of(buffer)] { free_now(device, gone); });
}

unsigned char* at(diji_place place) { return of(place.buffer).memory + place.offset; }

diji_status copy_to_device(diji_stream* stream, diji_place dst, const void* src, uint64_t bytes) {
  const auto* from = static_cast<const unsigned char*>(src);
  return queue_copy(stream, fits(dst, bytes), [=] { std::copy_n(from, bytes, at(dst)); });
}

diji_status copy_to_host(diji_stream* stream, void* dst, diji_place src, uint64_t bytes) {
  auto* to = static_cast<unsigned char*>(dst);
  return queue_copy(stream, fits(src, bytes), [=] { std::copy_n(at(src), bytes, to); });
}

diji_status copy_on_device(diji_stream* stream, diji_place dst, diji_place src, uint64_t bytes) {
  const bool in_range = fits(dst, bytes) && fits(src, bytes);
  return queue_copy(stream, in_range, [=] { std::copy_n(at(src), bytes, at(dst)); });
}

diji_status stream_new(diji_device* device, diji_stream** out) {
  const std::scoped_lock lock(of(device).mutex);
  of(device).streams.push_back(std::make_unique<Stream>());
  Stream& stream = *of(device).streams.back();
  stream.device = &of(device);
  *out = reinterpret_cast<diji_stream*>(&stream);
  return DIJI_OK;
}

diji_status stream_sync(diji_stream* stream) {
  const std::scoped_lock lock(of(stream).device->mutex);
  run_until(&of(stream), of(stream).queued());
  return DIJI_OK;
}

void stream_free(diji_stream* stream) { stream_sync(stream); }

const char* last_error() { return last_sentence; }

diji_status event_new(diji_device*, diji_event** out) {
  *out = reinterpret_cast<diji_event*>(std::make_unique<Event>().release());
  return DIJI_OK;
}

diji_status event_record(diji_event* event, diji_stream* stream) {
  const std::scoped_lock lock(of(stream).device->mutex);
  of(event) = {&of(stream), of(stream).queued()};
  return DIJI_OK;
}

diji_status event_wait(diji_event* event, diji_stream* stream) {
  const std::scoped_lock lock(of(stream).device->mutex);
  of(stream).waiting.push_back(
      [awaited = of(event).stream, mark = of(event).mark] { run_until(awaited, mark); });
  return DIJI_OK;
}

diji_status event_sync(diji_event* event) {
  if (of(event).stream == nullptr) return DIJI_OK;
  const std::scoped_lock lock(of(event).stream->device->mutex);
  run_until(of(event).stream, of(event).mark);
  return DIJI_OK;
}

void event_free(diji_event* event) { const std::unique_ptr<Event> owned(&of(event)); }

// What is not named stays null: not offered.
constexpr diji_device_plugin_table kTable = {
    .struct_size = sizeof(diji_device_plugin_table),
    .abi_major = DIJI_DEVICE_ABI_MAJOR,
    .abi_minor = DIJI_DEVICE_ABI_MINOR,
    .name = "mock",
    .version = "1",
    .build_id = "mock 1",
    .device_count = device_count,
    .device_properties = device_properties,
    .open = open,
    .close = close,
    .alloc = alloc,
    .free = free_buffer,
    .copy_to_device = copy_to_device,
    .copy_to_host = copy_to_host,
    .copy_on_device = copy_on_device,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .stream_sync = stream_sync,
    .last_error = last_error,
    .event_new = event_new,
    .event_free = event_free,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_sync = event_sync,
};

}  // namespace

// A plugin in a shared object exports this one symbol.
#if defined(DIJI_PLUGIN_SHARED)
extern "C" __attribute__((visibility("default"))) const diji_device_plugin_table* diji_device_plugin(void) {
  return &kTable;
}
#else  // linked in: a name of its own
extern "C" const diji_device_plugin_table* diji_plugin_mock(void) { return &kTable; }
#endif
