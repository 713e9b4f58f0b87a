// What ranks of other hosts tell of their calls, which boards say of those of this one.
#include "collective/communicator.h"

#include "collective/liveness.h"

#include <algorithm>

namespace diji::collective {
namespace {

std::optional<CallRecord> own_call(const FlightRecorder& recorder, std::uint32_t number) {
  std::optional<CallRecord> found;
  for (const CallRecord& record : recorder.all()) {
    if (record.sequence == number && !is_point_to_point(record.operation)) found = record;
  }
  return found;
}

}  // namespace

std::optional<CallRecord> Communicator::call_of(int peer, std::uint32_t number) const {
  std::optional<CallRecord> found;
  if (is_here(peer)) {
    for (const CallRecord& record : board(peer).recorder.all()) {
      if (record.sequence != number) continue;
      if (!found || is_point_to_point(found->operation) || !is_point_to_point(record.operation))
        found = record;  // calls between pairs have numbers of their own
    }
  } else if (const auto told = links_[static_cast<std::size_t>(peer)]->peer_call(peer)) {
    if (told->sequence == number) found = told;
  }
  return found;
}

std::optional<CallRecord> Communicator::latest_call_of(int peer) const {
  return is_here(peer) ? board(peer).recorder.latest()
                       : links_[static_cast<std::size_t>(peer)]->peer_call(peer);
}

void Communicator::publish(const CallRecord& record) {
  for (Transport* transport : transports_) transport->publish_call(record);
}

// In each call that takes long, again when it waits for another rank than it said, and when it is over after
// all: what a rank said last is true, or on its way.
void Communicator::publish_slow_call(std::int64_t waited_us) {
  constexpr std::int64_t kAgainUs = 100'000;
  if (!polls_) return;
  const auto own = own_board().recorder.latest();
  if (!own || own->waits_for < 0) return;  // it looks again
  const bool changed = own->waits_for != published_waits_for_ && waited_us - published_us_ >= kAgainUs;
  if (published_ && !changed) return;
  published_ = true;
  published_us_ = waited_us;
  published_waits_for_ = own->waits_for;
  publish(*own);
}

void Communicator::publish_end() {
  if (!published_) return;
  published_ = false;
  if (const auto own = own_board().recorder.latest()) publish(*own);
}

std::optional<Communicator::Disagreement> Communicator::disagreement() const {
  for (int peer = 0; polls_ && peer < world(); ++peer) {
    if (peer == rank() || is_here(peer)) continue;
    const auto theirs = links_[static_cast<std::size_t>(peer)]->peer_call(peer);
    if (!theirs || is_point_to_point(theirs->operation)) continue;
    const auto own = own_call(own_board().recorder, theirs->sequence);
    if (own && own->signature != theirs->signature) return Disagreement{peer, theirs->sequence};
  }
  return std::nullopt;
}

// Both sides name both calls: each tells the other its own before it says why it gives up. A peer that is in
// no call does not answer.
void Communicator::compare(const Disagreement& disagreement) {
  if (!polls_ || is_here(disagreement.peer)) return;
  constexpr std::int64_t kAnswerUs = 500'000;
  constexpr std::int64_t kLookAgainUs = 1'000;
  const auto mine = own_call(own_board().recorder, disagreement.number);
  const auto latest = mine ? mine : own_board().recorder.latest();
  if (latest) publish(*latest);
  const std::int64_t until_us = options_.clock.now_us() + kAnswerUs;
  while (!call_of(disagreement.peer, disagreement.number) && options_.clock.now_us() < until_us) {
    descriptors_.clear();
    for (const Transport* transport : transports_) transport->poll_descriptors(descriptors_);
    options_.clock.poll(descriptors_, kLookAgainUs);
    // What others say meanwhile, failed() hears too.
    static_cast<void>(pump());
  }
}

}  // namespace diji::collective
