// Node tests in ONNX's own layout: a folder a case, model.onnx beside test_data_set_0/.
#pragma once

#include "device/device.h"

#include <string>

namespace diji::tools {

/// Runs every case below `folder`, one line each: JSON, or text for people. The exit code: 1 where a case
/// fails or is refused. Errors: not_found where there is no case.
Result<int> run_onnx_cases(DeviceList& devices, const std::string& device, const std::string& folder,
                           bool json);

}  // namespace diji::tools
