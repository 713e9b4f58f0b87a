// Devices behind an OpenCL driver (1.2 or later), found through the ICD loader at run time.
#pragma once

#include "diji/device_plugin.h"

extern "C" const diji_device_plugin_table* diji_plugin_opencl(void);
