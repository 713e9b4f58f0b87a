// The shared options become SessionOptions; names are checked against the compiler's own lists.
#include "tools/model_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace diji::tools {
namespace {

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const PassRule& rule : rules()) names.emplace_back(rule.name);
  return names;
}

Result<PassOptions> pass_options(const Arguments& arguments) {
  PassOptions options;
  const std::vector<std::string> known = rule_names();
  for (const std::string& name : arguments.all("--disable-rule")) {
    if (std::ranges::find(known, name) == known.end()) {
      return fail(ErrorCode::usage, "--disable-rule: there is no rule '{}'{}; the rules are {}", name,
                  did_you_mean(name, known), fmt::join(known, ", "));
    }
    options.disabled_rules.insert(name);
  }
  std::vector<std::string_view> passes;
  for (const PassEntry& pass : pipeline()) passes.push_back(pass.name);
  TRY(arguments.choice("--dump-after", passes, 0));
  options.dump_after = arguments.text("--dump-after", "");
  return options;
}

Result<std::map<std::string, std::int64_t>> dims_of(const Arguments& arguments) {
  std::map<std::string, std::int64_t> dims;
  for (const std::string& word : arguments.all("--dim")) {
    const std::size_t equals = word.rfind('=');  // a size has no '=', a name may
    std::int64_t size = -1;
    if (equals != std::string::npos) {
      const auto [end, problem] = std::from_chars(word.data() + equals + 1, word.data() + word.size(), size);
      if (problem != std::errc() || end != word.data() + word.size()) size = -1;
    }
    if (equals == 0 || size < 0)
      return fail(ErrorCode::usage, "--dim: '{}' is not NAME=N, as in batch=4", word);
    if (!dims.emplace(word.substr(0, equals), size).second) {
      return fail(ErrorCode::usage, "--dim: '{}' is given twice", word.substr(0, equals));
    }
  }
  return dims;
}

std::optional<std::int64_t> not_finite_element(const HostTensor& tensor) {
  if (!is_floating(tensor.dtype())) return std::nullopt;
  for (std::int64_t element = 0; element < tensor.count(); ++element) {
    if (!std::isfinite(tensor.as_double(element))) return element;
  }
  return std::nullopt;
}

// The step after which a NaN or an infinity is first seen; an input may hold one too.
std::string first_culprit(Session& session, const std::map<std::string, HostTensor>& inputs) {
  for (const auto& [name, tensor] : inputs) {
    if (not_finite_element(tensor)) return fmt::format("; input '{}' holds one already", name);
  }
  std::string first;
  const auto look = [&](const Observation& seen) -> Result<void> {
    if (!first.empty()) return {};
    if (not_finite_element(TRY(seen.read(seen.step.value)))) first = seen.step.operators;
    return {};
  };
  if (!session.run(inputs, nullptr, {.observer = look}) || first.empty()) return "";
  return fmt::format("; the first one comes from: {}", first);
}

}  // namespace

Result<ModelOptions> model_options(Context& context, const Arguments& arguments) {
  ModelOptions options;
  options.session.device = context.device_name();
  options.session.memory_limit_bytes = TRY(arguments.bytes("--memory-limit", 0));
  options.session.custom_ops = TRY(context.custom_ops(arguments));
  options.session.passes = TRY(pass_options(arguments));
  options.dims = TRY(dims_of(arguments));
  options.strict = arguments.has("--strict");
  options.verbose = arguments.has("--verbose");
  // The cache's own switch. Set here, before devices bring threads that might read the environment.
  if (arguments.has("--no-cache")) ::setenv("DIJI_CACHE_DIR", "off", 1);
  return options;
}

Result<std::optional<Arithmetic>> interpreter_option(const Arguments& arguments) {
  constexpr std::array<std::string_view, 2> kChoices = {"exact", "rounded"};
  constexpr std::array kArithmetic = {Arithmetic::oracle, Arithmetic::typed};
  const std::size_t chosen = TRY(arguments.choice(kInterpreterOption.name, kChoices, kChoices.size()));
  if (chosen == kChoices.size()) return std::nullopt;
  return kArithmetic[chosen];
}

std::string find_not_finite(Session& session, const std::map<std::string, HostTensor>& inputs,
                            const std::vector<HostTensor>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto element = not_finite_element(outputs[i]);
    if (!element) continue;
    return fmt::format("output '{}': element {} is {}{}", session.graph().outputs()[i].name, *element,
                       outputs[i].as_double(*element), first_culprit(session, inputs));
  }
  return "";
}

}  // namespace diji::tools
