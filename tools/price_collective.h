// `diji bench collective --simulate`: what every algorithm would take, by the cost model; nothing runs.
#pragma once

#include "base/error.h"
#include "collective/call.h"

#include <cstdint>
#include <string>
#include <vector>

namespace diji::tools {

struct PriceRequest {
  collective::Call call;  ///< operation, type, reduction, root, exact, algorithm (empty: all)
  std::vector<std::int64_t> sizes;
  std::string world;     ///< "world=N"
  std::string topology;  ///< a file; empty: one host, CostModel's numbers
};

/// Errors: usage; those of read_topology.
Result<int> price_collective(const PriceRequest& request, bool json);

}  // namespace diji::tools
