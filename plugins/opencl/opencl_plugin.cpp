// Tier 0 over OpenCL: memory, copies, streams as in-order queues, events; and the table.
#include "plugins/opencl/opencl_plugin.h"

#include "plugins/opencl/opencl_device.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace diji::opencl {
namespace {

diji_status device_count(int32_t* count) {
  *count = static_cast<int32_t>(all_devices().size());
  fail(DIJI_OK, api() == nullptr ? why_not() : *count == 0 ? "no platform shows a device" : "");
  return DIJI_OK;
}

bool exists(int32_t ordinal) {
  return ordinal >= 0 && static_cast<std::size_t>(ordinal) < all_devices().size();
}

diji_status device_properties(int32_t ordinal, diji_device_properties* out) {
  if (!exists(ordinal)) return fail(DIJI_ERROR_INVALID, "no such OpenCL device " + why_not());
  const DeviceFacts& facts = all_devices()[static_cast<std::size_t>(ordinal)];
  diji_device_properties full{};
  full.struct_size = out->struct_size;
  full.name = facts.name.c_str();
  full.vendor = facts.vendor.c_str();
  full.driver_version = facts.driver.c_str();
  full.features = facts.features.c_str();
  full.fingerprint = facts.fingerprint.c_str();
  full.dialect = "opencl-c";
  full.memory_bytes = facts.memory_bytes;
  full.alignment = facts.alignment;
  full.vector_bytes = facts.vector_bytes;
  full.vector_registers = facts.vector_bytes >= 64 ? 32 : 16;
  full.lanes_max = 16;  // of the language
  full.without_f64 = facts.has_f64 ? 0 : 1;
  full.simt = facts.simt ? 1 : 0;
  std::memcpy(out, &full, std::min<std::size_t>(out->struct_size, sizeof(full)));
  return DIJI_OK;
}

diji_status open(int32_t ordinal, const diji_host_services*, diji_device** out) {
  if (!exists(ordinal)) return fail(DIJI_ERROR_INVALID, "no such OpenCL device " + why_not());
  auto device = std::make_unique<Device>();
  device->facts = &all_devices()[static_cast<std::size_t>(ordinal)];
  const cl_context_properties properties[] = {
      CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(device->facts->platform), 0};
  cl_int error = CL_SUCCESS;
  device->context.reset(api()->create_context(properties, 1, &device->facts->id, nullptr, nullptr, &error));
  if (error != CL_SUCCESS) return checked(error, "clCreateContext");
  *out = reinterpret_cast<diji_device*>(device.release());
  return DIJI_OK;
}

void close(diji_device* device) { const std::unique_ptr<Device> owned(&of(device)); }

diji_status new_buffer(diji_device* device, uint64_t bytes, cl_mem_flags flags, void* host,
                       diji_buffer** out) {
  if (bytes > of(device).facts->allocation_max) {
    return fail(DIJI_ERROR_OUT_OF_MEMORY, "alloc: one allocation has at most " +
                                              std::to_string(of(device).facts->allocation_max) + " bytes");
  }
  cl_int error = CL_SUCCESS;
  Memory memory(api()->create_buffer(of(device).context.get(), flags, bytes, host, &error));
  if (error != CL_SUCCESS) return checked(error, "clCreateBuffer");
  *out = reinterpret_cast<diji_buffer*>(std::make_unique<Buffer>(std::move(memory), bytes).release());
  return DIJI_OK;
}

diji_status alloc(diji_device* device, uint64_t bytes, diji_buffer** out) {
  return new_buffer(device, bytes, CL_MEM_READ_WRITE, nullptr, out);
}

// Commands that wait keep the memory alive, so it may be released at once.
void free_buffer(diji_device*, diji_stream*, diji_buffer* buffer) {
  const std::unique_ptr<Buffer> owned(&of(buffer));
}

struct Release {
  void (*function)(void* context);
  void* context;
};

diji_status import_host(diji_device* device, const void* pointer, uint64_t bytes,
                        void (*release)(void* context), void* context, diji_buffer** out) {
  // Only a CPU's driver uses the memory as it is; elsewhere a copy is what the driver would make too.
  if (!of(device).facts->is_cpu)
    return fail(DIJI_ERROR_UNSUPPORTED, "import_host: the device has memory of its own");
  const diji_status made =
      new_buffer(device, bytes, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, const_cast<void*>(pointer), out);
  if (made != DIJI_OK || release == nullptr) return made;
  auto gone = std::make_unique<Release>(Release{release, context});
  const auto call = [](cl_mem, void* data) {
    const std::unique_ptr<Release> owned(static_cast<Release*>(data));
    owned->function(owned->context);
  };
  const cl_int error = api()->on_buffer_gone(of(*out).memory.get(), call, gone.get());
  if (error == CL_SUCCESS) {
    static_cast<void>(gone.release());
    return DIJI_OK;
  }
  free_buffer(device, nullptr, *out);
  return checked(error, "clSetMemObjectDestructorCallback");
}

bool fits(const diji_place& place, uint64_t bytes) {
  return place.buffer != nullptr && place.offset <= of(place.buffer).bytes &&
         bytes <= of(place.buffer).bytes - place.offset;
}

diji_status outside() { return fail(DIJI_ERROR_INVALID, "copy: no buffer, or a range outside it"); }

diji_status copy_to_device(diji_stream* stream, diji_place dst, const void* src, uint64_t bytes) {
  if (!fits(dst, bytes)) return outside();
  if (bytes == 0) return DIJI_OK;
  return checked(api()->enqueue_write(of(stream).queue.get(), of(dst.buffer).memory.get(), CL_FALSE,
                                      dst.offset, bytes, src, 0, nullptr, nullptr),
                 "clEnqueueWriteBuffer");
}

diji_status copy_to_host(diji_stream* stream, void* dst, diji_place src, uint64_t bytes) {
  if (!fits(src, bytes)) return outside();
  if (bytes == 0) return DIJI_OK;
  return checked(api()->enqueue_read(of(stream).queue.get(), of(src.buffer).memory.get(), CL_FALSE,
                                     src.offset, bytes, dst, 0, nullptr, nullptr),
                 "clEnqueueReadBuffer");
}

diji_status copy_on_device(diji_stream* stream, diji_place dst, diji_place src, uint64_t bytes) {
  if (!fits(dst, bytes) || !fits(src, bytes)) return outside();
  if (bytes == 0) return DIJI_OK;
  return checked(
      api()->enqueue_copy(of(stream).queue.get(), of(src.buffer).memory.get(), of(dst.buffer).memory.get(),
                          src.offset, dst.offset, bytes, 0, nullptr, nullptr),
      "clEnqueueCopyBuffer");
}

diji_status stream_new(diji_device* device, diji_stream** out) {
  auto stream = std::make_unique<Stream>(Stream{.device = &of(device)});
  cl_int error = CL_SUCCESS;
  stream->queue.reset(
      api()->create_queue(of(device).context.get(), of(device).facts->id, CL_QUEUE_PROFILING_ENABLE, &error));
  if (error != CL_SUCCESS) return checked(error, "clCreateCommandQueue");
  *out = reinterpret_cast<diji_stream*>(stream.release());
  return DIJI_OK;
}

diji_status stream_sync(diji_stream* stream) {
  return checked(api()->finish(of(stream).queue.get()), "clFinish");
}

void stream_free(diji_stream* stream) {
  const std::unique_ptr<Stream> owned(&of(stream));
  api()->finish(owned->queue.get());
}

diji_status event_new(diji_device*, diji_event** out) {
  *out = reinterpret_cast<diji_event*>(std::make_unique<Event>().release());
  return DIJI_OK;
}

void event_free(diji_event* event) { const std::unique_ptr<Event> owned(&of(event)); }

diji_status event_record(diji_event* event, diji_stream* stream) {
  cl_event marker = nullptr;
  const cl_int error = api()->enqueue_marker(of(stream).queue.get(), 0, nullptr, &marker);
  of(event).event.reset(marker);
  // Another stream that waits for it does not push this one's work to the device.
  return checked(error != CL_SUCCESS ? error : api()->flush(of(stream).queue.get()),
                 "clEnqueueMarkerWithWaitList");
}

diji_status event_wait(diji_event* event, diji_stream* stream) {
  if (of(event).event == nullptr) return DIJI_OK;
  const cl_event marker = of(event).event.get();
  return checked(api()->enqueue_barrier(of(stream).queue.get(), 1, &marker, nullptr),
                 "clEnqueueBarrierWithWaitList");
}

diji_status event_sync(diji_event* event) {
  if (of(event).event == nullptr) return DIJI_OK;
  const cl_event marker = of(event).event.get();
  return checked(api()->wait_for_events(1, &marker), "clWaitForEvents");
}

diji_status event_elapsed_ns(diji_event* from, diji_event* to, uint64_t* out) {
  if (of(from).event == nullptr || of(to).event == nullptr)
    return fail(DIJI_ERROR_INVALID, "event_elapsed_ns: an event that was never recorded");
  cl_ulong begin = 0, end = 0;
  for (const auto& [event, time] : {std::pair{of(from).event.get(), &begin}, {of(to).event.get(), &end}}) {
    const cl_int error =
        api()->get_event_profile(event, CL_PROFILING_COMMAND_END, sizeof(*time), time, nullptr);
    if (error != CL_SUCCESS) return checked(error, "clGetEventProfilingInfo");
  }
  *out = end > begin ? end - begin : 0;
  return DIJI_OK;
}

constexpr diji_device_plugin_table kTable = {
    .struct_size = sizeof(diji_device_plugin_table),
    .abi_major = DIJI_DEVICE_ABI_MAJOR,
    .abi_minor = DIJI_DEVICE_ABI_MINOR,
    .name = "opencl",
    .version = DIJI_VERSION,
    .build_id = "opencl " DIJI_VERSION,
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
    .import_host = import_host,
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

}  // namespace
}  // namespace diji::opencl

extern "C" const diji_device_plugin_table* diji_plugin_opencl(void) { return &diji::opencl::kTable; }
