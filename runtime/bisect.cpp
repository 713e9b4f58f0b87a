// Delta debugging over the rules, binary search over the applications of one, a look at every kernel.
#include "runtime/bisect.h"

#include "runtime/conformance.h"

#include <algorithm>

namespace diji {
namespace {

using Names = std::vector<std::string>;

class Search {
 public:
  Search(const PassOptions& options, const BisectTrial& is_right) : options_(options), is_right_(is_right) {}

  GuiltyRules run() {
    const auto uses = std::make_shared<RuleUses>();
    right_without({}, uses);
    Names applied;
    for (const std::span<const PassRule> table : {rules(), std::span<const PassRule>(options_.more_rules)}) {
      for (const PassRule& rule : table) {
        if (uses->count(rule.name) > 0) applied.emplace_back(rule.name);
      }
    }
    GuiltyRules result;
    if (right_without(applied)) {
      const Names guilty = smallest(applied);
      for (const std::string& rule : guilty) result.rules.push_back(application_of(rule, guilty));
    }
    result.trials = trials_;
    return result;
  }

 private:
  bool right_without(const Names& disabled, std::shared_ptr<RuleUses> uses = nullptr) {
    PassOptions options = options_;
    options.disabled_rules.insert(disabled.begin(), disabled.end());
    options.dump_after.clear();
    options.uses = std::move(uses);
    ++trials_;
    return is_right_(options).value_or(false);
  }

  // Of rules without which the result is right: a part, none of which can be left in.
  Names smallest(Names rules) {
    std::size_t parts = 2;
    while (rules.size() > 1) {
      const std::size_t before = rules.size();
      for (std::size_t part = 0; part < parts && rules.size() == before; ++part) {
        Names inside, outside;
        for (std::size_t i = 0; i < before; ++i)
          (i * parts / before == part ? inside : outside).push_back(rules[i]);
        if (right_without(inside)) {
          rules = std::move(inside);
          parts = 2;
        } else if (parts > 2 && right_without(outside)) {
          rules = std::move(outside);
          --parts;
        }
      }
      if (rules.size() < before) continue;
      if (parts == before) break;
      parts = std::min(2 * parts, before);
    }
    return rules;
  }

  // The rest of the guilty ones is off.
  GuiltyRule application_of(const std::string& rule, const Names& guilty) {
    Names others;
    std::ranges::copy_if(guilty, std::back_inserter(others),
                         [&](const std::string& other) { return other != rule; });
    const auto limited = [&](std::int64_t times) {
      auto uses = std::make_shared<RuleUses>();
      uses->limit(rule, times);
      return uses;
    };
    const auto all = std::make_shared<RuleUses>();
    right_without(others, all);
    std::int64_t right = 0, wrong = all->count(rule);
    while (wrong - right > 1) {
      const std::int64_t middle = right + (wrong - right) / 2;
      (right_without(others, limited(middle)) ? right : wrong) = middle;
    }
    const auto last = limited(wrong);
    right_without(others, last);
    return {.rule = rule,
            .pass = pass_of(rule),
            .application = wrong,
            .applications = all->count(rule),
            .operators = last->last(rule)};
  }

  static std::string pass_of(const std::string& rule) {
    const auto found = std::ranges::find(rules(), rule, &PassRule::name);
    return found == rules().end() ? "simplify" : std::string(found->pass);
  }

  const PassOptions& options_;
  const BisectTrial& is_right_;
  int trials_ = 0;
};

// "conv1 (convolution)", each once.
Names titles_of(const Node& node) {
  Names titles;
  const auto add = [&](const Node& inner) {
    std::string title = title_of(inner);
    if (std::ranges::find(titles, title) == titles.end()) titles.push_back(std::move(title));
  };
  if (node.bodies.empty()) add(node);
  for (const auto& body : node.bodies) std::ranges::for_each(body->nodes(), add);
  return titles;
}

}  // namespace

GuiltyRules find_guilty_rules(const PassOptions& options, const BisectTrial& is_right) {
  return Search(options, is_right).run();
}

Result<std::optional<WrongKernel>> find_wrong_kernel(Session& session,
                                                     const std::map<std::string, HostTensor>& inputs) {
  std::optional<WrongKernel> first;
  const auto observer = [&](const Observation& seen) -> Result<void> {
    if (first) return {};
    const auto compared = TRY(check_kernel(seen));
    if (!compared || compared->ok) return {};
    const Node& node = seen.graph.node(seen.graph.value(seen.step.value).producer);
    first =
        WrongKernel{.operators = seen.step.operators, .nodes = titles_of(node), .problem = compared->problem};
    return {};
  };
  TRY(session.run(inputs, nullptr, {.observer = observer}));
  return first;
}

}  // namespace diji
