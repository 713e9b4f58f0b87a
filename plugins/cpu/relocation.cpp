// Which machine this program is compiled for.
#include "plugins/cpu/relocation.h"

namespace diji::cpu {

const Machine* own_machine() {
#if defined(__x86_64__)
  return &x86_64_machine();
#elif defined(__aarch64__)
  return &aarch64_machine();
#elif defined(__riscv) && __riscv_xlen == 64
  return &riscv64_machine();
#else
  return nullptr;
#endif
}

}  // namespace diji::cpu
