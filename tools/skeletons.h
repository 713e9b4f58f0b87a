// The files that `diji plugin new` and `diji op new` write: texts of files of this tree, taken in when diji
// is built, so that a skeleton is never older than what it was made from.
#pragma once

#include <span>
#include <string_view>

namespace diji::tools {

struct SkeletonFile {
  std::string_view
      path;  ///< in the new folder; the skeleton's name stands for the new one, here and in the text
  std::string_view text;
};

/// A device plugin of tier 0: plugins/mock, under the name "mock".
std::span<const SkeletonFile> plugin_skeleton();

/// A library with one operator, under the name "example_op".
std::span<const SkeletonFile> op_skeleton();

}  // namespace diji::tools
