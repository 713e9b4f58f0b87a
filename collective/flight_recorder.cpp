// A sequence lock an entry: the writer never waits, a reader that meets it tries again.
#include "collective/flight_recorder.h"

#include <algorithm>

namespace diji::collective {
namespace {

constexpr int kReadTries = 100;

std::uint64_t pack(const CallRecord& call) {
  return static_cast<std::uint64_t>(call.sequence) | static_cast<std::uint64_t>(call.operation) << 32 |
         static_cast<std::uint64_t>(call.reduction) << 40 | static_cast<std::uint64_t>(call.type) << 48;
}

}  // namespace

void FlightRecorder::begin(const CallRecord& call) {
  const std::uint32_t number = calls_.load(std::memory_order_relaxed);
  Entry& to = entry(number);
  const std::uint32_t version = to.version.load(std::memory_order_relaxed);
  to.version.store(version + 1, std::memory_order_relaxed);
  const std::array<std::uint64_t, kWords - 1> words = {
      pack(call),
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root)),
      static_cast<std::uint64_t>(call.count),
      call.signature,
      static_cast<std::uint64_t>(call.begin_us),
      0,
      0};
  // Each word with release order: a reader that sees one of them sees the odd version before it.
  for (std::size_t i = 0; i < words.size(); ++i) to.words[i].store(words[i], std::memory_order_release);
  to.waits_for.store(-1, std::memory_order_relaxed);
  to.version.store(version + 2, std::memory_order_release);
  calls_.store(number + 1, std::memory_order_release);
}

void FlightRecorder::end(std::int64_t end_us) {
  const std::uint32_t number = calls_.load(std::memory_order_relaxed);
  if (number == 0) return;
  Entry& to = entry(number - 1);
  to.words[5].store(static_cast<std::uint64_t>(end_us), std::memory_order_release);
  to.waits_for.store(-1, std::memory_order_relaxed);
}

void FlightRecorder::waits_for(std::int32_t rank) {
  const std::uint32_t number = calls_.load(std::memory_order_relaxed);
  if (number != 0) entry(number - 1).waits_for.store(rank, std::memory_order_relaxed);
}

std::optional<CallRecord> FlightRecorder::read(const Entry& from) const {
  for (int i = 0; i < kReadTries; ++i) {
    const std::uint32_t before = from.version.load(std::memory_order_acquire);
    std::array<std::uint64_t, kWords - 1> words{};
    for (std::size_t w = 0; w < words.size(); ++w) words[w] = from.words[w].load(std::memory_order_acquire);
    if (before % 2 != 0 || before == 0 || from.version.load(std::memory_order_relaxed) != before) continue;
    CallRecord call;
    call.sequence = static_cast<std::uint32_t>(words[0]);
    call.operation = static_cast<Operation>(words[0] >> 32 & 0xff);
    call.reduction = static_cast<Reduction>(words[0] >> 40 & 0xff);
    call.type = static_cast<ElementType>(words[0] >> 48 & 0xff);
    call.root = static_cast<std::int32_t>(static_cast<std::uint32_t>(words[1]));
    call.count = static_cast<std::int64_t>(words[2]);
    call.signature = words[3];
    call.begin_us = static_cast<std::int64_t>(words[4]);
    call.end_us = static_cast<std::int64_t>(words[5]);
    call.waits_for = from.waits_for.load(std::memory_order_relaxed);
    return call;
  }
  return std::nullopt;
}

std::optional<CallRecord> FlightRecorder::latest() const {
  const std::uint32_t number = calls_.load(std::memory_order_acquire);
  if (number == 0) return std::nullopt;
  return read(entries_[(number - 1) % kCalls]);
}

std::vector<CallRecord> FlightRecorder::all() const {
  const std::uint32_t number = calls_.load(std::memory_order_acquire);
  std::vector<CallRecord> calls;
  for (std::uint32_t i = number - std::min(number, kCalls); i < number; ++i) {
    if (auto call = read(entries_[i % kCalls])) calls.push_back(*call);
  }
  return calls;
}

}  // namespace diji::collective
