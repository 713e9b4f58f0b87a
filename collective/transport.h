// What a plan runs on: ordered messages between pairs of ranks, sent and looked at without ever blocking.
#pragma once

#include "base/error.h"
#include "collective/flight_recorder.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

struct pollfd;

namespace diji::collective {

/// Which call a message belongs to. Two ranks whose tags differ do not do the same thing.
struct CallTag {
  std::uint64_t signature = 0;  ///< of communicator, epoch, operation, elements, reduction, root and count
  std::uint32_t sequence = 0;   ///< how many calls the communicator had before
  bool operator==(const CallTag&) const = default;
};

struct Message {
  CallTag tag;
  std::span<const std::byte> bytes;  ///< readable until release()
  std::int64_t lent = 0;             ///< in place of `bytes`: how many there are, for Transport::read
  std::int64_t size() const { return lent > 0 ? lent : std::ssize(bytes); }
};

/// What became of something sent: the sender's bytes may be overwritten when is_free(ticket).
using Ticket = std::uint64_t;
inline constexpr Ticket kFree = 0;

/// Why a communicator ended, and the rank that noticed.
struct Abort {
  Error error;
  int reporter = -1;
};

/// One for each kind of link of a communicator; a peer is reached by exactly one. Messages of an ordered pair
/// of ranks arrive in order, once. Room for at least one message of each ordered pair is the pair's own, so
/// what is proved for channels without room (check_plan.h) holds. Confined to the thread that makes the call.
/// Only loss and corruption are errors; "not now" is not.
class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// "shm", "tcp"
  virtual std::string_view name() const = 0;
  /// Longest message. A longer stretch is cut by both sides alike.
  virtual std::int64_t fragment_bytes() const = 0;

  /// Sends `bytes` to all of `peers`, staged once; nothing when it cannot be queued for all of them now.
  virtual Result<std::optional<Ticket>> send(std::span<const int> peers, CallTag tag,
                                             std::span<const std::byte> bytes) = 0;
  /// The same to peers that keep what they get as it is, combined with nothing: where that is faster it stays
  /// where it lies until they have read it.
  virtual Result<std::optional<Ticket>> lend(std::span<const int> peers, CallTag tag,
                                             std::span<const std::byte> bytes) {
    return send(peers, tag, bytes);
  }
  virtual bool is_free(Ticket ticket) = 0;
  /// A rank that still has to read what was sent, -1 where none has.
  virtual int reader_of(Ticket ticket) const = 0;
  /// The oldest message from `peer` that was not released.
  virtual Result<std::optional<Message>> peek(int peer) = 0;
  /// Copies all of that message, which is lent, to `target`. False: not now. It counts once release() has
  /// succeeded. Errors: io, naming the peer, where its memory cannot be read after all.
  virtual Result<bool> read(int peer, [[maybe_unused]] std::byte* target) {
    return fail(ErrorCode::corrupted, "rank {} lends memory over a link that cannot read it", peer);
  }
  virtual Result<void> release(int peer) = 0;

  /// Moves bytes to and from all peers as far as that goes now: before a sleep, after which only what
  /// poll_descriptors adds may wake. Errors: a peer's that concerns all, or one who left unread what it was
  /// sent.
  virtual Result<void> pump() { return {}; }
  /// Adds what to poll for until something may move. Nothing: memory, whose doorbell rings.
  virtual void poll_descriptors(std::vector<pollfd>&) const {}
  /// Tells all peers why this rank gives up; nothing more is sent after it. The caller's memory, of which
  /// messages may have been underway, is free then.
  virtual void broadcast_abort(const Abort&) {}
  /// Tells all peers what this rank does, where it goes without waiting. Of its times only whether the call
  /// has ended arrives.
  virtual void publish_call(const CallRecord&) {}
  /// What `peer` told last.
  virtual std::optional<CallRecord> peer_call(int) const { return std::nullopt; }
  /// Adds the aborts that peers sent so far. True: nothing more will come, each has spoken or is gone.
  virtual bool hear_aborts(std::vector<Abort>&) { return true; }
};

}  // namespace diji::collective
