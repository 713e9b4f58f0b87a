// The topology of this machine, read by hwloc, whose library is opened when first asked for.
#pragma once

#include "base/error.h"
#include "collective/topology.h"

#include <string>

namespace diji::collective {

/// Whose cores: of this process (its affinity mask counts), or of all that may run in this container.
enum class CoresOf : std::uint8_t { process, container };

/// What may be used of the machine, and what there is. Errors: unsupported, saying what to install, where the
/// library is not there, cannot be used, or diji was built without its header.
Result<Host> host_of_machine(CoresOf whose = CoresOf::process);

/// Of a description in hwloc's words, such as "package:2 numa:2 l3:1 core:4 pu:2": all of it may be used.
/// Errors: as above; usage, where it is none.
Result<Host> host_of_description(const std::string& description);

}  // namespace diji::collective
