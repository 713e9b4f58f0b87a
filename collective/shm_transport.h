// Messages between ranks of one host: a cache line each, with short payloads inside and long ones in slots
// beside.
#pragma once

#include "collective/host_segment.h"
#include "collective/transport.h"

#include <array>
#include <functional>
#include <memory>
#include <vector>

namespace diji::collective {

/// The start of region `region` that rank `local` of this host registered, mapped here.
using RegionLookup = std::function<Result<std::span<const std::byte>>(int local, int region)>;

/// Where no memory is registered.
RegionLookup no_regions();

class ShmTransport final : public Transport {
 public:
  /// `locals[rank]` is the place of a rank of the communicator in the segment, or -1 where it is on another
  /// host.
  ShmTransport(std::shared_ptr<HostSegment> segment, int local, std::vector<int> locals,
               RegionLookup regions);

  std::string_view name() const override { return "shm"; }
  std::int64_t fragment_bytes() const override { return segment_->shape().fragment_bytes; }
  Result<std::optional<Ticket>> send(std::span<const int> peers, CallTag tag,
                                     std::span<const std::byte> bytes, SourceRegion region) override;
  bool is_free(Ticket ticket) override;
  int reader_of(Ticket ticket) const override;
  Result<std::optional<Message>> peek(int peer) override;
  Result<void> release(int peer) override;

 private:
  struct Peer {
    int local = -1;
    Outbox<Channel> out;
    Inbox<Channel> in;
    const std::byte* slots = nullptr;  ///< the peer's
  };
  struct Pending {  ///< a message that refers to memory of this rank
    Ticket ticket = kFree;
    int peer = -1;
    std::uint64_t number = 0;
  };
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  std::optional<std::int64_t> take_slot(std::span<const int> peers);
  void publish(Peer& peer, CallTag tag, Line::Kind kind, int region, std::int64_t offset,
               std::span<const std::byte> bytes);

  std::shared_ptr<HostSegment> segment_;
  int local_;
  std::byte* slots_;
  std::vector<Peer> peers_;  ///< by rank
  RegionLookup regions_;
  SharedSlots shared_slots_;
  std::vector<Pending> pending_;
  Ticket tickets_ = kFree;
};

}  // namespace diji::collective
