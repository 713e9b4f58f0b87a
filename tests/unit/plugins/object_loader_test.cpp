// Objects of this processor in executable memory: run, protected, unmapped.
#include "plugins/cpu/object_loader.h"

#include "device/device.h"
#include "plugins/cpu/cpu_plugin.h"
#include "tests/unit/expect.h"
#include "tests/unit/plugins/kernel_text.h"

#include <bit>
#include <fstream>
#include <string>
#include <vector>

namespace diji::cpu {
namespace {

using Blob = std::vector<std::byte>;
using test::kReferences;

Blob compile(std::string_view text) {
  const diji_device_plugin_table* const built_in[] = {diji_plugin_cpu()};
  DeviceList list(built_in, 1);
  return (*list.open("cpu"))->compile(text).value();
}

DIJI_CALLS_KERNEL std::int32_t call(KernelFunction entry, std::int64_t i) {
  std::int32_t out = -1;
  void* places[] = {&out};
  entry(places, nullptr, nullptr, nullptr, i, i + 1);
  return out;
}

TEST_CASE("references inside an object, to its data and to host functions are resolved") {
  const auto object = LoadedObject::load(compile(kReferences));
  REQUIRE(object);
  EXPECT((*object)->names() == std::vector<std::string>{"entry", "twice"});
  EXPECT(((*object)->find("nothing") == nullptr));
  const KernelFunction entry = (*object)->find("entry");
  REQUIRE((entry != nullptr));
  for (const std::int64_t i : {0, 1, 2, 3}) {
    const std::int32_t one = static_cast<std::int32_t>(i) + 1;
    EXPECT(call(entry, i) == (10 * one * 2) % 7 + 100 * one);
  }
}

/// "r-xp": the rights of the page that holds an address.
std::string rights_of(std::uint64_t address) {
  std::ifstream maps("/proc/self/maps");
  std::uint64_t begin = 0, end = 0;
  char dash = 0;
  std::string rights, rest;
  while (maps >> std::hex >> begin >> dash >> end >> rights && std::getline(maps, rest)) {
    if (begin <= address && address < end) return rights;
  }
  return "";
}

TEST_CASE("code cannot be written, and it goes with its object") {
  auto object = LoadedObject::load(compile(kReferences));
  REQUIRE(object);
  const auto address = std::bit_cast<std::uint64_t>((*object)->find("entry"));
  EXPECT(rights_of(address) == "r-xp");
  object->reset();
  EXPECT(rights_of(address) != "r-xp");
}

}  // namespace
}  // namespace diji::cpu
