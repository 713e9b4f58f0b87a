// What the files of the virtual accelerator share: its device, streams and events, and how a call fails.
#pragma once

#include "diji/device_plugin.h"
#include "plugins/sim/sim_card.h"

#include <mutex>
#include <string_view>
#include <unordered_map>

namespace diji::sim {

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

/// The table of the device underneath.
const diji_device_plugin_table& inner();

/// Remembers the sentence for last_error() of this thread; returns the status.
diji_status fail_with(diji_status status, std::string_view sentence);
/// What the inner device says, in its words.
diji_status passed_on(diji_status status);

/// Whether the device was lost before this call, which is counted. Under the device's lock.
bool lost(SimDevice& device);
diji_status is_lost(const SimDevice& device);
/// Whether a fault that is to happen at the k-th call happens at this one, which is counted.
bool happens(SimDevice& device, double k, std::uint64_t& calls);

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

/// Fills in the table's functions of sim_stream.cpp, as far as the inner device offers them.
void add_stream_functions(diji_device_plugin_table& table, const diji_device_plugin_table& of);

}  // namespace diji::sim
