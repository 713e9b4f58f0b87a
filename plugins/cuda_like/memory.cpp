// Tier 0: memory, copies, streams, events; and a table for each maker.
#include "plugins/cuda_like/cuda_like_plugin.h"
#include "plugins/cuda_like/driver.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace diji::cuda_like {
namespace {

// Every allocation of these drivers is aligned to 256 at least.
constexpr std::uint32_t kAlignment = 256;
constexpr unsigned kOwnStream = 1;  // CU_STREAM_NON_BLOCKING: does not wait for the default stream

// Opened when first asked for; one for each maker.
template <const Maker& maker>
const Loaded& loaded() {
  static const Loaded one(maker);
  return one;
}

template <const Maker& maker>
diji_status device_count(int32_t* count) {
  *count = static_cast<int32_t>(loaded<maker>().devices.size());
  fail(DIJI_OK, loaded<maker>().absent);
  return DIJI_OK;
}

diji_status no_such_device(const Loaded& all) {
  return fail(DIJI_ERROR_INVALID, std::string("no such ") + all.maker->name + " device; " + all.absent);
}

bool exists(const Loaded& all, int32_t ordinal) {
  return ordinal >= 0 && static_cast<std::size_t>(ordinal) < all.devices.size();
}

template <const Maker& maker>
diji_status device_properties(int32_t ordinal, diji_device_properties* out) {
  const Loaded& all = loaded<maker>();
  if (!exists(all, ordinal)) return no_such_device(all);
  const DeviceFacts& facts = all.devices[static_cast<std::size_t>(ordinal)];
  diji_device_properties full{};
  full.struct_size = out->struct_size;
  full.name = facts.name.c_str();
  full.vendor = maker.vendor;
  full.driver_version = facts.driver.c_str();
  full.features = facts.features.c_str();
  full.fingerprint = facts.fingerprint.c_str();
  full.dialect = maker.dialect(facts.chip);
  full.memory_bytes = facts.memory_bytes;
  full.alignment = kAlignment;
  full.vector_bytes = 4;
  full.vector_registers = 16;
  full.lanes_max = 1;
  full.simt = 1;
  std::memcpy(out, &full, std::min<std::size_t>(out->struct_size, sizeof(full)));
  return DIJI_OK;
}

template <const Maker& maker>
diji_status open(int32_t ordinal, const diji_host_services*, diji_device** out) {
  const Loaded& all = loaded<maker>();
  if (!exists(all, ordinal)) return no_such_device(all);
  auto device = std::make_unique<Device>();
  device->loaded = &all;
  device->facts = &all.devices[static_cast<std::size_t>(ordinal)];
  const int error = all.driver.context_retain(&device->context, device->facts->id);
  if (error != 0) return checked(all.driver, error, "retaining the device's context");
  *out = reinterpret_cast<diji_device*>(device.release());
  return DIJI_OK;
}

void close(diji_device* device) {
  const std::unique_ptr<Device> owned(&of(device));
  owned->driver().context_release(owned->facts->id);
}

diji_status alloc(diji_device* device, uint64_t bytes, diji_buffer** out) {
  if (const diji_status entered = enter(of(device)); entered != DIJI_OK) return entered;
  auto buffer = std::make_unique<Buffer>(Buffer{.bytes = bytes});
  const int error = of(device).driver().alloc(&buffer->memory, bytes);
  if (error != 0) return checked(of(device).driver(), error, "alloc");
  *out = reinterpret_cast<diji_buffer*>(buffer.release());
  return DIJI_OK;
}

// Memory pools above call this rarely, so waiting for the stream is cheap enough.
void free_buffer(diji_device* device, diji_stream* stream, diji_buffer* buffer) {
  const std::unique_ptr<Buffer> owned(&of(buffer));
  if (enter(of(device)) != DIJI_OK) return;
  if (stream != nullptr) of(device).driver().stream_sync(of(stream).handle);
  of(device).driver().free(owned->memory);
}

bool fits(const diji_place& place, uint64_t bytes) {
  return place.buffer != nullptr && place.offset <= of(place.buffer).bytes &&
         bytes <= of(place.buffer).bytes - place.offset;
}

Address address(const diji_place& place) { return of(place.buffer).memory + place.offset; }

// What every copy asks first; `copy` returns the driver's error.
template <typename Copy>
diji_status copied(diji_stream* stream, bool ranges_fit, uint64_t bytes, const char* what, Copy copy) {
  if (!ranges_fit) return fail(DIJI_ERROR_INVALID, "copy: no buffer, or a range outside it");
  if (bytes == 0) return DIJI_OK;
  const Device& device = *of(stream).device;
  if (const diji_status entered = enter(device); entered != DIJI_OK) return entered;
  return checked(device.driver(), copy(device.driver(), of(stream).handle), what);
}

diji_status copy_to_device(diji_stream* stream, diji_place dst, const void* src, uint64_t bytes) {
  return copied(stream, fits(dst, bytes), bytes, "copy to device", [&](const Driver& driver, Handle handle) {
    return driver.to_device(address(dst), src, bytes, handle);
  });
}

diji_status copy_to_host(diji_stream* stream, void* dst, diji_place src, uint64_t bytes) {
  return copied(stream, fits(src, bytes), bytes, "copy to host", [&](const Driver& driver, Handle handle) {
    return driver.to_host(dst, address(src), bytes, handle);
  });
}

diji_status copy_on_device(diji_stream* stream, diji_place dst, diji_place src, uint64_t bytes) {
  const bool fit = fits(dst, bytes) && fits(src, bytes);
  return copied(stream, fit, bytes, "copy on device", [&](const Driver& driver, Handle handle) {
    return driver.on_device(address(dst), address(src), bytes, handle);
  });
}

diji_status stream_new(diji_device* device, diji_stream** out) {
  if (const diji_status entered = enter(of(device)); entered != DIJI_OK) return entered;
  auto stream = std::make_unique<Stream>(Stream{.device = &of(device)});
  const int error = of(device).driver().stream_new(&stream->handle, kOwnStream);
  if (error != 0) return checked(of(device).driver(), error, "a new stream");
  *out = reinterpret_cast<diji_stream*>(stream.release());
  return DIJI_OK;
}

diji_status stream_sync(diji_stream* stream) {
  const Device& device = *of(stream).device;
  if (const diji_status entered = enter(device); entered != DIJI_OK) return entered;
  return checked(device.driver(), device.driver().stream_sync(of(stream).handle), "the stream's work");
}

void stream_free(diji_stream* stream) {
  const std::unique_ptr<Stream> owned(&of(stream));
  const Driver& driver = owned->device->driver();
  if (enter(*owned->device) != DIJI_OK) return;
  driver.stream_sync(owned->handle);
  if (owned->scratch != 0) driver.free(owned->scratch);
  driver.stream_free(owned->handle);
}

diji_status event_new(diji_device* device, diji_event** out) {
  if (const diji_status entered = enter(of(device)); entered != DIJI_OK) return entered;
  auto event = std::make_unique<Event>(Event{.device = &of(device)});
  const int error = of(device).driver().event_new(&event->handle, 0);
  if (error != 0) return checked(of(device).driver(), error, "a new event");
  *out = reinterpret_cast<diji_event*>(event.release());
  return DIJI_OK;
}

void event_free(diji_event* event) {
  const std::unique_ptr<Event> owned(&of(event));
  if (enter(*owned->device) == DIJI_OK) owned->device->driver().event_free(owned->handle);
}

// `call` returns the driver's error; an event that was never recorded is nothing to wait for.
template <typename Call>
diji_status on_event(Event& event, const char* what, Call call) {
  if (!event.recorded) return DIJI_OK;
  if (const diji_status entered = enter(*event.device); entered != DIJI_OK) return entered;
  return checked(event.device->driver(), call(event.device->driver()), what);
}

diji_status event_record(diji_event* event, diji_stream* stream) {
  of(event).recorded = true;
  return on_event(of(event), "event_record", [&](const Driver& driver) {
    return driver.event_record(of(event).handle, of(stream).handle);
  });
}

diji_status event_wait(diji_event* event, diji_stream* stream) {
  return on_event(of(event), "event_wait", [&](const Driver& driver) {
    return driver.event_wait(of(stream).handle, of(event).handle, 0);
  });
}

diji_status event_sync(diji_event* event) {
  return on_event(of(event), "event_sync",
                  [&](const Driver& driver) { return driver.event_sync(of(event).handle); });
}

diji_status event_elapsed_ns(diji_event* from, diji_event* to, uint64_t* out) {
  if (!of(from).recorded || !of(to).recorded)
    return fail(DIJI_ERROR_INVALID, "event_elapsed_ns: an event that was never recorded");
  float elapsed_ms = 0;
  const diji_status done = on_event(of(from), "event_elapsed_ns", [&](const Driver& driver) {
    return driver.event_elapsed_ms(&elapsed_ms, of(from).handle, of(to).handle);
  });
  *out = static_cast<uint64_t>(static_cast<double>(std::max(elapsed_ms, 0.0F)) * 1e6);
  return done;
}

template <const Maker& maker>
const diji_device_plugin_table* table() {
  static const diji_device_plugin_table one = {
      .struct_size = sizeof(diji_device_plugin_table),
      .abi_major = DIJI_DEVICE_ABI_MAJOR,
      .abi_minor = DIJI_DEVICE_ABI_MINOR,
      .name = maker.name,
      .version = DIJI_VERSION,
      .build_id = "cuda_like " DIJI_VERSION,
      .device_count = device_count<maker>,
      .device_properties = device_properties<maker>,
      .open = open<maker>,
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
      .compile = compile,
      .blob_free = blob_free,
      .load = load,
      .unload = unload,
      .launch = launch,
      .event_new = event_new,
      .event_free = event_free,
      .event_record = event_record,
      .event_wait = event_wait,
      .event_sync = event_sync,
      .event_elapsed_ns = event_elapsed_ns,
  };
  return &one;
}

}  // namespace
}  // namespace diji::cuda_like

extern "C" const diji_device_plugin_table* diji_plugin_cuda(void) {
  return diji::cuda_like::table<diji::cuda_like::kCuda>();
}
extern "C" const diji_device_plugin_table* diji_plugin_hip(void) {
  return diji::cuda_like::table<diji::cuda_like::kHip>();
}
extern "C" const diji_device_plugin_table* diji_plugin_musa(void) {
  return diji::cuda_like::table<diji::cuda_like::kMusa>();
}
extern "C" const diji_device_plugin_table* diji_plugin_maca(void) {
  return diji::cuda_like::table<diji::cuda_like::kMaca>();
}
