// A job in a child process with a deadline for each of its steps: what is on trial may crash, exit or hang.
#pragma once

#include "base/error.h"

#include <functional>
#include <string>
#include <string_view>

namespace diji::tools {

/// Says which step begins; what is told last is what a death or a hang is blamed on.
using StepBegins = std::function<void(std::string_view step)>;

/// Runs `job` in a child (so before this process has threads) and returns its exit code; in the child itself
/// the code is job's. Errors, here: deadline, when a step takes longer than `timeout_s`; device, when the
/// child ended before its job did. Both name the step, and blame `suspect`, such as "the plugin".
Result<int> guarded(int timeout_s, std::string_view suspect,
                    const std::function<Result<int>(const StepBegins&)>& job);

/// Runs `job`, which loads a plugin, in a child that ends with it. Errors: deadline and device, as above.
Result<void> tried(int timeout_s, const std::function<void()>& job);

}  // namespace diji::tools
