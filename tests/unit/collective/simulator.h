// A whole world of ranks in one thread: the production's code between a simulated clock and a simulated
// network.
#pragma once

#include "tests/unit/collective/scenario.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace diji::collective {

/// Mistakes of a protocol, made under it: the simulator must find each.
enum class Planted : std::uint8_t {
  none,
  silent_failure,  ///< a rank that gives up tells no other host
  any_tag,         ///< what another call sent is taken
  no_crc,          ///< payloads are not checked
  untold_death,    ///< the watcher does not see who dies
  read_twice,      ///< a message is not released, once
  lost_message,    ///< one is not sent
  lost_ring,       ///< who sleeps does not hear the bell
};
inline constexpr int kPlantedCount = 8;
std::string_view name_of(Planted planted);

struct Verdict {
  std::vector<std::string> problems;  ///< what did not hold
  bool happened = false;              ///< the fault
  bool twice = false;                 ///< another one too
  int failed = 0;                     ///< ranks with an error
  bool disagreed = false;             ///< ranks of several hosts blame different ones
  std::uint64_t trace = 0;            ///< hash of all that happened
  std::int64_t simulated_us = 0;
  std::int64_t steps = 0;
};

/// Safety: a call that succeeds has the bits that its definition says. Liveness: it ends in time. Agreement:
/// all blame the rank that was at fault. Without a fault, or with one that passes, nobody says anything.
Verdict simulate(const Scenario& scenario, Planted planted = Planted::none);

}  // namespace diji::collective
