// 64-bit LoongArch: vectors of 128 (LSX) and 256 bits (LASX). Compiled, never run on a chip.
#include "plugins/cpu/cpu_features.h"

#include <sys/auxv.h>

#include <array>

namespace diji::cpu {
namespace {

constexpr std::array<CpuLevel, 3> kLevels = {
    {{"scalar", "generic-la64", "", "-march=loongarch64 -mno-lsx", 4, 32},
     {"lsx", "generic-la64", "", "-march=loongarch64 -mlsx", 16, 32},
     {"lasx", "generic-la64", "", "-march=loongarch64 -mlasx", 32, 32}}};
constexpr unsigned long kHasLsx = 1u << 4, kHasLasx = 1u << 5;  // asm/hwcap.h of Linux

}  // namespace

CpuFacts detect_cpu() {
  CpuFacts facts = {.model = "64-bit LoongArch processor", .vendor = "unknown", .levels = kLevels};
  const unsigned long has = getauxval(AT_HWCAP);
  if ((has & kHasLsx) != 0) facts.highest = (has & kHasLasx) != 0 ? 2 : 1;
  return facts;
}

}  // namespace diji::cpu
