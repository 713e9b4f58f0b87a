// Libraries of custom operators: shared objects that the user names, loaded as carefully as device plugins.
#pragma once

#include "graph/custom_op.h"

#include <memory>
#include <string>
#include <vector>

namespace diji {

/// The operators of every library that was named. Graphs point into it, so that it outlives them; libraries
/// stay loaded for good.
class OpLibraries {
 public:
  /// dlopen with RTLD_NOW | RTLD_LOCAL. Errors: no_device, with the path: owner or mode, a missing symbol, an
  /// ABI of another major version, a record that is wrong, an operator that is there already.
  Result<void> load(const std::string& path);
  /// The same for a table that is in the process: for tests.
  Result<void> add(const diji_op_library* library, const std::string& origin);
  const std::vector<const OpDef*>& records() const { return records_; }

 private:
  std::vector<std::unique_ptr<const CustomOp>> ops_;
  std::vector<const OpDef*> records_;
};

}  // namespace diji
