// What the C of kernel languages (OpenCL C, and C++ behind simt_words) has no sign for.
#pragma once

#include "codegen/c_language.h"

#include <string>
#include <string_view>

namespace diji {

/// The language's own word for a type, of which its conversions are named: "float16".
std::string kernel_c_word(LaneType type);

/// As CLanguage::function. Vectors have at most 16 lanes.
std::string kernel_c_function(const CFunction& function, std::string_view name, CDeclarations& declarations);

}  // namespace diji
