// What a message refers to: its line, a slot of the pair or one of several readers, registered memory.
#include "collective/shm_transport.h"

#include "base/check.h"
#include "collective/reduce.h"

#include <algorithm>
#include <cstring>

namespace diji::collective {

RegionLookup no_regions() {
  return [](int, int) -> Result<std::span<const std::byte>> {
    return fail(ErrorCode::corrupted, "a message refers to registered memory, of which there is none");
  };
}

ShmTransport::ShmTransport(std::shared_ptr<HostSegment> segment, int local, std::vector<int> locals,
                           RegionLookup regions)
    : segment_(std::move(segment)),
      local_(local),
      slots_(segment_->slots(local)),
      peers_(locals.size()),
      regions_(std::move(regions)),
      shared_slots_(segment_->shape().shared_slots) {
  for (std::size_t rank = 0; rank < locals.size(); ++rank) {
    const int other = locals[rank];
    if (other < 0) continue;
    Peer& peer = peers_[rank];
    peer.local = other;
    peer.out = Outbox(segment_->channel(local, other), segment_->shape().pair_slots);
    peer.in = Inbox(segment_->channel(other, local));
    peer.slots = segment_->slots(other);
  }
}

std::optional<std::int64_t> ShmTransport::take_slot(std::span<const int> peers) {
  if (peers.size() > 1) {
    const auto slot = shared_slots_.take(peers, [this](int rank) -> auto& { return peer(rank).out; });
    return slot ? std::optional(segment_->shared_slot(local_, *slot)) : std::nullopt;
  }
  Peer& to = peer(peers[0]);
  const auto slot = to.out.take_slot();
  return slot ? std::optional(segment_->pair_slot(local_, to.local, *slot)) : std::nullopt;
}

void ShmTransport::publish(Peer& peer, CallTag tag, Line::Kind kind, int region, std::int64_t offset,
                           std::span<const std::byte> bytes) {
  Line& line = peer.out.line();
  line.bytes = static_cast<std::uint32_t>(bytes.size());
  line.signature = tag.signature;
  line.call = tag.sequence;
  line.kind = kind;
  line.region = static_cast<std::uint16_t>(region);
  if (kind == Line::Kind::in_line) {
    if (!bytes.empty()) std::memcpy(line.payload, bytes.data(), bytes.size());
  } else {
    line.offset = offset;
  }
  peer.out.publish();
  segment_->board(peer.local).doorbell.ring();
}

Result<std::optional<Ticket>> ShmTransport::send(std::span<const int> peers, CallTag tag,
                                                 std::span<const std::byte> bytes, SourceRegion region) {
  DCHECK(std::ssize(bytes) <= fragment_bytes(), "a message is at most a fragment");
  for (const int rank : peers) {
    if (!peer(rank).out.has_room()) return std::nullopt;
  }
  Line::Kind kind = Line::Kind::in_line;
  std::int64_t offset = 0;
  Ticket ticket = kFree;
  if (bytes.size() > Line::kInlineBytes && region.region >= 0) {
    kind = Line::Kind::region;
    offset = region.offset;
    ticket = ++tickets_;
    for (const int rank : peers) pending_.push_back({ticket, rank, peer(rank).out.sent()});
  } else if (bytes.size() > Line::kInlineBytes) {
    const std::optional<std::int64_t> slot = take_slot(peers);
    if (!slot) return std::nullopt;
    kind = Line::Kind::slot;
    offset = *slot;
    copy_bytes(slots_ + offset, bytes.data(), std::ssize(bytes));
  }
  for (const int rank : peers) {
    publish(peer(rank), tag, kind, region.region, offset, bytes);
  }
  return ticket;
}

bool ShmTransport::is_free(Ticket ticket) {
  if (ticket == kFree) return true;
  std::erase_if(pending_,
                [&](const Pending& message) { return peer(message.peer).out.is_consumed(message.number); });
  return std::ranges::none_of(pending_, [&](const Pending& message) { return message.ticket == ticket; });
}

int ShmTransport::reader_of(Ticket ticket) const {
  const auto found = std::ranges::find(pending_, ticket, &Pending::ticket);
  return found == pending_.end() ? -1 : found->peer;
}

Result<std::optional<Message>> ShmTransport::peek(int rank) {
  Peer& from = peer(rank);
  const Line* there = from.in.peek();
  if (there == nullptr) return std::nullopt;
  const Line& line = *there;
  Message message{.tag = {line.signature, line.call}};
  const std::size_t bytes = line.bytes;
  switch (line.kind) {
    case Line::Kind::in_line: message.bytes = {line.payload, std::min(bytes, Line::kInlineBytes)}; break;
    case Line::Kind::slot: message.bytes = {from.slots + line.offset, bytes}; break;
    case Line::Kind::region: {
      const std::span<const std::byte> region = TRY(regions_(from.local, line.region));
      if (line.offset < 0 || line.offset > std::ssize(region) ||
          std::ssize(region) - line.offset < std::int64_t{line.bytes}) {
        return fail(ErrorCode::deadline, "rank {} refers to bytes outside of its registered memory", rank);
      }
      message.bytes = region.subspan(static_cast<std::size_t>(line.offset), bytes);
      break;
    }
  }
  return message;
}

Result<void> ShmTransport::release(int rank) {
  Peer& from = peer(rank);
  const bool is_short = from.in.oldest().kind == Line::Kind::in_line;
  from.in.release();
  // A sender of short messages waits only when all lines are full, and all of them will be read: not each is
  // worth a ring.
  constexpr std::uint64_t kShortOnes = Channel::kLines / 4;
  if (!is_short || from.in.received() % kShortOnes == 0) segment_->board(from.local).doorbell.ring();
  return {};
}

}  // namespace diji::collective
