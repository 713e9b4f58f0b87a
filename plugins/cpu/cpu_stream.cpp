// Streams, copies and events of a device whose work is done when the call returns.
#include "plugins/cpu/cpu_device.h"

#include <chrono>
#include <cstring>

namespace diji::cpu {
namespace {

struct CpuEvent {
  std::uint64_t recorded_ns = 0;  ///< 0: never recorded
};

/// Runs `work` unless the stream has failed before; its failure is the stream's from then on.
template <typename Work>
diji_status on_stream(diji_stream* handle, Work&& work) {
  auto& stream = own<CpuStream>(handle);
  if (stream.failure != DIJI_OK) return fail_with(stream.failure, std::string_view(stream.reason));
  const auto failed = [&](diji_status status, std::string reason) {
    stream.failure = status;
    stream.reason = std::move(reason);
    return fail_with(status, std::string_view(stream.reason));
  };
  return work(failed);
}

std::string out_of_range(std::string_view call, const diji_place& place, std::uint64_t bytes) {
  if (place.buffer == nullptr) return fmt::format("{}: no buffer", call);
  return fmt::format("{}: {} bytes at offset {} are outside a buffer of {} bytes", call, bytes, place.offset,
                     own<CpuBuffer>(place.buffer).bytes);
}

std::byte* pointer_to(const diji_place& place) { return own<CpuBuffer>(place.buffer).pointer + place.offset; }

diji_status copy_to_device(diji_stream* stream, diji_place dst, const void* src, std::uint64_t bytes) {
  return on_stream(stream, [&](auto failed) {
    if (!in_range(dst, bytes)) return failed(DIJI_ERROR_INVALID, out_of_range("copy_to_device", dst, bytes));
    if (bytes != 0) std::memcpy(pointer_to(dst), src, bytes);
    return DIJI_OK;
  });
}

diji_status copy_to_host(diji_stream* stream, void* dst, diji_place src, std::uint64_t bytes) {
  return on_stream(stream, [&](auto failed) {
    if (!in_range(src, bytes)) return failed(DIJI_ERROR_INVALID, out_of_range("copy_to_host", src, bytes));
    if (bytes != 0) std::memcpy(dst, pointer_to(src), bytes);
    return DIJI_OK;
  });
}

diji_status copy_on_device(diji_stream* stream, diji_place dst, diji_place src, std::uint64_t bytes) {
  return on_stream(stream, [&](auto failed) {
    if (!in_range(dst, bytes))
      return failed(DIJI_ERROR_INVALID, out_of_range("copy_on_device to", dst, bytes));
    if (!in_range(src, bytes))
      return failed(DIJI_ERROR_INVALID, out_of_range("copy_on_device from", src, bytes));
    if (bytes != 0) std::memcpy(pointer_to(dst), pointer_to(src), bytes);
    return DIJI_OK;
  });
}

diji_status stream_new(diji_device* device, diji_stream** out) {
  auto stream = std::make_unique<CpuStream>();
  stream->device = &own<CpuDevice>(device);
  *out = reinterpret_cast<diji_stream*>(stream.release());
  return DIJI_OK;
}

void stream_free(diji_stream* stream) { const std::unique_ptr<CpuStream> owned(&own<CpuStream>(stream)); }

diji_status stream_sync(diji_stream* handle) {
  auto& stream = own<CpuStream>(handle);
  const diji_status status = std::exchange(stream.failure, DIJI_OK);
  return status == DIJI_OK ? status : fail_with(status, std::string_view(stream.reason));
}

std::uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

diji_status event_new(diji_device*, diji_event** out) {
  *out = reinterpret_cast<diji_event*>(std::make_unique<CpuEvent>().release());
  return DIJI_OK;
}

void event_free(diji_event* event) { const std::unique_ptr<CpuEvent> owned(&own<CpuEvent>(event)); }

diji_status event_record(diji_event* event, diji_stream*) {
  own<CpuEvent>(event).recorded_ns = now_ns();
  return DIJI_OK;
}

// What was recorded is done: nobody has to wait.
diji_status event_wait(diji_event*, diji_stream*) { return DIJI_OK; }
diji_status event_sync(diji_event*) { return DIJI_OK; }

diji_status event_elapsed_ns(diji_event* from, diji_event* to, std::uint64_t* out) {
  const std::uint64_t begin = own<CpuEvent>(from).recorded_ns;
  const std::uint64_t end = own<CpuEvent>(to).recorded_ns;
  if (begin == 0 || end == 0)
    return fail_with(DIJI_ERROR_INVALID, "event_elapsed_ns: an event was never recorded");
  if (end < begin)
    return fail_with(DIJI_ERROR_INVALID, "event_elapsed_ns: the first event was recorded later");
  *out = end - begin;
  return DIJI_OK;
}

}  // namespace

void add_stream_functions(diji_device_plugin_table& table) {
  table.copy_to_device = guarded<copy_to_device>;
  table.copy_to_host = guarded<copy_to_host>;
  table.copy_on_device = guarded<copy_on_device>;
  table.stream_new = guarded<stream_new>;
  table.stream_free = stream_free;
  table.stream_sync = stream_sync;
  table.event_new = guarded<event_new>;
  table.event_free = event_free;
  table.event_record = event_record;
  table.event_wait = event_wait;
  table.event_sync = event_sync;
  table.event_elapsed_ns = event_elapsed_ns;
}

}  // namespace diji::cpu
