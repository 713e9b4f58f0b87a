// Pairs by what they share, ranks on cores, and what does not look as it should.
#include "collective/topology.h"

#include <algorithm>
#include <map>
#include <set>

namespace diji::collective {
namespace {

constexpr std::array<std::string_view, kProximities> kNames = {"core",    "cache", "numa",
                                                               "package", "host",  "network"};
constexpr std::array<std::string_view, kProximities> kTexts = {
    "on one core", "below one cache", "on one NUMA node", "on one package", "on one host", "on two hosts"};
constexpr std::size_t kWarningsMax = 16;

std::size_t index_of(int value) { return static_cast<std::size_t>(value); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Numbers of cores by NUMA node, in order.
std::vector<std::vector<int>> cores_by_node(const Host& host) {
  std::map<int, std::vector<int>> nodes;
  for (int core = 0; core < std::ssize(host.cores); ++core)
    nodes[host.cores[index_of(core)].numa].push_back(core);
  std::vector<std::vector<int>> all;
  for (auto& [number, cores] : nodes) all.push_back(std::move(cores));
  return all;
}

// How many of `ranks` each node gets: in proportion to its places, as evenly as whole numbers allow.
std::vector<int> shares(const std::vector<int>& places, int ranks) {
  std::vector<int> share(places.size());
  for (int rank = 0; rank < ranks; ++rank) {
    // The node that would be the least full with one more.
    std::size_t best = places.size();
    for (std::size_t node = 0; node < places.size(); ++node) {
      if (share[node] == places[node]) continue;
      if (best == places.size() || (share[node] + 1) * places[best] < (share[best] + 1) * places[node])
        best = node;
    }
    ++share[best];
  }
  return share;
}

std::vector<int> pus_of(const Host& host, std::span<const int> cores) {
  std::vector<int> pus;
  for (const int core : cores) {
    const Core& one = host.cores[index_of(core)];
    pus.insert(pus.end(), one.pus.begin(), one.pus.end());
  }
  return pus;
}

// Of a node: each core's first hardware thread, then the second ones.
std::vector<int> pus_in_turn(const Host& host, std::span<const int> cores) {
  std::vector<int> pus;
  for (std::size_t thread = 0, before = 1; pus.size() != before; ++thread) {
    before = pus.size();
    for (const int core : cores) {
      const Core& one = host.cores[index_of(core)];
      if (thread < one.pus.size()) pus.push_back(one.pus[thread]);
    }
    if (before == 0 && pus.empty()) break;
  }
  return pus;
}

std::string spots_text(const Topology& topology, const MeasuredPair& pair) {
  const bool ranks = topology.hosts.size() != 1 || topology.ranks_per_host != 0 ||
                     pair.b >= std::ssize(topology.hosts[0].cores);
  return fmt::format("{} {} and {} ({})", ranks ? "ranks" : "cores", pair.a, pair.b, text_of(pair.proximity));
}

void warn_of_host(const Host& host, std::vector<std::string>& warnings) {
  const std::string name = host.name.empty() ? "the machine" : host.name;
  if (host.machine_pus > host.pus()) {
    warnings.push_back(fmt::format(
        "{}: {} of {} hardware threads may be used here: a container or an affinity mask hides the others",
        name, host.pus(), host.machine_pus));
  }
  if (host.quota_cores > 0 && host.quota_cores < host.pus()) {
    warnings.push_back(
        fmt::format("{}: the cgroup gives the time of {:.3g} cores, but {} hardware threads are to be seen: "
                    "ranks on all of "
                    "them are stopped in turns",
                    name, host.quota_cores, host.pus()));
  }
  if (host.machine_numa_nodes == 0) {
    warnings.push_back(fmt::format(
        "{}: no NUMA nodes are to be seen: a container hides them; ranks cannot be placed by them", name));
  } else if (host.machine_numa_nodes > host.numa_nodes()) {
    warnings.push_back(fmt::format("{}: {} of {} NUMA nodes may be used here", name, host.numa_nodes(),
                                   host.machine_numa_nodes));
  }
}

}  // namespace

std::string_view name_of(Proximity proximity) { return kNames[static_cast<std::size_t>(proximity)]; }
std::string_view text_of(Proximity proximity) { return kTexts[static_cast<std::size_t>(proximity)]; }

std::optional<Proximity> parse_proximity(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Proximity>(found - kNames.begin());
}

int Host::pus() const {
  std::size_t all = 0;
  for (const Core& core : cores) all += core.pus.size();
  return static_cast<int>(all);
}

int Host::numa_nodes() const {
  std::set<int> nodes;
  for (const Core& core : cores) nodes.insert(core.numa);
  return static_cast<int>(nodes.size());
}

Proximity proximity(const Spot& a, const Spot& b) {
  if (a.host != b.host) return Proximity::network;
  if (a.package != b.package) return Proximity::host;
  if (a.numa != b.numa) return Proximity::package;
  if (a.cache != b.cache) return Proximity::numa;
  return a.core != b.core ? Proximity::cache : Proximity::core;
}

Spot spot_of(const Host& host, int host_number, int core) {
  const Core& one = host.cores[index_of(core)];
  return {.host = host_number, .package = one.package, .numa = one.numa, .cache = one.cache, .core = core};
}

std::vector<std::vector<int>> bindings_of(const Host& host, int ranks) {
  const std::vector<std::vector<int>> nodes = cores_by_node(host);
  const auto node_count = static_cast<int>(nodes.size());
  std::vector<std::vector<int>> bindings;
  if (ranks < 1 || ranks > host.pus()) return bindings;
  if (ranks < node_count) {
    for (int rank = 0; rank < ranks; ++rank) {
      bindings.emplace_back();
      for (int node = rank * node_count / ranks; node < (rank + 1) * node_count / ranks; ++node) {
        const std::vector<int> pus = pus_of(host, nodes[index_of(node)]);
        bindings.back().insert(bindings.back().end(), pus.begin(), pus.end());
      }
    }
    return bindings;
  }
  const bool whole_cores = ranks <= std::ssize(host.cores);
  std::vector<int> places;
  for (const auto& cores : nodes)
    places.push_back(static_cast<int>(whole_cores ? cores.size() : pus_of(host, cores).size()));
  const std::vector<int> share = shares(places, ranks);
  int each = places[0];
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (share[node] > 0) each = std::min(each, places[node] / share[node]);
  }
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const std::vector<int> pus = pus_in_turn(host, nodes[node]);
    for (int rank = 0; rank < share[node]; ++rank) {
      if (whole_cores) {
        bindings.push_back(
            pus_of(host, std::span(nodes[node]).subspan(index_of(rank * each), index_of(each))));
      } else {
        bindings.push_back({pus[index_of(rank)]});
      }
    }
  }
  return bindings;
}

void summarise(Topology& topology) {
  for (int i = 0; i < kProximities; ++i) {
    std::vector<double> latencies;
    std::vector<double> bandwidths;
    for (const MeasuredPair& pair : topology.pairs) {
      if (static_cast<int>(pair.proximity) != i) continue;
      if (pair.measured.latency_us) latencies.push_back(*pair.measured.latency_us);
      if (pair.measured.bandwidth_gbps) bandwidths.push_back(*pair.measured.bandwidth_gbps);
    }
    Link& link = topology.measured[index_of(i)];
    link = {};
    if (!latencies.empty()) link.latency_us = median(std::move(latencies));
    if (!bandwidths.empty()) link.bandwidth_gbps = median(std::move(bandwidths));
  }
}

CostModel costs_of(const Topology& topology) {
  constexpr double kUsPerByte = 1e-3;  // of 1e9 bytes a second
  CostModel model;
  std::optional<double> latency_us;
  std::optional<double> us_per_byte;
  for (int i = 0; i < kProximities; ++i) {
    const Link& measured = topology.measured[index_of(i)];
    const Link& expected = topology.expected[index_of(i)];
    const auto latency = measured.latency_us ? measured.latency_us : expected.latency_us;
    const auto bandwidth = measured.bandwidth_gbps ? measured.bandwidth_gbps : expected.bandwidth_gbps;
    if (static_cast<Proximity>(i) == Proximity::network) {
      if (latency) model.alpha_between_us = *latency;
      if (bandwidth) model.beta_between_us_per_byte = kUsPerByte / *bandwidth;
      break;
    }
    if (latency) latency_us = std::max(latency_us.value_or(0), *latency);
    if (bandwidth) us_per_byte = std::max(us_per_byte.value_or(0), kUsPerByte / *bandwidth);
  }
  model.alpha_us = latency_us.value_or(model.alpha_us);
  model.beta_us_per_byte = us_per_byte.value_or(model.beta_us_per_byte);
  if (topology.reduce_gbps > 0) model.gamma_us_per_byte = kUsPerByte / topology.reduce_gbps;
  return model;
}

std::vector<std::string> warnings_of(const Topology& topology) {
  std::vector<std::pair<double, std::string>> slow;
  for (const MeasuredPair& pair : topology.pairs) {
    const Link& expected = topology.expected[static_cast<std::size_t>(pair.proximity)];
    if (!expected.bandwidth_gbps || !pair.measured.bandwidth_gbps) continue;
    const double share = *pair.measured.bandwidth_gbps / *expected.bandwidth_gbps;
    if (share >= kExpectedShare) continue;
    slow.emplace_back(
        share, fmt::format("{}: {:.3g} GB/s measured, {:.3g} expected ({:.0f} %)", spots_text(topology, pair),
                           *pair.measured.bandwidth_gbps, *expected.bandwidth_gbps, 100 * share));
  }
  std::ranges::sort(slow);
  std::vector<std::string> warnings;
  for (const auto& [share, text] : slow) {
    if (warnings.size() == kWarningsMax) {
      warnings.push_back(fmt::format("and {} more pairs", slow.size() - kWarningsMax));
      break;
    }
    warnings.push_back(text);
  }
  for (const Host& host : topology.hosts) warn_of_host(host, warnings);
  return warnings;
}

}  // namespace diji::collective
