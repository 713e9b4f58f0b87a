// Agreement first (a collective, or a decision after a failure), then a segment and links of the new group's
// own.
#include "collective/regroup.h"

#include "collective/meeting.h"
#include "collective/shrink_decision.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace diji::collective {
namespace {

std::uint64_t derived_id(std::uint64_t id, std::uint64_t number, std::uint64_t color) {
  std::uint64_t hash = id;
  for (const std::uint64_t word : {number, color}) {
    hash = (hash ^ (word + 0x9e3779b97f4a7c15)) * 0xbf58476d1ce4e5b9;
    hash ^= hash >> 29;
  }
  return hash;
}

// `ranks` are those of the old group that form the new one, in its order; this process is one of them.
Result<Group> group_of(const Group& old, const std::vector<int>& ranks, std::uint64_t id, std::uint32_t epoch,
                       std::int64_t timeout_us) {
  Group group{.id = id,
              .epoch = epoch,
              .watcher = old.watcher,
              .server = old.server,
              .memory = old.memory,
              .private_reads = old.private_reads,
              .wires = old.wires};
  const std::int64_t deadline_us = now_us() + timeout_us;
  int leader = -1;
  int here = 0;
  for (const int rank : ranks) {
    Member member = old.members[static_cast<std::size_t>(rank)];
    if (rank == old.rank) group.rank = static_cast<int>(group.members.size());
    if (member.local >= 0) {
      if (leader < 0) leader = rank;
      member.local = here++;
    }
    group.members.push_back(std::move(member));
  }
  const std::string& server = old.members[static_cast<std::size_t>(leader)].server;
  TRY(share_segment(group, leader == old.rank, server, deadline_us));
  TRY(link_ranks(group, deadline_us));
  return group;
}

// Ranks of this host, by its kernel's word.
std::vector<int> dead_ranks(const Group& group) {
  std::vector<int> dead;
  for (int rank = 0; rank < group.world(); ++rank) {
    const int local = group.members[static_cast<std::size_t>(rank)].local;
    if (local < 0) continue;
    const std::uint32_t state = group.segment->board(local).state.load();
    if (state == Board::kDead || state == Board::kFinished) dead.push_back(rank);
  }
  return dead;
}

// Through the segment, where all are on this host.
Result<std::vector<int>> survivors_here(const Group& old, std::int64_t deadline_us) {
  const HostSegment& segment = *old.segment;
  segment.board(old.members[static_cast<std::size_t>(old.rank)].local)
      .shrinking.store(1, std::memory_order_relaxed);
  while (!decide_survivors(segment, now_us() >= deadline_us))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::vector<int> survivors;
  for (int rank = 0; rank < old.world(); ++rank) {
    const int local = old.members[static_cast<std::size_t>(rank)].local;
    if (segment.shrink_decision().survives(local)) survivors.push_back(rank);
  }
  const std::int64_t dead = std::ssize(dead_ranks(old));
  const bool in_it = std::ranges::find(survivors, old.rank) != survivors.end();
  if (!in_it || std::ssize(survivors) * 2 < old.world() - dead) {
    return fail(ErrorCode::peer_lost, "Partitioned: shrink goes on with ranks {}{}",
                fmt::join(survivors, ", "),
                in_it ? ", fewer than half of those not known to be dead"
                      : ", without this one, which came too late");
  }
  return survivors;
}

Result<std::vector<int>> survivors_everywhere(const Group& old, std::uint64_t id, std::int64_t begin_us,
                                              std::int64_t deadline_us) {
  if (!old.wires) return fail(ErrorCode::unsupported, "shrink: these ranks have no addresses");
  std::vector<Addresses> addresses;
  for (const Member& member : old.members) addresses.push_back(member.addresses);
  const int guilty = old.segment->first_failure().guilty;
  return meet({.rank = old.rank,
               .id = id,
               .token = old.wires->token,
               .begin_us = begin_us,
               .deadline_us = deadline_us,
               .dead = dead_ranks(old),
               .suspects = {guilty}},
              old.wires->listeners, addresses);
}

}  // namespace

Result<std::unique_ptr<Communicator>> split(Communicator& parent, int color, int key) {
  const std::uint64_t id =
      derived_id(parent.group().id, parent.calls(), static_cast<std::uint64_t>(std::max(color, 0)));
  const std::int64_t mine[2] = {color, key};
  std::vector<std::int64_t> all(static_cast<std::size_t>(parent.world()) * 2);
  TRY(parent.run({.operation = Operation::all_gather,
                  .input = mine,
                  .output = all.data(),
                  .count = 2,
                  .type = ElementType::i64}));
  if (color < 0) return nullptr;
  std::vector<std::pair<std::int64_t, int>> order;
  for (int rank = 0; rank < parent.world(); ++rank) {
    const auto at = static_cast<std::size_t>(rank) * 2;
    if (all[at] == color) order.emplace_back(all[at + 1], rank);
  }
  std::ranges::sort(order);
  std::vector<int> ranks;
  for (const auto& [its_key, rank] : order) ranks.push_back(rank);
  const CommunicatorOptions& options = parent.options();
  return Communicator::create(TRY(group_of(parent.group(), ranks, id, 0, options.timeout_us)), options);
}

Result<std::unique_ptr<Communicator>> dup(Communicator& parent) { return split(parent, 0, parent.rank()); }

Result<std::unique_ptr<Communicator>> shrink(Communicator& parent, std::int64_t timeout_us) {
  constexpr std::uint64_t kShrink = 0xdead;
  const Group& old = parent.group();
  if (!old.segment->first_failure().once.is_claimed())
    return fail(ErrorCode::usage, "shrink: no rank of the communicator has failed");
  const std::int64_t begin_us = now_us();
  const std::int64_t deadline_us = begin_us + timeout_us;
  std::uint64_t id = derived_id(old.id, kShrink, old.epoch + 1);
  const bool here = std::ranges::none_of(old.members, [](const Member& member) { return member.local < 0; });
  const std::vector<int> survivors =
      TRY(here ? survivors_here(old, deadline_us) : survivors_everywhere(old, id, begin_us, deadline_us));
  // Two leaders may decide differently: only those who heard the same find each other.
  for (const int rank : survivors) id = derived_id(id, kShrink, static_cast<std::uint64_t>(rank));
  return Communicator::create(TRY(group_of(old, survivors, id, old.epoch + 1, timeout_us)), parent.options());
}

}  // namespace diji::collective
