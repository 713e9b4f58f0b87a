// The meeting of interpreted ranks.
#include "graph/rank_meeting.h"

#include "graph/collective.h"

#include <algorithm>

namespace diji {
namespace {

std::string text_of_array(const Array& array) {
  return fmt::format("{}{}", name_of(array.dtype), text_of(array.shape));
}

// What must be equal: all but how the graphs write the number of ranks.
bool agree(const Node& a, const Array& x, const Node& b, const Array& y) {
  Attributes left = a.attributes, right = b.attributes;
  left.erase("ranks");
  right.erase("ranks");
  return a.op == b.op && left == right && x.dtype == y.dtype && x.shape == y.shape;
}

}  // namespace

RankMeeting::RankMeeting(std::span<const MeshAxis> mesh) : mesh_(mesh.begin(), mesh.end()) {
  std::int64_t ranks = 1;
  for (const MeshAxis& axis : mesh_) ranks *= axis.size;
  seats_.resize(static_cast<std::size_t>(ranks));
}

std::vector<std::size_t> RankMeeting::group_of(std::size_t rank, std::string_view name) const {
  std::size_t stride = 1;
  for (std::size_t i = mesh_.size(); i-- > 0;) {
    const auto size = static_cast<std::size_t>(mesh_[i].size);
    if (mesh_[i].name == name) {
      const std::size_t first = rank - rank / stride % size * stride;
      std::vector<std::size_t> members;
      for (std::size_t k = 0; k < size; ++k) members.push_back(first + k * stride);
      return members;
    }
    stride *= size;
  }
  return {};
}

Result<Exchanged> RankMeeting::meet(std::size_t rank, const Node& node, const ReferenceCall& call,
                                    const std::vector<double>& bound) {
  std::unique_lock lock(mutex_);
  if (failure_) return std::unexpected(*failure_);
  Seat& seat = seats_[rank];
  seat = {.state = Seat::State::waiting, .node = &node, .call = &call, .bound = &bound, .answer = {}};
  settle(rank);
  answered_.wait(lock, [&] { return seat.answer.has_value(); });
  Result<Exchanged> answer = std::move(*seat.answer);
  seat.answer.reset();
  return answer;
}

void RankMeeting::leave(std::size_t rank) {
  const std::scoped_lock lock(mutex_);
  seats_[rank] = {.state = Seat::State::left};
  settle(rank);
}

// Looks whether what rank has just done completes its group, or leaves nobody to go on.
void RankMeeting::settle(std::size_t rank) {
  if (seats_[rank].state == Seat::State::waiting) {
    const std::string name = channel_of(seats_[rank].node->attributes).group;
    const auto members = group_of(rank, name);
    const bool all_here = std::ranges::all_of(members, [&](std::size_t member) {
      const Seat& seat = seats_[member];
      return seat.state == Seat::State::waiting && channel_of(seat.node->attributes).group == name;
    });
    if (all_here) return complete(members);
  }
  const auto is = [&](Seat::State state) {
    return std::ranges::any_of(seats_, [state](const Seat& seat) { return seat.state == state; });
  };
  if (is(Seat::State::running) || !is(Seat::State::waiting)) return;
  std::string places;
  for (std::size_t i = 0; i < seats_.size(); ++i)
    places += fmt::format("{}rank {} {}", i == 0 ? "" : "; ", i, where(i));
  fail_all(fmt::format("no rank can go on: {}", places));
}

void RankMeeting::complete(std::span<const std::size_t> members) {
  const Seat& first = seats_[members[0]];
  std::vector<const Array*> operands;
  std::vector<const std::vector<double>*> bounds;
  for (const std::size_t member : members) {
    const Seat& seat = seats_[member];
    operands.push_back(seat.call->inputs[0]);
    bounds.push_back(seat.bound);
    if (agree(*first.node, *first.call->inputs[0], *seat.node, *operands.back())) continue;
    return fail_all(fmt::format("ranks do different things: rank {} {}, rank {} {}", members[0],
                                where(members[0]), member, where(member)));
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    Seat& seat = seats_[members[i]];
    Exchanged given{collective_reference(*seat.call, operands, i), {}};
    if (std::ssize(*bounds[0]) == operands[0]->count())
      given.bound = collective_bound(*seat.call, operands, bounds, i, given.array);
    seat.answer = std::move(given);
  }
  for (const std::size_t member : members) seats_[member].state = Seat::State::running;
  answered_.notify_all();
}

void RankMeeting::fail_all(const std::string& sentence) {
  failure_ = fail(ErrorCode::call_mismatch, "{}", sentence).error();
  for (Seat& seat : seats_) {
    if (seat.state != Seat::State::waiting) continue;
    seat.answer = std::unexpected(*failure_);
    seat.state = Seat::State::running;
  }
  answered_.notify_all();
}

std::string RankMeeting::where(std::size_t rank) const {
  const Seat& seat = seats_[rank];
  if (seat.state == Seat::State::left) return "has ended";
  return fmt::format("is at {} of {}", title_of_collective(*seat.node), text_of_array(*seat.call->inputs[0]));
}

}  // namespace diji
