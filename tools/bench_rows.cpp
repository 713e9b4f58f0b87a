// Tables for people and for programs; what counts as a regression.
#include "tools/bench_rows.h"

#include "base/files.h"
#include "tools/output.h"
#include "tools/table.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace diji::tools {
namespace {

// Between neighbours, as numpy's percentile.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at), high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

Json json_of(const PeerRow& peer) {
  if (!peer.absent.empty()) return {{"absent", peer.absent}};
  return {{"version", peer.version},
          {"value", peer.value},
          {"times_as_fast", peer.times_as_fast},
          {"low", peer.low},
          {"high", peer.high}};
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string text_of(const PeerRow& peer) {
  return peer.absent.empty()
             ? fmt::format("{:.2f}x {} ({:.2f}-{:.2f})", peer.times_as_fast, peer.name, peer.low, peer.high)
             : fmt::format("{} absent", peer.name);
}

std::vector<std::string> cells_of(const BenchRow& row) {
  std::vector<std::string> peers;
  for (const PeerRow& peer : row.peers) peers.push_back(text_of(peer));
  return {row.name,
          fmt::format("{:.4g}", row.value),
          row.unit,
          percent(row.spread),
          row.share_of_limit ? percent(*row.share_of_limit) : "-",
          fmt::format("{}", fmt::join(peers, ", "))};
}

constexpr std::array<std::string_view, 6> kHeadings = {"name",   "value",          "unit",
                                                       "spread", "share of limit", "diji against peers"};

void print_table(const Bench& bench) {
  Table table({"name", ">value", "unit", ">spread", ">share of limit", "diji against peers"});
  for (const BenchRow& row : bench.rows) table.add(cells_of(row));
  table.print();
}

void print_md(const Bench& bench) {
  tools::print("| {} |\n|---|--:|---|--:|--:|---|\n", fmt::join(kHeadings, " | "));
  for (const BenchRow& row : bench.rows) tools::print("| {} |\n", fmt::join(cells_of(row), " | "));
}

// RFC 4180.
std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, "\"");
  return "\"" + text + "\"";
}

// One line a row and peer, numbers in full.
void print_csv(const Bench& bench) {
  tools::print("name,value,unit,spread,share_of_limit,peer,peer_version,peer_value,times_as_fast,absent\n");
  for (const BenchRow& row : bench.rows) {
    const std::string share = row.share_of_limit ? fmt::format("{}", *row.share_of_limit) : "";
    const std::string own =
        fmt::format("{},{},{},{},{}", quoted(row.name), row.value, row.unit, row.spread, share);
    if (row.peers.empty()) tools::print("{},,,,,\n", own);
    for (const PeerRow& peer : row.peers) {
      const bool there = peer.absent.empty();
      tools::print("{},{},{},{},{},{}\n", own, peer.name, peer.version,
                   there ? fmt::format("{}", peer.value) : "",
                   there ? fmt::format("{}", peer.times_as_fast) : "", there ? "" : quoted(peer.absent));
    }
  }
}

bool less_is_better(std::string_view unit) { return unit == "ms" || unit == "us"; }

}  // namespace

Measured measured(std::vector<double> values) {
  std::ranges::sort(values);
  const double median = quantile(values, 0.5);
  return {median, (quantile(values, 0.75) - quantile(values, 0.25)) / median};
}

Json json_of(const Bench& bench) {
  Json rows = Json::array();
  for (const BenchRow& row : bench.rows) {
    Json peers = Json::object();
    for (const PeerRow& peer : row.peers) peers[peer.name] = json_of(peer);
    rows.push_back({{"name", row.name},
                    {"value", row.value},
                    {"unit", row.unit},
                    {"share_of_limit", row.share_of_limit ? Json(*row.share_of_limit) : Json()},
                    {"peers", std::move(peers)},
                    {"spread", row.spread}});
  }
  return {{"machine", bench.machine}, {"rows", std::move(rows)}};
}

void print(const Bench& bench, BenchFormat format) {
  switch (format) {
    case BenchFormat::table: return print_table(bench);
    case BenchFormat::json: return print_json(json_of(bench));
    case BenchFormat::csv: return print_csv(bench);
    case BenchFormat::md: return print_md(bench);
  }
}

Result<Bench> read_saved(const std::string& file) {
  const auto malformed = [&](std::string_view what) {
    auto error = fail(ErrorCode::malformed, "{}: {}; a file of `diji bench --save` is wanted", file, what);
    error.error().file = file;
    return error;
  };
  const auto bytes = TRY(read_file(file));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Json saved = Json::parse(text, nullptr, false);
  if (!saved.is_object() || !saved.contains("rows") || !saved["rows"].is_array())
    return malformed("it has no rows");
  Bench bench{.machine = saved.value("machine", Json())};
  for (const Json& row : saved["rows"]) {
    const auto number = [&](const char* key) {
      const bool there = row.contains(key) && row[key].is_number();
      return there ? std::optional(row[key].get<double>()) : std::nullopt;
    };
    const bool named = row.is_object() && row.contains("name") && row["name"].is_string() &&
                       row.contains("unit") && row["unit"].is_string();
    if (!named || !(number("value").value_or(0) > 0)) return malformed("a row lacks its name, value or unit");
    bench.rows.push_back({.name = row["name"].get<std::string>(),
                          .value = *number("value"),
                          .unit = row["unit"].get<std::string>(),
                          .spread = number("spread").value_or(0),
                          .share_of_limit = number("share_of_limit")});
  }
  return bench;
}

Result<Against> compare(const Bench& now, const Bench& saved, const std::string& file) {
  const auto same = [&](const char* key) {
    return saved.machine.is_object() && saved.machine.contains(key) && saved.machine[key] == now.machine[key];
  };
  Against result{.other_machine = !same("cpu") || !same("threads")};
  for (const BenchRow& before : saved.rows) {
    const auto found = std::ranges::find(now.rows, before.name, &BenchRow::name);
    if (found == now.rows.end() || before.unit != found->unit) {
      result.missing.push_back(before.name);
      continue;
    }
    const bool less = less_is_better(found->unit);
    double worse = (less ? found->value / before.value : before.value / found->value) - 1;
    if (found->share_of_limit && before.share_of_limit)
      worse = std::min(worse, *before.share_of_limit / *found->share_of_limit - 1);
    const double noise = std::max(kNoiseMin, before.spread + found->spread);
    ++result.compared;
    if (worse > noise) result.regressions.push_back({before.name, before.value, found->value, worse, noise});
  }
  if (result.compared == 0) return fail(ErrorCode::mismatch, "{}: none of its rows was measured now", file);
  return result;
}

}  // namespace diji::tools
