// What a rank did last, kept where any survivor, the launcher and `diji ranks` can read it after its death.
#pragma once

#include "collective/operation.h"

#include <array>
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

/// The last calls of one rank, the one that runs among them. One writer; readers of other processes take what
/// is consistent (a sequence lock for each entry). Lies in shared memory: fixed size, no pointers.
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
  static constexpr std::size_t kWords = 8;
  struct alignas(64) Entry {
    std::atomic<std::uint32_t> version = 0;  ///< odd while it is written
    std::atomic<std::int32_t> waits_for = -1;
    std::array<std::atomic<std::uint64_t>, kWords - 1> words{};
  };
  std::optional<CallRecord> read(const Entry& entry) const;
  Entry& entry(std::uint32_t number) { return entries_[number % kCalls]; }

  std::atomic<std::uint32_t> calls_ = 0;
  std::array<Entry, kCalls> entries_{};
};

}  // namespace diji::collective
