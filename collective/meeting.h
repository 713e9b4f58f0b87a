// How ranks of several hosts agree who goes on after a failure, when there is no memory that all of them see.
#pragma once

#include "collective/host_links.h"

#include "base/error.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace diji::collective {

struct MeetingOptions {
  int rank = 0;
  std::uint64_t id = 0;  ///< of the meeting: the same on all ranks, of no other one
  std::string token;
  std::int64_t begin_us = 0;
  std::int64_t deadline_us = 0;
  std::vector<int> dead;      ///< ranks that this one knows to be dead
  std::vector<int> suspects;  ///< who lead only if nobody else does: those that the failure names
};

/// The ranks that go on, this one among them, in ascending order; the same on all that get any.
///
/// The first rank that is there leads: the others tell it that they have come, and it decides once everybody
/// has come or is known to be dead (by the kernel of its host, or since its host refuses connections to it),
/// at the latest at nine tenths of the time. Whoever cannot reach a leader in its share of the time turns to
/// the next rank, so two may lead; each group that is decided on has more than half of the ranks not known to
/// be dead, or half and the lowest of them, and only one of two that overlap can be linked.
///
/// Errors: peer_lost ("Partitioned"), where too few came, or the leader decided without this rank; deadline.
Result<std::vector<int>> meet(const MeetingOptions& options, std::span<const LinkListener> listeners,
                              std::span<const Addresses> addresses);

}  // namespace diji::collective
