// A file that says what messages between ranks cost: what `diji bench collective --simulate` reckons with.
#pragma once

#include "base/error.h"
#include "collective/plan.h"

#include <string>

namespace diji::tools {

/// Two levels: ranks r with equal r / ranks_per_host share a host.
struct Topology {
  int ranks_per_host = 0;  ///< 0: all ranks share one
  collective::CostModel model;
};

/// A JSON object; what it leaves out is as in CostModel. Errors: io, malformed (naming the line).
Result<Topology> read_topology(const std::string& file);

}  // namespace diji::tools
