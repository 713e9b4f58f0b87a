// The last records of one writer, which never waits, for readers of other processes, who take what is
// consistent.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace diji::collective {

/// A sequence lock a record: its version is odd while it is written, and a reader that meets that tries
/// again. Lies in shared memory: fixed size, no pointers.
template <template <typename> typename Atomic, std::size_t Words, std::uint32_t Records>
class RecordRing {
 public:
  using Record = std::array<std::uint64_t, Words>;
  static constexpr int kReadTries = 100;

  /// Of the writer: the oldest record makes room.
  void add(const Record& record) {
    const std::uint32_t number = count_.load(std::memory_order_relaxed);
    Entry& to = entries_[number % Records];
    const std::uint32_t version = to.version.load(std::memory_order_relaxed);
    to.version.store(version + 1, std::memory_order_relaxed);
    // Each word with release order: a reader that sees one of them sees the odd version before it.
    for (std::size_t i = 0; i < Words; ++i) to.words[i].store(record[i], std::memory_order_release);
    to.version.store(version + 2, std::memory_order_release);
    count_.store(number + 1, std::memory_order_release);
  }
  /// Of the writer: a word of the latest record, which readers see before or after.
  void change_latest(std::size_t word, std::uint64_t value) {
    const std::uint32_t number = count_.load(std::memory_order_relaxed);
    if (number != 0) entries_[(number - 1) % Records].words[word].store(value, std::memory_order_release);
  }

  /// Records ever added; the last Records of them may still be there.
  std::uint32_t count() const { return count_.load(std::memory_order_acquire); }
  /// Record `number` (below a count() that this reader has seen) or one that has taken its place; nothing
  /// where the writer was always in it.
  std::optional<Record> read(std::uint32_t number, int tries = kReadTries) const {
    const Entry& from = entries_[number % Records];
    for (int i = 0; i < tries; ++i) {
      const std::uint32_t before = from.version.load(std::memory_order_acquire);
      Record record{};
      for (std::size_t w = 0; w < Words; ++w) record[w] = from.words[w].load(std::memory_order_acquire);
      if (before % 2 == 0 && from.version.load(std::memory_order_relaxed) == before) return record;
    }
    return std::nullopt;
  }

 private:
  struct alignas(64) Entry {
    Atomic<std::uint32_t> version = 0;
    std::array<Atomic<std::uint64_t>, Words> words{};
  };
  Atomic<std::uint32_t> count_ = 0;
  std::array<Entry, Records> entries_{};
};

}  // namespace diji::collective
