// New communicators from old ones: parts of it, a copy of it, and what is left of it after a failure.
#pragma once

#include "collective/communicator.h"

#include <memory>

namespace diji::collective {

/// All ranks call it, like a collective. Ranks of equal `color` form a communicator, ordered by `key` and
/// then by their old ranks; a color below 0 gives none (null). Errors: those of a collective, and of
/// link_ranks.
Result<std::unique_ptr<Communicator>> split(Communicator& parent, int color, int key);

/// The same ranks again: two threads with a communicator each may call at the same time.
Result<std::unique_ptr<Communicator>> dup(Communicator& parent);

/// After an error: the ranks that are alive and call this within `timeout_us` form a new communicator, in
/// their old order. One of them decides for all who that is, so all agree. Errors: usage, where nothing has
/// failed; peer_lost (Partitioned), where fewer than half of the ranks not known to be dead have come, or the
/// others decided without this one.
Result<std::unique_ptr<Communicator>> shrink(Communicator& parent, std::int64_t timeout_us);

}  // namespace diji::collective
