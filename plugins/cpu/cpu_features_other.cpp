// Architectures of which diji knows nothing: scalar kernels by their C compiler.
#include "plugins/cpu/cpu_features.h"

#include <array>

namespace diji::cpu {
namespace {

constexpr std::array<CpuLevel, 1> kLevels = {{{"scalar", "generic", "", "", 4, 16}}};

}  // namespace

CpuFacts detect_cpu() {
  return {.model = "a processor that diji does not know", .vendor = "unknown", .levels = kLevels};
}

}  // namespace diji::cpu
