// What a message refers to: its line, a slot of the pair or one of several readers, registered memory.
#include "collective/shm_transport.h"

#include "base/check.h"
#include "collective/reduce.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace diji::collective {

namespace {

// Shorter messages are copied: the copy costs less than the sender's wait for whoever reads in place, above
// all where ranks outnumber the cores (8 ranks on 2 cores, messages of 4 KiB: 0.8 of the speed; 8 KiB: even,
// and twice the speed between 2 ranks).
constexpr std::int64_t kInPlaceBytes = 8 << 10;

}  // namespace

ShmTransport::ShmTransport(std::shared_ptr<HostSegment> segment, int local, std::vector<int> locals,
                           RegionAccess regions)
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
    peer.probed = regions_.private_memory.reads == PrivateReads::never;
  }
  if (regions_.private_memory.reads == PrivateReads::never ||
      getrandom(&word_, sizeof word_, 0) != sizeof word_)
    return;
  PrivateOffer& offer = segment_->board(local_).offer;
  offer.word.store(word_, std::memory_order_relaxed);
  offer.address.store(reinterpret_cast<std::uintptr_t>(&word_), std::memory_order_release);
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

void ShmTransport::publish(Peer& peer, CallTag tag, Line::Kind kind, RegionPlace place,
                           std::span<const std::byte> bytes) {
  Line& line = peer.out.line();
  line.bytes = static_cast<std::uint32_t>(bytes.size());
  line.signature = tag.signature;
  line.call = tag.sequence;
  line.kind = kind;
  if (kind == Line::Kind::in_line) {
    if (!bytes.empty()) std::memcpy(line.payload, bytes.data(), bytes.size());
  } else {
    line.place = {place.offset, place.region};
  }
  peer.out.publish();
  segment_->board(peer.local).doorbell.ring();
}

Result<std::optional<Ticket>> ShmTransport::send(std::span<const int> peers, CallTag tag,
                                                 std::span<const std::byte> bytes) {
  return post(peers, tag, bytes, false);
}

Result<std::optional<Ticket>> ShmTransport::lend(std::span<const int> peers, CallTag tag,
                                                 std::span<const std::byte> bytes) {
  return post(peers, tag, bytes, true);
}

// Many readers of one memory were not measured: they read what is staged once.
bool ShmTransport::may_lend(std::span<const int> peers, std::span<const std::byte> bytes) const {
  const bool always = regions_.private_memory.reads == PrivateReads::always;
  if (bytes.size() <= Line::kInlineBytes) return false;
  if (!always && (std::ssize(bytes) < kLentBytesMin || peers.size() > 1)) return false;
  return std::ranges::all_of(peers,
                             [&](int rank) {
                               const int other = peers_[static_cast<std::size_t>(rank)].local;
                               const Channel& channel = segment_->channel(local_, other);
                               return channel.reads.load(std::memory_order_relaxed) == Channel::kYes;
                             }) &&
         is_readable_by_others(bytes);
}

Result<std::optional<Ticket>> ShmTransport::post(std::span<const int> peers, CallTag tag,
                                                 std::span<const std::byte> bytes, bool lend) {
  DCHECK(std::ssize(bytes) <= fragment_bytes(), "a message is at most a fragment");
  for (const int rank : peers) {
    if (!peer(rank).out.has_room()) return std::nullopt;
  }
  Line::Kind kind = Line::Kind::in_line;
  std::optional<RegionPlace> place;
  Ticket ticket = kFree;
  if (std::ssize(bytes) >= kInPlaceBytes && regions_.own) place = regions_.own->find(bytes);
  if (place) {
    kind = Line::Kind::region;
  } else if (lend && may_lend(peers, bytes)) {
    kind = Line::Kind::lent;
    place = RegionPlace{0, static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(bytes.data()))};
  }
  if (place) {
    ticket = ++tickets_;
    for (const int rank : peers) pending_.push_back({ticket, rank, peer(rank).out.sent()});
  } else if (bytes.size() > Line::kInlineBytes) {
    const std::optional<std::int64_t> slot = take_slot(peers);
    if (!slot) return std::nullopt;
    kind = Line::Kind::slot;
    place = RegionPlace{0, *slot};
    copy_bytes(slots_ + *slot, bytes.data(), std::ssize(bytes));
  }
  for (const int rank : peers) publish(peer(rank), tag, kind, place.value_or(RegionPlace{}), bytes);
  return ticket;
}

bool ShmTransport::is_free(Ticket ticket) {
  const auto readers = std::ranges::equal_range(pending_, ticket, {}, &Pending::ticket);  // they ascend
  if (!std::ranges::all_of(readers, [&](const Pending& message) {
        return peer(message.peer).out.is_consumed(message.number);
      }))
    return false;
  pending_.erase(readers.begin(), readers.end());
  return true;
}

int ShmTransport::reader_of(Ticket ticket) const {
  const auto found = std::ranges::find(pending_, ticket, &Pending::ticket);
  return found == pending_.end() ? -1 : found->peer;
}

Result<std::optional<Message>> ShmTransport::peek(int rank) {
  Peer& from = peer(rank);
  const Line* there = from.in.peek();
  if (there == nullptr) return std::nullopt;
  if (!from.probed) probe(from);
  const Line& line = *there;
  Message message{.tag = {line.signature, line.call}};
  const std::size_t bytes = line.bytes;
  switch (line.kind) {
    case Line::Kind::in_line: message.bytes = {line.payload, std::min(bytes, Line::kInlineBytes)}; break;
    case Line::Kind::slot: message.bytes = {from.slots + line.place.offset, bytes}; break;
    case Line::Kind::region:
      if (!TRY(find_region(from, rank, line))) return std::nullopt;
      message.bytes = {from.reading->data() + line.place.offset, bytes};
      break;
    case Line::Kind::lent: message.lent = line.bytes; break;
  }
  return message;
}

// Whether the memory that the oldest message refers to is mapped.
Result<bool> ShmTransport::find_region(Peer& from, int rank, const Line& line) {
  if (from.reading) return true;
  if (!regions_.of_peers) {
    return fail(ErrorCode::corrupted, "rank {} refers to registered memory, of which this rank knows nothing",
                rank);
  }
  std::shared_ptr<SharedMemory> memory = TRY(regions_.of_peers(from.local, line.place.region));
  if (!memory) return false;
  const auto [offset, region] = line.place;
  if (offset < 0 || offset > memory->size() || memory->size() - offset < std::int64_t{line.bytes})
    return fail(ErrorCode::corrupted, "rank {} refers to bytes outside of its registered memory", rank);
  from.reading = std::move(memory);
  return true;
}

// Whoever has sent a message has made its offer before.
void ShmTransport::probe(Peer& from) {
  from.probed = true;
  from.private_memory = {regions_.private_memory.pids[static_cast<std::size_t>(from.local)],
                         segment_->board(from.local).offer};
  segment_->channel(from.local, local_)
      .reads.store(from.private_memory.may_read() ? Channel::kYes : Channel::kNo, std::memory_order_relaxed);
}

Result<bool> ShmTransport::read(int rank, std::byte* target) {
  Peer& from = peer(rank);
  const Line& line = from.in.oldest();
  if (line.kind != Line::Kind::lent || !from.private_memory.may_read())
    return fail(ErrorCode::corrupted, "rank {} lends memory that this rank may not read", rank);
  const auto outcome =
      from.private_memory.read(static_cast<std::uint64_t>(line.place.offset), {target, line.bytes});
  const int number = errno;
  if (outcome == PrivateMemory::Outcome::whole) return true;
  if (!segment_->first_failure().once.was_unclaimed()) {  // its memory may be gone since
    return fail(ErrorCode::aborted, "a rank gave up while memory of rank {} was read", rank);
  }
  if (outcome == PrivateMemory::Outcome::gone) return false;
  auto error = fail(ErrorCode::io,
                    "memory of rank {} cannot be read any more: {}; with DIJI_PROCESS_VM=off "
                    "it is copied",
                    rank, std::strerror(number));
  error.error().peer.rank = rank;
  return error;
}

Result<void> ShmTransport::release(int rank) {
  Peer& from = peer(rank);
  const Line::Kind kind = from.in.oldest().kind;
  if (kind == Line::Kind::region || kind == Line::Kind::lent) {
    // A rank that gives up says so, and then writes to its memory as it likes: where it has said nothing yet,
    // what was read before this look was intact.
    if (!segment_->first_failure().once.was_unclaimed()) {
      return fail(ErrorCode::aborted, "a rank gave up while memory of rank {} was read", rank);
    }
    from.reading.reset();
  }
  if (from.in.release(kind == Line::Kind::in_line)) segment_->board(from.local).doorbell.ring();
  return {};
}

}  // namespace diji::collective
