// The memory that all ranks of one host share: who they are, what each is doing, and the channels between
// them.
#pragma once

#include "base/error.h"
#include "collective/doorbell.h"
#include "collective/flight_recorder.h"
#include "collective/shared_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace diji::collective {

/// A message's cache line. `sequence` is written last, with release order: it is the message's number in its
/// channel plus 1, so a line from the round before is never taken for a new one.
struct alignas(64) Line {
  enum class Kind : std::uint16_t { in_line, slot, region };

  std::atomic<std::uint32_t> sequence = 0;
  std::uint32_t bytes = 0;
  std::uint64_t signature = 0;
  std::uint32_t call = 0;
  Kind kind = Kind::in_line;
  std::uint16_t region = 0;
  static constexpr std::size_t kInlineBytes = 40;
  union {
    std::byte payload[kInlineBytes];
    std::int64_t offset;  ///< of a slot: in the sender's slots; of a region: in the region
  };
};
static_assert(sizeof(Line) == 64);

/// From one rank to one other. Only the sender writes lines, only the receiver `consumed`.
struct Channel {
  static constexpr std::uint32_t kLines = 32;
  alignas(64) std::atomic<std::uint64_t> consumed = 0;
  Line lines[kLines];
};

/// What a rank tells the others of its host.
struct Board {
  Doorbell doorbell;
  enum State : std::uint32_t { kAbsent, kPresent, kFinished, kDead };
  alignas(64) std::atomic<std::uint32_t> state = kAbsent;
  std::atomic<std::int32_t> pid = 0;
  std::atomic<std::int32_t> rank = -1;         ///< in the communicator
  std::atomic<std::int64_t> heartbeat_us = 0;  ///< monotonic clock of the last sign of life
  std::atomic<std::uint32_t> shrinking = 0;    ///< it has called shrink
  FlightRecorder recorder;
};

/// The first failure of the communicator on this host; what comes later is a consequence. `state` 0: none, 1:
/// being written, 2: to be read.
struct alignas(64) FirstFailure {
  std::atomic<std::uint32_t> state = 0;
  std::uint32_t code = 0;
  std::int32_t guilty = -1;    ///< the rank that is to blame, -1: nobody in particular
  std::int32_t reporter = -1;  ///< the rank that noticed
  std::uint32_t sequence = 0;
  char message[480] = {};
};

/// Who goes on after a failure: written by one, for all. `state` as of FirstFailure.
struct alignas(64) ShrinkDecision {
  std::atomic<std::uint32_t> state = 0;
  std::atomic<std::uint64_t> survivors[16] = {};  ///< a bit a place in the segment
};

struct SegmentShape {
  int ranks = 1;                    ///< on this host
  std::int64_t fragment_bytes = 0;  ///< of a slot
  int pair_slots = 0;               ///< for each ordered pair
  int shared_slots = 0;             ///< for each sender, for messages to several
  /// Fewer and smaller slots with more ranks, so that all together stay within about 128 MiB.
  static SegmentShape for_ranks(int ranks);
  std::int64_t bytes() const;
};

/// A view of the mapping. All ranks compute the same offsets from the same shape.
class HostSegment {
 public:
  static Result<std::shared_ptr<HostSegment>> create(SegmentShape shape, std::uint64_t communicator);
  /// Errors: malformed where the header is not of this layout, no_device where another version wrote it,
  /// naming both.
  static Result<std::shared_ptr<HostSegment>> attach(std::shared_ptr<SharedMemory> memory);

  const SegmentShape& shape() const { return shape_; }
  std::uint64_t communicator() const;
  const std::shared_ptr<SharedMemory>& memory() const { return memory_; }
  Board& board(int local) const;
  Channel& channel(int from, int to) const;
  /// Slot `index` of the pair, and of those for several receivers; offsets count from the sender's first
  /// slot.
  std::int64_t pair_slot(int from, int to, int index) const;
  std::int64_t shared_slot(int from, int index) const;
  std::byte* slots(int from) const;
  FirstFailure& first_failure() const;
  ShrinkDecision& shrink_decision() const;
  /// How many ranks have it, the one that made it not among them.
  std::atomic<std::uint32_t>& attached() const;
  void ring_all() const;

 private:
  HostSegment() = default;
  std::shared_ptr<SharedMemory> memory_;
  SegmentShape shape_;
};

}  // namespace diji::collective
