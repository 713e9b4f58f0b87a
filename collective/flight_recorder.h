// What a rank did last, kept where any survivor, the launcher and `diji ranks` can read it after its death.
#pragma once

#include "collective/operation.h"
#include "collective/record_ring.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace diji::collective {

/// The arguments of a call, as ranks compare them.
struct CallRecord {
  std::uint32_t sequence = 0;
  Operation operation = Operation::barrier;
  Reduction reduction = Reduction::sum;
  ElementType type = ElementType::f32;
  std::int32_t root = -1;
  std::int64_t count = 0;  ///< elements: of the vector, or of this rank's part where the parts differ
  std::uint64_t signature = 0;
  std::int64_t begin_us = 0;    ///< monotonic clock
  std::int64_t end_us = 0;      ///< 0 while it runs
  std::int32_t waits_for = -1;  ///< rank, while it runs
};

/// The last calls of one rank, the one that runs among them. One writer. Lies in shared memory.
class FlightRecorder {
 public:
  static constexpr std::uint32_t kCalls = 256;

  void begin(const CallRecord& call);
  void end(std::int64_t end_us);
  void waits_for(std::int32_t rank);
  /// The latest call; nothing before the first one.
  std::optional<CallRecord> latest() const;
  /// Oldest first.
  std::vector<CallRecord> all() const;

 private:
  static constexpr std::size_t kWords = 7;  ///< with the version, a cache line
  RecordRing<std::atomic, kWords, kCalls> calls_;
};

}  // namespace diji::collective
