// The trials are whole runs: the model is opened with other rules, run on the same inputs, compared.
#include "tools/bisect.h"

namespace diji::tools {
namespace {

// "at application 3 of 17: conv1 (multiply), conv1 (add)"
std::string text_of(const GuiltyRule& rule) {
  return fmt::format("{}, at application {} of {}: {}", rule.rule, rule.application, rule.applications,
                     fmt::join(rule.operators, ", "));
}

void blame_rules(Bisected& found) {
  found.blamed = "rule";
  std::vector<std::string> texts;
  for (const GuiltyRule& rule : found.guilty.rules) texts.push_back(text_of(rule));
  found.sentence = texts.size() == 1
                       ? fmt::format("it is right with --disable-rule {}; the rule {}",
                                     found.guilty.rules[0].rule, texts[0])
                       : fmt::format("it is right without these rules together: {}", fmt::join(texts, "; "));
}

}  // namespace

Result<Bisected> bisect(DeviceList& devices, const std::filesystem::path& model,
                        const SessionOptions& options, const NamedTensors& inputs,
                        const std::function<bool(const std::vector<HostTensor>&)>& as_expected) {
  Bisected found;
  SessionOptions tried = options;
  const auto is_right = [&](const PassOptions& passes) -> Result<bool> {
    tried.passes = passes;
    const auto session = TRY(Session::open(devices, model, tried));
    return as_expected(TRY(session->run(inputs)));
  };
  found.guilty = find_guilty_rules(options.passes, is_right);
  if (!found.guilty.rules.empty()) {
    blame_rules(found);
    return found;
  }
  // Kernels as small as they get: without any rule, one primitive each.
  tried.passes = options.passes;
  tried.passes.dump_after.clear();
  tried.passes.uses = std::make_shared<RuleUses>();  // compiled now: kernels have their meaning beside them
  for (const PassRule& rule : rules()) tried.passes.disabled_rules.emplace(rule.name);
  const auto session = TRY(Session::open(devices, model, tried));
  found.kernel = TRY(find_wrong_kernel(*session, inputs));
  if (found.kernel) {
    found.blamed = "kernel";
    found.sentence = fmt::format("no rule is guilty; the first kernel beyond its proven bound: {} ({})",
                                 fmt::join(found.kernel->nodes, ", "), found.kernel->problem);
    return found;
  }
  const auto exact = interpret_by_name(TRY(read_model(model, options)), Arithmetic::oracle, inputs);
  const bool runtime = exact && as_expected(*exact);
  found.blamed = runtime ? "runtime" : "model";
  found.sentence = runtime ? "no rule and no kernel is guilty, and by definition the model gives what is "
                             "expected: the fault is between kernels (memory, branches, loops)"
                           : "no rule and no kernel is guilty: by definition the model does not give what is "
                             "expected; an operator's meaning, the import or the expectation is wrong";
  return found;
}

Json json_of(const Bisected& found) {
  Json rules = Json::array();
  for (const GuiltyRule& rule : found.guilty.rules) {
    rules.push_back({{"rule", rule.rule},
                     {"pass", rule.pass},
                     {"application", rule.application},
                     {"applications", rule.applications},
                     {"operators", rule.operators}});
  }
  const bool rule = !rules.empty();
  Json operators = rule ? rules[0]["operators"] : found.kernel ? Json(found.kernel->nodes) : Json::array();
  return {{"blamed", found.blamed},
          {"rule", rule ? rules[0]["rule"] : Json()},
          {"application", rule ? rules[0]["application"] : Json()},
          {"operators", std::move(operators)},
          {"rules", std::move(rules)},
          {"problem", found.kernel ? Json(found.kernel->problem) : Json()},
          {"trials", found.guilty.trials},
          {"sentence", found.sentence}};
}

}  // namespace diji::tools
