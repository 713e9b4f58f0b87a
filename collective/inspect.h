// Looks at the ranks of a job from outside: through the memory that one of its processes holds.
#pragma once

#include "base/error.h"
#include "collective/flight_recorder.h"
#include "collective/host_segment.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace diji::collective {

struct RankStatus {
  int rank = -1;
  int pid = -1;
  Board::State state = Board::kAbsent;
  double silent_s = 0;            ///< since its last sign of life
  std::vector<CallRecord> calls;  ///< oldest first, the running one last
};

struct CommunicatorStatus {
  std::uint64_t id = 0;
  std::vector<RankStatus> ranks;  ///< of this host, by rank
  std::optional<Error> failure;   ///< the first one
};

/// What a mapped segment says now.
CommunicatorStatus status_of(const HostSegment& segment);
/// The segments of all communicators that process `pid` is in, oldest first. Errors: not_found (no such
/// process, or one that has none), io where this user may not look.
Result<std::vector<std::shared_ptr<HostSegment>>> segments_of_process(int pid);
/// "in #42 all_reduce of 1024 f32, sum since 3.2 s, waits for rank 2"
std::string text_of(const RankStatus& status);

}  // namespace diji::collective
