// Who makes a result wrong: a rule of the compiler, and which of its applications, else an operator's kernel.
#pragma once

#include "runtime/session.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace diji {

/// Whether the result is right when the model is compiled like this. An error counts as not right.
using BisectTrial = std::function<Result<bool>(const PassOptions& options)>;

/// With the other guilty rules switched off, the result is right while this one applies application - 1 times
/// and wrong with one more.
struct GuiltyRule {
  std::string rule, pass;
  std::int64_t application = 0;
  std::int64_t applications = 0;       ///< in the whole compilation
  std::vector<std::string> operators;  ///< what it was applied to
};

struct GuiltyRules {
  /// Without them the result is right, with any one of them it is wrong. Empty: it is wrong without any rule.
  std::vector<GuiltyRule> rules;
  int trials = 0;
};

/// The smallest set of rules that the search finds (delta debugging: Zeller and Hildebrandt, 2002), then of
/// each the application (binary search, as LLVM's opt-bisect). Of a result that is wrong under `options`;
/// what these switch off stays off. Rules apply in the same order on every run, so the answer is the same
/// too.
GuiltyRules find_guilty_rules(const PassOptions& options, const BisectTrial& is_right);

struct WrongKernel {
  std::string operators;           ///< what it computes
  std::vector<std::string> nodes;  ///< of the model
  std::string problem;
};

/// The first kernel of a run whose result lies further from the interpreter's, for the very operands it had,
/// than the proven bound allows. Empty: there is none. Errors: those of the run.
Result<std::optional<WrongKernel>> find_wrong_kernel(Session& session,
                                                     const std::map<std::string, HostTensor>& inputs);

}  // namespace diji
