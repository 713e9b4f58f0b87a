// What this processor can do, what DIJI_CPU allows of it, and what LLVM is told about it.
#pragma once

#include "base/error.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace diji::cpu {

/// Each level includes the ones before it. scalar is the x86-64 baseline, which has SSE2's 16-byte vectors.
enum class CpuLevel : std::uint8_t { scalar, avx2, avx512 };

std::string_view name_of(CpuLevel level);

/// One optional instruction set beyond a level's own.
struct CpuFeature {
  std::string_view llvm_name;  ///< "avx512bf16", as in LLVM's feature string
  CpuLevel level;              ///< the lowest level at which kernels may use it
  bool present;
};

/// The processor as cpuid shows it.
struct CpuFacts {
  std::string model;   ///< "Intel(R) Xeon(R) Processor"
  std::string vendor;  ///< "GenuineIntel"
  CpuLevel highest = CpuLevel::scalar;
  std::span<const CpuFeature> features;
  bool supported = false;  ///< false where diji has no loader for this kind of CPU yet
};

/// Asked once, with the operating system's support for the wide registers taken into account.
const CpuFacts& cpu_facts();

/// What kernels are compiled for.
struct CpuTarget {
  CpuLevel level = CpuLevel::scalar;
  std::string llvm_cpu;       ///< "x86-64-v4"
  std::string llvm_features;  ///< "+avx512bf16,+avx512vnni"
  std::string words;          ///< "avx512 avx512bf16 avx512vnni", for people
  std::string fingerprint;    ///< level, features and LLVM's major version
  std::uint32_t vector_bytes = 16;
  std::uint32_t vector_registers = 16;
};

/// `requested` is the value of DIJI_CPU, "" for the highest level. Errors: usage for an unknown word or a
/// level that the processor lacks, naming what there is.
Result<CpuTarget> cpu_target(std::string_view requested, const CpuFacts& facts);
/// cpu_target() with the environment's DIJI_CPU and this processor.
Result<CpuTarget> current_target();

}  // namespace diji::cpu
