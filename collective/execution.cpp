// Round by round: local steps first, then sends and receives in fragments, whichever can move.
#include "collective/execution.h"

#include "base/check.h"

#include <algorithm>

namespace diji::collective {
namespace {

constexpr std::int64_t kDone = -1;

std::size_t index_of(int value) { return static_cast<std::size_t>(value); }

bool receives(Action action) {
  return action == Action::receive || action == Action::receive_reduce || action == Action::fold;
}

}  // namespace

PreparedPlan::PreparedPlan(Plan plan)
    : plan_(std::move(plan)),
      apart_(collective::partial_may_be_output(plan_, false)),
      in_place_too_(collective::partial_may_be_output(plan_, true)) {
  int round = -1;
  for (const Step& step : plan_.steps) {
    if (rounds_.empty() || step.round != round) {
      rounds_.emplace_back();
      round = step.round;
    }
    Round& to = rounds_.back();
    if (receives(step.action)) {
      to.receives.push_back(step);
    } else if (step.action != Action::send) {
      to.locals.push_back(step);
    } else if (!to.sends.empty() && to.sends.back().source == step.source &&
               to.sends.back().chunk == step.source_chunk &&
               std::ranges::find(to.sends.back().peers, step.peer) == to.sends.back().peers.end()) {
      to.sends.back().peers.push_back(step.peer);
    } else {
      to.sends.push_back({step.source, step.source_chunk, {step.peer}});
    }
  }
}

void Execution::start(const PreparedPlan& plan, const Regions& regions, Arithmetic arithmetic, CallTag tag,
                      std::span<Transport* const> links, std::int64_t fragment_bytes) {
  plan_ = &plan;
  regions_ = regions;
  arithmetic_ = arithmetic;
  tag_ = tag;
  links_ = links;
  fragment_bytes_ = fragment_bytes;
  round_ = 0;
  blocked_.assign(links.size(), 0);
  outstanding_.clear();
  offender_ = -1;
  reducer_failure_.reset();
  if (!plan_->rounds_.empty()) start_round();
}

// The first failure ends the call at its next advance.
void Execution::combine(ElementType type, std::byte* target, Operand left, Operand right, std::int64_t count,
                        Store store) {
  if (arithmetic_.reducer == nullptr)
    return collective::combine(arithmetic_.reduction, type, target, left, right, count, store);
  if (reducer_failure_) return;
  auto combined = arithmetic_.reducer->combine(arithmetic_.reduction, type, target, left, right, count);
  if (!combined) reducer_failure_ = std::move(combined).error();
}

// Of operands_. A reducer has two at a time, and `target` may be one that comes later.
void Execution::fold(ElementType type, std::byte* target, std::int64_t count) {
  if (arithmetic_.reducer == nullptr || operands_.size() == 1)
    return collective::fold(arithmetic_.reduction, type, target, operands_, count, arithmetic_.store);
  folded_.resize(static_cast<std::size_t>(count * bytes_of(type)));
  Operand left = operands_[0];
  for (std::size_t i = 1; i < operands_.size(); ++i) {
    const bool last = i + 1 == operands_.size();
    combine(type, last ? target : folded_.data(), left, operands_[i], count, Store::cached);
    left = {folded_.data(), type};
  }
}

std::int64_t Execution::bytes_of_chunk(Place place, int chunk) const {
  return region(place).chunks[index_of(chunk)].count * bytes_of(region(place).type);
}

std::byte* Execution::at(Place place, int chunk) const {
  return region(place).data + region(place).chunks[index_of(chunk)].offset * bytes_of(region(place).type);
}

// As long as what is here, in the type in which it travels.
std::int64_t Execution::incoming_bytes(const Step& step) const {
  return region(step.target).chunks[index_of(step.target_chunk)].count * bytes_of(region(step.payload).type);
}

void Execution::start_round() {
  const PreparedPlan::Round& round = plan_->rounds_[round_];
  for (const Step& step : round.locals) run_local(step);
  // A chunk without elements has no message, on either side; a barrier is nothing but such messages.
  const bool speaks = plan_->plan().request.operation == Operation::barrier;
  sent_.resize(round.sends.size());
  for (std::size_t i = 0; i < round.sends.size(); ++i) {
    const bool empty = !speaks && bytes_of_chunk(round.sends[i].source, round.sends[i].chunk) == 0;
    sent_[i].assign(round.sends[i].peers.size(), empty ? kDone : 0);
  }
  received_.resize(round.receives.size());
  for (std::size_t i = 0; i < round.receives.size(); ++i) {
    received_[i] = !speaks && incoming_bytes(round.receives[i]) == 0 ? kDone : 0;
  }
}

void Execution::run_local(const Step& step) {
  const std::int64_t count = region(step.target).chunks[index_of(step.target_chunk)].count;
  if (count == 0) return;
  std::byte* target = at(step.target, step.target_chunk);
  const Operand source{at(step.source, step.source_chunk), region(step.source).type};
  const ElementType type = region(step.target).type;
  if (step.action == Action::reduce) {
    const Operand old{target, type};
    combine(type, target, step.incoming_first ? source : old, step.incoming_first ? old : source, count,
            Store::cached);
  } else if (step.source == Place::partial && step.target == Place::output &&
             arithmetic_.reduction == Reduction::average) {
    finish_average(type, target, source, count, arithmetic_.ranks);
  } else {
    convert(type, target, source, count, arithmetic_.store);
  }
}

Result<bool> Execution::advance() {
  bool moved = collect();
  while (round_ < plan_->rounds_.size()) {
    if (reducer_failure_) return std::unexpected(*reducer_failure_);
    bool moved_here = false;
    const PreparedPlan::Round& round = plan_->rounds_[round_];
    std::ranges::fill(blocked_, 0);
    for (std::size_t i = 0; i < round.sends.size(); ++i) moved_here |= TRY(push(i));
    std::ranges::fill(blocked_, 0);
    for (std::size_t i = 0; i < round.receives.size(); ++i) moved_here |= TRY(pull(i));
    moved |= moved_here;
    if (reducer_failure_) return std::unexpected(*reducer_failure_);
    if (!round_is_done()) {
      if (moved_here) continue;
      return moved;
    }
    if (round_ + 1 < plan_->rounds_.size() && writes_outstanding(round_ + 1)) {
      moved |= collect();
      if (writes_outstanding(round_ + 1)) return moved;
    }
    moved = true;
    if (++round_ < plan_->rounds_.size()) start_round();
  }
  return moved | collect();
}

// Fragment after fragment to every peer that has room, to all at once where they are equally far.
Result<bool> Execution::push(std::size_t index) {
  const PreparedPlan::Send& send = plan_->rounds_[round_].sends[index];
  bool moved = false;
  while (true) {  // each turn moves something or blocks a peer
    ready_.clear();
    std::int64_t least = kDone;
    for (std::size_t p = 0; p < send.peers.size(); ++p) {
      const std::int64_t sent = sent_[index][p];
      if (sent == kDone || blocked_[index_of(send.peers[p])] != 0) continue;
      if (least == kDone || sent < least) {
        least = sent;
        ready_.clear();
      }
      if (sent == least) ready_.push_back(static_cast<int>(p));
    }
    if (ready_.empty()) break;
    if (ready_.size() > 1 && TRY(push_fragment(index, ready_))) {
      moved = true;
      continue;
    }
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      const int position = ready_[i];
      if (TRY(push_fragment(index, std::span(&position, 1)))) {
        moved = true;
      } else {
        blocked_[index_of(send.peers[index_of(position)])] = 1;
      }
    }
  }
  for (std::size_t p = 0; p < send.peers.size(); ++p) {
    if (sent_[index][p] != kDone)
      blocked_[index_of(send.peers[p])] = 1;  // later messages wait behind this one
  }
  return moved;
}

Result<bool> Execution::push_fragment(std::size_t index, std::span<const int> positions) {
  const PreparedPlan::Send& send = plan_->rounds_[round_].sends[index];
  const std::int64_t whole = bytes_of_chunk(send.source, send.chunk);
  const std::int64_t sent = sent_[index][index_of(positions[0])];
  const std::int64_t bytes = std::min(fragment_bytes_, whole - sent);
  std::byte* data = at(send.source, send.chunk);
  // Peers behind another transport get a message of their own.
  same_.clear();
  Transport* transport = links_[index_of(send.peers[index_of(positions[0])])];
  for (const int position : positions) {
    if (links_[index_of(send.peers[index_of(position)])] != transport) return false;
    same_.push_back(send.peers[index_of(position)]);
  }
  const std::span<const std::byte> fragment(data + sent, static_cast<std::size_t>(bytes));
  const std::optional<Ticket> ticket = TRY(arithmetic_.lends ? transport->lend(same_, tag_, fragment)
                                                             : transport->send(same_, tag_, fragment));
  if (!ticket) return false;
  if (*ticket != kFree) outstanding_.push_back({transport, *ticket, fragment});
  for (const int position : positions) {
    sent_[index][index_of(position)] = sent + bytes == whole ? kDone : sent + bytes;
  }
  return true;
}

// The oldest message from the peer, if it is what this call expects.
Result<std::optional<Message>> Execution::next_from(int peer, std::int64_t bytes) {
  const std::optional<Message> message = TRY(links_[index_of(peer)]->peek(peer));
  if (!message || (message->tag == tag_ && message->size() == bytes)) return message;
  offender_ = peer;
  offending_tag_ = message->tag;
  return fail(ErrorCode::mismatch, "rank {} sent {} bytes of call #{} where {} of call #{} were expected",
              peer, message->size(), message->tag.sequence, bytes, tag_.sequence);
}

Result<bool> Execution::pull(std::size_t index) {
  const Step& step = plan_->rounds_[round_].receives[index];
  if (step.action == Action::fold) return pull_fold(index);
  std::int64_t& received = received_[index];
  if (received == kDone || blocked_[index_of(step.peer)] != 0) return false;
  bool moved = false;
  const std::int64_t whole = incoming_bytes(step);
  while (received != kDone) {
    const std::int64_t bytes = std::min(fragment_bytes_, whole - received);
    const std::optional<Message> message = TRY(next_from(step.peer, bytes));
    if (!message) {
      blocked_[index_of(step.peer)] = 1;
      return moved;
    }
    if (!TRY(take(step, received, *message))) {
      blocked_[index_of(step.peer)] = 1;
      return moved;
    }
    TRY(links_[index_of(step.peer)]->release(step.peer));
    received = received + bytes == whole ? kDone : received + bytes;
    moved = true;
  }
  return moved;
}

// A fragment of every peer at once: each value is read from where it arrived and only the result is written.
Result<bool> Execution::pull_fold(std::size_t index) {
  const Step& step = plan_->rounds_[round_].receives[index];
  std::int64_t& received = received_[index];
  const int rank = plan_->plan().rank;
  for (int i = 0; i < step.peers; ++i) {
    if (blocked_[index_of(step.fold_rank(i))] != 0) return false;
  }
  bool moved = false;
  const std::int64_t whole = incoming_bytes(step);
  const ElementType type = region(step.payload).type;
  while (received != kDone) {
    const std::int64_t bytes = std::min(fragment_bytes_, whole - received);
    operands_.clear();
    for (int i = 0; i < step.peers; ++i) {
      const int peer = step.fold_rank(i);
      if (peer == rank) {
        const ElementType own = region(step.source).type;
        operands_.push_back(
            {at(step.source, step.source_chunk) + received / bytes_of(type) * bytes_of(own), own});
        continue;
      }
      const std::optional<Message> message = TRY(next_from(peer, bytes));
      if (!message) {
        for (int other = 0; other < step.peers; ++other) blocked_[index_of(step.fold_rank(other))] = 1;
        return moved;
      }
      if (message->lent > 0) return fail(ErrorCode::corrupted, "rank {} lends what is combined here", peer);
      operands_.push_back({message->bytes.data(), type});
    }
    const std::int64_t first = received / bytes_of(type);
    const ElementType result = region(step.target).type;
    fold(result, at(step.target, step.target_chunk) + first * bytes_of(result), bytes / bytes_of(type));
    for (int i = 0; i < step.peers; ++i) {
      const int peer = step.fold_rank(i);
      if (peer != rank) TRY(links_[index_of(peer)]->release(peer));
    }
    received = received + bytes == whole ? kDone : received + bytes;
    moved = true;
  }
  return moved;
}

// False: not now.
Result<bool> Execution::take(const Step& step, std::int64_t offset, const Message& message) {
  const std::span<const std::byte> bytes = message.bytes;
  if (message.lent > 0) {
    if (step.action != Action::receive || region(step.payload).type != region(step.target).type)
      return fail(ErrorCode::corrupted, "rank {} lends what is combined here", step.peer);
    return links_[index_of(step.peer)]->read(step.peer, at(step.target, step.target_chunk) + offset);
  }
  if (bytes.empty()) return true;
  const ElementType incoming_type = region(step.payload).type;
  const std::int64_t first = offset / bytes_of(incoming_type);
  const std::int64_t count = std::ssize(bytes) / bytes_of(incoming_type);
  const ElementType type = region(step.target).type;
  std::byte* target = at(step.target, step.target_chunk) + first * bytes_of(type);
  const Operand incoming{bytes.data(), incoming_type};
  if (step.action == Action::receive) {
    convert(type, target, incoming, count, arithmetic_.store);
    return true;
  }
  const ElementType source_type = region(step.source).type;
  const Operand own{at(step.source, step.source_chunk) + first * bytes_of(source_type), source_type};
  combine(type, target, step.incoming_first ? incoming : own, step.incoming_first ? own : incoming, count,
          arithmetic_.store);
  return true;
}

bool Execution::round_is_done() const {
  return std::ranges::all_of(received_, [](std::int64_t bytes) { return bytes == kDone; }) &&
         std::ranges::all_of(sent_, [](const auto& send) {
           return std::ranges::all_of(send, [](std::int64_t bytes) { return bytes == kDone; });
         });
}

bool Execution::collect() {
  const std::size_t before = outstanding_.size();
  std::erase_if(outstanding_, [](const Outstanding& sent) { return sent.transport->is_free(sent.ticket); });
  return outstanding_.size() != before;
}

// What peers still read here must not be written by the steps of a later round; they may read on while it
// does something else.
bool Execution::writes_outstanding(std::size_t round) const {
  const auto writes = [&](const Step& step) {
    const std::byte* target = at(step.target, step.target_chunk);
    const std::int64_t bytes = bytes_of_chunk(step.target, step.target_chunk);
    return std::ranges::any_of(outstanding_, [&](const Outstanding& sent) {
      return sent.bytes.data() < target + bytes && target < sent.bytes.data() + sent.bytes.size();
    });
  };
  return !outstanding_.empty() && (std::ranges::any_of(plan_->rounds_[round].locals, writes) ||
                                   std::ranges::any_of(plan_->rounds_[round].receives, writes));
}

int Execution::waits_for() const {
  const int reader = outstanding_.empty() ? -1 : outstanding_[0].transport->reader_of(outstanding_[0].ticket);
  if (round_ == plan_->rounds_.size()) return reader;
  const PreparedPlan::Round& round = plan_->rounds_[round_];
  for (std::size_t i = 0; i < received_.size(); ++i) {
    if (received_[i] == kDone) continue;
    if (round.receives[i].action != Action::fold) return round.receives[i].peer;
    const Step& step = round.receives[i];
    for (int k = 0; k < step.peers; ++k) {
      const int peer = step.fold_rank(k);
      if (peer == plan_->plan().rank) continue;
      const auto message = links_[index_of(peer)]->peek(peer);
      if (!message || !*message) return peer;
    }
  }
  for (std::size_t i = 0; i < sent_.size(); ++i) {
    for (std::size_t p = 0; p < sent_[i].size(); ++p) {
      if (sent_[i][p] != kDone) return round.sends[i].peers[p];
    }
  }
  return reader;
}

}  // namespace diji::collective
