// Plugins: checked when they are taken in, listed, and asked for devices. A null pointer is answered for
// here, once.
#pragma once

#include "base/error.h"
#include "diji/device_plugin.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji {

class Device;
class ThreadPool;

/// diji_device_properties as owned values.
struct DeviceInfo {
  std::string name;
  std::string vendor;
  std::string driver_version;
  std::string features;
  std::string fingerprint;
  std::string dialect;
  std::uint64_t memory_bytes = 0;
  std::uint32_t alignment = 64;
  std::uint32_t vector_bytes = 4;
  std::uint32_t vector_registers = 16;
  bool host_visible = false;
  std::uint32_t lanes_max = 0;  ///< 0: no limit
  bool without_f64 = false;
  bool simt = false;
};

/// How a device is just now; NaN where it cannot tell.
struct DeviceState {
  double temperature_c = 0, clock_mhz = 0, utilisation = 0;
};

/// A plugin whose table was checked: ABI, struct size, required functions.
class Plugin {
 public:
  /// Copies what both sides know of the table and fills what is not offered with functions that return
  /// DIJI_ERROR_UNSUPPORTED. Errors: no_device, naming both versions or the missing function.
  static Result<Plugin> check(const diji_device_plugin_table* table, std::string origin);
  /// dlopen with RTLD_NOW | RTLD_LOCAL, for good. Errors: the path, owner or mode (must belong to root or
  /// this user and not be writable by others), a missing symbol, and what check() finds.
  static Result<Plugin> load(const std::string& path);

  const diji_device_plugin_table& table() const { return table_; }
  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  const std::string& build_id() const { return build_id_; }
  const std::string& origin() const { return origin_; }  ///< "built in" or the path
  int tier() const { return tier_; }
  Result<int> device_count() const;
  Result<DeviceInfo> device_info(int ordinal) const;
  /// All NaN where the plugin does not tell, or fails to.
  DeviceState device_state(int ordinal) const;
  /// Why this thread's last call returned `status`, in the plugin's words or, for what it does not offer, in
  /// ours.
  std::string last_error(diji_status status) const;

 private:
  diji_device_plugin_table table_{};
  std::string name_, version_, build_id_, origin_;
  int tier_ = 0;
};

/// One line of `diji devices`.
struct DeviceEntry {
  std::string name;  ///< "cpu:0"
  const Plugin* plugin;
  int ordinal;
  DeviceInfo info;
};

/// Does a job where it may crash or hang without harm, and says whether it did.
using Trial = std::function<Result<void>(const std::function<void()>& job)>;

/// All plugins of the process and the devices they show. Opened devices live as long as the list.
class DeviceList {
 public:
  /// Built-in tables first, then libdiji_device_*.so from each folder of DIJI_PLUGIN_PATH (colon-separated),
  /// which are loaded when a device is asked for that no built-in plugin has. A plugin that is refused is a
  /// problem to show, not a reason to stop: see problems(). Where there is a `trial`, every plugin from a
  /// file is loaded and asked for its devices in one first.
  DeviceList(std::span<const diji_device_plugin_table* const> built_in, int threads, Trial trial = nullptr);
  ~DeviceList();
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  /// A plugin named on the command line: here a refusal is an error.
  Result<void> add_plugin(const std::string& path);
  /// All devices there are. Plugins are asked for theirs when somebody wants to know, since a driver may be
  /// slow to start; open() asks the named one alone.
  const std::vector<DeviceEntry>& entries();
  /// Of those plugins and devices.
  const std::vector<Error>& problems();
  /// "cuda: libcuda.so.1: cannot open shared object file": plugins without a device that say why.
  const std::vector<std::string>& absent();

  /// "cpu", "cpu:0", "opencl:1". Opened once, then the same object. Errors: no_device, listing what exists.
  /// Any thread.
  Result<Device*> open(std::string_view name);
  ThreadPool& threads() { return *threads_; }
  /// What opened devices are lent; for whoever opens one through a plugin's table.
  const diji_host_services* services() const { return services_.get(); }

 private:
  Result<void> take_in(Result<Plugin> plugin);
  void load_from_path();
  void list_devices(std::size_t plugin);
  void list_all();
  std::unexpected<Error> no_such_device(std::string_view name);

  std::unique_ptr<ThreadPool> threads_;
  std::unique_ptr<diji_host_services> services_;
  Trial trial_;
  std::vector<std::string> folders_;  ///< of DIJI_PLUGIN_PATH, not searched yet
  std::vector<std::unique_ptr<Plugin>> plugins_;
  std::vector<bool> listed_;  ///< by plugin
  std::vector<DeviceEntry> entries_;
  std::mutex opening_;
  std::vector<std::unique_ptr<Device>> opened_;
  std::vector<Error> problems_;
  std::vector<std::string> absent_;
};

}  // namespace diji
