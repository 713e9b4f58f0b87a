// Synthetic machines: where ranks are bound, what pairs share, what is warned of; and this machine.
#include "collective/topology.h"

#include "base/thread_pool.h"
#include "collective/machine_topology.h"
#include "tests/unit/expect.h"

#include <algorithm>
#include <set>

namespace diji::collective {
namespace {

using Bindings = std::vector<std::vector<int>>;

// Nothing where this machine has no hwloc (other CPUs under an emulator): said, not passed over.
std::optional<Host> machine(const char* description) {
  auto host = host_of_description(description);
  if (host) return *host;
  MESSAGE("not run: ", host.error().message);
  EXPECT(host.error().code == ErrorCode::unsupported);
  EXPECT(host.error().message.contains("install"));
  return std::nullopt;
}

TEST_CASE("a machine described in hwloc's words has its packages, nodes, caches and cores") {
  const auto host = machine("package:2 numa:2 l3:2 core:2 pu:2");
  if (!host) return;
  REQUIRE(host->cores.size() == 16);
  EXPECT(host->pus() == 32);
  EXPECT(host->machine_pus == 32);
  EXPECT(host->numa_nodes() == 4);
  EXPECT(host->machine_numa_nodes == 4);
  EXPECT(host->cores[0] == Core{.package = 0, .numa = 0, .cache = 0, .pus = {0, 1}});
  EXPECT(host->cores[15] == Core{.package = 1, .numa = 3, .cache = 7, .pus = {30, 31}});
  const auto between = [&](int a, int b) { return proximity(spot_of(*host, 0, a), spot_of(*host, 0, b)); };
  EXPECT(between(3, 3) == Proximity::core);
  EXPECT(between(0, 1) == Proximity::cache);
  EXPECT(between(0, 2) == Proximity::numa);
  EXPECT(between(0, 4) == Proximity::package);
  EXPECT(between(0, 8) == Proximity::host);
  EXPECT(proximity(spot_of(*host, 0, 0), spot_of(*host, 1, 0)) == Proximity::network);
  const auto refused = host_of_description("package:two");
  REQUIRE(!refused.has_value());
  EXPECT(refused.error().code == ErrorCode::usage);
}

TEST_CASE("ranks are spread over NUMA nodes, on whole cores while there are some") {
  const auto two_nodes = machine("numa:2 core:4 pu:2");
  if (!two_nodes) return;
  EXPECT(bindings_of(*two_nodes, 1) == Bindings{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}});
  EXPECT(bindings_of(*two_nodes, 2) == Bindings{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}});
  EXPECT(bindings_of(*two_nodes, 3) == Bindings{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}});
  EXPECT(bindings_of(*two_nodes, 4) ==
         Bindings{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}});
  EXPECT(bindings_of(*two_nodes, 8) ==
         Bindings{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}});
  EXPECT(bindings_of(*two_nodes, 10) == Bindings{{0}, {2}, {4}, {6}, {1}, {8}, {10}, {12}, {14}, {9}});
  EXPECT(bindings_of(*two_nodes, 17).empty());
  EXPECT(bindings_of(*two_nodes, 0).empty());
  const Host four_nodes = machine("package:2 numa:2 core:3 pu:1").value();
  EXPECT(bindings_of(four_nodes, 3) == Bindings{{0, 1, 2}, {3, 4, 5}, {6, 7, 8, 9, 10, 11}});
  EXPECT(bindings_of(four_nodes, 6) == Bindings{{0}, {1}, {3}, {4}, {6}, {9}});
}

TEST_CASE("in every machine, for any number of ranks, bindings are disjoint, even, and of one node") {
  for (const char* description :
       {"core:1 pu:1", "core:7 pu:2", "numa:3 core:5 pu:2", "package:2 numa:2 l3:2 core:3 pu:4",
        "package:2 core:16 pu:1", "numa:8 pu:3"}) {
    const auto host = machine(description);
    if (!host) return;
    for (int ranks = 1; ranks <= host->pus(); ++ranks) {
      const Bindings bindings = bindings_of(*host, ranks);
      CAPTURE(description);
      CAPTURE(ranks);
      REQUIRE(std::ssize(bindings) == ranks);
      std::set<int> used;
      std::set<std::size_t> cores_used;
      std::vector<int> on_node(static_cast<std::size_t>(host->numa_nodes()));
      std::size_t least = bindings[0].size();
      std::size_t most = 0;
      for (const auto& binding : bindings) {
        REQUIRE(!binding.empty());
        least = std::min(least, binding.size());
        most = std::max(most, binding.size());
        std::set<int> nodes;
        std::set<std::size_t> cores;
        for (const int pu : binding) {
          EXPECT(used.insert(pu).second);
          for (std::size_t core = 0; core < host->cores.size(); ++core) {
            if (std::ranges::find(host->cores[core].pus, pu) == host->cores[core].pus.end()) continue;
            nodes.insert(host->cores[core].numa);
            cores.insert(core);
          }
        }
        for (const int node : nodes) ++on_node[static_cast<std::size_t>(node)];
        if (ranks >= host->numa_nodes()) EXPECT(nodes.size() == 1);
        // No two ranks share a core while whole ones are free.
        if (ranks <= std::ssize(host->cores)) {
          for (const std::size_t core : cores) EXPECT(cores_used.insert(core).second);
        }
        cores_used.insert(cores.begin(), cores.end());
      }
      if (ranks >= host->numa_nodes()) {
        EXPECT(least == most);
        EXPECT(std::ranges::max(on_node) - std::ranges::min(on_node) <= 1);  // the nodes are alike
      }
      if (ranks > std::ssize(host->cores)) EXPECT(cores_used.size() == host->cores.size());
    }
  }
}

TEST_CASE("this machine is read, and no rank is bound to what it may not use") {
  const auto host = host_of_machine();
  if (!host) {
    MESSAGE("not run: ", host.error().message);
    return;
  }
  EXPECT(host->pus() >= 1);
  EXPECT(host->machine_pus >= host->pus());
  EXPECT(host->pus() >= usable_cores());
  EXPECT(!host->name.empty());
  EXPECT(bindings_of(*host, 1)[0].size() == static_cast<std::size_t>(host->pus()));
}

Topology measured_pairs() {
  Topology topology;
  topology.hosts.push_back(
      {.name = "a", .cores = {{.pus = {0}}, {.pus = {1}}, {.numa = 1, .cache = 1, .pus = {2}}}});
  topology.hosts[0].machine_pus = 3;
  topology.hosts[0].machine_numa_nodes = 2;
  topology.pairs = {
      {.a = 0, .b = 1, .proximity = Proximity::cache, .measured = {.latency_us = 0.2, .bandwidth_gbps = 10}},
      {.a = 0, .b = 2, .proximity = Proximity::package, .measured = {.latency_us = 0.4, .bandwidth_gbps = 8}},
      {.a = 1,
       .b = 2,
       .proximity = Proximity::package,
       .measured = {.latency_us = 0.6, .bandwidth_gbps = 2}}};
  for (Link& link : topology.expected) link.bandwidth_gbps = 10;
  return topology;
}

TEST_CASE("what was measured becomes a median a class, and costs") {
  Topology topology = measured_pairs();
  summarise(topology);
  EXPECT(topology.measured[1] == Link{.latency_us = 0.2, .bandwidth_gbps = 10});
  EXPECT(*topology.measured[3].latency_us == doctest::Approx(0.5));
  EXPECT(*topology.measured[3].bandwidth_gbps == doctest::Approx(5));
  EXPECT(topology.measured[5] == Link{});
  const CostModel costs = costs_of(topology);
  EXPECT(costs.alpha_us == doctest::Approx(0.5));
  EXPECT(costs.beta_us_per_byte == doctest::Approx(1e-3 / 5));
  EXPECT(costs.beta_between_us_per_byte == doctest::Approx(1e-3 / 10));
  EXPECT(costs.alpha_between_us == CostModel{}.alpha_between_us);
  EXPECT(costs.gamma_us_per_byte == CostModel{}.gamma_us_per_byte);
  EXPECT(costs_of({}).alpha_us == CostModel{}.alpha_us);
}

TEST_CASE("pairs below 70 % of what is expected, and what a container hides, are warned of") {
  Topology topology = measured_pairs();
  const auto warnings = warnings_of(topology);
  REQUIRE(warnings.size() == 1);
  EXPECT(warnings[0] == "cores 1 and 2 (on one package): 2 GB/s measured, 10 expected (20 %)");
  topology.pairs[1].measured.bandwidth_gbps = 6.9;
  REQUIRE(warnings_of(topology).size() == 2);
  EXPECT(warnings_of(topology)[0] == warnings[0]);  // the worst first
  topology.pairs.clear();
  EXPECT(warnings_of(topology).empty());
  Host& host = topology.hosts[0];
  host.machine_pus = 8;
  EXPECT(warnings_of(topology)[0].starts_with("a: 3 of 8 hardware threads may be used here"));
  host.machine_pus = 3;
  host.quota_cores = 1.5;
  EXPECT(warnings_of(topology)[0].starts_with("a: the cgroup gives the time of 1.5 cores, but 3 hardware"));
  host.quota_cores = 3;
  host.machine_numa_nodes = 4;
  EXPECT(warnings_of(topology)[0] == "a: 2 of 4 NUMA nodes may be used here");
  host.machine_numa_nodes = 0;
  EXPECT(warnings_of(topology)[0].starts_with("a: no NUMA nodes are to be seen"));
  for (int i = 0; i < 40; ++i)
    topology.pairs.push_back(
        {.a = i, .b = i + 1, .proximity = Proximity::cache, .measured = {.bandwidth_gbps = 1}});
  EXPECT(warnings_of(topology)[16] == "and 24 more pairs");
}

}  // namespace
}  // namespace diji::collective
