// How many cores the cgroups allow, with the root of the file system as an argument for tests.
#pragma once

#include <filesystem>
#include <optional>

namespace diji {

/// The smallest CPU quota of this process's cgroup and its ancestors, in cores; nothing when none is set.
/// Reads <root>/proc/self/cgroup and the controller files under <root>/sys/fs/cgroup (version 2 and version
/// 1).
std::optional<double> cgroup_cores(const std::filesystem::path& root);

}  // namespace diji
