// {"ranks_per_host": 8, "within_host": {"latency_us": 1, "bandwidth_gbps": 10}, "between_hosts": {...},
//  "reduce_gbps": 50, "hosts": [...], "links": [...], "pairs": [...]}; gbps is 1e9 bytes a second, as in the
//  tables
// of `diji bench collective`.
#include "tools/topology.h"

#include "base/files.h"
#include "tools/arguments.h"
#include "tools/json.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diji::tools {
namespace {

using collective::Core;
using collective::Host;
using collective::Link;
using collective::MeasuredPair;
using collective::Proximity;
using collective::Topology;

constexpr double kRanksMax = 1 << 20;
constexpr double kPlacesMax = 1 << 16;
constexpr double kLatencyMax = 1e9;
constexpr double kGbpsMin = 1e-6;
constexpr double kGbpsMax = 1e9;

class Reader {
 public:
  Reader(const std::string& file, std::string_view text) : file_(file), text_(text) {}

  Result<Topology> read() const {
    Json document;
    try {
      document = Json::parse(text_);
    } catch (const Json::parse_error& error) {
      return malformed(error.byte, "it is no JSON");
    }
    if (!document.is_object()) return malformed(0, "it is no object");
    TRY(know(document, {"ranks_per_host", "within_host", "between_hosts", "reduce_gbps", "hosts", "links",
                        "pairs", "diji"}));
    Topology topology;
    TRY(whole(document, "ranks_per_host", 1, kRanksMax, topology.ranks_per_host));
    TRY(for_each(document, "hosts", [&](const Json& host) { return read_host(host, topology); }));
    TRY(for_each(document, "links", [&](const Json& link) { return read_link(link, topology); }));
    TRY(for_each(document, "pairs", [&](const Json& pair) { return read_pair(pair, topology); }));
    topology.model = costs_of(topology);
    collective::CostModel& model = topology.model;
    TRY(bandwidth(document, "reduce_gbps", model.gamma_us_per_byte));
    if (document.contains("reduce_gbps")) topology.reduce_gbps = 1e-3 / model.gamma_us_per_byte;
    TRY(costs(document, "within_host", model.alpha_us, model.beta_us_per_byte));
    TRY(costs(document, "between_hosts", model.alpha_between_us, model.beta_between_us_per_byte));
    return topology;
  }

 private:
  std::unexpected<Error> malformed(std::size_t place, std::string_view what) const {
    const auto line = 1 + std::ranges::count(text_.substr(0, place), '\n');
    auto error = fail(ErrorCode::malformed, "{}:{}: {}", file_, line, what);
    error.error().file = file_;
    return error;
  }
  // Where a key stands first.
  std::size_t place_of(std::string_view key) const {
    const std::size_t place = text_.find(fmt::format("\"{}\"", key));
    return place == std::string_view::npos ? 0 : place;
  }

  Result<void> know(const Json& object, const std::vector<std::string>& keys) const {
    for (const auto& [key, value] : object.items()) {
      if (std::ranges::find(keys, key) != keys.end()) continue;
      return malformed(place_of(key), fmt::format("there is no key '{}' here, but {}{}", key,
                                                  fmt::join(keys, ", "), did_you_mean(key, keys)));
    }
    return {};
  }

  Result<void> number(const Json& object, const char* key, double min, double max, double& to) const {
    if (!object.contains(key)) return {};
    const Json& value = object[key];
    const double found = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
    if (!(found >= min && found <= max))
      return malformed(place_of(key),
                       fmt::format("{} is {}, not a number of {} to {}", key, value.dump(), min, max));
    to = found;
    return {};
  }

  Result<void> whole(const Json& object, const char* key, double min, double max, int& to) const {
    double found = to;
    TRY(number(object, key, std::min(min, found), max, found));
    if (found != std::floor(found)) return malformed(place_of(key), fmt::format("{} is no integer", key));
    if (object.contains(key) && found < min)
      return malformed(place_of(key),
                       fmt::format("{} is {}, not a number of {} to {}", key, object[key].dump(), min, max));
    to = static_cast<int>(found);
    return {};
  }

  Result<void> words(const Json& object, const char* key, std::string& to) const {
    if (!object.contains(key)) return {};
    if (!object[key].is_string()) return malformed(place_of(key), fmt::format("{} is no text", key));
    to = object[key].get<std::string>();
    return {};
  }

  template <typename Body>
  Result<void> for_each(const Json& object, const char* key, const Body& body) const {
    if (!object.contains(key)) return {};
    if (!object[key].is_array()) return malformed(place_of(key), fmt::format("{} is no list", key));
    for (const Json& entry : object[key]) {
      if (!entry.is_object())
        return malformed(place_of(key), fmt::format("an entry of {} is no object", key));
      TRY(body(entry));
    }
    return {};
  }

  Result<void> bandwidth(const Json& object, const char* key, double& us_per_byte) const {
    double gbps = 1e-3 / us_per_byte;
    TRY(number(object, key, kGbpsMin, kGbpsMax, gbps));
    us_per_byte = 1e-3 / gbps;
    return {};
  }

  Result<void> costs(const Json& document, const char* key, double& alpha_us,
                     double& beta_us_per_byte) const {
    if (!document.contains(key)) return {};
    const Json& object = document[key];
    if (!object.is_object()) return malformed(place_of(key), fmt::format("{} is no object", key));
    TRY(know(object, {"latency_us", "bandwidth_gbps"}));
    TRY(number(object, "latency_us", 0, kLatencyMax, alpha_us));
    return bandwidth(object, "bandwidth_gbps", beta_us_per_byte);
  }

  // Null is as if it were left out: not known.
  Result<void> known(const Json& object, const char* key, double min, double max,
                     std::optional<double>& to) const {
    if (!object.contains(key) || object[key].is_null()) return {};
    double value = 0;
    TRY(number(object, key, min, max, value));
    to = value;
    return {};
  }
  Result<void> link(const Json& object, Link& to) const {
    TRY(known(object, "latency_us", 0, kLatencyMax, to.latency_us));
    return known(object, "bandwidth_gbps", kGbpsMin, kGbpsMax, to.bandwidth_gbps);
  }

  Result<Proximity> between(const Json& object) const {
    std::string name;
    TRY(words(object, "between", name));
    const auto proximity = collective::parse_proximity(name);
    if (!proximity) {
      return malformed(place_of("between"),
                       fmt::format("between is '{}'; there are core, cache, numa, package, "
                                   "host, network",
                                   name));
    }
    return *proximity;
  }

  Result<void> read_host(const Json& object, Topology& topology) const {
    TRY(know(object,
             {"name", "processor", "count", "machine_pus", "machine_numa_nodes", "quota_cores", "cores"}));
    Host host;
    TRY(words(object, "name", host.name));
    TRY(words(object, "processor", host.processor));
    TRY(whole(object, "count", 1, kRanksMax, host.count));
    TRY(whole(object, "machine_pus", 0, kPlacesMax, host.machine_pus));
    TRY(whole(object, "machine_numa_nodes", 0, kPlacesMax, host.machine_numa_nodes));
    TRY(number(object, "quota_cores", 0, kPlacesMax, host.quota_cores));
    TRY(for_each(object, "cores", [&](const Json& one) { return read_core(one, host); }));
    if (host.cores.empty()) return malformed(place_of("cores"), "a host has no cores");
    topology.hosts.push_back(std::move(host));
    return {};
  }

  Result<void> read_core(const Json& object, Host& host) const {
    TRY(know(object, {"package", "numa", "cache", "pus"}));
    Core core;
    TRY(whole(object, "package", 0, kPlacesMax, core.package));
    TRY(whole(object, "numa", 0, kPlacesMax, core.numa));
    TRY(whole(object, "cache", 0, kPlacesMax, core.cache));
    const Json pus = object.value("pus", Json::array());
    for (const Json& pu : pus.is_array() ? pus : Json::array()) {
      if (!pu.is_number_integer() || pu < 0 || pu > kPlacesMax) break;
      core.pus.push_back(pu.get<int>());
    }
    if (core.pus.empty() || core.pus.size() != pus.size())
      return malformed(place_of("pus"), "pus is no list of numbers of hardware threads");
    host.cores.push_back(std::move(core));
    return {};
  }

  Result<void> read_link(const Json& object, Topology& topology) const {
    TRY(know(object, {"between", "pairs", "measured", "expected"}));
    const auto at = static_cast<std::size_t>(TRY(between(object)));
    for (const auto& [key, to] :
         {std::pair("measured", &topology.measured[at]), std::pair("expected", &topology.expected[at])}) {
      if (!object.contains(key)) continue;
      if (!object[key].is_object()) return malformed(place_of(key), fmt::format("{} is no object", key));
      TRY(know(object[key], {"latency_us", "bandwidth_gbps"}));
      TRY(link(object[key], *to));
    }
    return {};
  }

  Result<void> read_pair(const Json& object, Topology& topology) const {
    TRY(know(object, {"a", "b", "between", "latency_us", "bandwidth_gbps"}));
    MeasuredPair pair;
    TRY(whole(object, "a", 0, kRanksMax, pair.a));
    TRY(whole(object, "b", 0, kRanksMax, pair.b));
    pair.proximity = TRY(between(object));
    TRY(link(object, pair.measured));
    topology.pairs.push_back(pair);
    return {};
  }

  const std::string& file_;
  std::string_view text_;
};

Json json_of(const Link& link) {
  return {{"latency_us", link.latency_us ? Json(*link.latency_us) : Json()},
          {"bandwidth_gbps", link.bandwidth_gbps ? Json(*link.bandwidth_gbps) : Json()}};
}

Json json_of(const Host& host) {
  Json cores = Json::array();
  for (const Core& core : host.cores)
    cores.push_back(
        {{"package", core.package}, {"numa", core.numa}, {"cache", core.cache}, {"pus", core.pus}});
  return {{"name", host.name},
          {"processor", host.processor},
          {"count", host.count},
          {"machine_pus", host.machine_pus},
          {"machine_numa_nodes", host.machine_numa_nodes},
          {"quota_cores", host.quota_cores},
          {"cores", std::move(cores)}};
}

}  // namespace

Json json_of(const Topology& topology) {
  const collective::CostModel& model = topology.model;
  const auto costs = [](double alpha_us, double beta_us_per_byte) {
    return Json{{"latency_us", alpha_us}, {"bandwidth_gbps", 1e-3 / beta_us_per_byte}};
  };
  Json document = Json::object();
  if (topology.ranks_per_host > 0) document["ranks_per_host"] = topology.ranks_per_host;
  document["within_host"] = costs(model.alpha_us, model.beta_us_per_byte);
  document["between_hosts"] = costs(model.alpha_between_us, model.beta_between_us_per_byte);
  document["reduce_gbps"] = 1e-3 / model.gamma_us_per_byte;
  document["hosts"] = Json::array();
  for (const Host& host : topology.hosts) document["hosts"].push_back(json_of(host));
  document["links"] = Json::array();
  for (std::size_t i = 0; i < collective::kProximities; ++i) {
    const auto proximity = static_cast<Proximity>(i);
    if (topology.measured[i] == Link{} && topology.expected[i] == Link{}) continue;
    document["links"].push_back(
        {{"between", std::string(name_of(proximity))},
         {"pairs", std::ranges::count(topology.pairs, proximity, &MeasuredPair::proximity)},
         {"measured", json_of(topology.measured[i])},
         {"expected", json_of(topology.expected[i])}});
  }
  document["pairs"] = Json::array();
  for (const MeasuredPair& pair : topology.pairs) {
    Json entry{{"a", pair.a}, {"b", pair.b}, {"between", std::string(name_of(pair.proximity))}};
    entry.update(json_of(pair.measured));
    document["pairs"].push_back(std::move(entry));
  }
  document["diji"] = DIJI_VERSION;
  return document;
}

Result<Topology> parse_topology(const std::string& source, std::string_view text) {
  return Reader(source, text).read();
}

Result<Topology> read_topology(const std::string& file) {
  const auto bytes = TRY(read_file(file));
  return parse_topology(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace diji::tools
