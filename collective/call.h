// One collective call as a user makes it, and where each of its chunks lies.
#pragma once

#include "base/error.h"
#include "collective/execution.h"
#include "collective/flight_recorder.h"
#include "collective/plan.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji::collective {

/// Counts are elements, never bytes. `count` is the length of the vector (all_reduce, reduce, broadcast,
/// scan, exscan) or of each rank's block (all others). Blocks of different lengths (v): `counts` has one for
/// each rank, and `displacements`, where given, where they begin in the side that holds all blocks;
/// all_to_all has them for either side
/// (`counts` of what is sent to each, `receive_counts` of what comes from each).
///
/// Memory: `input` and `output` do not overlap, or are in place as in MPI and NCCL: the same address
/// (all_reduce, reduce, broadcast, scan, exscan, all_to_all), or the own block inside of the other side
/// (all_gather, reduce_scatter, gather, scatter). Any other overlap is an error.
struct Call {
  Operation operation = Operation::barrier;
  const void* input = nullptr;
  void* output = nullptr;
  std::int64_t count = 0;
  ElementType type = ElementType::f32;
  Reduction reduction = Reduction::sum;
  double factor = 1;  ///< of premul_sum
  int root = 0;
  int peer = -1;  ///< of send and receive
  std::span<const std::int64_t> counts;
  std::span<const std::int64_t> displacements;
  std::span<const std::int64_t> receive_counts;
  std::span<const std::int64_t> receive_displacements;
  bool exact = false;  ///< the left fold in rank order in the accumulator's type, whatever the world's wiring
  std::string_view algorithm;    ///< "": as choose() says
  std::int64_t timeout_us = -1;  ///< -1: the communicator's

  /// Whether the plan, its memory and its signature of one call serve the other: equal, and without anything
  /// that is read anew each time (lists, factors, copies of the input).
  bool same_as(const Call& other) const {
    return operation == other.operation && input == other.input && output == other.output &&
           count == other.count && type == other.type && reduction == other.reduction && root == other.root &&
           exact == other.exact && peer == other.peer && algorithm == other.algorithm && counts.empty() &&
           other.counts.empty() && displacements.empty() && other.displacements.empty() && !copies_input();
  }
  /// Whether the input may be copied, scaled or to be safe from the output, as the call is laid out.
  bool copies_input() const {
    return reduction == Reduction::premul_sum || operation == Operation::all_to_all;
  }
};

/// "all_reduce of 1024 f32, sum" for errors.
std::string text_of(const Call& call);
std::string text_of(const CallRecord& record);

/// The call's memory, chunk by chunk, for a plan. Reused from call to call: nothing is allocated once it has
/// grown.
class CallMemory {
 public:
  /// Errors: usage, naming the argument: a missing buffer, a negative count, a list of another length than
  /// the world, an overlap, a reduction that the type does not have, blocks of unequal length where the
  /// algorithm needs equal ones.
  Result<Regions> lay_out(const Call& call, const PreparedPlan& plan);

 private:
  void cut_blocks(const Call& call, const Plan& plan);
  void cut_chunks(const Call& call, const Plan& plan);
  Result<bool> is_in_place(const Call& call, const Plan& plan) const;
  Region copied_input(const Call& call, ElementType type);
  std::vector<Extent>& inputs() { return chunks_[0]; }
  std::vector<Extent>& outputs() { return chunks_[1]; }
  std::vector<Extent>& partials() { return chunks_[2]; }

  std::vector<Extent> chunks_[kPlaces];
  std::vector<Extent> sent_;      ///< blocks of the vector on the side of input
  std::vector<Extent> received_;  ///< and of output
  std::int64_t vector_ = 0;       ///< elements of one copy of partial
  std::vector<std::byte> scratch_;
  std::vector<std::byte> partial_;
  std::vector<std::byte> scaled_;  ///< the input times the factor, of premul_sum
};

/// Elements of the whole operation at one rank: what choose() and busbw go by.
std::int64_t vector_count(const Call& call, int world);
/// Elements that the rank gives, and that it gets.
std::int64_t input_count(const Call& call, int rank, int world);
std::int64_t output_count(const Call& call, int rank, int world);
/// The checks that need no plan; errors as of lay_out.
Result<void> check_call(const Call& call, int rank, int world);

/// Part `index` of `parts` of `whole`, which differ by at most one granule; granules of `granule` elements,
/// so that parts begin on cache lines where the vector does. Later parts may be shorter or empty.
Extent part_of(Extent whole, int parts, int index, std::int64_t granule);

}  // namespace diji::collective
