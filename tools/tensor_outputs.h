// A model's outputs: to files, and against what was expected.
#pragma once

#include "graph/graph.h"
#include "tools/json.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace diji::tools {

/// As ONNX's own test runner: tight enough to find a wrong formula, wide enough for another order of
/// summation.
inline constexpr double kDefaultRtol = 1e-3;
inline constexpr double kDefaultAtol = 1e-7;

/// Characters outside A-Za-z0-9._- become _; names that fall together get a number.
std::vector<std::string> file_names(const std::vector<Port>& ports);

/// <folder>/<name>.npy, or .pb for dtypes that npy lacks. A folder or file that cannot be written is one
/// warning and no path.
std::vector<std::optional<std::string>> write_outputs(const std::filesystem::path& folder,
                                                      const std::vector<Port>& ports,
                                                      const std::vector<HostTensor>& outputs);

/// What each output should be: <folder>/<name>.npy or .pb. Errors: not_found, naming the output, and those of
/// files.
Result<std::vector<HostTensor>> read_expected(const std::filesystem::path& folder,
                                              const std::vector<Port>& ports);

struct ComparedOutput {
  std::string name;
  bool ok = false;
  double max_abs_error = 0, max_rel_error = 0;
  std::string reason;  ///< element, got, wanted; empty when ok
};
ComparedOutput compare_output(const std::string& name, const HostTensor& got, const HostTensor& wanted,
                              double rtol, double atol);
Json json_of(const ComparedOutput& compared);

/// "0.013 0.98 2.1e-05 ...": the first few values.
std::string preview_of(const HostTensor& tensor);

}  // namespace diji::tools
