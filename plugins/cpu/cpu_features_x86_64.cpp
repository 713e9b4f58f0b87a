// Levels of x86-64, which cpuid tells.
#include "plugins/cpu/cpu_features.h"

#include <cpuid.h>

#include <array>
#include <cstring>
#include <initializer_list>

namespace diji::cpu {
namespace {

// scalar is the baseline, which has SSE2. x86-64-v4 is tuned to avoid 512-bit registers; kernels mean them.
constexpr std::array<CpuLevel, 3> kLevels = {
    {{"scalar", "x86-64", "", "-fcf-protection=none -march=x86-64", 16, 16},
     {"avx2", "x86-64-v3", "", "-fcf-protection=none -march=x86-64-v3", 32, 16},
     {"avx512", "x86-64-v4", "", "-fcf-protection=none -march=x86-64-v4 -mprefer-vector-width=512", 64, 32}}};
constexpr std::size_t kAvx2 = 1, kAvx512 = 2;

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

}  // namespace

// __builtin_cpu_supports asks cpuid and, for the wide registers, whether the operating system saves them.
// Under valgrind, which shows no AVX-512, it answers accordingly.
CpuFacts detect_cpu() {
  __builtin_cpu_init();
  // Only what generated kernels use: each further word would split the compile cache for nothing. AMX is left
  // out: its tile registers need a permission from the kernel per process and a text of their own.
  static const std::array<CpuFeature, 6> features = {{
      {"avxvnni", kAvx2, __builtin_cpu_supports("avxvnni") != 0},
      {"avx512vnni", kAvx512, __builtin_cpu_supports("avx512vnni") != 0},
      {"avx512bf16", kAvx512, __builtin_cpu_supports("avx512bf16") != 0},
      {"avx512vbmi", kAvx512, __builtin_cpu_supports("avx512vbmi") != 0},
      {"avx512vbmi2", kAvx512, __builtin_cpu_supports("avx512vbmi2") != 0},
      {"avx512fp16", kAvx512, __builtin_cpu_supports("avx512fp16") != 0},
  }};
  CpuFacts facts;
  facts.levels = kLevels;
  facts.llvm_triple = "x86_64-linux-gnu";
  facts.links_c = false;
  facts.model = model_name();
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) != 0) facts.vendor = registers_as_text({b, d, c});
  if (__builtin_cpu_supports("x86-64-v3")) facts.highest = kAvx2;
  if (__builtin_cpu_supports("x86-64-v4")) facts.highest = kAvx512;
  facts.features = features;
  return facts;
}

}  // namespace diji::cpu
