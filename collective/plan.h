// A collective algorithm as data: what each rank sends, receives and reduces, in rounds, on numbered chunks.
#pragma once

#include "base/error.h"
#include "collective/operation.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji::collective {

/// The memory of one rank that a plan knows. Chunk c of `input`, `output` and `partial` is the same stretch
/// of the operation's vector; which of them exist at a rank follows from the operation (chunks_at). `scratch`
/// has as many chunks as the plan asks for: number c is as long as chunk c mod chunks() of the vector.
enum class Place : std::uint8_t {
  input,    ///< the caller's, never written
  output,   ///< the caller's
  partial,  ///< values being reduced, of the accumulator's type
  scratch,  ///< values passing through, of the elements' type
};

enum class Action : std::uint8_t {
  send,            ///< chunk of `source` to `peer`
  receive,         ///< from `peer` into chunk of `target`
  receive_reduce,  ///< chunk of `target` = what `peer` sent combined with chunk of `source`
  fold,            ///< chunk of `target` = the left fold, in rank order, of what `peers` ranks have: each
                   ///< of them sent it, but this rank's, if it is one of them, is chunk of `source`
  copy,  ///< chunk of `target` = chunk of `source`; input to partial and partial to output convert and round
  reduce,  ///< chunk of `target` = chunk of `target` combined with chunk of `source`
};

/// One thing that a rank does. Steps of one round may run at the same time: none may read or write what
/// another of the same round writes, and sends and receives of a round wait for no other step of it. The k-th
/// send from a to b meets the k-th receive at b from a (in the order of the steps), whatever the rounds are
/// called.
struct Step {
  Action action = Action::copy;
  int round = 0;   ///< ascending within a plan
  int peer = -1;   ///< of send, receive, receive_reduce; the first of a fold
  int peers = 1;   ///< of fold: ranks peer, peer + stride, …
  int stride = 1;  ///< of fold
  Place source = Place::input;
  Place target = Place::output;
  int source_chunk = 0;
  int target_chunk = 0;
  Place payload = Place::input;  ///< of receive, receive_reduce and fold: the place that the peer sends from,
                                 ///< which gives the elements' type
  bool incoming_first =
      false;  ///< of receive_reduce and reduce: the arriving (source) value is the left operand

  /// Rank `i` of a fold, and the place of a rank in it (-1: it is not in it).
  int fold_rank(int i) const { return peer + i * stride; }
  int fold_position(int rank) const {
    const int distance = rank - peer;
    return distance >= 0 && distance % stride == 0 && distance / stride < peers ? distance / stride : -1;
  }
  bool operator==(const Step&) const = default;
};

/// What a plan is made for. Nothing in it depends on lengths: a chunk may have any, zero too.
struct PlanRequest {
  Operation operation = Operation::all_reduce;
  int world = 1;
  int root = 0;
  int slices = 1;      ///< each block is cut into as many chunks, which follow each other through the rounds
  int node_ranks = 0;  ///< of hierarchical plans: ranks r with equal r / node_ranks share a host; 0: all do
  bool operator==(const PlanRequest&) const = default;
};

/// What the choice of an algorithm knows of a world.
struct WorldShape {
  int ranks = 1;
  int hosts = 1;
  int node_ranks =
      0;  ///< as in PlanRequest; 0 also where hosts have unlike numbers of ranks, or mingled ones
  bool operator==(const WorldShape&) const = default;
};
/// `hosts`: by rank, what its host alone has.
WorldShape shape_of(std::span<const std::string> hosts);

/// One rank's part of an algorithm. The vector is cut into `blocks` blocks of `slices` chunks each: chunk
/// block * slices + slice. For all_gather, reduce_scatter, gather, scatter and all_to_all blocks are the
/// ranks.
struct Plan {
  PlanRequest request;
  std::string_view algorithm;
  int rank = 0;
  int blocks = 1;
  int scratch_chunks = 0;
  bool uses_partial = false;
  int partial_copies = 1;  ///< chunk c of copy k of partial is number k * chunks() + c
  std::vector<Step> steps;

  int chunks() const { return blocks * request.slices; }
};

/// The chunks [first, first + count) of `place` that exist at `rank` when the vector has `blocks` blocks:
/// all of them, one block (its own), or none.
struct ChunkRange {
  int first = 0;
  int count = 0;
  bool contains(int chunk) const { return chunk >= first && chunk < first + count; }
};
ChunkRange chunks_at(Place place, const Plan& plan);

/// What a message costs: `alpha_us` + bytes * `beta_us_per_byte`, and a reduced byte `gamma_us_per_byte`;
/// inside of a host and between hosts (Hockney's model with a term for arithmetic; Thakur et al. 2005).
struct CostModel {
  double alpha_us = 1;
  double beta_us_per_byte = 1e-4;
  double gamma_us_per_byte = 2e-5;
  double alpha_between_us = 5;
  double beta_between_us_per_byte = 4e-5;
};

/// A row of the catalogue.
struct Algorithm {
  std::string_view name;     ///< "ring"
  std::string_view summary;  ///< one sentence, with rounds and bytes a rank sends
  std::string_view source;   ///< the paper
  Operation operation = Operation::all_reduce;
  bool equal_counts = false;  ///< all blocks must be of one length
  bool (*supports)(const PlanRequest& request) = nullptr;
  Plan (*plan)(const PlanRequest& request, int rank) = nullptr;
  /// Of `bytes` as the operation counts them: the whole vector. Closed form, so that thousands of ranks take
  /// no time.
  double (*cost_us)(const PlanRequest& request, double bytes, const CostModel& model) = nullptr;
  bool knows_hosts = false;  ///< its closed form tells messages between hosts from those within
};

/// The closed form in a world of several hosts: where it does not know of them, each message is the dearer
/// one.
double cost_us(const Algorithm& algorithm, const PlanRequest& request, int hosts, double bytes,
               const CostModel& model);

/// Whether a rank may keep partial results in its output: each chunk that it reduces is one of its output's,
/// and, where output is input too, none of them is sent from input in the round in which it is reduced.
bool partial_may_be_output(const Plan& plan, bool in_place);

/// The steps by rounds, in the order in which they were written within each.
Plan in_rounds(Plan plan);

/// Every chunk of the plan for one slice becomes `slices` chunks that follow each other one round behind:
/// while the first is reduced the second is on its way. `plan` is made for one slice.
Plan sliced(Plan plan, int slices);

/// All algorithms, those of one operation next to each other, the one for small messages first.
std::span<const Algorithm> algorithms();
/// Errors: usage, with the names of the operation's algorithms.
Result<const Algorithm*> find_algorithm(Operation operation, std::string_view name);

}  // namespace diji::collective
