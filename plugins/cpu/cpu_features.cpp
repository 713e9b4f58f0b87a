// cpuid levels and the set of LLVM features that kernels are compiled with at each.
#include "plugins/cpu/cpu_features.h"

#include "base/nearest.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace diji::cpu {
namespace {

constexpr std::array<std::string_view, 3> kLevelNames = {"scalar", "avx2", "avx512"};

#if defined(__x86_64__)

std::string registers_as_text(std::initializer_list<unsigned> registers) {
  std::string text;
  for (const unsigned value : registers) {
    char bytes[4];
    std::memcpy(bytes, &value, sizeof(bytes));
    text.append(bytes, sizeof(bytes));
  }
  return text;
}

std::string model_name() {
  std::string name;
  for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(leaf, &a, &b, &c, &d) == 0) return "x86-64 processor";
    name += registers_as_text({a, b, c, d});
  }
  name.resize(std::strlen(name.c_str()));
  const std::size_t first = name.find_first_not_of(' ');
  return first == std::string::npos ? "x86-64 processor" : name.substr(first);
}

// __builtin_cpu_supports asks cpuid and, for the wide registers, whether the operating system saves them.
// Under valgrind, which shows no AVX-512, it answers accordingly.
CpuFacts detect() {
  __builtin_cpu_init();
  // Only what generated kernels use: each further word would split the compile cache for nothing. AMX is left
  // out: its tile registers need a permission from the kernel per process and a text of their own.
  static const std::array<CpuFeature, 6> features = {{
      {"avxvnni", CpuLevel::avx2, __builtin_cpu_supports("avxvnni") != 0},
      {"avx512vnni", CpuLevel::avx512, __builtin_cpu_supports("avx512vnni") != 0},
      {"avx512bf16", CpuLevel::avx512, __builtin_cpu_supports("avx512bf16") != 0},
      {"avx512vbmi", CpuLevel::avx512, __builtin_cpu_supports("avx512vbmi") != 0},
      {"avx512vbmi2", CpuLevel::avx512, __builtin_cpu_supports("avx512vbmi2") != 0},
      {"avx512fp16", CpuLevel::avx512, __builtin_cpu_supports("avx512fp16") != 0},
  }};
  CpuFacts facts;
  facts.supported = true;
  facts.model = model_name();
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) != 0) facts.vendor = registers_as_text({b, d, c});
  if (__builtin_cpu_supports("x86-64-v3")) facts.highest = CpuLevel::avx2;
  if (__builtin_cpu_supports("x86-64-v4")) facts.highest = CpuLevel::avx512;
  facts.features = features;
  return facts;
}

#else

CpuFacts detect() {
  CpuFacts facts;
  facts.model = "a processor that diji has no kernel loader for yet";
  facts.vendor = "unknown";
  return facts;
}

#endif

std::string known_levels(CpuLevel highest) {
  std::string text;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(highest); ++i) {
    text += (i == 0 ? "" : ", ");
    text += kLevelNames[i];
  }
  return text;
}

Result<CpuLevel> parse_level(std::string_view requested, const CpuFacts& facts) {
  if (requested.empty()) return facts.highest;
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (requested != kLevelNames[i]) continue;
    const auto level = static_cast<CpuLevel>(i);
    if (level <= facts.highest) return level;
    return fail(ErrorCode::usage, "DIJI_CPU={}: this processor ({}) lacks that level; it has {}", requested,
                facts.model, known_levels(facts.highest));
  }
  const std::vector<std::string> names(kLevelNames.begin(), kLevelNames.end());
  const std::string nearest = nearest_name(requested, names);
  return fail(ErrorCode::usage, "DIJI_CPU={}: no such level; use {}{}", requested,
              known_levels(facts.highest),
              nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
}

}  // namespace

std::string_view name_of(CpuLevel level) { return kLevelNames[static_cast<std::size_t>(level)]; }

const CpuFacts& cpu_facts() {
  static const CpuFacts facts = detect();
  return facts;
}

Result<CpuTarget> cpu_target(std::string_view requested, const CpuFacts& facts) {
  // One row a level: LLVM's name for the micro-architecture level, bytes and number of its vector registers.
  struct LevelRow {
    std::string_view llvm_cpu;
    std::uint32_t vector_bytes;
    std::uint32_t vector_registers;
  };
  static constexpr std::array<LevelRow, 3> kRows = {
      {{"x86-64", 16, 16}, {"x86-64-v3", 32, 16}, {"x86-64-v4", 64, 32}}};

  CpuTarget target;
  target.level = TRY(parse_level(requested, facts));
  const LevelRow& row = kRows[static_cast<std::size_t>(target.level)];
  target.llvm_cpu = row.llvm_cpu;
  target.vector_bytes = row.vector_bytes;
  target.vector_registers = row.vector_registers;
  target.words = name_of(target.level);
  for (const CpuFeature& feature : facts.features) {
    if (!feature.present || feature.level > target.level) continue;
    target.llvm_features += target.llvm_features.empty() ? "+" : ",+";
    target.llvm_features += feature.llvm_name;
    target.words += ' ';
    target.words += feature.llvm_name;
  }
  target.fingerprint = fmt::format("{} {} llvm-{}", facts.supported ? target.llvm_cpu : "unknown",
                                   target.words, DIJI_LLVM_MAJOR);
  return target;
}

Result<CpuTarget> current_target() {
  const char* requested = std::getenv("DIJI_CPU");
  return cpu_target(requested == nullptr ? "" : requested, cpu_facts());
}

}  // namespace diji::cpu
