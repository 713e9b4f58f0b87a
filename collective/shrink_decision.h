// How the ranks of a host agree who goes on after a failure.
#pragma once

#include "collective/host_segment.h"

#include <atomic>
#include <cstdint>

namespace diji::collective {

/// Whether it is decided, after a look: once everybody who is alive has come, or the time is over, one rank
/// decides for all. `Segment` is HostSegment, or its like in a test (processor.h). Orders nothing but the
/// decision: who has come, or has died, is a word that says all.
template <typename Segment>
bool decide_survivors(const Segment& segment, bool time_is_over) {
  auto& decision = segment.shrink_decision();
  const int ranks = segment.shape().ranks;
  bool all_came = true;
  for (int local = 0; local < ranks; ++local) {
    const auto& board = segment.board(local);
    const std::uint32_t state = board.state.load(std::memory_order_relaxed);
    const bool gone = state == Board::kDead || state == Board::kFinished;
    all_came &= gone || board.shrinking.load(std::memory_order_relaxed) != 0;
  }
  if ((all_came || time_is_over) && decision.once.claim()) {
    for (int local = 0; local < ranks; ++local) {
      const auto& board = segment.board(local);
      const bool stays = board.state.load(std::memory_order_relaxed) == Board::kPresent &&
                         board.shrinking.load(std::memory_order_relaxed) != 0;
      if (stays) decision.survivors[local / 64] |= std::uint64_t{1} << (local % 64);
    }
    decision.once.publish();
  }
  return decision.once.is_published();
}

}  // namespace diji::collective
