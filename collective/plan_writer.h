// Writes one rank's steps in the words of papers: send this chunk there, fold those.
#pragma once

#include "collective/plan.h"

#include <utility>

namespace diji::collective {

/// A chunk of a place.
struct At {
  Place place = Place::input;
  int chunk = 0;
};

/// Steps go into the round that is open. A value is folded or received where the paper says, and finish()
/// carries a reduced chunk to the output.
class PlanWriter {
 public:
  PlanWriter(const PlanRequest& request, int rank, std::string_view algorithm, int blocks) {
    plan_.request = request;
    plan_.request.slices = 1;
    plan_.algorithm = algorithm;
    plan_.rank = rank;
    plan_.blocks = blocks;
    slices_ = request.slices;
  }
  int rank() const { return plan_.rank; }
  int world() const { return plan_.request.world; }
  int root() const { return plan_.request.root; }

  void next_round() { ++round_; }
  /// Rounds that the paper numbers; ascending.
  void at_round(int round) { round_ = round; }
  int round() const { return round_; }
  /// Chunk of the second copy of partial.
  int second(int chunk) {
    plan_.partial_copies = 2;
    return chunk + plan_.blocks;
  }
  void scratch(int chunks) { plan_.scratch_chunks = chunks; }
  void send(int peer, At from) {
    add({.action = Action::send,
         .peer = peer,
         .source = from.place,
         .target = from.place,
         .source_chunk = from.chunk,
         .target_chunk = from.chunk});
  }
  void receive(int peer, At to, Place payload) {
    add({.action = Action::receive,
         .peer = peer,
         .source = to.place,
         .target = to.place,
         .source_chunk = to.chunk,
         .target_chunk = to.chunk,
         .payload = payload});
  }
  /// to = incoming combined with own; the one of the lower ranks is the left operand.
  void receive_reduce(int peer, At to, At own, Place payload, bool incoming_first) {
    add({.action = Action::receive_reduce,
         .peer = peer,
         .source = own.place,
         .target = to.place,
         .source_chunk = own.chunk,
         .target_chunk = to.chunk,
         .payload = payload,
         .incoming_first = incoming_first});
  }
  void fold(int first, int peers, At to, At own, Place payload, int stride = 1) {
    add({.action = Action::fold,
         .peer = first,
         .peers = peers,
         .stride = stride,
         .source = own.place,
         .target = to.place,
         .source_chunk = own.chunk,
         .target_chunk = to.chunk,
         .payload = payload});
  }
  void copy(At from, At to) {
    add({.action = Action::copy,
         .source = from.place,
         .target = to.place,
         .source_chunk = from.chunk,
         .target_chunk = to.chunk});
  }
  void reduce(At to, At from, bool source_first) {
    add({.action = Action::reduce,
         .source = from.place,
         .target = to.place,
         .source_chunk = from.chunk,
         .target_chunk = to.chunk,
         .incoming_first = source_first});
  }
  void finish(int chunk) { copy({Place::partial, chunk}, {Place::output, chunk}); }
  Plan done() { return sliced(in_rounds(std::move(plan_)), slices_); }
  /// The steps of both, which share no chunk.
  Plan done_with(PlanWriter other) {
    plan_.steps.insert(plan_.steps.end(), other.plan_.steps.begin(), other.plan_.steps.end());
    plan_.uses_partial |= other.plan_.uses_partial;
    return done();
  }

 private:
  void add(Step step) {
    step.round = round_;
    const bool reads = step.action != Action::receive && step.source == Place::partial;
    const bool writes = step.action != Action::send && step.target == Place::partial;
    plan_.uses_partial |= reads || writes;
    plan_.steps.push_back(step);
  }
  Plan plan_;
  int slices_ = 1;
  int round_ = 0;
};

/// Every world.
inline bool supports_all(const PlanRequest&) { return true; }

}  // namespace diji::collective
