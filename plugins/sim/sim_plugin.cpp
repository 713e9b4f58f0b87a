// The table of the virtual accelerator: each call goes to the inner device, then takes its simulated time.
#include "plugins/sim/sim_plugin.h"

#include "plugins/sim/sim_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace diji::sim {
namespace {

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

thread_local std::array<char, 512> last_sentence;

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
    const double now = static_cast<double>(device.clock.latest_ns());
    full.temperature_c = static_cast<float>(device.clock.temperature_c());
    full.clock_mhz = static_cast<float>(device.clock.clock_mhz());
    full.utilisation =
        now == 0 ? 0 : static_cast<float>(std::min(1.0, static_cast<double>(device.clock.busy_ns()) / now));
    full.used_bytes = device.used_bytes;
  }
  std::memcpy(out, &full, std::min<std::size_t>(out->struct_size, sizeof(full)));
  return DIJI_OK;
}

diji_status exchanged(diji_device* handle, const diji_exchange* exchange, std::uint64_t* now_ns) {
  auto& device = own<SimDevice>(handle);
  const std::scoped_lock lock(device.mutex);
  if (lost(device)) return is_lost(device);
  *now_ns = exchange == nullptr
                ? device.clock.host_ns()
                : device.clock.exchange(exchange->begin_ns, exchange->bytes, exchange->messages);
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
  table.last_error = [] -> const char* { return last_sentence.data(); };
  add_stream_functions(table, of);
  table.telemetry = telemetry;
  table.exchanged = exchanged;
  return table;
}

}  // namespace

const diji_device_plugin_table& inner() { return *shared().inner; }

diji_status fail_with(diji_status status, std::string_view sentence) {
  const std::size_t length = std::min(sentence.size(), last_sentence.size() - 1);
  std::copy_n(sentence.data(), length, last_sentence.data());
  last_sentence[length] = '\0';
  return status;
}
diji_status passed_on(diji_status status) {
  if (status != DIJI_OK) {
    const char* sentence = inner().last_error();
    fail_with(status, sentence == nullptr ? "" : sentence);
  }
  return status;
}

bool lost(SimDevice& device) {
  return device.faulty && device.card.dead_after > 0 &&
         static_cast<double>(++device.calls) > device.card.dead_after;
}
diji_status is_lost(const SimDevice& device) {
  return fail_with(DIJI_ERROR_DEVICE, fmt::format("sim:{} is lost (dead_after = {:.0f} of DIJI_SIM)",
                                                  device.ordinal, device.card.dead_after));
}
bool happens(SimDevice& device, double k, std::uint64_t& calls) {
  ++calls;
  return device.faulty && k > 0 && static_cast<double>(calls) == k;
}

}  // namespace diji::sim

extern "C" const diji_device_plugin_table* diji_plugin_sim(const diji_device_plugin_table* inner) {
  static const diji_device_plugin_table table = [&] {
    diji::sim::shared().inner = inner;
    return diji::sim::make_table(*inner);
  }();
  return &table;
}
