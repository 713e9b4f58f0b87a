// Streams, copies, kernels and events: the inner device's, with simulated time.
#include "plugins/sim/sim_device.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace diji::sim {
namespace {

diji_status copy_to_device(diji_stream* handle, diji_place dst, const void* src, std::uint64_t bytes) {
  auto& stream = own<SimStream>(handle);
  return timed(
      *stream.device, [&] { return inner().copy_to_device(stream.inner, dst, src, bytes); },
      [&] { stream.ns = stream.device->clock.link_copy(stream.ns, bytes); });
}

diji_status copy_to_host(diji_stream* handle, void* dst, diji_place src, std::uint64_t bytes) {
  auto& stream = own<SimStream>(handle);
  SimDevice& device = *stream.device;
  return timed(
      device,
      [&] {
        const bool flipped = happens(device, device.card.flip_bit, device.copies_to_host) && bytes > 0;
        diji_status status = inner().copy_to_host(stream.inner, dst, src, bytes);
        // The inner copy may still be on its way: only after it is there does the bit stay wrong.
        if (status == DIJI_OK && flipped) status = inner().stream_sync(stream.inner);
        if (status == DIJI_OK && flipped) static_cast<unsigned char*>(dst)[bytes / 2] ^= 1;
        return status;
      },
      [&] { stream.ns = device.clock.link_copy(stream.ns, bytes); });
}

diji_status copy_on_device(diji_stream* handle, diji_place dst, diji_place src, std::uint64_t bytes) {
  auto& stream = own<SimStream>(handle);
  return timed(
      *stream.device, [&] { return inner().copy_on_device(stream.inner, dst, src, bytes); },
      [&] { stream.ns = stream.device->clock.launch(stream.ns, 0, 2 * bytes); });  // read and written
}

diji_status stream_new(diji_device* handle, diji_stream** out) {
  auto& device = own<SimDevice>(handle);
  auto stream = std::make_unique<SimStream>(SimStream{&device, nullptr});
  return timed(
      device, [&] { return inner().stream_new(device.inner, &stream->inner); },
      [&] { *out = reinterpret_cast<diji_stream*>(stream.release()); });
}

void stream_free(diji_stream* handle) {
  const std::unique_ptr<SimStream> stream(&own<SimStream>(handle));
  const std::scoped_lock lock(stream->device->mutex);
  inner().stream_free(stream->inner);
  stream->device->clock.host_waits_until(stream->ns);
}

diji_status stream_sync(diji_stream* handle) {
  auto& stream = own<SimStream>(handle);
  return timed(
      *stream.device, [&] { return inner().stream_sync(stream.inner); },
      [&] { stream.device->clock.host_waits_until(stream.ns); });
}

diji_status compile(diji_device* handle, const diji_kernel_text* text, const void** blob,
                    std::size_t* bytes) {
  // Compiling takes the host's time, not the device's, and many threads do it at once: no lock.
  return passed_on(inner().compile(own<SimDevice>(handle).inner, text, blob, bytes));
}

diji_status load(diji_device* handle, const void* blob, std::size_t bytes, diji_module** out) {
  auto& device = own<SimDevice>(handle);
  return untimed(device, [&] { return inner().load(device.inner, blob, bytes, out); });
}

diji_status launch(diji_stream* handle, diji_module* module, const diji_launch* launch) {
  auto& stream = own<SimStream>(handle);
  SimDevice& device = *stream.device;
  const std::scoped_lock lock(device.mutex);
  if (lost(device)) return is_lost(device);
  if (happens(device, device.card.fail_launch, device.launches))
    return fail_with(DIJI_ERROR_DEVICE,
                     fmt::format("launch of '{}' failed (fail_launch = {:.0f} of DIJI_SIM)",
                                 launch->entry == nullptr ? "" : launch->entry, device.card.fail_launch));
  const diji_status status = passed_on(inner().launch(stream.inner, module, launch));
  const bool valued = launch->struct_size >= offsetof(diji_launch, bytes) + sizeof(launch->bytes);
  if (status == DIJI_OK)
    stream.ns = device.clock.launch(stream.ns, valued ? launch->flops : 0, valued ? launch->bytes : 0);
  return status;
}

diji_status event_new(diji_device* handle, diji_event** out) {
  auto& device = own<SimDevice>(handle);
  auto event = std::make_unique<SimEvent>(SimEvent{&device, nullptr});
  return timed(
      device, [&] { return inner().event_new(device.inner, &event->inner); },
      [&] { *out = reinterpret_cast<diji_event*>(event.release()); });
}

void event_free(diji_event* handle) {
  const std::unique_ptr<SimEvent> event(&own<SimEvent>(handle));
  inner().event_free(event->inner);
}

diji_status event_record(diji_event* handle, diji_stream* on) {
  auto& event = own<SimEvent>(handle);
  auto& stream = own<SimStream>(on);
  return timed(
      *event.device, [&] { return inner().event_record(event.inner, stream.inner); },
      [&] {
        event.ns = std::max(stream.ns, event.device->clock.host_ns());
        event.recorded = true;
      });
}

diji_status event_wait(diji_event* handle, diji_stream* on) {
  auto& event = own<SimEvent>(handle);
  auto& stream = own<SimStream>(on);
  return timed(
      *event.device, [&] { return inner().event_wait(event.inner, stream.inner); },
      [&] { stream.ns = std::max(stream.ns, event.ns); });
}

diji_status event_sync(diji_event* handle) {
  auto& event = own<SimEvent>(handle);
  return timed(
      *event.device, [&] { return inner().event_sync(event.inner); },
      [&] { event.device->clock.host_waits_until(event.ns); });
}

diji_status event_elapsed_ns(diji_event* from_handle, diji_event* to_handle, std::uint64_t* out) {
  const auto& from = own<SimEvent>(from_handle);
  const auto& to = own<SimEvent>(to_handle);
  if (!from.recorded || !to.recorded || to.ns < from.ns)
    return fail_with(DIJI_ERROR_INVALID, "event_elapsed_ns: not two recorded events in this order");
  *out = to.ns - from.ns;
  return DIJI_OK;
}

}  // namespace

void add_stream_functions(diji_device_plugin_table& table, const diji_device_plugin_table& of) {
  table.copy_to_device = copy_to_device;
  table.copy_to_host = copy_to_host;
  table.copy_on_device = copy_on_device;
  table.stream_new = stream_new;
  table.stream_free = stream_free;
  table.stream_sync = stream_sync;
  if (of.compile != nullptr) {
    table.compile = compile;
    table.blob_free = of.blob_free;
    table.load = load;
    table.unload = of.unload;
    table.launch = launch;
  }
  if (of.event_new != nullptr) {
    table.event_new = event_new;
    table.event_free = event_free;
    table.event_record = event_record;
    table.event_wait = event_wait;
    table.event_sync = event_sync;
    table.event_elapsed_ns = event_elapsed_ns;
  }
}

}  // namespace diji::sim
