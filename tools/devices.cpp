// `diji devices`: devices, their plugins, and plugins that were refused.
#include "tools/devices.h"

#include "tools/context.h"
#include "tools/output.h"
#include "tools/table.h"

#include <array>
#include <cmath>

namespace diji::tools {
namespace {

constexpr std::array kOptions = {kPluginOption};

std::string abi_of(const Plugin& plugin) {
  return fmt::format("{}.{}", plugin.table().abi_major, plugin.table().abi_minor);
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

Result<int> run(Context& context, const Arguments& arguments) {
  DeviceList* devices = TRY(context.devices(arguments));
  if (context.json()) {
    print_json({{"devices", json_of_devices(*devices)},
                {"absent", devices->absent()},
                {"problems", json_of_problems(*devices)}});
  } else {
    print_devices(*devices);
  }
  return 0;
}

}  // namespace

Json json_of_devices(DeviceList& devices) {
  Json list = Json::array();
  for (const DeviceEntry& entry : devices.entries()) {
    const DeviceInfo& info = entry.info;
    const DeviceState state = entry.plugin->device_state(entry.ordinal);
    list.push_back({{"name", entry.name},
                    {"model", info.name},
                    {"vendor", info.vendor},
                    {"memory_bytes", info.memory_bytes == 0 ? Json() : Json(info.memory_bytes)},
                    {"features", info.features},
                    {"dialect", info.dialect.empty() ? Json() : Json(info.dialect)},
                    {"driver_version", info.driver_version},
                    {"abi_version", abi_of(*entry.plugin)},
                    {"tier", entry.plugin->tier()},
                    {"plugin", entry.plugin->name()},
                    {"plugin_version", entry.plugin->version()},
                    {"origin", entry.plugin->origin()},
                    {"fingerprint", info.fingerprint},
                    {"temperature_c", state.temperature_c},
                    {"clock_mhz", state.clock_mhz},
                    {"utilisation", state.utilisation}});
  }
  return list;
}

Json json_of_problems(DeviceList& devices) {
  Json list = Json::array();
  for (const Error& problem : devices.problems()) list.push_back(json_of(problem)["error"]);
  return list;
}

void print_devices(DeviceList& devices) {
  if (devices.entries().empty()) print("no device\n");
  for (const DeviceEntry& entry : devices.entries()) {
    const DeviceInfo& info = entry.info;
    const std::string memory = info.memory_bytes == 0 ? "-" : text_of_bytes(info.memory_bytes);
    print("{}  {} ({})\n", entry.name, or_dash(info.name), or_dash(info.vendor));
    constexpr std::size_t kIndent = 15, kColumns = 100;
    print("  memory       {}\n", memory);
    print("  features     {}\n", wrapped(or_dash(info.features), kIndent, kColumns));
    print("  kernel text  {}\n", or_dash(info.dialect));
    print("  driver       {}\n", or_dash(info.driver_version));
    print("  plugin       {} {} ({}), ABI {}, tier {}\n", entry.plugin->name(), entry.plugin->version(),
          entry.plugin->origin(), abi_of(*entry.plugin), entry.plugin->tier());
    print("  fingerprint  {}\n", wrapped(or_dash(info.fingerprint), kIndent, kColumns));
    const DeviceState state = entry.plugin->device_state(entry.ordinal);
    if (!std::isnan(state.temperature_c)) print("  temperature  {:.0f} °C\n", state.temperature_c);
    if (!std::isnan(state.clock_mhz)) print("  clock        {:.0f} MHz\n", state.clock_mhz);
  }
  for (const std::string& absent : devices.absent()) print("absent   {}\n", absent);
  for (const Error& problem : devices.problems()) print("refused  {}\n", problem.message);
}

constexpr Verb kDevicesVerb = {
    .name = "devices",
    .summary = "devices and plugins: memory, features, kernel language, versions",
    .example = "devices --json",
    .options = kOptions,
    .run = run,
};

}  // namespace diji::tools
