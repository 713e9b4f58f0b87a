// What operations mean, written once more and slowly: a call, its inputs on all ranks, and the outputs that
// must come.
#pragma once

#include "collective/communicator.h"

#include <optional>
#include <string>
#include <vector>

namespace diji::collective {

struct CallCase {
  Operation operation = Operation::all_reduce;
  ElementType type = ElementType::f32;
  Reduction reduction = Reduction::sum;
  std::int64_t count = 0;
  int root = 0;
  bool exact = false;
  bool in_place = false;
  bool ragged = false;    ///< blocks of different lengths
  bool reals = false;     ///< values whose sums round, not small integers
  std::string algorithm;  ///< "": the chooser's
  /// What lies in registered memory: bit 0 the input, bit 1 the output of even ranks, bits 2 and 3 of odd
  /// ones.
  unsigned registered = 0;
};
std::string text_of(const CallCase& call_case);

/// Operations x types x reductions x lengths, thinned out so that each pair of them occurs.
std::vector<CallCase> call_cases(int world);

/// Makes the call on this rank and compares. Nothing where all is right, else what is not. With `reals` the
/// operands must be folded in rank order. Errors: the call's.
Result<std::optional<std::string>> make_case(Communicator& communicator, const CallCase& call_case);
/// The same where an error is not right either.
std::optional<std::string> run_case(Communicator& communicator, const CallCase& call_case);

}  // namespace diji::collective
