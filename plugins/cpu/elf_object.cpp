// Reads an object file through the bounds-checked reader; every index and range is checked here, once.
#include "plugins/cpu/elf_object.h"

#include "base/reader.h"

#include <elf.h>

#include <bit>
#include <cstring>

namespace diji::cpu {
namespace {

constexpr std::string_view kFile = "kernel blob";
constexpr std::uint64_t kSectionsMax = 4096;          // LLVM writes about ten
constexpr std::uint64_t kImageBytesMax = 256u << 20;  // keeps every distance inside a 32-bit relocation
constexpr std::uint64_t kRelocationsMax = 1u << 20;   // overlapping tables must not multiply the work
constexpr std::uint64_t kAlignmentMax = 4096;

template <typename T>
Result<T> read(Reader& reader, std::string_view what) {
  T value;
  std::memcpy(&value, TRY(reader.take(sizeof(T), what)).data(), sizeof(T));
  return value;
}

/// A reader over [offset, offset + size) of the whole file.
Result<Reader> range(std::span<const std::byte> file, std::uint64_t offset, std::uint64_t size,
                     std::string_view what) {
  Reader reader(file, kFile);
  TRY(reader.take(offset, what));
  return reader.part(size, what);
}

template <typename... Args>
std::unexpected<Error> bad(fmt::format_string<Args...> text, Args&&... args) {
  return fail(ErrorCode::malformed, "{}: {}", kFile, fmt::format(text, std::forward<Args>(args)...));
}

Result<std::vector<Elf64_Shdr>> read_headers(std::span<const std::byte> file, const Machine& machine) {
  Reader reader(file, kFile);
  const auto header = TRY(read<Elf64_Ehdr>(reader, "the ELF header"));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return bad("it does not begin as an ELF file does");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != machine.elf_machine || header.e_type != ET_REL) {
    return bad("it is not a 64-bit little-endian {} object file (machine {}, type {})", machine.name,
               header.e_machine, header.e_type);
  }
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0 || header.e_shnum > kSectionsMax) {
    return bad("{} section headers of {} bytes; wanted 1 to {} of {}", header.e_shnum, header.e_shentsize,
               kSectionsMax, sizeof(Elf64_Shdr));
  }
  Reader table = TRY(range(file, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr), "the section headers"));
  std::vector<Elf64_Shdr> headers;
  headers.reserve(header.e_shnum);
  while (!table.at_end()) headers.push_back(TRY(read<Elf64_Shdr>(table, "a section header")));
  return headers;
}

SectionPlace place_of(const Elf64_Shdr& header, const Machine& machine) {
  if ((header.sh_flags & SHF_ALLOC) == 0) return SectionPlace::dropped;
  if (header.sh_size == 0) return SectionPlace::dropped;
  // Kernels never unwind: unwind tables would only cost memory.
  if (machine.unwind_type != 0 && header.sh_type == machine.unwind_type) return SectionPlace::dropped;
  if ((header.sh_flags & SHF_EXECINSTR) != 0) return SectionPlace::code;
  return (header.sh_flags & SHF_WRITE) != 0 ? SectionPlace::data : SectionPlace::constants;
}

Result<std::vector<ElfSection>> read_sections(std::span<const std::byte> file,
                                              std::span<const Elf64_Shdr> headers, const Machine& machine) {
  std::vector<ElfSection> sections(headers.size());
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const Elf64_Shdr& header = headers[i];
    ElfSection& section = sections[i];
    section.place = place_of(header, machine);
    if (section.place == SectionPlace::dropped) continue;
    if ((header.sh_flags & SHF_TLS) != 0)
      return bad("section {} holds thread-local data, which kernels lack", i);
    if (header.sh_type != SHT_PROGBITS && header.sh_type != SHT_NOBITS) {
      return bad("section {} is of type {}, which is not loaded", i, header.sh_type);
    }
    section.alignment = header.sh_addralign == 0 ? 1 : header.sh_addralign;
    if (!std::has_single_bit(section.alignment) || section.alignment > kAlignmentMax) {
      return bad("section {} wants alignment {}; a power of two up to {} can be had", i, section.alignment,
                 kAlignmentMax);
    }
    if (header.sh_size > kImageBytesMax - total) {
      return bad("section {} makes the kernels larger than {} bytes", i, kImageBytesMax);
    }
    section.size = header.sh_size;
    total += header.sh_size;
    if (header.sh_type == SHT_NOBITS) continue;
    Reader reader = TRY(range(file, header.sh_offset, header.sh_size, "a section"));
    section.bytes = TRY(reader.take(header.sh_size, "a section"));
  }
  return sections;
}

Result<std::string_view> name_at(std::span<const std::byte> strings, std::uint64_t offset) {
  if (offset >= strings.size())
    return bad("a symbol's name is at {} of {} bytes of names", offset, strings.size());
  const auto* begin = reinterpret_cast<const char*>(strings.data() + offset);
  const std::size_t left = strings.size() - static_cast<std::size_t>(offset);
  const std::size_t length = strnlen(begin, left);
  if (length == left) return bad("a symbol's name has no end");
  return std::string_view(begin, length);
}

Result<ElfSymbol> checked_symbol(const Elf64_Sym& raw, std::span<const std::byte> strings,
                                 std::span<const ElfSection> sections) {
  ElfSymbol symbol;
  symbol.name = TRY(name_at(strings, raw.st_name));
  symbol.section = raw.st_shndx;
  symbol.value = raw.st_value;
  if (raw.st_shndx == SHN_UNDEF || raw.st_shndx >= SHN_LORESERVE) return symbol;  // nothing to point at
  if (raw.st_shndx >= sections.size())
    return bad("symbol '{}' is in section {} of {}", symbol.name, raw.st_shndx, sections.size());
  const ElfSection& section = sections[raw.st_shndx];
  if (section.place == SectionPlace::dropped) return symbol;
  if (raw.st_value > section.size) {
    return bad("symbol '{}' is at {} of a section of {} bytes", symbol.name, raw.st_value, section.size);
  }
  symbol.defined = true;
  symbol.size = raw.st_size;
  symbol.is_function = ELF64_ST_TYPE(raw.st_info) == STT_FUNC && ELF64_ST_BIND(raw.st_info) == STB_GLOBAL &&
                       section.place == SectionPlace::code && raw.st_value < section.size;
  return symbol;
}

Result<std::vector<ElfSymbol>> read_symbols(std::span<const std::byte> file,
                                            std::span<const Elf64_Shdr> headers, std::uint32_t table,
                                            std::span<const ElfSection> sections) {
  const Elf64_Shdr& header = headers[table];
  if (header.sh_entsize != sizeof(Elf64_Sym) || header.sh_size % sizeof(Elf64_Sym) != 0) {
    return bad("its symbol table has entries of {} bytes, not {}", header.sh_entsize, sizeof(Elf64_Sym));
  }
  if (header.sh_link >= headers.size() || headers[header.sh_link].sh_type != SHT_STRTAB) {
    return bad("its symbol table has no table of names");
  }
  const Elf64_Shdr& names = headers[header.sh_link];
  Reader strings = TRY(range(file, names.sh_offset, names.sh_size, "the symbols' names"));
  const auto string_bytes = TRY(strings.take(names.sh_size, "the symbols' names"));
  Reader reader = TRY(range(file, header.sh_offset, header.sh_size, "the symbol table"));
  std::vector<ElfSymbol> symbols;
  symbols.reserve(reader.remaining() / sizeof(Elf64_Sym));
  while (!reader.at_end()) {
    const auto raw = TRY(read<Elf64_Sym>(reader, "a symbol"));
    symbols.push_back(TRY(checked_symbol(raw, string_bytes, sections)));
  }
  return symbols;
}

Result<void> read_relocations(std::span<const std::byte> file, const Elf64_Shdr& header, ElfObject& object) {
  if (header.sh_info >= object.sections.size()) return bad("relocations for section {}", header.sh_info);
  const ElfSection& target = object.sections[header.sh_info];
  if (target.place == SectionPlace::dropped) return {};
  if (header.sh_type == SHT_REL || header.sh_entsize != sizeof(Elf64_Rela) ||
      header.sh_size % sizeof(Elf64_Rela) != 0) {
    return bad("its relocations have entries of {} bytes, not {}", header.sh_entsize, sizeof(Elf64_Rela));
  }
  if (header.sh_size / sizeof(Elf64_Rela) > kRelocationsMax - object.relocations.size()) {
    return bad("it has more than {} relocations", kRelocationsMax);
  }
  Reader reader = TRY(range(file, header.sh_offset, header.sh_size, "a relocation table"));
  while (!reader.at_end()) {
    const auto raw = TRY(read<Elf64_Rela>(reader, "a relocation"));
    const auto symbol = static_cast<std::uint32_t>(ELF64_R_SYM(raw.r_info));
    if (symbol >= object.symbols.size())
      return bad("a relocation names symbol {} of {}", symbol, object.symbols.size());
    if (raw.r_offset >= target.size || target.bytes.empty()) {
      return bad("a relocation at {} is outside its section of {} bytes", raw.r_offset, target.size);
    }
    object.relocations.push_back({header.sh_info, raw.r_offset,
                                  static_cast<std::uint32_t>(ELF64_R_TYPE(raw.r_info)), symbol,
                                  raw.r_addend});
  }
  return {};
}

}  // namespace

Result<ElfObject> parse_elf(std::span<const std::byte> bytes, const Machine& machine) {
  const std::vector<Elf64_Shdr> headers = TRY(read_headers(bytes, machine));
  ElfObject object;
  object.sections = TRY(read_sections(bytes, headers, machine));
  std::uint32_t symbol_table = 0;  // section 0 is never one
  for (std::uint32_t i = 1; i < headers.size(); ++i) {
    if (headers[i].sh_type != SHT_SYMTAB) continue;
    if (symbol_table != 0) return bad("it has two symbol tables");
    symbol_table = i;
  }
  if (symbol_table == 0) return bad("it has no symbol table");
  object.symbols = TRY(read_symbols(bytes, headers, symbol_table, object.sections));
  for (const Elf64_Shdr& header : headers) {
    if (header.sh_type != SHT_RELA && header.sh_type != SHT_REL) continue;
    if (header.sh_link != symbol_table)
      return bad("relocations refer to section {} as symbol table", header.sh_link);
    TRY(read_relocations(bytes, header, object));
  }
  return object;
}

}  // namespace diji::cpu
