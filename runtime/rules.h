// The rules of device_plugin.h as checks: what a device must do with memory, streams, events and kernels,
// asked of its plugin's table directly.
#pragma once

#include "device/device.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace diji {

enum class Verdict : std::uint8_t { ok, failed, not_offered };
std::string_view name_of(Verdict verdict);

struct RuleResult {
  std::string rule;
  Verdict verdict = Verdict::ok;
  std::string problem;  ///< of a failure: what was done, got and wanted
};

/// Called with a rule's name before it is checked: a plugin may crash or hang in it.
using RuleBegins = std::function<void(std::string_view rule)>;

/// All rules, of memory and streams first (but only "allocate, copy, wait" where it does not hold), then of
/// kernels where the device compiles them. Each opens the device anew. An exception that leaves the plugin is
/// a failure of the rule.
std::vector<RuleResult> check_rules(const DeviceList& devices, const DeviceEntry& entry,
                                    const RuleBegins& begins);

}  // namespace diji
