// What every verb works with: the common options, read once, and the devices, listed when first asked for.
#pragma once

#include "device/device.h"
#include "runtime/op_library.h"
#include "tools/arguments.h"

#include <memory>
#include <string>

namespace diji::tools {

class Context {
 public:
  /// Sets the log level. Errors: usage.
  static Result<Context> create(const Arguments& arguments);

  bool json() const { return json_; }
  int threads() const { return threads_; }
  /// --device, else DIJI_DEVICE, else "cpu".
  const std::string& device_name() const { return device_name_; }
  /// Built-in plugins, DIJI_PLUGIN_PATH, and each --plugin of a verb that takes it; a refusal of those is an
  /// error. Plugins from files are tried in a child process first, unless this one is `expendable`.
  Result<DeviceList*> devices(const Arguments& arguments, bool expendable = false);
  /// The device of device_name(), opened. Errors: no_device, listing what exists.
  Result<Device*> device(const Arguments& arguments);

  /// The operators of each --op-library; they live as long as this.
  Result<std::vector<const OpDef*>> custom_ops(const Arguments& arguments);

 private:
  Context() = default;
  bool json_ = false;
  std::string device_name_;
  int threads_ = 1;
  std::unique_ptr<DeviceList> devices_;
  OpLibraries libraries_;
};

}  // namespace diji::tools
