// The memory that all ranks of one host share: who they are, what each is doing, and the channels between
// them.
#pragma once

#include "base/error.h"
#include "collective/channel.h"
#include "collective/doorbell.h"
#include "collective/flight_recorder.h"
#include "collective/private_memory.h"
#include "collective/shared_memory.h"
#include "collective/write_once.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace diji::collective {

/// What a rank tells the others of its host.
struct Board {
  Doorbell doorbell;
  enum State : std::uint32_t { kAbsent, kPresent, kFinished, kDead };
  alignas(64) std::atomic<std::uint32_t> state = kAbsent;
  std::atomic<std::int32_t> pid = 0;
  std::atomic<std::int32_t> rank = -1;         ///< in the communicator
  std::atomic<std::int64_t> heartbeat_us = 0;  ///< monotonic clock of the last sign of life
  std::atomic<std::uint32_t> shrinking = 0;    ///< it has called shrink
  PrivateOffer offer;
  FlightRecorder recorder;
};

/// The first failure of the communicator on this host; what comes later is a consequence.
struct alignas(64) FirstFailure {
  WriteOnce once;
  std::uint32_t code = 0;
  std::int32_t guilty = -1;    ///< the rank that is to blame, -1: nobody in particular
  std::int32_t reporter = -1;  ///< the rank that noticed
  std::uint32_t sequence = 0;
  char message[480] = {};
};

/// Who goes on after a failure: written by one, for all.
struct alignas(64) ShrinkDecision {
  WriteOnce once;
  std::uint64_t survivors[16] = {};  ///< a bit a place in the segment
  bool survives(int local) const { return (survivors[local / 64] >> (local % 64) & 1) != 0; }
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
