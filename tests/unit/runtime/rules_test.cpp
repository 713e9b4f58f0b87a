// Every rule holds on the devices that are here, and on a plugin of an earlier ABI. What a rule catches is
// shown by tests/faults.
#include "runtime/rules.h"

#include "ops/catalog.h"
#include "plugins/cpu/cpu_plugin.h"
#include "plugins/mock/mock_plugin.h"
#include "plugins/sim/sim_plugin.h"
#include "runtime/conformance.h"
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/device/environment.h"
#include "tests/unit/expect.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

namespace diji {
namespace {

/// How many of the rules the device offers something for; none may fail.
std::ptrdiff_t rules_that_hold(const DeviceList& devices, const DeviceEntry& entry) {
  std::vector<std::string> begun;
  const auto results = check_rules(devices, entry, [&](std::string_view rule) { begun.emplace_back(rule); });
  REQUIRE(begun.size() == results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    CAPTURE(entry.name);
    CAPTURE(results[i].rule);
    CAPTURE(results[i].problem);
    EXPECT(begun[i] == results[i].rule);
    EXPECT(results[i].verdict != Verdict::failed);
  }
  return std::ranges::count(results, Verdict::ok, &RuleResult::verdict);
}

TEST_CASE("the rules hold on the CPU, the mock and a virtual accelerator") {
  const test::ScratchFolder folder;
  const test::ScopedEnvironment card("DIJI_SIM", folder.write("card.txt", "devices = 1").string());
  const std::array tables = {diji_plugin_cpu(), diji_plugin_mock(), diji_plugin_sim(diji_plugin_cpu())};
  DeviceList devices(tables, 2);
  REQUIRE(devices.entries().size() == 4);
  EXPECT(rules_that_hold(devices, devices.entries()[0]) == 25);  // all but telemetry
  EXPECT(rules_that_hold(devices, devices.entries()[1]) == 13);  // no kernels, no host memory, no times
  EXPECT(rules_that_hold(devices, devices.entries()[3]) == 23);  // no host memory
}

TEST_CASE("a plugin built against ABI 1.0 loads, keeps the rules and computes") {
  DeviceList devices({}, 2);
  const auto file = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() /
                    "lib/old/libdiji_device_old.so";
  const auto added = devices.add_plugin(file.string());
  REQUIRE_MESSAGE(added, (added ? "" : added.error().message));
  REQUIRE(devices.entries().size() == 1);
  const DeviceEntry& entry = devices.entries()[0];
  EXPECT(entry.name == "old:0");
  EXPECT(entry.plugin->table().abi_minor == 0);
  EXPECT(entry.info.lanes_max == 0);
  EXPECT_FALSE(entry.info.simt);
  EXPECT(std::isnan(entry.plugin->device_state(0).temperature_c));
  EXPECT(rules_that_hold(devices, entry) == 25);
  CompileCache cache("");  // none
  const VerifyRow row = verify_operator(**devices.open("old"), cache, *find_op("softmax"), DType::f32);
  CAPTURE(row.problem);
  EXPECT(row.cases > 0);
  EXPECT(row.failed + row.unsupported == 0);
}

}  // namespace
}  // namespace diji
