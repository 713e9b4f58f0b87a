// The list of devices as text and as JSON, for `diji devices` and `diji check`.
#pragma once

#include "device/device.h"
#include "tools/json.h"

namespace diji::tools {

Json json_of_devices(DeviceList& devices);
/// Plugins that were refused, as error objects.
Json json_of_problems(DeviceList& devices);
void print_devices(DeviceList& devices);

}  // namespace diji::tools
