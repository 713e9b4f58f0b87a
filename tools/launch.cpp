// `diji launch`: N ranks of a program on this machine.
#include "collective/bootstrap.h"
#include "tools/context.h"
#include "tools/launched_ranks.h"
#include "tools/output.h"

#include <array>

namespace diji::tools {
namespace {

constexpr std::int64_t kRanksMax = 1024;

constexpr std::array kOptions = {
    OptionDef{"-n", "N", "how many ranks"},
    OptionDef{
        "--timeout", "S",
        "seconds after which a collective that waits ends with an error (default: $DIJI_TIMEOUT, else 120)"},
    OptionDef{
        "--no-bind", "",
        "do not bind each rank to its share of the cores (whole ones, of one NUMA node, where there are "
        "enough)"},
    OptionDef{"--tag", "", "print '[RANK] ' before each line of a rank's stdout"},
};

Result<int> run(Context&, const Arguments& arguments) {
  if (!arguments.has("-n")) return fail(ErrorCode::usage, "diji launch needs -n N, the number of ranks");
  LaunchOptions options;
  options.ranks = static_cast<int>(TRY(arguments.integer("-n", 1, 1, kRanksMax)));
  if (arguments.has("--timeout")) {
    options.timeout_s = TRY(arguments.real("--timeout", 0));
    if (*options.timeout_s <= 0 || *options.timeout_s * 1e6 > collective::kTimeoutMaxUs)
      return fail(ErrorCode::usage, "--timeout: {} is no number of seconds", *options.timeout_s);
  }
  options.tag = arguments.has("--tag");
  options.bind = !arguments.has("--no-bind");
  options.command = arguments.operands();
  const auto job = TRY(LaunchedRanks::start(options));
  const int code = job->wait();
  if (job->lost_a_rank()) {
    for (const std::string& line : job->report()) print_aside("diji launch: {}\n", line);
  }
  return code;
}

}  // namespace

constexpr Verb kLaunchVerb = {
    .name = "launch",
    .summary = "start N ranks of a program on this machine, and end them together",
    .example = "launch -n 2 diji bench collective all_reduce --sizes 8:64K",
    .operands = {"CMD...", "the program and its words; from here on all words are its own", 1,
                 Operands::kAnyCount},
    .options = kOptions,
    .run = run,
    .passes_rest = true,
};

}  // namespace diji::tools
