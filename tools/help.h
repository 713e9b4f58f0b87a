// Help derived from the verb table.
#pragma once

#include "tools/verb.h"

#include <string>

namespace diji::tools {

/// What `diji --help` prints.
std::string general_help();
/// What `diji VERB --help` prints: usage, options, a worked example, exit codes.
std::string help_of(const Verb& verb);
/// docs/reference/verbs.md without its first line.
std::string verbs_page();

}  // namespace diji::tools
