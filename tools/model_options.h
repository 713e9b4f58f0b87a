// The options of running a model, which several verbs share.
#pragma once

#include "runtime/session.h"
#include "tools/arguments.h"
#include "tools/context.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace diji::tools {

inline constexpr std::array kModelOptions = {
    OptionDef{"--dim", "NAME=N", "a named size, for inputs that are made up (default: 1)", true},
    OptionDef{"--memory-limit", "BYTES", "most device memory the model may take: 1048576, 512M, 2G"},
    OptionDef{"--strict", "", "NaN or infinity in an output is exit code 1"},
    OptionDef{"--disable-rule", "NAME", "leave out a rule of the compiler; see docs/reference/rules.md",
              true},
    OptionDef{"--dump-after", "PASS", "print the graph after this pass to stderr"},
    OptionDef{"--no-cache", "", "neither read nor write the compile cache"},
    OptionDef{"--verbose", "", "coverage, compiled kernels and memory too"},
    kPluginOption,
    kOpLibraryOption,
};

/// For the verbs that can do without a device.
inline constexpr OptionDef kInterpreterOption{
    "--interpreter", "exact|rounded",
    "by definition instead of on a device, slowly: floats stay 64 bits wide, or are rounded at every step"};
/// Empty where it is not asked for. Errors: usage.
Result<std::optional<Arithmetic>> interpreter_option(const Arguments& arguments);

struct ModelOptions {
  SessionOptions session;
  std::map<std::string, std::int64_t> dims;
  bool strict = false;
  bool verbose = false;
};

/// Errors: usage, with the nearest name for unknown rules and passes.
Result<ModelOptions> model_options(Context& context, const Arguments& arguments);

/// The first NaN or infinity in the outputs, as a sentence that names the output, the element and (by running
/// again) the operators that made the first one; "" when there is none.
std::string find_not_finite(Session& session, const std::map<std::string, HostTensor>& inputs,
                            const std::vector<HostTensor>& outputs);

}  // namespace diji::tools
