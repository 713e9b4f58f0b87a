// The tables of this folder: one source, a row of names each (driver_names.cpp).
#pragma once

#include "diji/device_plugin.h"

extern "C" const diji_device_plugin_table* diji_plugin_cuda(void);
extern "C" const diji_device_plugin_table* diji_plugin_hip(void);
extern "C" const diji_device_plugin_table* diji_plugin_musa(void);
extern "C" const diji_device_plugin_table* diji_plugin_maca(void);
