// Objects of every processor that the loader knows, linked on this one. Damaged ones: every truncation,
// random bytes, hostile headers. Refused or linked, never a crash, never executed.
#include "plugins/cpu/object_linker.h"

#include "plugins/cpu/host_symbols.h"
#include "plugins/cpu/llvm_compiler.h"
#include "tests/unit/expect.h"
#include "tests/unit/plugins/kernel_text.h"

#include <elf.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace diji::cpu {
namespace {

using Blob = std::vector<std::byte>;
using test::kReferences;

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kBase = 0x7f5555550000;

struct Processor {
  const Machine& machine;
  CpuTarget target;
  std::uint32_t unused_type;  ///< a relocation that kernels never have
};

CpuTarget target(const char* triple, const char* abi, const char* cpu, const char* features) {
  CpuTarget target;
  target.llvm_triple = triple;
  target.llvm_abi = abi;
  target.llvm_cpu = cpu;
  target.llvm_features = features;
  return target;
}

const std::array<Processor, 3>& processors() {
  static const std::array<Processor, 3> all = {{
      {x86_64_machine(), target("x86_64-linux-gnu", "", "x86-64", ""), R_X86_64_TPOFF32},
      {aarch64_machine(), target("aarch64-linux-gnu", "", "generic", ""), R_AARCH64_TLSLE_ADD_TPREL_HI12},
      {riscv64_machine(), target("riscv64-linux-gnu", "lp64d", "generic-rv64", "+m,+a,+f,+d,+c,+v,+zvl128b"),
       R_RISCV_ALIGN},
  }};
  return all;
}

Blob compile(const Processor& processor, std::string_view text) {
  const LlvmBlob made = compile_llvm(processor.target, text).value();
  const auto* bytes = static_cast<const std::byte*>(made.data);
  Blob blob(bytes, bytes + made.bytes);
  std::free(const_cast<void*>(made.data));
  return blob;
}

Result<void> link(const Blob& blob, const Machine& machine) {
  const ElfObject object = TRY(parse_elf(blob, machine));
  ObjectLinker linker(object, machine);
  const ImageLayout layout = TRY(linker.lay_out(kPage, host_symbol));
  // Zeroed when it is touched, and as long as the image: AddressSanitizer sees what stands behind it.
  const std::unique_ptr<void, decltype(&std::free)> image(std::calloc(layout.bytes, 1), &std::free);
  return linker.link({static_cast<std::byte*>(image.get()), layout.bytes}, kBase);
}

std::string refusal(const Blob& blob, const Machine& machine) {
  const auto linked = link(blob, machine);
  if (linked) return "";
  EXPECT_FALSE(linked.error().message.empty());
  return linked.error().message;
}

template <typename T>
T at(const Blob& blob, std::size_t offset) {
  T value;
  std::memcpy(&value, blob.data() + offset, sizeof(T));
  return value;
}
template <typename T>
void put(Blob& blob, std::size_t offset, const T& value) {
  std::memcpy(blob.data() + offset, &value, sizeof(T));
}

/// The blob with every section header of a type changed.
Blob with_headers(Blob blob, std::uint32_t type, const std::function<void(Elf64_Shdr&)>& change) {
  const auto header = at<Elf64_Ehdr>(blob, 0);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const std::size_t offset = header.e_shoff + i * sizeof(Elf64_Shdr);
    auto section = at<Elf64_Shdr>(blob, offset);
    if (section.sh_type != type) continue;
    change(section);
    put(blob, offset, section);
  }
  return blob;
}

TEST_CASE("objects of every processor are linked on this one, and taken for no other") {
  for (const Processor& processor : processors()) {
    CAPTURE(processor.machine.name);
    for (const std::string_view text : {test::kKernels, kReferences}) {
      const Blob blob = compile(processor, text);
      EXPECT(refusal(blob, processor.machine) == "");
      for (const Processor& other : processors()) {
        if (&other == &processor) continue;
        EXPECT(refusal(blob, other.machine)
                   .contains(fmt::format("little-endian {} object", other.machine.name)));
      }
    }
  }
}

TEST_CASE("every truncation is refused") {
  for (const Processor& processor : processors()) {
    const Blob blob = compile(processor, kReferences);
    for (std::size_t length = 0; length < blob.size(); ++length) {
      // On the heap with exactly this length, so that AddressSanitizer sees a read behind it.
      const Blob begin(blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(length));
      const std::string sentence = refusal(begin, processor.machine);
      CAPTURE(length);
      REQUIRE(sentence.starts_with("kernel blob: "));
    }
  }
}

TEST_CASE("random damage is refused or loaded, never a crash") {
  for (const Processor& processor : processors()) {
    CAPTURE(processor.machine.name);
    const Blob blobs[] = {compile(processor, test::kKernels), compile(processor, kReferences)};
    std::mt19937 random(4711);
    int refused = 0, loaded = 0;
    for (int trial = 0; trial < 3000; ++trial) {
      Blob blob = blobs[trial % 2];
      const int changes = 1 + static_cast<int>(random() % 3);
      for (int i = 0; i < changes; ++i) {
        const std::size_t position = random() % blob.size();
        // A third of the trials aims at the section headers, which stand at the end, where the structure is.
        const std::size_t aimed = trial % 3 == 0 ? blob.size() - 1 - position % (blob.size() / 3) : position;
        blob[aimed] = static_cast<std::byte>(random() % 256);
      }
      if (refusal(blob, processor.machine).empty()) {
        ++loaded;
      } else {
        ++refused;
      }
    }
    EXPECT(refused > 250);
    EXPECT(loaded > 250);
  }
}

void expect_refused_headers(const Processor& processor) {
  CAPTURE(processor.machine.name);
  const Blob blob = compile(processor, kReferences);
  const auto header = [&](const std::function<void(Elf64_Ehdr&)>& change) {
    Blob changed = blob;
    auto value = at<Elf64_Ehdr>(changed, 0);
    change(value);
    put(changed, 0, value);
    return refusal(changed, processor.machine);
  };
  EXPECT(header([](Elf64_Ehdr& h) { h.e_ident[0] = 'X'; }).contains("does not begin as an ELF file"));
  EXPECT(header([](Elf64_Ehdr& h) { h.e_machine = EM_LOONGARCH; }).contains("object file (machine 258"));
  EXPECT(header([](Elf64_Ehdr& h) { h.e_type = ET_DYN; }).contains("type 3"));
  EXPECT(header([](Elf64_Ehdr& h) { h.e_shnum = 0; }).contains("0 section headers"));
  EXPECT(header([](Elf64_Ehdr& h) { h.e_shnum = 0xffff; }).contains("65535 section headers"));
  EXPECT(header([](Elf64_Ehdr& h) { h.e_shoff = UINT64_MAX; }).contains("are left"));

  const auto sections = [&](std::uint32_t type, const std::function<void(Elf64_Shdr&)>& change) {
    return refusal(with_headers(blob, type, change), processor.machine);
  };
  EXPECT(sections(SHT_PROGBITS, [](Elf64_Shdr& s) { s.sh_addralign = 3; }).contains("wants alignment 3"));
  EXPECT(
      sections(SHT_PROGBITS, [](Elf64_Shdr& s) { s.sh_addralign = 1u << 20; }).contains("wants alignment"));
  EXPECT(sections(SHT_NOBITS, [](Elf64_Shdr& s) {
           s.sh_size = std::uint64_t{1} << 60;
         }).contains("larger than"));
  EXPECT(sections(SHT_NOBITS, [](Elf64_Shdr& s) { s.sh_flags |= SHF_TLS; }).contains("thread-local"));
  EXPECT(sections(SHT_PROGBITS, [](Elf64_Shdr& s) { s.sh_offset = UINT64_MAX - 8; }) != "");
  EXPECT(sections(SHT_SYMTAB, [](Elf64_Shdr& s) { s.sh_type = SHT_PROGBITS; }).contains("no symbol table"));
  EXPECT(sections(SHT_SYMTAB, [](Elf64_Shdr& s) { s.sh_link = 9999; }).contains("no table of names"));
  EXPECT(sections(SHT_SYMTAB, [](Elf64_Shdr& s) { s.sh_entsize = 1; }).contains("entries of 1 bytes"));
  EXPECT(sections(SHT_STRTAB, [](Elf64_Shdr& s) { s.sh_size = 1; }) != "");
  EXPECT(sections(SHT_STRTAB, [](Elf64_Shdr& s) { s.sh_type = SHT_SYMTAB; }).contains("two symbol tables"));
  EXPECT(sections(SHT_RELA, [](Elf64_Shdr& s) { s.sh_type = SHT_REL; }).contains("relocations have entries"));
  EXPECT(
      sections(SHT_RELA, [](Elf64_Shdr& s) { s.sh_info = 9999; }).contains("relocations for section 9999"));
  EXPECT(sections(SHT_RELA, [](Elf64_Shdr& s) { s.sh_link = 0; }).contains("as symbol table"));
}

TEST_CASE("hostile headers are refused by name") {
  for (const Processor& processor : processors()) expect_refused_headers(processor);
}

/// The blob with every entry of its tables of one type changed; `change` also sees the section that the table
/// is about.
template <typename Entry>
Blob with_entries(Blob blob, std::uint32_t type,
                  const std::function<void(Entry&, const Elf64_Shdr& about)>& change) {
  const auto header = at<Elf64_Ehdr>(blob, 0);
  const auto section = [&](std::size_t i) {
    return at<Elf64_Shdr>(blob, header.e_shoff + i * sizeof(Elf64_Shdr));
  };
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr table = section(i);
    if (table.sh_type != type) continue;
    const Elf64_Shdr about = section(type == SHT_RELA ? table.sh_info : table.sh_link);
    for (std::size_t offset = table.sh_offset; offset < table.sh_offset + table.sh_size;
         offset += sizeof(Entry)) {
      auto entry = at<Entry>(blob, offset);
      change(entry, about);
      put(blob, offset, entry);
    }
  }
  return blob;
}

void expect_refused_relocations(const Processor& processor) {
  CAPTURE(processor.machine.name);
  const Blob blob = compile(processor, kReferences);
  const auto changed = [&](const std::function<void(Elf64_Rela&, const Elf64_Shdr&)>& change) {
    return refusal(with_entries<Elf64_Rela>(blob, SHT_RELA, change), processor.machine);
  };
  using Rela = Elf64_Rela;
  using Section = Elf64_Shdr;
  const auto type_with = [](const Rela& r, std::uint64_t symbol) {
    return ELF64_R_INFO(symbol, ELF64_R_TYPE(r.r_info));
  };
  EXPECT(changed([](Rela& r, const Section&) { r.r_offset = UINT64_MAX; }).contains("outside its section"));
  EXPECT(changed([](Rela& r, const Section& s) { r.r_offset = s.sh_size; }).contains("outside its section"));
  EXPECT(changed([](Rela& r, const Section& s) { r.r_offset = s.sh_size - 1; }).contains("crosses the end"));
  EXPECT(
      changed([&](Rela& r, const Section&) { r.r_info = type_with(r, 1u << 30); }).contains("names symbol"));
  EXPECT(changed([&](Rela& r, const Section&) { r.r_info = type_with(r, 0); }).contains("it calls ''"));
  EXPECT(changed([&](Rela& r, const Section&) {
           r.r_info = ELF64_R_INFO(ELF64_R_SYM(r.r_info), processor.unused_type);
         }).contains(fmt::format("relocation type {} is not one", processor.unused_type)));
  EXPECT(changed([](Rela& r, const Section&) { r.r_addend = INT64_MAX; }).contains("bytes away"));
}

TEST_CASE("hostile relocations are refused by name") {
  for (const Processor& processor : processors()) expect_refused_relocations(processor);
}

void expect_refused_symbols(const Processor& processor) {
  CAPTURE(processor.machine.name);
  const Blob blob = compile(processor, kReferences);
  const auto changed = [&](const std::function<void(Elf64_Sym&, const Elf64_Shdr&)>& change) {
    return refusal(with_entries<Elf64_Sym>(blob, SHT_SYMTAB, change), processor.machine);
  };
  using Sym = Elf64_Sym;
  using Names = Elf64_Shdr;
  EXPECT(changed([](Sym& s, const Names&) {
           s.st_name = UINT32_MAX;
         }).contains("a symbol's name is at 4294967295"));
  EXPECT(
      changed([](Sym& s, const Names&) { s.st_value = 1u << 20; }).contains("is at 1048576 of a section of"));
  EXPECT(changed([](Sym& s, const Names&) { s.st_shndx = 0x7000; }).contains("is in section 28672 of"));
  // The last byte of the names is no longer their end.
  std::uint64_t last = 0;
  Blob endless = with_entries<Sym>(blob, SHT_SYMTAB, [&](Sym& s, const Names& names) {
    last = names.sh_offset + names.sh_size - 1;
    s.st_name = static_cast<std::uint32_t>(names.sh_size - 1);
  });
  put(endless, last, 'x');
  EXPECT(refusal(endless, processor.machine).contains("a symbol's name has no end"));
}

TEST_CASE("hostile symbols are refused by name") {
  for (const Processor& processor : processors()) expect_refused_symbols(processor);
}

std::uint32_t word_at(const std::byte* at) {
  std::uint32_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

/// Bits `first` to `first + count - 1` of an instruction, with a sign.
std::int64_t field(std::uint32_t word, int first, int count) {
  return static_cast<std::int32_t>(word << (32 - first - count)) >> (32 - count);
}

constexpr std::uint64_t kTargets[] = {
    kBase + 0x800,      kBase + 0x7ff,      kBase + 0xff0,      kBase - 0x800,
    kBase + 0x12345670, kBase - 0x12345670, kBase + 0x7ffff000, kBase};

TEST_CASE("RISC-V: upper and lower halves add up to the distance, and keep the instruction's other bits") {
  const Machine& machine = riscv64_machine();
  for (const std::uint64_t target : kTargets) {
    CAPTURE(target);
    const RelocationValue value{target, kBase};
    std::array<std::byte, 8> call{}, load{}, store{};
    const std::uint32_t auipc = 0x00000097, jalr = 0x000080e7, ld = 0x0002b283, sd = 0x0062b023;
    std::memcpy(&call[0], &auipc, 4);
    std::memcpy(&call[4], &jalr, 4);
    std::memcpy(&load[0], &ld, 4);
    std::memcpy(&store[0], &sd, 4);
    REQUIRE((machine.apply(R_RISCV_CALL_PLT, call.data(), value) == Applied::done));
    REQUIRE((machine.apply(R_RISCV_PCREL_LO12_I, load.data(), value) == Applied::done));
    REQUIRE((machine.apply(R_RISCV_PCREL_LO12_S, store.data(), value) == Applied::done));
    const std::int64_t upper = field(word_at(&call[0]), 12, 20) * 4096;
    EXPECT(upper + field(word_at(&call[4]), 20, 12) == value.distance());
    EXPECT(upper + field(word_at(&load[0]), 20, 12) == value.distance());
    const std::uint32_t stored = word_at(&store[0]);
    EXPECT(upper + field(stored, 25, 7) * 32 + (stored >> 7 & 31) == value.distance());
    EXPECT((word_at(&call[0]) & 0xfff) == auipc);
    EXPECT((word_at(&load[0]) & 0xfffff) == ld);
    EXPECT((stored & 0x01fff07f) == sd);
  }
  std::array<std::byte, 8> call{};
  const RelocationValue far{kBase + 0x7ffff800, kBase};
  EXPECT((machine.apply(R_RISCV_PCREL_HI20, call.data(), far) == Applied::too_far));
}

TEST_CASE("ARM: page, place in the page and branch are the target, and keep the instruction's other bits") {
  const Machine& machine = aarch64_machine();
  for (const std::uint64_t target : kTargets) {
    CAPTURE(target);
    const RelocationValue value{target & ~std::uint64_t{15}, kBase};
    std::array<std::byte, 4> page{}, add{}, load{}, branch{};
    const std::uint32_t adrp = 0x90000008, add_instruction = 0x91000108, ldr_q = 0x3dc00100, bl = 0x94000000;
    std::memcpy(&page[0], &adrp, 4);
    std::memcpy(&add[0], &add_instruction, 4);
    std::memcpy(&load[0], &ldr_q, 4);
    std::memcpy(&branch[0], &bl, 4);
    REQUIRE((machine.apply(R_AARCH64_ADR_PREL_PG_HI21, page.data(), value) == Applied::done));
    REQUIRE((machine.apply(R_AARCH64_ADD_ABS_LO12_NC, add.data(), value) == Applied::done));
    REQUIRE((machine.apply(R_AARCH64_LDST128_ABS_LO12_NC, load.data(), value) == Applied::done));
    const std::int64_t pages = field(word_at(&page[0]), 5, 19) * 4 + (word_at(&page[0]) >> 29 & 3);
    const std::uint64_t at = kBase + static_cast<std::uint64_t>(pages * 4096);
    EXPECT(at + (word_at(&add[0]) >> 10 & 0xfff) == value.target);
    EXPECT(at + (word_at(&load[0]) >> 10 & 0xfff) * 16 == value.target);
    EXPECT((word_at(&page[0]) & 0x9f00001f) == adrp);
    const bool near = -0x8000000 <= value.distance() && value.distance() < 0x8000000;
    const Applied branched = machine.apply(R_AARCH64_CALL26, branch.data(), value);
    EXPECT((branched == (near ? Applied::done : Applied::too_far)));
    if (near) EXPECT(field(word_at(&branch[0]), 0, 26) * 4 == value.distance());
    EXPECT((word_at(&branch[0]) & 0xfc000000) == bl);
  }
  std::array<std::byte, 4> load{};
  const RelocationValue odd{kBase + 8, kBase};
  EXPECT((machine.apply(R_AARCH64_LDST128_ABS_LO12_NC, load.data(), odd) == Applied::misaligned));
}

TEST_CASE("a lower half whose upper half is missing is refused") {
  const Processor& processor = processors()[2];
  const Blob blob = with_entries<Elf64_Rela>(compile(processor, kReferences), SHT_RELA,
                                             [](Elf64_Rela& r, const Elf64_Shdr&) {
                                               const auto type = ELF64_R_TYPE(r.r_info);
                                               if (type == R_RISCV_PCREL_HI20 || type == R_RISCV_GOT_HI20)
                                                 r.r_info = ELF64_R_INFO(ELF64_R_SYM(r.r_info), R_RISCV_NONE);
                                             });
  EXPECT(refusal(blob, processor.machine).contains("has no first half"));
}

}  // namespace
}  // namespace diji::cpu
