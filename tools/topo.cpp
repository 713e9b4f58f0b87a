// `diji topo`: the machine, or the hosts of a job, as the communication library sees them, and what links
// take.
#include "base/files.h"
#include "collective/bootstrap.h"
#include "collective/machine_topology.h"
#include "tools/context.h"
#include "tools/draw_topology.h"
#include "tools/launched_ranks.h"
#include "tools/measure_links.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/topology.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

namespace diji::tools {
namespace {

using collective::Host;
using collective::Link;
using collective::MeasuredPair;
using collective::Topology;

constexpr std::array kOptions = {
    OptionDef{"--save", "FILE",
              "write the topology to a file: for --load, --against and bench collective --simulate"},
    OptionDef{"--load", "FILE", "show the topology of a file; nothing is measured"},
    OptionDef{"--against", "FILE",
              "take what that file expects, else what it measured, as what is expected here"},
    OptionDef{"--no-measure", "", "only what the system says of the machine"},
};

// Neighbours and distant ones, where there are more cores than are worth the time.
std::vector<int> cores_to_measure(const Host& host) {
  constexpr int kCoresMax = 16;
  const auto count = static_cast<int>(host.cores.size());
  std::vector<int> cores;
  for (int i = 0; i < std::min(count, kCoresMax); ++i)
    cores.push_back(count <= kCoresMax ? i : i / 2 * 2 * count / kCoresMax + i % 2);
  return cores;
}

// Ranks of this very program, each on a core of its own; their numbers become those of the cores.
Result<Topology> measure_machine(const Host& host) {
  Topology topology{.hosts = {host}};
  const std::vector<int> cores = cores_to_measure(host);
  topology.model = costs_of(topology);
  if (cores.size() < 2) return topology;
  LaunchOptions options;
  options.ranks = static_cast<int>(cores.size());
  options.timeout_s = 60;
  options.capture = true;
  for (const int core : cores)
    options.bindings.push_back({host.cores[static_cast<std::size_t>(core)].pus[0]});
  options.command = {"/proc/self/exe", "topo", "--json"};
  const auto job = TRY(LaunchedRanks::start(options));
  const int code = job->wait();
  if (code != 0) return fail(ErrorCode::failed, "the ranks that measure ended with exit code {}", code);
  Json document = Json::parse(job->output(), nullptr, false);
  if (document.is_discarded()) return fail(ErrorCode::failed, "the ranks that measure said something else");
  document.erase("warnings");
  const Topology measured = TRY(parse_topology("the ranks that measure", document.dump()));
  topology.pairs = measured.pairs;
  for (MeasuredPair& pair : topology.pairs) {
    pair.a = cores[static_cast<std::size_t>(pair.a)];
    pair.b = cores[static_cast<std::size_t>(pair.b)];
  }
  topology.expected = measured.expected;
  topology.measured = measured.measured;
  topology.model = costs_of(topology);
  return topology;
}

std::size_t terminal_columns() {
  constexpr std::size_t kColumns = 100;
  std::size_t columns = kColumns;
  if (const char* given = std::getenv("COLUMNS")) {
    const std::string_view text = given;
    std::size_t number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem == std::errc() && end == text.data() + text.size() && number > 0) return number;
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) columns = size.ws_col;
  return std::min(columns, kColumns);
}

std::string number_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.3g}", *value) : "-";
}

void print_topology(const Topology& topology) {
  print("{}", drawing_of(topology, terminal_columns()));
  Table table({"between two ranks", ">pairs", ">latency us", ">GB/s", ">least GB/s", ">expected GB/s"});
  for (std::size_t i = 0; i < collective::kProximities; ++i) {
    const Link& measured = topology.measured[i];
    const Link& expected = topology.expected[i];
    if (measured == Link{} && expected == Link{}) continue;
    const auto proximity = static_cast<collective::Proximity>(i);
    std::optional<double> least;
    std::int64_t pairs = 0;
    for (const MeasuredPair& pair : topology.pairs) {
      if (pair.proximity != proximity) continue;
      ++pairs;
      if (const auto found = pair.measured.bandwidth_gbps) least = std::min(least.value_or(*found), *found);
    }
    table.add({std::string(text_of(proximity)), fmt::format("{}", pairs), number_text(measured.latency_us),
               number_text(measured.bandwidth_gbps), number_text(least),
               number_text(expected.bandwidth_gbps)});
  }
  if (!table.empty()) table.print();
}

Result<void> expect_as(Topology& topology, const std::string& file) {
  const Topology other = TRY(read_topology(file));
  for (std::size_t i = 0; i < collective::kProximities; ++i)
    topology.expected[i] = other.expected[i] == Link{} ? other.measured[i] : other.expected[i];
  return {};
}

Result<int> show(Topology topology, const Context& context, const Arguments& arguments) {
  if (arguments.has("--against")) TRY(expect_as(topology, arguments.text("--against", "")));
  if (arguments.has("--save"))
    TRY(write_file_atomically(arguments.text("--save", ""), json_of(topology).dump(2) + "\n"));
  const std::vector<std::string> warnings = warnings_of(topology);
  if (context.json()) {
    Json document = json_of(topology);
    document["warnings"] = warnings;
    print_json(document);
    return 0;
  }
  print_topology(topology);
  for (const std::string& warning : warnings) print_aside("diji: topo: {}\n", warning);
  return 0;
}

Result<int> run(Context& context, const Arguments& arguments) {
  const bool measures = !arguments.has("--no-measure");
  if (arguments.has("--load")) {
    if (!measures)
      return fail(ErrorCode::usage, "--load measures nothing: --no-measure has no meaning with it");
    return show(TRY(read_topology(arguments.text("--load", ""))), context, arguments);
  }
  const collective::Identity identity = TRY(collective::identity_from(collective::variable));
  if (identity.world > 1 && measures) {
    const auto communicator = TRY(collective::communicator_of_job());
    Topology topology = TRY(measure_links(*communicator));
    return communicator->rank() == 0 ? show(std::move(topology), context, arguments) : Result<int>(0);
  }
  const Host host = TRY(collective::host_of_machine());
  return show(measures ? TRY(measure_machine(host)) : Topology{.hosts = {host}}, context, arguments);
}

}  // namespace

constexpr Verb kTopoVerb = {
    .name = "topo",
    .summary =
        "the topology as collectives see it: hosts, NUMA nodes, caches, cores, and the links between them",
    .example = "topo --save topology.json",
    .operands = {},
    .options = kOptions,
    .shared_options = {},
    .run = run,
};

}  // namespace diji::tools
