// 64-bit RISC-V: the vector extension 1.0 says at run time how wide its registers are.
#include "plugins/cpu/cpu_features.h"

#include <sys/auxv.h>

#include <array>

namespace diji::cpu {
namespace {

// zvl is the least width that code relies on: what is compiled for 128 bits runs on wider registers too.
constexpr std::array<CpuLevel, 4> kLevels = {
    {{"scalar", "generic-rv64", "+m,+a,+f,+d,+c", "-march=rv64gc", 4, 32},
     {"rvv128", "generic-rv64", "+m,+a,+f,+d,+c,+v,+zvl128b", "-march=rv64gcv_zvl128b", 16, 32},
     {"rvv256", "generic-rv64", "+m,+a,+f,+d,+c,+v,+zvl256b", "-march=rv64gcv_zvl256b", 32, 32},
     {"rvv512", "generic-rv64", "+m,+a,+f,+d,+c,+v,+zvl512b", "-march=rv64gcv_zvl512b", 64, 32}}};

// Linux sets the letter's bit for vectors 1.0 alone, not for the drafts of it that some chips have.
bool has_vectors() { return (getauxval(AT_HWCAP) >> ('V' - 'A') & 1) != 0; }

/// The register vlenb, by its number: assemblers know its name only where they may use vectors.
unsigned long register_bytes() {
  unsigned long bytes = 0;
  asm volatile("csrr %0, 0xc22" : "=r"(bytes));
  return bytes;
}

}  // namespace

CpuFacts detect_cpu() {
  CpuFacts facts = {.model = "64-bit RISC-V processor",
                    .vendor = "unknown",
                    .levels = kLevels,
                    .llvm_triple = "riscv64-linux-gnu",
                    .llvm_abi = "lp64d"};
  const unsigned long bytes = has_vectors() ? register_bytes() : 0;
  while (facts.highest + 1 < kLevels.size() && kLevels[facts.highest + 1].vector_bytes <= bytes)
    ++facts.highest;
  return facts;
}

}  // namespace diji::cpu
