// Whether this process is a child of the one that made a communicator.
#pragma once

#include <cstdint>

namespace diji::collective {

/// How many forks lie between the first use in this process's line and it: grows by one in each child. Costs
/// a load.
std::uint32_t forks_of_this_process();

}  // namespace diji::collective
