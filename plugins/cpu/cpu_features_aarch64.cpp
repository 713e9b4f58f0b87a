// 64-bit ARM: NEON is part of it.
#include "plugins/cpu/cpu_features.h"

#include <array>

namespace diji::cpu {
namespace {

constexpr std::array<CpuLevel, 1> kLevels = {{{"neon", "generic", "", "-march=armv8-a", 16, 32}}};

}  // namespace

CpuFacts detect_cpu() {
  return {.model = "64-bit ARM processor",
          .vendor = "unknown",
          .levels = kLevels,
          .llvm_triple = "aarch64-linux-gnu"};
}

}  // namespace diji::cpu
