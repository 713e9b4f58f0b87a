// What limits the cores that usable_cores() counts; and cores that several processes may use together.
#pragma once

#include <filesystem>
#include <optional>
#include <span>

namespace diji {

/// The smallest CPU quota of this process's cgroup and its ancestors, in cores; nothing when none is set.
/// Reads <root>/proc/self/cgroup and the controller files under <root>/sys/fs/cgroup (version 2 and version
/// 1).
std::optional<double> cgroup_cores(const std::filesystem::path& root);

/// The cores that at least one of the processes may use, within the quota of this one's cgroups; at least 1.
/// A launcher may have given each a core of its own. Of this process: the calling thread's. A process that is
/// gone adds none.
int usable_cores(std::span<const int> processes);

}  // namespace diji
