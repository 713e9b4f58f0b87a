// Calls as words, and back.
#include "collective/flight_recorder.h"

#include <algorithm>
#include <array>

namespace diji::collective {
namespace {

constexpr std::size_t kEndWord = 5;
constexpr std::size_t kWaitsForWord = 6;

std::uint64_t word_of(std::int32_t value) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(value));
}
std::int32_t integer_of(std::uint64_t word) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(word));
}

std::uint64_t pack(const CallRecord& call) {
  return static_cast<std::uint64_t>(call.sequence) | static_cast<std::uint64_t>(call.operation) << 32 |
         static_cast<std::uint64_t>(call.reduction) << 40 | static_cast<std::uint64_t>(call.type) << 48;
}

CallRecord call_of(const std::array<std::uint64_t, 7>& words) {
  CallRecord call;
  call.sequence = static_cast<std::uint32_t>(words[0]);
  call.operation = static_cast<Operation>(words[0] >> 32 & 0xff);
  call.reduction = static_cast<Reduction>(words[0] >> 40 & 0xff);
  call.type = static_cast<ElementType>(words[0] >> 48 & 0xff);
  call.root = integer_of(words[1]);
  call.count = static_cast<std::int64_t>(words[2]);
  call.signature = words[3];
  call.begin_us = static_cast<std::int64_t>(words[4]);
  call.end_us = static_cast<std::int64_t>(words[kEndWord]);
  call.waits_for = integer_of(words[kWaitsForWord]);
  return call;
}

}  // namespace

void FlightRecorder::begin(const CallRecord& call) {
  calls_.add({pack(call), word_of(call.root), static_cast<std::uint64_t>(call.count), call.signature,
              static_cast<std::uint64_t>(call.begin_us), 0, word_of(-1)});
}

void FlightRecorder::end(std::int64_t end_us) {
  calls_.change_latest(kEndWord, static_cast<std::uint64_t>(end_us));
  calls_.change_latest(kWaitsForWord, word_of(-1));
}

void FlightRecorder::waits_for(std::int32_t rank) { calls_.change_latest(kWaitsForWord, word_of(rank)); }

std::optional<CallRecord> FlightRecorder::latest() const {
  const std::uint32_t count = calls_.count();
  if (count == 0) return std::nullopt;
  const auto words = calls_.read(count - 1);
  return words ? std::optional(call_of(*words)) : std::nullopt;
}

std::vector<CallRecord> FlightRecorder::all() const {
  const std::uint32_t count = calls_.count();
  std::vector<CallRecord> calls;
  for (std::uint32_t i = count - std::min(count, kCalls); i < count; ++i) {
    if (const auto words = calls_.read(i)) calls.push_back(call_of(*words));
  }
  return calls;
}

}  // namespace diji::collective
