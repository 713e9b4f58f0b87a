// Sends and receives that progress together: the fused group, and the single one as a group of one.
#pragma once

#include "collective/call.h"
#include "collective/execution.h"

#include <memory>
#include <span>
#include <vector>

namespace diji::collective {

/// The plan of one send or receive.
Plan point_to_point_plan(Operation operation, int world, int rank, int peer);

/// Several sends and receives at once, so that two ranks that both send before they receive do not wait for
/// each other. Those of one direction with one peer keep their order.
class PointToPoint final : public Progress {
 public:
  /// `tags[i]` belongs to `calls[i]`. Errors of CallMemory::lay_out.
  Result<void> start(std::span<const Call> calls, std::span<const CallTag> tags, int rank,
                     std::span<Transport* const> links, std::int64_t fragment_bytes);
  Result<bool> advance() override;
  bool done() const override;
  int waits_for() const override;
  int offender() const override { return offender_; }
  CallTag offending_tag() const override { return offending_tag_; }

 private:
  struct Part {
    Operation operation;
    int peer = -1;
    std::unique_ptr<PreparedPlan> plan;
    CallMemory memory;
    Execution execution;
  };
  std::vector<std::unique_ptr<Part>> parts_;
  int offender_ = -1;
  CallTag offending_tag_;
};

}  // namespace diji::collective
