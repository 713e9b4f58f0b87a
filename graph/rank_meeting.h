// Where the interpreters of several ranks meet: each collective is complete when its whole group has come.
#pragma once

#include "graph/reference.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace diji {

/// One axis of a mesh of ranks. Ranks are numbered row-major: the last axis is the fastest.
struct MeshAxis {
  std::string name;
  std::int64_t size = 1;
};

/// What a rank gets; of an interpreter with bounds, with how far it may lie from the truth.
struct Exchanged {
  Array array;
  std::vector<double> bound;
};

/// Each rank has a thread that calls meet() and, at the end, leave(). Thread-safe.
class RankMeeting {
 public:
  /// Axes of at least 1.
  explicit RankMeeting(std::span<const MeshAxis> mesh);
  std::size_t ranks() const { return seats_.size(); }

  /// Waits for the group that the node names, an axis of the mesh. `call` has the one operand and the result;
  /// `bound` is the operand's, empty where nobody wants bounds. Errors: call_mismatch, where ranks of the
  /// group are at different collectives, or where nobody can go on.
  Result<Exchanged> meet(std::size_t rank, const Node& node, const ReferenceCall& call,
                         const std::vector<double>& bound);
  /// The rank will not come any more: its graph has ended, or failed.
  void leave(std::size_t rank);

 private:
  struct Seat {
    enum class State : std::uint8_t { running, waiting, left } state = State::running;
    const Node* node = nullptr;
    const ReferenceCall* call = nullptr;
    const std::vector<double>* bound = nullptr;
    std::optional<Result<Exchanged>> answer;
  };
  std::vector<std::size_t> group_of(std::size_t rank, std::string_view name) const;
  void settle(std::size_t rank);
  void complete(std::span<const std::size_t> members);
  void fail_all(const std::string& sentence);
  std::string where(std::size_t rank) const;

  std::vector<MeshAxis> mesh_;
  std::vector<Seat> seats_;
  std::optional<Error> failure_;
  std::mutex mutex_;
  std::condition_variable answered_;
};

}  // namespace diji
