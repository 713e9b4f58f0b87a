// Levels by name, and what kernels are compiled with at each.
#include "plugins/cpu/cpu_features.h"

#include "base/nearest.h"

#include <cstdlib>
#include <vector>

namespace diji::cpu {
namespace {

std::string known_levels(const CpuFacts& facts) {
  std::string text;
  for (const CpuLevel& level : facts.levels.first(facts.highest + 1))
    text += fmt::format("{}{}", text.empty() ? "" : ", ", level.name);
  return text;
}

Result<std::size_t> parse_level(std::string_view requested, const CpuFacts& facts) {
  if (requested.empty()) return facts.highest;
  std::vector<std::string> names;
  for (const CpuLevel& level : facts.levels) {
    if (requested == level.name && names.size() <= facts.highest) return names.size();
    if (requested == level.name) {
      return fail(ErrorCode::usage, "DIJI_CPU={}: this processor ({}) lacks that level; it has {}", requested,
                  facts.model, known_levels(facts));
    }
    names.emplace_back(level.name);
  }
  const std::string nearest = nearest_name(requested, names);
  return fail(ErrorCode::usage, "DIJI_CPU={}: no such level; use {}{}", requested, known_levels(facts),
              nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
}

}  // namespace

const CpuFacts& cpu_facts() {
  static const CpuFacts facts = detect_cpu();
  return facts;
}

Result<CpuTarget> cpu_target(std::string_view requested, const CpuFacts& facts) {
  CpuTarget target;
  target.level = TRY(parse_level(requested, facts));
  const CpuLevel& level = facts.levels[target.level];
  target.llvm_triple = facts.llvm_triple;
  target.llvm_abi = facts.llvm_abi;
  target.llvm_cpu = level.llvm_cpu;
  target.llvm_features = level.llvm_features;
  target.c_options = level.c_options;
  target.vector_bytes = level.vector_bytes;
  target.vector_registers = level.vector_registers;
  target.words = level.name;
  for (const CpuFeature& feature : facts.features) {
    if (!feature.present || feature.level > target.level) continue;
    target.llvm_features += target.llvm_features.empty() ? "+" : ",+";
    target.llvm_features += feature.llvm_name;
    target.c_options += fmt::format(" -m{}", feature.llvm_name);
    target.words += ' ';
    target.words += feature.llvm_name;
  }
  target.fingerprint = fmt::format("{} {} llvm-{}", target.llvm_cpu, target.words, DIJI_LLVM_MAJOR);
  return target;
}

Result<CpuTarget> current_target() {
  const char* requested = std::getenv("DIJI_CPU");
  return cpu_target(requested == nullptr ? "" : requested, cpu_facts());
}

}  // namespace diji::cpu
