// What this processor can do, what DIJI_CPU allows of it, and what LLVM is told about it.
#pragma once

#include "base/error.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace diji::cpu {

/// What kernels may use. Each level of a processor includes the ones before it.
struct CpuLevel {
  std::string_view name;           ///< of DIJI_CPU: "avx512"
  std::string_view llvm_cpu;       ///< "x86-64-v4"
  std::string_view llvm_features;  ///< of the level's own, "+v,+zvl256b"; often none
  std::string_view c_options;      ///< what C compilers are told, with blanks between
  std::uint32_t vector_bytes;      ///< of one register; 4 where kernels use none
  std::uint32_t vector_registers;
};

/// One optional instruction set beyond a level's own.
struct CpuFeature {
  std::string_view llvm_name;  ///< "avx512bf16", as in LLVM's feature string
  std::size_t level;           ///< the lowest level at which kernels may use it
  bool present;
};

/// The processor as it shows itself.
struct CpuFacts {
  std::string model;                 ///< "Intel(R) Xeon(R) Processor"
  std::string vendor;                ///< "GenuineIntel"
  std::span<const CpuLevel> levels;  ///< of its architecture, never empty
  std::size_t highest = 0;           ///< of the levels, what it has
  std::span<const CpuFeature> features;
  std::string_view llvm_triple;  ///< "x86_64-linux-gnu"; empty where diji has no loader of LLVM's objects
  std::string_view llvm_abi;     ///< where the triple leaves the calling convention open, "lp64d"
  bool links_c = true;           ///< C kernels are shared objects; else objects that diji loads
};

/// In the file of the architecture: the facts, with the operating system's support for the wide registers
/// taken into account.
CpuFacts detect_cpu();
/// detect_cpu(), asked once.
const CpuFacts& cpu_facts();

/// What kernels are compiled for.
struct CpuTarget {
  std::size_t level = 0;      ///< in the facts' levels
  std::string llvm_triple;    ///< "x86_64-linux-gnu"
  std::string llvm_abi;       ///< "", "lp64d"
  std::string llvm_cpu;       ///< "x86-64-v4"
  std::string llvm_features;  ///< "+avx512bf16,+avx512vnni"
  std::string c_options;      ///< "-march=x86-64-v4 -mavx512vnni"
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
