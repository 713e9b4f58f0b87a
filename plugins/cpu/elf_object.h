// An ELF64 relocatable object of one machine, checked: what the loader may rely on without looking at the
// bytes again.
#pragma once

#include "base/error.h"
#include "plugins/cpu/relocation.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace diji::cpu {

/// Where a section goes in memory; `dropped` sections (symbols, debugging, unwinding) do not.
enum class SectionPlace : std::uint8_t { code, constants, data, dropped };

struct ElfSection {
  SectionPlace place = SectionPlace::dropped;
  std::span<const std::byte> bytes;  ///< empty for zero-filled memory
  std::uint64_t size = 0;            ///< in memory
  std::uint64_t alignment = 1;       ///< a power of two, at most a page
};

struct ElfSymbol {
  std::string_view name;
  bool defined = false;      ///< in sections[section], at value <= its size; that section is not dropped
  bool is_function = false;  ///< a global function in a code section, value < its size
  std::uint32_t section = 0;
  std::uint64_t value = 0;
  std::uint64_t size = 0;  ///< as the file says, not checked
};

struct ElfRelocation {
  std::uint32_t section = 0;  ///< the section to change, never a dropped one
  std::uint64_t offset = 0;   ///< less than its size; the width of the change is checked by the loader
  std::uint32_t type = 0;     ///< of the machine: R_X86_64_*
  std::uint32_t symbol = 0;   ///< index in symbols
  std::int64_t addend = 0;
};

struct ElfObject {
  std::vector<ElfSection> sections;
  std::vector<ElfSymbol> symbols;
  std::vector<ElfRelocation> relocations;
};

/// `bytes` is untrusted. Errors: malformed with the byte. The views in the result point into `bytes`.
Result<ElfObject> parse_elf(std::span<const std::byte> bytes, const Machine& machine);

}  // namespace diji::cpu
