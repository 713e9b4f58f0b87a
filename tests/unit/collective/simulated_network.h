// Connections between simulated hosts: bytes that take their time, come in pieces, and whatever befalls them.
#pragma once

#include "collective/stream.h"
#include "tests/unit/collective/simulated_time.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace diji::collective {

struct NetworkShape {
  std::int64_t latency_us = 50;
  std::int64_t jitter_us = 50;
  std::size_t buffer_bytes = 16 << 10;  ///< of a direction: underway and unread
  bool short_pieces = false;            ///< sends and receives often move a part of what they could
};

/// One link for each pair of ranks, a direction for each ordered pair. Faults are the network's; what a
/// socket says of them is modelled on Linux.
class SimulatedNetwork {
 public:
  SimulatedNetwork(SimulatedTime& time, int ranks, NetworkShape shape);
  ~SimulatedNetwork();

  /// Rank `from`'s end of its link to `to`, once.
  std::unique_ptr<Stream> end(int from, int to);
  bool is_ready(int descriptor, int events) const;

  /// The process has died: the kernel closes its ends.
  void kill(int rank);
  /// What is sent from one to the other goes nowhere, until healed.
  void cut(int from, int to);
  /// The link works again; what was sent before comes when it is repeated.
  void heal(int from, int to);
  /// What is sent is taken and comes no further until `stalled` is false again: of a full or slow middle box.
  void set_stalled(int from, int to, bool stalled);
  /// The bit of the byte that is sent as the `at`th.
  void flip(int from, int to, std::uint64_t at, int bit);
  /// When that was; nothing while it was not.
  std::optional<std::int64_t> flipped_us() const { return flipped_us_; }
  /// Both ends are told that the connection is no more.
  void reset(int a, int b);

 private:
  friend class SimulatedStream;
  static constexpr std::int64_t kNever = INT64_MAX;
  struct Chunk {
    std::vector<std::byte> bytes;
    std::size_t read = 0;
    std::int64_t arrives_us = 0;
  };
  struct Direction {
    std::deque<Chunk> chunks;
    std::size_t held = 0;  ///< bytes in them
    std::uint64_t sent = 0;
    std::int64_t last_arrival_us = 0;
    bool finished = false;         ///< nothing more is sent
    std::int64_t fin_us = kNever;  ///< the reader knows
    bool reader_gone = false;
    std::int64_t reset_us = kNever;  ///< the writer knows that nobody reads
    std::int64_t lost_us = kNever;   ///< the reader knows that the connection was reset
    std::int64_t cut_us = kNever;    ///< since then nothing arrives
    bool stalled = false;
    std::optional<std::pair<std::uint64_t, int>> flip;
  };
  Direction& direction(int from, int to) { return directions_[static_cast<std::size_t>(from * ranks_ + to)]; }
  const Direction& direction(int from, int to) const {
    return directions_[static_cast<std::size_t>(from * ranks_ + to)];
  }
  std::int64_t delay_us();
  std::int64_t arrival_us(Direction& to);
  void wake_at(std::int64_t us);
  void close(int from, int to);
  void release(Direction& direction, std::int64_t longest_us);
  void tell_reset(int from, int to);
  std::size_t send(int from, int to, std::span<const iovec> parts);
  bool has_arrived(const Chunk& chunk) const;
  bool has_arrived(const Direction& from) const;
  const char* end_of(int own, int other, bool reads) const;
  std::int64_t silent_us(int own, int other) const;

  SimulatedTime& time_;
  int ranks_;
  NetworkShape shape_;
  std::vector<Direction> directions_;
  std::optional<std::int64_t> flipped_us_;
};

}  // namespace diji::collective
