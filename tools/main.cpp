// The command: finds the verb, parses, runs, and turns an error into a sentence, a document and an exit code.
#include "base/host_memory.h"
#include "tools/context.h"
#include "tools/help.h"
#include "tools/json.h"
#include "tools/output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace diji::tools {
namespace {

constexpr std::array kVerbs = {&kCheckVerb,  &kDevicesVerb, &kRunVerb,   &kCompileVerb, &kCoverageVerb,
                               &kVerifyVerb, &kCacheVerb,   &kBenchVerb, &kTopoVerb,    &kLaunchVerb,
                               &kRanksVerb,  &kTuneVerb,    &kOpVerb,    &kPluginVerb,  &kDocsVerb};

bool asks_for(std::span<const std::string> words, std::string_view option) {
  const auto end = std::ranges::find(words, "--");
  return std::find(words.begin(), end, option) != end;
}

int report(const Error& error, bool json) {
  // An error between ranks begins with the rank.
  print_aside("{}{}\n", error.peer.sequence < 0 ? "diji: " : "", error.message);
  if (json) print_json(json_of(error));
  return exit_code(error.code);
}

Result<const Verb*> find_verb(const std::string& name) {
  const auto found = std::ranges::find(kVerbs, name, &Verb::name);
  if (found != kVerbs.end()) return *found;
  std::vector<std::string> names;
  for (const Verb* verb : kVerbs) {
    if (!verb->hidden) names.emplace_back(verb->name);
  }
  return fail(ErrorCode::usage, "'{}' is no verb of diji{}; the verbs are {}", name,
              did_you_mean(name, names), fmt::join(names, ", "));
}

Result<int> run_verb(std::span<const std::string> words) {
  const std::string& first = words[0];
  if (first == "help" && words.size() > 1) {
    print("{}", help_of(*TRY(find_verb(words[1]))));
    return 0;
  }
  if (first == "--help" || first == "-h" || first == "help") {
    print("{}", general_help());
    return 0;
  }
  if (first == "--version") {
    print("diji {}\n", DIJI_VERSION);
    return 0;
  }
  const Verb* verb = TRY(find_verb(first));
  const auto own = words.subspan(1, own_words(*verb, words.subspan(1)));
  if (asks_for(own, "--help") || asks_for(own, "-h")) {
    print("{}", help_of(*verb));
    return 0;
  }
  const Arguments arguments = TRY(Arguments::parse(*verb, words.subspan(1)));
  Context context = TRY(Context::create(arguments));
  return verb->run(context, arguments);
}

int run_command(std::span<const std::string> words) {
  if (words.empty()) {
    print_aside("{}", general_help());
    return exit_code(ErrorCode::usage);
  }
  const auto verb = find_verb(words[0]);
  const std::span<const std::string> all(words);
  const bool json = asks_for(verb ? all.subspan(1, own_words(**verb, all.subspan(1))) : all, "--json");
  auto code = with_host_memory([&] { return run_verb(words); });
  const int result = code ? *code : report(code.error(), json);
  // A full disk behind stdout must not look like success.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    print_aside("diji: writing to stdout: {}\n", std::strerror(errno));
    return result != 0 ? result : exit_code(ErrorCode::io);
  }
  return result;
}

}  // namespace

std::span<const Verb* const> verbs() { return kVerbs; }

}  // namespace diji::tools

int main(int argc, char** argv) {
  // A file size limit is an error of the write that meets it, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return diji::tools::run_command(words);
}
