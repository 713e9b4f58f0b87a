// The common options become devices, threads and a log level.
#include "tools/context.h"

#include "base/log.h"
#include "base/thread_pool.h"
#include "runtime/session.h"
#include "tools/guard.h"

#include <algorithm>
#include <array>

namespace diji::tools {
namespace {

constexpr std::int64_t kThreadsMax = 1024;
constexpr int kLoadSeconds = 10;  // a plugin may take to load and to count its devices
constexpr std::array<std::string_view, 4> kLogLevels = {"error", "warning", "info", "debug"};

}  // namespace

Result<Context> Context::create(const Arguments& arguments) {
  Context context;
  context.json_ = arguments.has("--json");
  context.device_name_ = arguments.text("--device", default_device());
  context.threads_ = static_cast<int>(TRY(arguments.integer("--threads", usable_cores(), 1, kThreadsMax)));
  const auto level =
      TRY(arguments.choice("--log-level", kLogLevels, static_cast<std::size_t>(LogLevel::warning)));
  set_log_level(static_cast<LogLevel>(level));
  return context;
}

Result<DeviceList*> Context::devices(const Arguments& arguments, bool expendable) {
  if (devices_ == nullptr) {
    auto list = std::make_unique<DeviceList>(
        built_in_plugins(), threads_,
        expendable ? nullptr : Trial([](const auto& job) { return tried(kLoadSeconds, job); }));
    for (const std::string& path : arguments.all(kPluginOption.name)) TRY(list->add_plugin(path));
    devices_ = std::move(list);
  }
  return devices_.get();
}

Result<std::vector<const OpDef*>> Context::custom_ops(const Arguments& arguments) {
  if (libraries_.records().empty()) {
    for (const std::string& path : arguments.all(kOpLibraryOption.name)) TRY(libraries_.load(path));
  }
  return libraries_.records();
}

Result<Device*> Context::device(const Arguments& arguments) {
  DeviceList* list = TRY(devices(arguments));
  return list->open(device_name_);
}

}  // namespace diji::tools
