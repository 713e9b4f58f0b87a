// The nearest valid name to what somebody typed: for error sentences that show the way out.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace diji {

/// The candidate with the smallest edit distance, if it is at most a third of the word (rounded up); else "".
std::string nearest_name(std::string_view typed, std::span<const std::string> candidates);

}  // namespace diji
