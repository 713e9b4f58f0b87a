// Single writer, single reader rings of lines; slots come back when the reader has counted past them.
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
      shared_slots_(static_cast<std::size_t>(segment_->shape().shared_slots)) {
  for (std::size_t rank = 0; rank < locals.size(); ++rank) {
    const int other = locals[rank];
    if (other < 0) continue;
    Peer& peer = peers_[rank];
    peer.local = other;
    peer.out = &segment_->channel(local, other);
    peer.in = &segment_->channel(other, local);
    peer.slots = segment_->slots(other);
    peer.slot_free_at.assign(static_cast<std::size_t>(segment_->shape().pair_slots), 0);
  }
}

bool ShmTransport::is_consumed(Peer& peer, std::uint64_t number) {
  if (peer.consumed > number) return true;
  peer.consumed = peer.out->consumed.load(std::memory_order_acquire);
  return peer.consumed > number;
}

bool ShmTransport::has_room(Peer& peer) {
  return peer.sent - peer.consumed < Channel::kLines || is_consumed(peer, peer.sent - Channel::kLines);
}

bool ShmTransport::shared_slot_is_free(std::size_t slot) {
  std::vector<Pending>& readers = shared_slots_[slot];
  std::erase_if(readers, [&](const Pending& reader) {
    return is_consumed(peers_[static_cast<std::size_t>(reader.peer)], reader.number);
  });
  return readers.empty();
}

std::optional<std::int64_t> ShmTransport::take_slot(std::span<const int> peers) {
  if (peers.size() > 1) {
    if (shared_slots_.empty() || !shared_slot_is_free(next_shared_slot_)) return std::nullopt;
    const std::size_t slot = next_shared_slot_;
    next_shared_slot_ = (slot + 1) % shared_slots_.size();
    for (const int rank : peers)
      shared_slots_[slot].push_back({kFree, rank, peers_[static_cast<std::size_t>(rank)].sent});
    return segment_->shared_slot(local_, static_cast<int>(slot));
  }
  Peer& peer = peers_[static_cast<std::size_t>(peers[0])];
  for (std::size_t slot = 0; slot < peer.slot_free_at.size(); ++slot) {
    if (peer.slot_free_at[slot] != 0 && !is_consumed(peer, peer.slot_free_at[slot] - 1)) continue;
    peer.slot_free_at[slot] = peer.sent + 1;
    return segment_->pair_slot(local_, peer.local, static_cast<int>(slot));
  }
  return std::nullopt;
}

void ShmTransport::publish(Peer& peer, CallTag tag, Line::Kind kind, int region, std::int64_t offset,
                           std::span<const std::byte> bytes) {
  Line& line = peer.out->lines[peer.sent % Channel::kLines];
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
  line.sequence.store(static_cast<std::uint32_t>(++peer.sent), std::memory_order_release);
  segment_->board(peer.local).doorbell.ring();
}

Result<std::optional<Ticket>> ShmTransport::send(std::span<const int> peers, CallTag tag,
                                                 std::span<const std::byte> bytes, SourceRegion region) {
  DCHECK(std::ssize(bytes) <= fragment_bytes(), "a message is at most a fragment");
  for (const int rank : peers) {
    if (!has_room(peers_[static_cast<std::size_t>(rank)])) return std::nullopt;
  }
  Line::Kind kind = Line::Kind::in_line;
  std::int64_t offset = 0;
  Ticket ticket = kFree;
  if (bytes.size() > Line::kInlineBytes && region.region >= 0) {
    kind = Line::Kind::region;
    offset = region.offset;
    ticket = ++tickets_;
    for (const int rank : peers)
      pending_.push_back({ticket, rank, peers_[static_cast<std::size_t>(rank)].sent});
  } else if (bytes.size() > Line::kInlineBytes) {
    const std::optional<std::int64_t> slot = take_slot(peers);
    if (!slot) return std::nullopt;
    kind = Line::Kind::slot;
    offset = *slot;
    copy_bytes(slots_ + offset, bytes.data(), std::ssize(bytes));
  }
  for (const int rank : peers) {
    publish(peers_[static_cast<std::size_t>(rank)], tag, kind, region.region, offset, bytes);
  }
  return ticket;
}

bool ShmTransport::is_free(Ticket ticket) {
  if (ticket == kFree) return true;
  std::erase_if(pending_, [&](const Pending& message) {
    return is_consumed(peers_[static_cast<std::size_t>(message.peer)], message.number);
  });
  return std::ranges::none_of(pending_, [&](const Pending& message) { return message.ticket == ticket; });
}

int ShmTransport::reader_of(Ticket ticket) const {
  const auto found = std::ranges::find(pending_, ticket, &Pending::ticket);
  return found == pending_.end() ? -1 : found->peer;
}

Result<std::optional<Message>> ShmTransport::peek(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  const Line& line = peer.in->lines[peer.received % Channel::kLines];
  if (line.sequence.load(std::memory_order_acquire) != static_cast<std::uint32_t>(peer.received + 1)) {
    return std::nullopt;
  }
  Message message{.tag = {line.signature, line.call}};
  const std::size_t bytes = line.bytes;
  switch (line.kind) {
    case Line::Kind::in_line: message.bytes = {line.payload, std::min(bytes, Line::kInlineBytes)}; break;
    case Line::Kind::slot: message.bytes = {peer.slots + line.offset, bytes}; break;
    case Line::Kind::region: {
      const std::span<const std::byte> region = TRY(regions_(peer.local, line.region));
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
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  const bool is_short = peer.in->lines[peer.received % Channel::kLines].kind == Line::Kind::in_line;
  peer.in->consumed.store(++peer.received, std::memory_order_release);
  // A sender of short messages waits only when all lines are full, and all of them will be read: not each is
  // worth a ring.
  constexpr std::uint64_t kShortOnes = Channel::kLines / 4;
  if (!is_short || peer.received % kShortOnes == 0) segment_->board(peer.local).doorbell.ring();
  return {};
}

}  // namespace diji::collective
