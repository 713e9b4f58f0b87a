// The virtual accelerator: another plugin's devices under a clock, a memory, a link and faults of their own.
#pragma once

#include "diji/device_plugin.h"

/// Devices "sim:0", "sim:1", ... that compute for real on device 0 of `inner` and tell simulated times. What
/// they are is read from the file that the environment variable DIJI_SIM names (sim_card.h lists the keys).
/// One `inner` a process: the first call's.
extern "C" const diji_device_plugin_table* diji_plugin_sim(const diji_device_plugin_table* inner);
