// Node tests in ONNX's own layout: a folder a case, model.onnx beside test_data_set_0/.
#pragma once

#include "device/device.h"
#include "graph/interpreter.h"

#include <optional>
#include <string>

namespace diji::tools {

struct OnnxCaseOptions {
  std::string folder;
  std::string device;
  std::optional<Arithmetic> interpreter;  ///< instead of the device
  bool json = false;
};

/// Runs every case below the folder, one line each: JSON, or text for people. The exit code: 1 where a case
/// fails or is refused. Errors: not_found where there is no case.
Result<int> run_onnx_cases(DeviceList& devices, const OnnxCaseOptions& options);

}  // namespace diji::tools
