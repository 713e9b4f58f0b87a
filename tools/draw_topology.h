// A drawing of hosts in text: boxes of packages and NUMA nodes, with the cores of each cache on lines of
// their own.
#pragma once

#include "collective/topology.h"

#include <string>

namespace diji::tools {

/// Lines of at most `columns` columns where a core's hardware threads leave room for that. No colours.
std::string drawing_of(const collective::Topology& topology, std::size_t columns);

}  // namespace diji::tools
