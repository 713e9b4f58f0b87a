// Which build of diji is running.
#pragma once

#include <string>

namespace diji {

/// The linker's build id of the program or library that has diji's code, in hex: another for every change of
/// that code. Empty where the linker wrote none.
std::string build_id();

}  // namespace diji
