// One table, three texts: the list of verbs, a verb's help, the reference page.
#include "tools/help.h"

#include "tools/arguments.h"
#include "tools/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace diji::tools {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::string_view kExitCodes =
    "0 done; 1 the answer is no; 2 wrong usage; 3 bad input; 4 environment (device, memory); 5 peer or "
    "deadline";

std::string text_of(const OptionDef& option) {
  return fmt::format("{}{}{}", option.name, option.value.empty() ? "" : " ", option.value);
}

std::string list_of(const std::vector<OptionDef>& options) {
  std::size_t width = 0;
  for (const OptionDef& option : options) width = std::max(width, text_of(option).size());
  std::string text;
  for (const OptionDef& option : options) {
    const std::string help = fmt::format("{}{}", option.help, option.repeatable ? "; may be repeated" : "");
    text += fmt::format("  {:<{}}  {}\n", text_of(option), width, wrapped(help, width + 4, kColumns));
  }
  return text;
}

std::string usage_of(const Verb& verb) {
  return fmt::format("diji {}{}{} [options]", verb.name, verb.operands.usage.empty() ? "" : " ",
                     verb.operands.usage);
}

}  // namespace

std::string general_help() {
  std::string text = "diji runs models on any device.\n\nUsage: diji VERB [options]\n\n";
  std::size_t width = 0;
  for (const Verb* verb : verbs()) width = std::max(width, verb->name.size());
  for (const Verb* verb : verbs()) {
    if (!verb->hidden) text += fmt::format("  {:<{}}  {}\n", verb->name, width, verb->summary);
  }
  text += "\ndiji VERB --help shows a verb's options and an example; diji --version the version.\n";
  return text + fmt::format("Exit codes: {}.\n", wrapped(kExitCodes, 12, kColumns));
}

std::string help_of(const Verb& verb) {
  std::string text = fmt::format("{}\n\nUsage: {}\n", wrapped(verb.summary, 0, kColumns), usage_of(verb));
  if (!verb.operands.usage.empty()) {
    text += fmt::format("\n  {}  {}\n", verb.operands.usage,
                        wrapped(verb.operands.help, verb.operands.usage.size() + 4, kColumns));
  }
  text += fmt::format("\nOptions:\n{}", list_of(options_of(verb)));
  text += fmt::format("\nExample:\n  diji {}\n", verb.example);
  return text + fmt::format("\nExit codes: {}.\n", wrapped(kExitCodes, 12, kColumns));
}

std::string verbs_page() {
  std::string text = "# The command diji\n\n";
  text += fmt::format("Exit codes: {}.\n\nEvery verb takes:\n\n| option | |\n|---|---|\n", kExitCodes);
  const auto rows = [](std::span<const OptionDef> options) {
    std::string lines;
    for (const OptionDef& option : options) {
      std::string code = text_of(option);
      for (std::size_t at = 0; (at = code.find('|', at)) != std::string::npos; at += 2) code.insert(at, "\\");
      lines +=
          fmt::format("| `{}` | {}{} |\n", code, option.help, option.repeatable ? "; may be repeated" : "");
    }
    return lines;
  };
  text += rows(kCommonOptions);
  for (const Verb* verb : verbs()) {
    if (verb->hidden) continue;
    text += fmt::format("\n## {}\n\n{}\n\n```text\n{}\n\ndiji {}\n```\n", verb->name, verb->summary,
                        usage_of(*verb), verb->example);
    if (!verb->operands.usage.empty())
      text += fmt::format("\n`{}`: {}\n", verb->operands.usage, verb->operands.help);
    if (verb->options.empty() && verb->shared_options.empty()) continue;
    text += fmt::format("\n| option | |\n|---|---|\n{}{}", rows(verb->options), rows(verb->shared_options));
  }
  return text;
}

}  // namespace diji::tools
