// What a verb of the command is: a row of data that help, parsing and the reference page derive from.
#pragma once

#include "base/error.h"

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

namespace diji::tools {

class Arguments;
class Context;

struct OptionDef {
  std::string_view name;   ///< "--input"
  std::string_view value;  ///< what follows it, for people: "NAME=FILE.npy"; "" for a switch
  std::string_view help;
  bool repeatable = false;
};

/// The words that stand without a name: the models, the action.
struct Operands {
  std::string_view usage;  ///< "MODEL..."; "" when there are none
  std::string_view help;
  std::size_t count_min = 0;
  std::size_t count_max = 0;
  static constexpr std::size_t kAnyCount = std::numeric_limits<std::size_t>::max();
};

struct Verb {
  std::string_view name;
  std::string_view summary;
  std::string_view example;  ///< the words after "diji", a command that works
  Operands operands;
  std::span<const OptionDef> options;
  std::span<const OptionDef> shared_options;  ///< kModelOptions, or none
  /// The exit code where the job ran; an Error where it could not.
  Result<int> (*run)(Context& context, const Arguments& arguments) = nullptr;
  bool hidden = false;
  bool passes_rest =
      false;  ///< the words from the first operand on are another command's, whatever they look like
};

inline constexpr std::array kCommonOptions = {
    OptionDef{"--device", "NAME", "device to use: cpu, cpu:0, ... (default: $DIJI_DEVICE, else cpu)"},
    OptionDef{"--threads", "N", "threads to use (default: the cores this process may use)"},
    OptionDef{"--json", "", "print one JSON document to stdout and nothing else there"},
    OptionDef{"--log-level", "LEVEL", "error, warning, info or debug (default: warning)"},
    OptionDef{"--help", "", "print this and do nothing else"},
};

/// For verbs on which a maker tries a plugin; the options of running a model have it too.
inline constexpr OptionDef kPluginOption = {"--plugin", "LIB", "load this device plugin too", true};

/// The same for operators of one's own.
inline constexpr OptionDef kOpLibraryOption = {"--op-library", "LIB", "load this library of custom operators",
                                               true};

/// What a verb returns when the job ran and the answer is "no".
inline constexpr int kAnswerIsNo = 1;

extern const Verb kCheckVerb;
extern const Verb kDevicesVerb;
extern const Verb kRunVerb;
extern const Verb kCompileVerb;
extern const Verb kCoverageVerb;
extern const Verb kVerifyVerb;
extern const Verb kCacheVerb;
extern const Verb kBenchVerb;
extern const Verb kTopoVerb;
extern const Verb kLaunchVerb;
extern const Verb kRanksVerb;
extern const Verb kTuneVerb;
extern const Verb kOpVerb;
extern const Verb kPluginVerb;
extern const Verb kDocsVerb;

/// All verbs in the order of the help; defined beside main().
std::span<const Verb* const> verbs();

}  // namespace diji::tools
