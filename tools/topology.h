// The file of a topology: what `diji topo` saves and loads, and what `bench collective --simulate` reckons
// with.
#pragma once

#include "base/error.h"
#include "collective/topology.h"
#include "tools/json.h"

#include <string>
#include <string_view>

namespace diji::tools {

/// A JSON object; all keys may be left out. ranks_per_host, within_host, between_hosts ({"latency_us",
/// "bandwidth_gbps"}) and reduce_gbps are the costs that plans are priced with, as in CostModel where they
/// are left out; hosts, links and pairs are what `diji topo` measured. Errors: io, malformed (naming the
/// line).
Result<collective::Topology> read_topology(const std::string& file);
/// The same of text; `source` stands in errors.
Result<collective::Topology> parse_topology(const std::string& source, std::string_view text);

Json json_of(const collective::Topology& topology);

}  // namespace diji::tools
