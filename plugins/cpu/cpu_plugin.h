// The CPU as a device: the plugin that is always there, linked in.
#pragma once

#include "diji/device_plugin.h"

/// One device, "cpu:0". Table and strings live for the life of the process.
extern "C" const diji_device_plugin_table* diji_plugin_cpu(void);
