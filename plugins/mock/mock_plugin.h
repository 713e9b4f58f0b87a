// The mock plugin linked in, with two devices, "mock:0" and "mock:1": for tests of what needs any device.
#pragma once

#include "diji/device_plugin.h"

extern "C" const diji_device_plugin_table* diji_plugin_mock(void);
