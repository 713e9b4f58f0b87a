// Where ranks can be and what lies between two of them: hosts, packages, NUMA nodes, caches, cores, and
// links.
#pragma once

#include "base/error.h"
#include "collective/plan.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji::collective {

/// What two ranks share, the nearest first.
enum class Proximity : std::uint8_t { core, cache, numa, package, host, network };
inline constexpr int kProximities = 6;
/// "core", "cache", "numa", "package", "host", "network"
std::string_view name_of(Proximity proximity);
std::optional<Proximity> parse_proximity(std::string_view name);
/// "on one NUMA node", "on two hosts"
std::string_view text_of(Proximity proximity);

/// A core with what this process may use of it.
struct Core {
  int package = 0;
  int numa = 0;
  int cache = 0;         ///< its last-level cache; numbers are unique in a host, as those of NUMA nodes
  std::vector<int> pus;  ///< the system's numbers of its hardware threads; not empty
  bool operator==(const Core&) const = default;
};

/// One machine, or several that are alike.
struct Host {
  std::string name;
  std::string processor;
  int count = 1;
  std::vector<Core> cores;  ///< next to each other: of one cache, NUMA node, package
  // What may be less here than on the whole machine, in a container or by an affinity mask.
  int machine_pus = 0;
  int machine_numa_nodes = 0;  ///< 0: the system does not tell
  double quota_cores = 0;      ///< of the cgroup; 0: none
  int pus() const;
  int numa_nodes() const;
  bool operator==(const Host&) const = default;
};

/// Nothing: not known.
struct Link {
  std::optional<double> latency_us;      ///< of 8 bytes, one way
  std::optional<double> bandwidth_gbps;  ///< 1e9 bytes a second, of long messages one way
  bool operator==(const Link&) const = default;
};

/// Two places (cores of one host, in order; or ranks) and what was measured between them.
struct MeasuredPair {
  int a = 0;
  int b = 0;
  Proximity proximity = Proximity::core;
  Link measured;
  bool operator==(const MeasuredPair&) const = default;
};

/// The matrix of links is kept by classes of pairs, so that thousands of ranks take no more than a few.
struct Topology {
  std::vector<Host> hosts;
  int ranks_per_host = 0;  ///< 0: all ranks share one host
  std::array<Link, kProximities> expected;
  std::array<Link, kProximities> measured;  ///< medians over pairs
  std::vector<MeasuredPair> pairs;
  double reduce_gbps = 0;  ///< 0: not known
  CostModel model;         ///< of costs_of, or a file's own
};

/// Where a rank is.
struct Spot {
  int host = 0;
  int package = 0;
  int numa = 0;
  int cache = 0;
  int core = 0;
  bool operator==(const Spot&) const = default;
};
Proximity proximity(const Spot& a, const Spot& b);
/// Of core number `core` of a host.
Spot spot_of(const Host& host, int host_number, int core);

/// The hardware threads that each of `ranks` ranks of a host is bound to. As many as there are whole cores or
/// fewer: each gets as many whole cores, all of one NUMA node, ranks spread evenly over the nodes; fewer
/// ranks than nodes: whole nodes. More than cores: one thread each, second ones of a core last. More than
/// hardware threads: nothing, nobody is bound. Consecutive ranks are neighbours.
std::vector<std::vector<int>> bindings_of(const Host& host, int ranks);

/// Fills `measured` with the medians of `pairs`.
void summarise(Topology& topology);
/// Two levels of what was measured, else expected, else CostModel's: within hosts that of the slowest class,
/// as a plan that knows nothing of places waits for it.
CostModel costs_of(const Topology& topology);

/// Below this share of what was expected a pair is warned of.
inline constexpr double kExpectedShare = 0.7;
/// Pairs that are slower than expected, the worst first, with both numbers; what a container hides of a host.
std::vector<std::string> warnings_of(const Topology& topology);

}  // namespace diji::collective
