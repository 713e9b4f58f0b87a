// Each rank tells where it is; then pairs take their turn while the others wait in a barrier.
#include "tools/measure_links.h"

#include "collective/machine_topology.h"
#include "tools/topology.h"

#include <dirent.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace diji::tools {
namespace {

using collective::Communicator;
using collective::ElementType;
using collective::Host;
using collective::Link;
using collective::MeasuredPair;
using collective::Operation;
using collective::Proximity;
using collective::Spot;
using collective::Topology;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPairsMax = 120;  // all pairs of 16 ranks
constexpr std::size_t kPairsOfClass = 16;
constexpr std::int64_t kMessageBytes = 4 << 20;  // past the channel's slots and the second cache
// Of several rounds the fastest counts: what a link can do, not what else ran.
constexpr int kRounds = 10;
constexpr int kLatencyRounds = 100;
constexpr int kPings = 10;  // 1000 in all

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Where a rank is, as it travels: seven numbers.
struct Place {
  double package = 0, numa = 0, cache = 0, core = 0, copy_gbps = 0, network_gbps = 0, cores = 0;
};
constexpr std::int64_t kPlaceNumbers = sizeof(Place) / sizeof(double);

double copy_gbps() {
  const std::vector<std::byte> source(kMessageBytes, std::byte{1});
  std::vector<std::byte> target(kMessageBytes, std::byte{2});
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    std::memcpy(target.data(), source.data(), target.size());
    times.push_back(seconds_since(begin));
    if (target[static_cast<std::size_t>(round)] != std::byte{1}) return 0;  // so that it is not left out
  }
  return static_cast<double>(kMessageBytes) / std::ranges::min(times) / 1e9;
}

// 0: not known. The system counts megabits a second.
double network_gbps() {
  std::string name;
  if (const char* given = std::getenv("DIJI_SOCKET_IFNAME")) name = given;
  if (DIR* folder = name.empty() ? opendir("/sys/class/net") : nullptr; folder != nullptr) {
    int found = 0;
    while (const dirent* entry = readdir(folder)) {
      const std::string_view one = entry->d_name;
      if (one.starts_with('.') || one == "lo") continue;
      name = one;
      ++found;
    }
    closedir(folder);
    if (found != 1) return 0;
  }
  double megabits = 0;
  std::ifstream("/sys/class/net/" + name + "/speed") >> megabits;
  return megabits > 0 ? megabits / 8e3 : 0;
}

Result<Place> own_place(const Host& host) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof mask, &mask);
  for (std::size_t core = 0; core < host.cores.size(); ++core) {
    const collective::Core& one = host.cores[core];
    if (std::ranges::none_of(one.pus, [&](int pu) { return CPU_ISSET(pu, &mask); })) continue;
    return Place{static_cast<double>(one.package),
                 static_cast<double>(one.numa),
                 static_cast<double>(one.cache),
                 static_cast<double>(core),
                 copy_gbps(),
                 network_gbps(),
                 static_cast<double>(host.cores.size())};
  }
  return fail(ErrorCode::unsupported, "this process runs on no core that hwloc knows");
}

std::vector<MeasuredPair> pairs_of(const std::vector<Spot>& spots) {
  std::vector<std::vector<MeasuredPair>> classes(collective::kProximities);
  for (int a = 0; a < std::ssize(spots); ++a) {
    for (int b = a + 1; b < std::ssize(spots); ++b) {
      const Proximity one = proximity(spots[static_cast<std::size_t>(a)], spots[static_cast<std::size_t>(b)]);
      classes[static_cast<std::size_t>(one)].push_back({.a = a, .b = b, .proximity = one});
    }
  }
  std::vector<MeasuredPair> pairs;
  const bool all = spots.size() * (spots.size() - 1) / 2 <= kPairsMax;
  for (const auto& one : classes) {
    const std::size_t count = all ? one.size() : std::min(one.size(), kPairsOfClass);
    for (std::size_t i = 0; i < count; ++i) pairs.push_back(one[i * one.size() / count]);
  }
  return pairs;
}

class PingPong {
 public:
  PingPong(Communicator& communicator, const MeasuredPair& pair)
      : communicator_(communicator),
        is_first_(communicator.rank() == pair.a),
        peer_(is_first_ ? pair.b : pair.a),
        buffer_(kMessageBytes, std::byte{3}) {}

  Result<double> latency_us() {
    std::vector<double> times;
    for (int round = 0; round < kLatencyRounds; ++round) {
      const auto begin = Clock::now();
      for (int ping = 0; ping < kPings; ++ping) {
        TRY(pass(is_first_, 8));
        TRY(pass(!is_first_, 8));
      }
      times.push_back(seconds_since(begin) / (2 * kPings));
    }
    return 1e6 * std::ranges::min(times);
  }

  // The slower direction.
  Result<double> bandwidth_gbps() {
    std::vector<double> times[2];
    for (int round = 0; round < kRounds; ++round) {
      for (const bool there : {true, false}) {
        const auto begin = Clock::now();
        TRY(pass(is_first_ == there, kMessageBytes));
        TRY(pass(is_first_ != there, 8));  // that it has come
        times[there ? 0 : 1].push_back(seconds_since(begin));
      }
    }
    return static_cast<double>(kMessageBytes) /
           std::max(std::ranges::min(times[0]), std::ranges::min(times[1])) / 1e9;
  }

 private:
  Result<void> pass(bool sends, std::int64_t bytes) {
    return communicator_.run({.operation = sends ? Operation::send : Operation::receive,
                              .input = sends ? buffer_.data() : nullptr,
                              .output = sends ? nullptr : buffer_.data(),
                              .count = bytes,
                              .type = ElementType::u8,
                              .peer = peer_});
  }

  Communicator& communicator_;
  bool is_first_;
  int peer_;
  std::vector<std::byte> buffer_;
};

// The first rank of each host tells of it.
Result<std::vector<Host>> gather_hosts(Communicator& communicator, const Host& own,
                                       const std::vector<int>& leaders) {
  std::vector<Host> hosts;
  for (const int leader : leaders) {
    std::string text;
    if (communicator.rank() == leader) text = json_of(Topology{.hosts = {own}}).dump();
    std::int64_t bytes = std::ssize(text);
    TRY(communicator.run({.operation = Operation::broadcast,
                          .input = &bytes,
                          .output = &bytes,
                          .count = 1,
                          .type = ElementType::i64,
                          .root = leader}));
    text.resize(static_cast<std::size_t>(bytes));
    TRY(communicator.run({.operation = Operation::broadcast,
                          .input = text.data(),
                          .output = text.data(),
                          .count = bytes,
                          .type = ElementType::u8,
                          .root = leader}));
    Host host = TRY(parse_topology(fmt::format("rank {}", leader), text)).hosts.at(0);
    Host alike = host;
    if (!hosts.empty()) {
      alike.name = hosts.back().name;
      alike.count = hosts.back().count;
    }
    if (!hosts.empty() && alike == hosts.back()) {
      ++hosts.back().count;
    } else {
      hosts.push_back(std::move(host));
    }
  }
  return hosts;
}

void expect(Topology& topology, const std::vector<Place>& places) {
  std::vector<double> copies;
  double network = 0;
  for (const Place& place : places) {
    copies.push_back(place.copy_gbps);
    if (place.network_gbps > 0)
      network = network == 0 ? place.network_gbps : std::min(network, place.network_gbps);
  }
  std::ranges::sort(copies);
  for (std::size_t i = 0; i < collective::kProximities; ++i) {
    const auto one = static_cast<Proximity>(i);
    if (std::ranges::count(topology.pairs, one, &MeasuredPair::proximity) == 0) continue;
    if (one != Proximity::network) topology.expected[i].bandwidth_gbps = copies[copies.size() / 2];
    if (one == Proximity::network && network > 0) topology.expected[i].bandwidth_gbps = network;
  }
}

}  // namespace

Result<Topology> measure_links(Communicator& communicator) {
  const Host own = TRY(collective::host_of_machine(collective::CoresOf::container));
  const Place place = TRY(own_place(own));
  std::vector<Place> places(static_cast<std::size_t>(communicator.world()));
  TRY(communicator.run({.operation = Operation::all_gather,
                        .input = &place,
                        .output = places.data(),
                        .count = kPlaceNumbers,
                        .type = ElementType::f64}));
  std::vector<Spot> spots;
  std::vector<int> leaders;
  std::vector<std::string> machines;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const std::string& machine = communicator.group().members[rank].machine;
    const auto known = std::ranges::find(machines, machine);
    const int host = static_cast<int>(known - machines.begin());
    if (known == machines.end()) {
      machines.push_back(machine);
      leaders.push_back(static_cast<int>(rank));
    }
    const Place& one = places[rank];
    spots.push_back({host, static_cast<int>(one.package), static_cast<int>(one.numa),
                     static_cast<int>(one.cache), static_cast<int>(one.core)});
  }
  Topology topology{.ranks_per_host = communicator.shape().node_ranks, .pairs = pairs_of(spots)};
  topology.hosts = TRY(gather_hosts(communicator, own, leaders));
  std::vector<double> found(topology.pairs.size() * 2);
  for (std::size_t i = 0; i < topology.pairs.size(); ++i) {
    const MeasuredPair& pair = topology.pairs[i];
    TRY(communicator.run({.operation = Operation::barrier}));
    if (communicator.rank() != pair.a && communicator.rank() != pair.b) continue;
    PingPong between(communicator, pair);
    const double latency_us = TRY(between.latency_us());
    const double bandwidth_gbps = TRY(between.bandwidth_gbps());
    if (communicator.rank() != pair.a) continue;
    found[2 * i] = latency_us;
    found[2 * i + 1] = bandwidth_gbps;
  }
  std::vector<double> all(found.size());
  TRY(communicator.run({.operation = Operation::all_reduce,
                        .input = found.data(),
                        .output = all.data(),
                        .count = std::ssize(all),
                        .type = ElementType::f64}));
  for (std::size_t i = 0; i < topology.pairs.size(); ++i)
    topology.pairs[i].measured = Link{.latency_us = all[2 * i], .bandwidth_gbps = all[2 * i + 1]};
  expect(topology, places);
  summarise(topology);
  topology.model = costs_of(topology);
  return topology;
}

}  // namespace diji::tools
