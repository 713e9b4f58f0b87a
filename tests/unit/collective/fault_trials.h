// One thing goes wrong on one rank, drawn from a seed: what all ranks then say, and how soon.
#pragma once

#include "collective/communicator.h"

#include <cstdint>
#include <string>
#include <vector>

namespace diji::collective {

enum class Fault : std::uint8_t {
  vanish,    ///< stops calling for good; the others are told, as a watcher tells them
  abort,     ///< another thread of the rank ends the communicator
  mismatch,  ///< calls something else
  late,      ///< 150 ms late, which is no fault: everything must succeed
  destroy,   ///< leaves properly, too early
  stall,     ///< is alive and comes after everybody's deadline
};
inline constexpr int kFaultCount = 6;
enum class Difference : std::uint8_t { operation, count, type, root, reduction };
inline constexpr int kDifferenceCount = 5;

struct Trial {
  std::uint64_t seed = 0;
  int world = 2;
  const Algorithm* algorithm = nullptr;  ///< null: sends and receives around a ring, fused
  std::int64_t bytes = 0;                ///< of the whole vector
  int root = 0;
  Fault fault = Fault::vanish;
  Difference difference = Difference::operation;
  int victim = 0;
  int call = 0;                ///< the one in which it happens
  int step = -1;               ///< after so many messages of it were sent or read; -1: before it
  bool private_reads = false;  ///< ranks read each other's private memory
  int told_ms = 0;             ///< how long after a rank vanished the others are told
};

Trial draw_trial(std::uint64_t seed);
std::string text_of(const Trial& trial);
/// Ranks as threads. What did not hold; nothing where all did.
std::vector<std::string> run_trial(const Trial& trial);

}  // namespace diji::collective
