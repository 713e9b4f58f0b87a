// Another program, run to its end or to a deadline, and what it said.
#pragma once

#include "base/error.h"

#include <chrono>
#include <span>
#include <string>

namespace diji::cpu {

struct Finished {
  int exit_code = 0;   ///< of a program that a signal ended: 128 + its number
  std::string output;  ///< both streams, at most 64 KiB
};

/// `arguments[0]` is looked for in PATH; no shell is involved, and its input is empty. Errors: not_found
/// where there is no such program, io where the system starts none, deadline, when the program and its
/// children have been killed.
Result<Finished> run_program(std::span<const std::string> arguments, std::chrono::milliseconds deadline);

}  // namespace diji::cpu
