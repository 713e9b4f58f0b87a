// Levels of the CPU device: what each offers, what DIJI_CPU may ask for, and what it may not.
#include "plugins/cpu/cpu_features.h"
#include "device/device.h"
#include "plugins/cpu/cpu_plugin.h"
#include "tests/unit/device/environment.h"
#include "tests/unit/expect.h"

#include <array>

namespace diji::cpu {
namespace {

constexpr std::size_t kScalar = 0, kAvx2 = 1, kAvx512 = 2;
constexpr std::array<CpuLevel, 3> kLevels = {{{"scalar", "x86-64", "", "-march=x86-64", 16, 16},
                                              {"avx2", "x86-64-v3", "", "-march=x86-64-v3", 32, 16},
                                              {"avx512", "x86-64-v4", "", "-march=x86-64-v4", 64, 32}}};
constexpr std::array<CpuFeature, 3> kFeatures = {
    {{"avxvnni", kAvx2, true}, {"avx512bf16", kAvx512, true}, {"avx512fp16", kAvx512, false}}};

CpuFacts processor(std::size_t highest) {
  return {.model = "Test Processor",
          .vendor = "",
          .levels = kLevels,
          .highest = highest,
          .features = kFeatures,
          .llvm_triple = "x86_64-linux-gnu"};
}

TEST_CASE("each level has its registers, LLVM name and features") {
  const CpuFacts facts = processor(kAvx512);
  const CpuTarget scalar = cpu_target("scalar", facts).value();
  EXPECT(scalar.llvm_triple == "x86_64-linux-gnu");
  EXPECT(scalar.llvm_cpu == "x86-64");
  EXPECT(scalar.llvm_features.empty());
  EXPECT(scalar.vector_bytes == 16);
  EXPECT(scalar.vector_registers == 16);
  const CpuTarget avx2 = cpu_target("avx2", facts).value();
  EXPECT(avx2.llvm_cpu == "x86-64-v3");
  EXPECT(avx2.llvm_features == "+avxvnni");
  EXPECT(avx2.vector_bytes == 32);
  EXPECT(avx2.vector_registers == 16);
  const CpuTarget avx512 = cpu_target("avx512", facts).value();
  EXPECT(avx512.llvm_cpu == "x86-64-v4");
  EXPECT(avx512.llvm_features == "+avxvnni,+avx512bf16");
  EXPECT(avx512.c_options == "-march=x86-64-v4 -mavxvnni -mavx512bf16");
  EXPECT(avx512.words == "avx512 avxvnni avx512bf16");
  EXPECT(avx512.vector_bytes == 64);
  EXPECT(avx512.vector_registers == 32);
  EXPECT(avx512.fingerprint == "x86-64-v4 avx512 avxvnni avx512bf16 llvm-19");
  EXPECT(cpu_target("", facts)->fingerprint == avx512.fingerprint);
}

TEST_CASE("a level that is unknown or lacking is an error that names what there is") {
  const auto unknown = cpu_target("avx51", processor(kAvx512));
  REQUIRE_FALSE(unknown);
  EXPECT(unknown.error().message ==
         "DIJI_CPU=avx51: no such level; use scalar, avx2, avx512 (did you mean avx512?)");
  const auto lacking = cpu_target("avx512", processor(kAvx2));
  REQUIRE_FALSE(lacking);
  EXPECT(lacking.error().message ==
         "DIJI_CPU=avx512: this processor (Test Processor) lacks that level; it has scalar, avx2");
  EXPECT(cpu_target("", processor(kScalar))->level == kScalar);
}

TEST_CASE("this processor is described") {
  const CpuFacts& facts = cpu_facts();
  EXPECT_FALSE(facts.model.empty());
  const CpuTarget target = cpu_target("", facts).value();
  EXPECT(target.level == facts.highest);
  REQUIRE(facts.highest < facts.levels.size());
  for (std::size_t i = 1; i < facts.levels.size(); ++i)
    EXPECT(facts.levels[i].vector_bytes > facts.levels[i - 1].vector_bytes);
}

TEST_CASE("the device obeys DIJI_CPU, and a bad value is a problem with its sentence") {
  const diji_device_plugin_table* const built_in[] = {diji_plugin_cpu()};
  std::string highest;
  {
    const test::ScopedEnvironment level("DIJI_CPU", "");  // whatever the tests themselves run with
    DeviceList list(built_in, 1);
    REQUIRE(list.open("cpu"));
    highest = list.entries()[0].info.fingerprint;
    EXPECT(list.entries()[0].info.memory_bytes > 0);
    EXPECT(list.entries()[0].info.alignment == 64);
  }
  {
    const CpuLevel& lowest = cpu_facts().levels[0];
    const test::ScopedEnvironment level("DIJI_CPU", std::string(lowest.name));
    DeviceList list(built_in, 1);
    REQUIRE(list.open("cpu"));
    EXPECT(list.entries()[0].info.vector_bytes == lowest.vector_bytes);
    EXPECT((list.entries()[0].info.fingerprint != highest || cpu_facts().highest == 0));
  }
  {
    const test::ScopedEnvironment level("DIJI_CPU", "sse9");
    diji_device_properties properties{};
    properties.struct_size = sizeof(properties);
    EXPECT(built_in[0]->device_properties(0, &properties) == DIJI_ERROR_INVALID);
    diji_device* device = nullptr;
    EXPECT(built_in[0]->open(0, nullptr, &device) == DIJI_ERROR_INVALID);
    DeviceList list(built_in, 1);
    REQUIRE(list.problems().size() == 1);
    EXPECT(list.problems()[0].message.starts_with(
        fmt::format("cpu:0: DIJI_CPU=sse9: no such level; use {}", cpu_facts().levels[0].name)));
    EXPECT(list.open("cpu").error().message.contains("DIJI_CPU=sse9"));
  }
}

}  // namespace
}  // namespace diji::cpu
