// The table of the virtual accelerator: each call goes to the inner device, then takes its simulated time.
#include "plugins/sim/sim_plugin.h"

#include "plugins/sim/sim_card.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace diji::sim {
namespace {

struct SimDevice {
  Card card;
  std::int32_t ordinal = 0;
  bool faulty = false;  ///< whether the card's faults are this one's
  diji_device* inner = nullptr;
  std::mutex mutex;  ///< guards what follows
  CardClock clock;
  std::unordered_map<diji_buffer*, std::uint64_t> bytes_of;
  std::uint64_t used_bytes = 0;
  std::uint64_t calls = 0, allocs = 0, launches = 0, copies_to_host = 0;
};
struct SimStream {
  SimDevice* device;
  diji_stream* inner;
  std::uint64_t ns = 0;  ///< when its work so far ends
};
struct SimEvent {
  SimDevice* device;
  diji_event* inner;
  std::uint64_t ns = 0;
  bool recorded = false;
};

template <typename Own, typename Handle>
Own& own(Handle* handle) {
  return *reinterpret_cast<Own*>(handle);
}

/// What all devices are made of, and the opened ones, for telemetry().
struct Shared {
  const diji_device_plugin_table* inner = nullptr;
  std::mutex mutex;
  std::unordered_map<std::int32_t, SimDevice*> opened;
};
Shared& shared() {
  static Shared one;
  return one;
}
const diji_device_plugin_table& inner() { return *shared().inner; }

thread_local std::array<char, 512> last_sentence;

diji_status fail_with(diji_status status, std::string_view sentence) {
  const std::size_t length = std::min(sentence.size(), last_sentence.size() - 1);
  std::copy_n(sentence.data(), length, last_sentence.data());
  last_sentence[length] = '\0';
  return status;
}
/// What the inner device says, in its words.
diji_status passed_on(diji_status status) {
  if (status != DIJI_OK) {
    const char* sentence = inner().last_error();
    fail_with(status, sentence == nullptr ? "" : sentence);
  }
  return status;
}

/// Whether the device was lost before this call. Under the device's lock.
bool lost(SimDevice& device) {
  return device.faulty && device.card.dead_after > 0 &&
         static_cast<double>(++device.calls) > device.card.dead_after;
}
diji_status is_lost(const SimDevice& device) {
  return fail_with(DIJI_ERROR_DEVICE, fmt::format("sim:{} is lost (dead_after = {:.0f} of DIJI_SIM)",
                                                  device.ordinal, device.card.dead_after));
}
/// Whether a fault that is to happen at the k-th call happens at this one, which is counted.
bool happens(SimDevice& device, double k, std::uint64_t& calls) {
  ++calls;
  return device.faulty && k > 0 && static_cast<double>(calls) == k;
}

/// One call to the inner device and its effect on the clock, both under the lock: the clock's order is the
/// calls' order. `call()` is the inner status, `then()` is run where it is DIJI_OK.
template <typename Call, typename Then>
diji_status timed(SimDevice& device, Call&& call, Then&& then) {
  const std::scoped_lock lock(device.mutex);
  if (lost(device)) return is_lost(device);
  const diji_status status = passed_on(call());
  if (status == DIJI_OK) then();
  return status;
}
template <typename Call>
diji_status untimed(SimDevice& device, Call&& call) {
  return timed(device, std::forward<Call>(call), [] {});
}

Result<Card> card_of(std::int32_t ordinal) {
  Card card = TRY(current_card());
  if (ordinal < 0 || ordinal >= static_cast<std::int32_t>(card.devices))
    return fail(ErrorCode::no_device, "there are {:.0f} virtual accelerators and no sim:{}", card.devices,
                ordinal);
  return card;
}

diji_status device_count(std::int32_t* count) {
  const auto card = current_card();
  if (!card) return fail_with(DIJI_ERROR_DEVICE, card.error().message);
  *count = static_cast<std::int32_t>(card->devices);
  return DIJI_OK;
}

diji_status device_properties(std::int32_t ordinal, diji_device_properties* out) {
  const auto card = card_of(ordinal);
  if (!card) return fail_with(DIJI_ERROR_INVALID, card.error().message);
  diji_device_properties full{};
  full.struct_size = sizeof(full);
  if (const diji_status status = passed_on(inner().device_properties(0, &full)); status != DIJI_OK)
    return status;
  full.struct_size = out->struct_size;
  full.name = "virtual accelerator";
  full.vendor = "diji";
  full.memory_bytes = static_cast<std::uint64_t>(card->memory_bytes);
  full.host_visible = 0;  // what it reads must come over its link
  std::memcpy(out, &full, std::min<std::size_t>(out->struct_size, sizeof(full)));
  return DIJI_OK;
}

diji_status open(std::int32_t ordinal, const diji_host_services* host, diji_device** out) {
  const auto card = card_of(ordinal);
  if (!card) return fail_with(DIJI_ERROR_INVALID, card.error().message);
  const bool faulty = card->fault_device < 0 || card->fault_device == ordinal;
  std::unique_ptr<SimDevice> device(
      new SimDevice{.card = *card, .ordinal = ordinal, .faulty = faulty, .clock = CardClock(*card)});
  if (!faulty) device->card.slow = 1;
  device->clock = CardClock(device->card);
  if (const diji_status status = passed_on(inner().open(0, host, &device->inner)); status != DIJI_OK)
    return status;
  const std::scoped_lock lock(shared().mutex);
  shared().opened[ordinal] = device.get();
  *out = reinterpret_cast<diji_device*>(device.release());
  return DIJI_OK;
}

void close(diji_device* handle) {
  const std::unique_ptr<SimDevice> device(&own<SimDevice>(handle));
  {
    const std::scoped_lock lock(shared().mutex);
    const auto entry = shared().opened.find(device->ordinal);
    if (entry != shared().opened.end() && entry->second == device.get()) shared().opened.erase(entry);
  }
  inner().close(device->inner);
}

diji_status alloc(diji_device* handle, std::uint64_t bytes, diji_buffer** out) {
  auto& device = own<SimDevice>(handle);
  const std::scoped_lock lock(device.mutex);
  if (lost(device)) return is_lost(device);
  if (happens(device, device.card.fail_alloc, device.allocs))
    return fail_with(DIJI_ERROR_OUT_OF_MEMORY, fmt::format("alloc: no memory for {} bytes (fail_alloc = "
                                                           "{:.0f} of DIJI_SIM)",
                                                           bytes, device.card.fail_alloc));
  const std::uint64_t left = static_cast<std::uint64_t>(device.card.memory_bytes) - device.used_bytes;
  if (bytes > left)
    return fail_with(DIJI_ERROR_OUT_OF_MEMORY,
                     fmt::format("alloc: {} of {:.0f} bytes are left", left, device.card.memory_bytes));
  const diji_status status = passed_on(inner().alloc(device.inner, bytes, out));
  if (status != DIJI_OK) return status;
  device.bytes_of[*out] = bytes;
  device.used_bytes += bytes;
  return DIJI_OK;
}

void free_buffer(diji_device* handle, diji_stream* stream, diji_buffer* buffer) {
  auto& device = own<SimDevice>(handle);
  const std::scoped_lock lock(device.mutex);
  const auto entry = device.bytes_of.find(buffer);
  if (entry != device.bytes_of.end()) {
    device.used_bytes -= entry->second;
    device.bytes_of.erase(entry);
  }
  inner().free(device.inner, stream == nullptr ? nullptr : own<SimStream>(stream).inner, buffer);
}

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

diji_status telemetry(std::int32_t ordinal, diji_telemetry* out) {
  const auto card = card_of(ordinal);
  if (!card) return fail_with(DIJI_ERROR_INVALID, card.error().message);
  diji_telemetry full{};
  full.struct_size = out->struct_size;
  full.temperature_c = static_cast<float>(card->temperature_idle_c);
  full.clock_mhz = static_cast<float>(card->clock_mhz);
  const std::scoped_lock lock(shared().mutex);
  if (const auto entry = shared().opened.find(ordinal); entry != shared().opened.end()) {
    SimDevice& device = *entry->second;
    const std::scoped_lock device_lock(device.mutex);
    const double now = static_cast<double>(device.clock.host_ns());
    full.temperature_c = static_cast<float>(device.clock.temperature_c());
    full.clock_mhz = static_cast<float>(device.clock.clock_mhz());
    full.utilisation =
        now == 0 ? 0 : static_cast<float>(std::min(1.0, static_cast<double>(device.clock.busy_ns()) / now));
    full.used_bytes = device.used_bytes;
  }
  std::memcpy(out, &full, std::min<std::size_t>(out->struct_size, sizeof(full)));
  return DIJI_OK;
}

/// Offers what the inner device does, less its host memory, and time.
diji_device_plugin_table make_table(const diji_device_plugin_table& of) {
  diji_device_plugin_table table{};
  table.struct_size = sizeof(table);
  table.abi_major = DIJI_DEVICE_ABI_MAJOR;
  table.abi_minor = DIJI_DEVICE_ABI_MINOR;
  table.name = "sim";
  table.version = DIJI_VERSION;
  table.build_id = of.build_id;  // its code is the inner device's
  table.device_count = device_count;
  table.device_properties = device_properties;
  table.open = open;
  table.close = close;
  table.alloc = alloc;
  table.free = free_buffer;
  table.copy_to_device = copy_to_device;
  table.copy_to_host = copy_to_host;
  table.copy_on_device = copy_on_device;
  table.stream_new = stream_new;
  table.stream_free = stream_free;
  table.stream_sync = stream_sync;
  table.last_error = [] -> const char* { return last_sentence.data(); };
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
  table.telemetry = telemetry;
  return table;
}

}  // namespace
}  // namespace diji::sim

extern "C" const diji_device_plugin_table* diji_plugin_sim(const diji_device_plugin_table* inner) {
  static const diji_device_plugin_table table = [&] {
    diji::sim::shared().inner = inner;
    return diji::sim::make_table(*inner);
  }();
  return &table;
}
