// A plugin as it was built before ABI 1.1: compiled against that version's header, over the CPU's functions.
#include "tests/unit/device/abi_1_0/device_plugin.h"

#include "plugins/cpu/cpu_plugin.h"

#include <algorithm>
#include <cstring>

static_assert(DIJI_DEVICE_ABI_MINOR == 0);

namespace {

/// Fills the fields of 1.0 and no byte behind them, whatever the caller has room for.
diji_status device_properties(int32_t ordinal, diji_device_properties* out) {
  diji_device_properties full{};
  full.struct_size = sizeof(full);
  const diji_status status = diji_plugin_cpu()->device_properties(ordinal, &full);
  full.struct_size = out->struct_size;
  std::memcpy(out, &full, std::min<size_t>(out->struct_size, sizeof(full)));
  return status;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const diji_device_plugin_table* diji_device_plugin(void) {
  // As many functions as 1.0 has: the CPU's table may be longer.
  static const diji_device_plugin_table table = [] {
    diji_device_plugin_table old = *diji_plugin_cpu();
    old.struct_size = sizeof(old);
    old.abi_minor = DIJI_DEVICE_ABI_MINOR;
    old.name = "old";
    old.device_properties = device_properties;
    return old;
  }();
  return &table;
}
