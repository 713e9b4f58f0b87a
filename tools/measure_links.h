// What lies between the ranks of a job: their places, and ping-pong between pairs of them.
#pragma once

#include "collective/communicator.h"
#include "collective/topology.h"

namespace diji::tools {

/// All ranks call it. Every pair where there are few, else some of each class, one pair at a time: some
/// milliseconds each. Expected within a host is the rate at which its cores copy memory, between hosts the
/// speed of the network interface that DIJI_SOCKET_IFNAME names, or of the only one. On rank 0 the hosts and
/// the pairs, which are of ranks; on others only the pairs. Errors: the communicator's; unsupported, without
/// hwloc.
Result<collective::Topology> measure_links(collective::Communicator& communicator);

}  // namespace diji::tools
