// A plugin's file before the loader sees it: who may have written it, and whether it is whole.
#pragma once

#include "base/error.h"

#include <string>

namespace diji {

/// The file and its folder belong to root or this user and nobody else may write them; it is an ELF shared
/// object all of whose segments lie inside the file (mapping one that was cut off ends the process with
/// SIGBUS). The sentence of an error says what is wrong, without the path.
Result<void> check_plugin_file(const std::string& path);

}  // namespace diji
