// Runs one rank's part of a plan on real memory, without blocking: a state machine that whoever waits
// advances.
#pragma once

#include "base/error.h"
#include "collective/plan.h"
#include "collective/reduce.h"
#include "collective/transport.h"

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace diji::collective {

/// Elements of a chunk.
struct Extent {
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

/// Where a place of a plan lies. Chunks that the rank does not have (chunks_at) have no bytes.
struct Region {
  std::byte* data = nullptr;
  ElementType type = ElementType::f32;
  std::span<const Extent> chunks;
};
inline constexpr std::size_t kPlaces = 4;
using Regions = std::array<Region, kPlaces>;

/// A plan whose sends of one chunk in one round are joined, with the rounds' bounds: made once, run often.
class PreparedPlan {
 public:
  explicit PreparedPlan(Plan plan);
  const Plan& plan() const { return plan_; }
  /// partial_may_be_output
  bool partial_may_be_output(bool in_place) const { return in_place ? in_place_too_ : apart_; }

 private:
  friend class Execution;
  struct Send {
    Place source = Place::input;
    int chunk = 0;
    std::vector<int> peers;
  };
  struct Round {
    std::vector<Send> sends;
    std::vector<Step> receives;
    std::vector<Step> locals;
  };
  Plan plan_;
  bool apart_;
  bool in_place_too_;
  std::vector<Round> rounds_;
};

/// How values of this call become one.
struct Arithmetic {
  Reduction reduction = Reduction::sum;
  std::int64_t ranks = 1;
  Store store = Store::cached;
  Reducer* reducer = nullptr;  ///< null: this processor
  bool lends = false;  ///< messages, which nobody combines, may stay in this rank's memory (Transport::lend)
};

/// What a waiting rank pushes on: one plan, or several sends and receives.
class Progress {
 public:
  Progress() = default;
  virtual ~Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Does what can be done now. True: something moved, call again. Errors: mismatch, with the peer's rank in
  /// offender(), where a peer's message belongs to another call or has another length; a transport's.
  virtual Result<bool> advance() = 0;
  /// Nothing is left to do, and the caller's memory is his again.
  virtual bool done() const = 0;
  /// A rank that this one waits for, -1 when it waits for none.
  virtual int waits_for() const = 0;
  virtual int offender() const = 0;
  /// The offender's tag, after a mismatch.
  virtual CallTag offending_tag() const = 0;
};

/// One at a time, again and again: what it has allocated is kept from call to call.
class Execution final : public Progress {
 public:
  /// `links[rank]` is the transport to that rank (null for this one). All fragments are of `fragment_bytes`,
  /// the least of all ranks' transports, so that both sides of a pair cut alike.
  void start(const PreparedPlan& plan, const Regions& regions, Arithmetic arithmetic, CallTag tag,
             std::span<Transport* const> links, std::int64_t fragment_bytes);

  Result<bool> advance() override;
  bool done() const override { return round_ == plan_->rounds_.size() && outstanding_.empty(); }
  int waits_for() const override;
  int offender() const override { return offender_; }
  CallTag offending_tag() const override { return offending_tag_; }

 private:
  struct Outstanding {
    Transport* transport = nullptr;
    Ticket ticket = kFree;
    std::span<const std::byte> bytes;
  };
  void start_round();
  void run_local(const Step& step);
  void combine(ElementType type, std::byte* target, Operand left, Operand right, std::int64_t count,
               Store store);
  void fold(ElementType type, std::byte* target, std::int64_t count);
  Result<bool> push(std::size_t send);
  Result<bool> push_fragment(std::size_t send, std::span<const int> positions);
  Result<bool> pull(std::size_t receive);
  Result<bool> pull_fold(std::size_t receive);
  Result<std::optional<Message>> next_from(int peer, std::int64_t bytes);
  Result<bool> take(const Step& step, std::int64_t at, const Message& message);
  bool round_is_done() const;
  bool collect();
  bool writes_outstanding(std::size_t round) const;
  std::int64_t bytes_of_chunk(Place place, int chunk) const;
  std::int64_t incoming_bytes(const Step& step) const;
  std::byte* at(Place place, int chunk) const;
  const Region& region(Place place) const { return regions_[static_cast<std::size_t>(place)]; }

  const PreparedPlan* plan_ = nullptr;
  Regions regions_;
  Arithmetic arithmetic_;
  CallTag tag_;
  std::span<Transport* const> links_;
  std::int64_t fragment_bytes_ = 0;
  std::size_t round_ = 0;
  std::vector<std::vector<std::int64_t>> sent_;  ///< of the round: bytes, by send and peer; -1 when done
  std::vector<std::int64_t> received_;           ///< of the round: bytes, by receive; -1 when done
  std::vector<char> blocked_;                    ///< by rank, in one pass
  std::vector<Outstanding> outstanding_;         ///< sends that peers read in place
  std::vector<int> ready_;
  std::vector<int> same_;
  std::vector<Operand> operands_;
  std::vector<std::byte> folded_;  ///< of a fold by the reducer
  std::optional<Error> reducer_failure_;
  int offender_ = -1;
  CallTag offending_tag_;
};

}  // namespace diji::collective
