// Messages between ranks of one host: a cache line each, with short payloads inside and long ones in slots
// beside.
#pragma once

#include "collective/host_segment.h"
#include "collective/registered.h"
#include "collective/transport.h"

#include <memory>
#include <vector>

namespace diji::collective {

class ShmTransport final : public Transport {
 public:
  /// `locals[rank]` is the place of a rank of the communicator in the segment, or -1 where it is on another
  /// host.
  ShmTransport(std::shared_ptr<HostSegment> segment, int local, std::vector<int> locals,
               RegionAccess regions);

  std::string_view name() const override { return "shm"; }
  std::int64_t fragment_bytes() const override { return segment_->shape().fragment_bytes; }
  Result<std::optional<Ticket>> send(std::span<const int> peers, CallTag tag,
                                     std::span<const std::byte> bytes) override;
  Result<std::optional<Ticket>> lend(std::span<const int> peers, CallTag tag,
                                     std::span<const std::byte> bytes) override;
  bool is_free(Ticket ticket) override;
  int reader_of(Ticket ticket) const override;
  Result<std::optional<Message>> peek(int peer) override;
  Result<bool> read(int peer, std::byte* target) override;
  Result<void> release(int peer) override;

 private:
  struct Peer {
    int local = -1;
    Outbox<Channel> out;
    Inbox<Channel> in;
    const std::byte* slots = nullptr;       ///< the peer's
    std::shared_ptr<SharedMemory> reading;  ///< the oldest message's registered memory, mapped until release
    PrivateMemory private_memory;
    bool probed = false;  ///< `private_memory` is known
  };
  struct Pending {  ///< a message that refers to memory of this rank
    Ticket ticket = kFree;
    int peer = -1;
    std::uint64_t number = 0;
  };
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  std::optional<std::int64_t> take_slot(std::span<const int> peers);
  Result<std::optional<Ticket>> post(std::span<const int> peers, CallTag tag,
                                     std::span<const std::byte> bytes, bool lend);
  bool may_lend(std::span<const int> peers, std::span<const std::byte> bytes) const;
  void probe(Peer& peer);
  void publish(Peer& peer, CallTag tag, Line::Kind kind, RegionPlace place, std::span<const std::byte> bytes);
  Result<bool> find_region(Peer& peer, int rank, const Line& line);

  std::shared_ptr<HostSegment> segment_;
  int local_;
  std::byte* slots_;
  std::vector<Peer> peers_;  ///< by rank
  RegionAccess regions_;
  std::uint64_t word_ = 0;  ///< that of this rank's PrivateOffer
  SharedSlots shared_slots_;
  std::vector<Pending> pending_;
  Ticket tickets_ = kFree;
};

}  // namespace diji::collective
