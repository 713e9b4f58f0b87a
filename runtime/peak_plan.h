// The most device memory that a run will hold, told from the sizes of its inputs before anything runs.
#pragma once

#include "base/host_tensor.h"
#include "runtime/executable.h"

#include <span>
#include <string>
#include <vector>

namespace diji {

struct PeakPlan {
  std::uint64_t bytes = 0;          ///< of a context that has not run before, as its pool counts them
  std::uint64_t weights_bytes = 0;  ///< constants that lie on the device as copies, in its default pool
  /// What the plan takes for granted where data decide: "all iterations of 'until' are run". Empty, and
  /// `open` too: the run will hold exactly `bytes`.
  std::vector<std::string> as_if;
  /// Why the plan ends before the model does, so that `bytes` is only what is certain: "'observed' reads
  /// sizes from data". Empty: it does not.
  std::string open;

  bool exact() const { return as_if.empty() && open.empty(); }
};

/// Walks the programs as a run does, with sizes and without data. Errors: those of binding the sizes.
Result<PeakPlan> plan_peak(const Executable& executable, std::span<const StaticShape> shapes);

}  // namespace diji
