// The file of a virtual accelerator, and its clock.
#include "plugins/sim/sim_card.h"

#include "base/files.h"
#include "base/nearest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace diji::sim {
namespace {

struct Key {
  std::string_view name;
  double Card::* member;
  double least, most;
};

constexpr double kDevicesMax = 64;
constexpr double kBytesMax = 1e15;
constexpr double kRateMax = 1e18;  // an exaflop a second
constexpr double kNsMax = 1e12;    // a quarter of an hour
constexpr double kCountMax = 1e15;
constexpr double kDegreesMin = -273, kDegreesMax = 1000;

constexpr std::array kKeys = {
    Key{"devices", &Card::devices, 0, kDevicesMax},
    Key{"memory_bytes", &Card::memory_bytes, 1, kBytesMax},
    Key{"flops_per_s", &Card::flops_per_s, 1, kRateMax},
    Key{"bytes_per_s", &Card::bytes_per_s, 1, kRateMax},
    Key{"link_bytes_per_s", &Card::link_bytes_per_s, 1, kRateMax},
    Key{"link_latency_ns", &Card::link_latency_ns, 0, kNsMax},
    Key{"peer_bytes_per_s", &Card::peer_bytes_per_s, 1, kRateMax},
    Key{"peer_latency_ns", &Card::peer_latency_ns, 0, kNsMax},
    Key{"launch_latency_ns", &Card::launch_latency_ns, 0, kNsMax},
    Key{"clock_mhz", &Card::clock_mhz, 1, 1e6},
    Key{"temperature_idle_c", &Card::temperature_idle_c, kDegreesMin, kDegreesMax},
    Key{"temperature_busy_c", &Card::temperature_busy_c, kDegreesMin, kDegreesMax},
    Key{"temperature_time_s", &Card::temperature_time_s, 1e-9, 1e6},
    Key{"throttle_c", &Card::throttle_c, kDegreesMin, kDegreesMax},
    Key{"throttle_share", &Card::throttle_share, 0.01, 1},
    Key{"fault_device", &Card::fault_device, -1, kDevicesMax},
    Key{"fail_alloc", &Card::fail_alloc, 0, kCountMax},
    Key{"fail_launch", &Card::fail_launch, 0, kCountMax},
    Key{"flip_bit", &Card::flip_bit, 0, kCountMax},
    Key{"dead_after", &Card::dead_after, 0, kCountMax},
    Key{"slow", &Card::slow, 1, 1e6},
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const std::size_t first = std::min(text.find_first_not_of(kSpace), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

Result<void> take_line(Card& card, std::string_view line) {
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos) return fail(ErrorCode::malformed, "'{}' is no key = value", line);
  const std::string_view name = trimmed(line.substr(0, equals)), text = trimmed(line.substr(equals + 1));
  const auto key = std::ranges::find(kKeys, name, &Key::name);
  if (key == kKeys.end()) {
    std::vector<std::string> names;
    for (const Key& known : kKeys) names.emplace_back(known.name);
    const std::string nearest = nearest_name(name, names);
    return fail(ErrorCode::malformed, "there is no key '{}'{}", name,
                nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return fail(ErrorCode::malformed, "{}: '{}' is no number", name, text);
  if (!(value >= key->least && value <= key->most))
    return fail(ErrorCode::malformed, "{}: {} is not from {} to {}", name, value, key->least, key->most);
  card.*key->member = value;
  return {};
}

/// Newton's law of cooling: the distance to where the temperature goes shrinks exponentially.
double approach(double from, double to, double ns, double time_s) {
  return to + (from - to) * std::exp(-ns / (time_s * 1e9));
}

std::uint64_t whole(double ns) { return static_cast<std::uint64_t>(std::llround(std::min(ns, 1e18))); }

}  // namespace

Result<Card> parse_card(std::string_view text, const std::string& file) {
  Card card;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view content = trimmed(line.substr(0, line.find('#')));
    if (content.empty()) continue;
    if (auto taken = take_line(card, content); !taken)
      return in_context(fmt::format("{}:{}", file, number), std::move(taken).error());
  }
  return card;
}

Result<Card> current_card() {
  const char* file = std::getenv("DIJI_SIM");
  if (file == nullptr || *file == '\0')
    return fail(ErrorCode::no_device, "DIJI_SIM names no file, so there is no virtual accelerator");
  const auto bytes = TRY(read_file(file));
  return parse_card({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file);
}

double CardClock::share_at(double temperature_c) const {
  return temperature_c >= card_.throttle_c ? card_.throttle_share : 1;
}

double CardClock::clock_mhz() const { return card_.clock_mhz * share_at(temperature_c()); }

double CardClock::temperature_c() const {
  const std::uint64_t now = std::max(latest_ns(), temperature_ns_);
  return approach(temperature_c_, card_.temperature_idle_c, static_cast<double>(now - temperature_ns_),
                  card_.temperature_time_s);
}

/// Idle until then.
void CardClock::pass_to(std::uint64_t ns) {
  if (ns <= temperature_ns_) return;
  temperature_c_ = approach(temperature_c_, card_.temperature_idle_c,
                            static_cast<double>(ns - temperature_ns_), card_.temperature_time_s);
  temperature_ns_ = ns;
}

std::uint64_t CardClock::launch(std::uint64_t stream_ns, std::uint64_t flops, std::uint64_t bytes) {
  const std::uint64_t begin = std::max({stream_ns, compute_ns_, host_ns()});
  pass_to(begin);
  const double share = share_at(temperature_c_);
  const double work_s = std::max(static_cast<double>(flops) / (card_.flops_per_s * share),
                                 static_cast<double>(bytes) / card_.bytes_per_s);
  const std::uint64_t took = whole(card_.slow * (work_s * 1e9 + card_.launch_latency_ns));
  compute_ns_ = begin + took;
  busy_ns_ += took;
  temperature_c_ =
      approach(temperature_c_, card_.temperature_busy_c, static_cast<double>(took), card_.temperature_time_s);
  temperature_ns_ = compute_ns_;
  return compute_ns_;
}

std::uint64_t CardClock::link_copy(std::uint64_t stream_ns, std::uint64_t bytes) {
  const double took_ns = static_cast<double>(bytes) / card_.link_bytes_per_s * 1e9 + card_.link_latency_ns;
  link_ns_ = std::max({stream_ns, link_ns_, host_ns()}) + whole(card_.slow * took_ns);
  return link_ns_;
}

std::uint64_t CardClock::exchange(std::uint64_t begin_ns, std::uint64_t bytes, std::uint64_t messages) {
  const double took_ns = static_cast<double>(bytes) / card_.peer_bytes_per_s * 1e9 +
                         static_cast<double>(messages) * card_.peer_latency_ns;
  peer_ns_ = std::max({begin_ns, peer_ns_, host_ns()}) + whole(card_.slow * took_ns);
  host_waits_until(peer_ns_);
  return peer_ns_;
}

void CardClock::host_waits_until(std::uint64_t ns) {
  std::uint64_t& own = host_ns_[std::this_thread::get_id()];
  own = std::max(own, ns);
}

std::uint64_t CardClock::host_ns() const {
  const auto own = host_ns_.find(std::this_thread::get_id());
  return own == host_ns_.end() ? 0 : own->second;
}

std::uint64_t CardClock::latest_ns() const {
  std::uint64_t latest = 0;
  for (const auto& [thread, ns] : host_ns_) latest = std::max(latest, ns);
  return latest;
}

}  // namespace diji::sim
