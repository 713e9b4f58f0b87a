// One direction between two ranks of a host: a ring of lines that one writes and the other reads, and when
// the memory of a message is the sender's again.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace diji::collective {

/// A message's cache line. `sequence` is written last, with release order: it is the message's number in its
/// channel plus 1, so a line from the round before is never taken for a new one.
struct alignas(64) Line {
  enum class Kind : std::uint16_t { in_line, slot, region, lent };

  std::atomic<std::uint32_t> sequence = 0;
  std::uint32_t bytes = 0;
  std::uint64_t signature = 0;
  std::uint32_t call = 0;
  Kind kind = Kind::in_line;
  static constexpr std::size_t kInlineBytes = 40;
  struct Place {
    std::int64_t offset;   ///< of a slot: in the sender's slots; of a region: in the region; lent: an address
    std::uint64_t region;  ///< of registered memory
  };
  union {
    std::byte payload[kInlineBytes];
    Place place;
  };
};
static_assert(sizeof(Line) == 64);

/// From one rank to one other. Only the sender writes lines, only the receiver `consumed`.
struct Channel {
  static constexpr std::uint32_t kLines = 32;
  /// After so many short messages a receiver rings: not each is worth it. At most kLines (Inbox::release).
  static constexpr std::uint32_t kShortOnes = kLines / 4;
  alignas(64) std::atomic<std::uint64_t> consumed = 0;
  /// Whether the receiver may read the sender's private memory (private_memory.h): it says so before it looks
  /// at the first message. It orders nothing.
  enum Reads : std::uint32_t { kUnknown, kYes, kNo };
  std::atomic<std::uint32_t> reads = kUnknown;
  Line lines[kLines];
};

/// The sender's end. A template, as all that orders memory here, for the sake of its test (processor.h).
template <typename Channel>
class Outbox {
 public:
  Outbox() = default;
  Outbox(Channel& channel, int slots)
      : channel_(&channel), slot_free_at_(static_cast<std::size_t>(slots), 0) {}

  std::uint64_t sent() const { return sent_; }
  /// Whether the receiver is done with message `number`: its line and what it refers to may be overwritten.
  bool is_consumed(std::uint64_t number) {
    if (consumed_ > number) return true;
    consumed_ = channel_->consumed.load(std::memory_order_acquire);
    return consumed_ > number;
  }
  bool has_room() { return sent_ - consumed_ < Channel::kLines || is_consumed(sent_ - Channel::kLines); }
  /// A slot of this pair's that the next message may refer to.
  std::optional<int> take_slot() {
    for (std::size_t slot = 0; slot < slot_free_at_.size(); ++slot) {
      if (slot_free_at_[slot] != 0 && !is_consumed(slot_free_at_[slot] - 1)) continue;
      slot_free_at_[slot] = sent_ + 1;
      return static_cast<int>(slot);
    }
    return std::nullopt;
  }
  /// The line of the next message, to be written before publish(). Only where it has_room().
  auto& line() { return channel_->lines[sent_ % Channel::kLines]; }
  void publish() {
    auto& written = line();
    written.sequence.store(static_cast<std::uint32_t>(++sent_), std::memory_order_release);
  }

 private:
  Channel* channel_ = nullptr;
  std::uint64_t sent_ = 0;
  std::uint64_t consumed_ = 0;               ///< of `sent_`, as last read
  std::vector<std::uint64_t> slot_free_at_;  ///< a slot is free when so many were consumed
};

/// The receiver's end.
template <typename Channel>
class Inbox {
 public:
  Inbox() = default;
  explicit Inbox(Channel& channel) : channel_(&channel) {}

  /// The line of the oldest message that was not released, null where none has come.
  auto* peek() {
    auto& line = oldest();
    const bool is_there =
        line.sequence.load(std::memory_order_acquire) == static_cast<std::uint32_t>(received_ + 1);
    return is_there ? &line : nullptr;
  }
  /// Its line, once peek() has seen it.
  auto& oldest() { return channel_->lines[received_ % Channel::kLines]; }
  /// After the last look at the message and at what it refers to. Whether the sender's doorbell is to be
  /// rung: it waits for short messages only when all lines are full, and all of them will be read.
  bool release(bool is_short) {
    channel_->consumed.store(++received_, std::memory_order_release);
    return !is_short || received_ % Channel::kShortOnes == 0;
  }

 private:
  Channel* channel_ = nullptr;
  std::uint64_t received_ = 0;
};

/// Slots of one sender that several receivers read, taken in turn: the next one is free when all who were to
/// read it have.
class SharedSlots {
 public:
  explicit SharedSlots(int slots) : readers_(static_cast<std::size_t>(slots)) {}

  /// For the next message to each of `peers`; `outbox_of` a peer is an Outbox.
  template <typename OutboxOf>
  std::optional<int> take(std::span<const int> peers, const OutboxOf& outbox_of) {
    if (readers_.empty()) return std::nullopt;
    std::vector<Reader>& readers = readers_[next_];
    std::erase_if(readers,
                  [&](const Reader& reader) { return outbox_of(reader.peer).is_consumed(reader.number); });
    if (!readers.empty()) return std::nullopt;
    for (const int peer : peers) readers.push_back({peer, outbox_of(peer).sent()});
    const std::size_t slot = next_;
    next_ = (slot + 1) % readers_.size();
    return static_cast<int>(slot);
  }

 private:
  struct Reader {
    int peer = -1;
    std::uint64_t number = 0;
  };
  std::vector<std::vector<Reader>> readers_;
  std::size_t next_ = 0;
};

}  // namespace diji::collective
