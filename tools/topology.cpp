// {"ranks_per_host": 8, "within_host": {"latency_us": 1, "bandwidth_gbps": 10}, "between_hosts": {...},
//  "reduce_gbps": 50}; gbps is 1e9 bytes a second, as in the tables of `diji bench collective`.
#include "tools/topology.h"

#include "base/files.h"
#include "tools/arguments.h"
#include "tools/json.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diji::tools {
namespace {

constexpr double kRanksMax = 1 << 20;

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
    TRY(know(document, {"ranks_per_host", "within_host", "between_hosts", "reduce_gbps"}));
    Topology topology;
    collective::CostModel& model = topology.model;
    double ranks = 0;
    TRY(number(document, "ranks_per_host", 1, kRanksMax, ranks));
    if (ranks != std::floor(ranks))
      return malformed(place_of("ranks_per_host"), "ranks_per_host is no integer");
    topology.ranks_per_host = static_cast<int>(ranks);
    TRY(bandwidth(document, "reduce_gbps", model.gamma_us_per_byte));
    TRY(link(document, "within_host", model.alpha_us, model.beta_us_per_byte));
    TRY(link(document, "between_hosts", model.alpha_between_us, model.beta_between_us_per_byte));
    return topology;
  }

 private:
  std::unexpected<Error> malformed(std::size_t place, std::string_view what) const {
    const auto line = 1 + std::ranges::count(text_.substr(0, place), '\n');
    auto error = fail(ErrorCode::malformed, "{}:{}: {}", file_, line, what);
    error.error().file = file_;
    return error;
  }
  // Where a key stands: no value of the file is a string, so what looks like it is it.
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

  Result<void> bandwidth(const Json& object, const char* key, double& us_per_byte) const {
    constexpr double kMin = 1e-6;
    constexpr double kMax = 1e9;
    double gbps = 1e-3 / us_per_byte;
    TRY(number(object, key, kMin, kMax, gbps));
    us_per_byte = 1e-3 / gbps;
    return {};
  }

  Result<void> link(const Json& document, const char* key, double& alpha_us, double& beta_us_per_byte) const {
    constexpr double kLatencyMax = 1e9;
    if (!document.contains(key)) return {};
    const Json& object = document[key];
    if (!object.is_object()) return malformed(place_of(key), fmt::format("{} is no object", key));
    TRY(know(object, {"latency_us", "bandwidth_gbps"}));
    TRY(number(object, "latency_us", 0, kLatencyMax, alpha_us));
    return bandwidth(object, "bandwidth_gbps", beta_us_per_byte);
  }

  const std::string& file_;
  std::string_view text_;
};

}  // namespace

Result<Topology> read_topology(const std::string& file) {
  const auto bytes = TRY(read_file(file));
  return Reader(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}).read();
}

}  // namespace diji::tools
