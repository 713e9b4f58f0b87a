// What a simulated world is and does, and the one thing that goes wrong in it: all drawn from a seed.
#pragma once

#include "tests/unit/collective/fault_trials.h"
#include "tests/unit/collective/reference.h"
#include "tests/unit/collective/simulated_network.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace diji::collective {

enum class SimulatedFault : std::uint8_t {
  none,
  kill,         ///< the process dies; watchers and peers are told in their time
  stop,         ///< the process is stopped, and goes on
  late,         ///< comes late to a call
  leave,        ///< leaves properly, too early
  abort,        ///< another thread of the rank ends the communicator
  mismatch,     ///< calls something else
  cut,          ///< nothing gets through between two ranks
  cut_one_way,  ///< nothing from one to the other
  stall,        ///< what one sends the other is taken and does not come
  flip,         ///< a bit, on the wire
  reset,        ///< a connection is no more
};
inline constexpr int kSimulatedFaultCount = 12;
std::string_view name_of(SimulatedFault fault);

struct Scenario {
  std::uint64_t seed = 0;
  std::vector<int> hosts;         ///< by rank
  std::vector<CallCase> program;  ///< `send`: each rank to the next, around the ring
  std::int64_t slot_bytes = 256;
  int pair_slots = 2;
  int shared_slots = 2;
  std::int64_t frame_bytes = 512;
  NetworkShape network;
  std::int64_t hiccup_us = 0;
  Patience patience;
  std::int64_t timeout_us = 20'000'000;
  SimulatedFault fault = SimulatedFault::none;
  Difference difference = Difference::operation;
  int victim = 0;
  int other = 0;              ///< of the link's ends, where the fault is a link's
  int call = 0;               ///< of the victim, in which it happens
  int message = 0;            ///< after so many messages of it, or at its end
  std::int64_t lasts_us = 0;  ///< of what passes; 0: for good
  std::uint64_t flip_at = 0;
  int flip_bit = 0;
  /// Of another rank, some time after the first one: kill, abort, cut or reset.
  SimulatedFault second = SimulatedFault::none;
  int second_victim = 0;
  int second_other = 0;
  std::int64_t second_after_us = 0;
  int world() const { return static_cast<int>(hosts.size()); }
  bool passes() const;  ///< so that nobody may notice
};

Scenario draw_scenario(std::uint64_t seed);
std::string text_of(const Scenario& scenario);

}  // namespace diji::collective
