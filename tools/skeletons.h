// Texts of files of this tree, taken in when diji is built, so that they are never older than what they were
// made from: what `diji plugin new` and `diji op new` write, and the program for peers of `diji bench`.
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

/// The program that `diji bench` runs for each peer: one file.
std::span<const SkeletonFile> peer_script();

}  // namespace diji::tools
