// Damaged blobs: every truncation, random bytes, hostile headers. Refused or loaded, never a crash, never
// executed.
#include "plugins/cpu/object_loader.h"

#include "device/device.h"
#include "plugins/cpu/cpu_plugin.h"
#include "plugins/cpu/elf_object.h"
#include "tests/unit/expect.h"
#include "tests/unit/plugins/kernel_text.h"

#include <elf.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace diji::cpu {
namespace {

using Blob = std::vector<std::byte>;

// Reads a table through the address table, calls another function and a host function, and has zeroed memory:
// all the kinds of references that the loader knows.
constexpr std::string_view kReferences = R"(
@table = constant [4 x i32] [i32 10, i32 20, i32 30, i32 40]
@pointers = private constant [2 x ptr] [ptr @twice, ptr @entry]
@zeroed = private global [64 x i32] zeroinitializer, align 64
declare double @fmod(double, double)
define i32 @twice(i32 %x) noinline {
  %y = add i32 %x, %x
  ret i32 %y
}
define void @entry(ptr %places, ptr %sizes, ptr %error, ptr %local, i64 %begin, i64 %end) {
  %out = load ptr, ptr %places
  %p = getelementptr [4 x i32], ptr @table, i64 0, i64 %begin
  %x = load i32, ptr %p
  %f = load ptr, ptr @pointers
  %y = call i32 %f(i32 %x)
  %d = sitofp i32 %y to double
  %m = call double @fmod(double %d, double 7.0)
  %z = fptosi double %m to i32
  %q = getelementptr [64 x i32], ptr @zeroed, i64 0, i64 %begin
  %w = load i32, ptr %q
  %s = add i32 %z, %w
  store i32 %s, ptr %out
  ret void
}
)";

Blob compile(std::string_view text) {
  const diji_device_plugin_table* const built_in[] = {diji_plugin_cpu()};
  DeviceList list(built_in, 1);
  return (*list.open("cpu"))->compile(text).value();
}

std::string refusal(const Blob& blob) {
  const auto object = LoadedObject::load(blob);
  if (object) return "";
  EXPECT_FALSE(object.error().message.empty());
  return object.error().message;
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

DIJI_CALLS_KERNEL std::int32_t call(KernelFunction entry, std::int64_t i) {
  std::int32_t out = -1;
  void* places[] = {&out};
  entry(places, nullptr, nullptr, nullptr, i, i + 1);
  return out;
}

TEST_CASE("references inside an object, to its data and to host functions are resolved") {
  const auto object = LoadedObject::load(compile(kReferences));
  REQUIRE(object);
  EXPECT((*object)->names() == std::vector<std::string>{"entry", "twice"});
  EXPECT(((*object)->find("nothing") == nullptr));
  const KernelFunction entry = (*object)->find("entry");
  REQUIRE((entry != nullptr));
  for (const std::int64_t i : {0, 1, 2, 3}) {
    EXPECT(call(entry, i) == (10 * (static_cast<std::int32_t>(i) + 1) * 2) % 7);
  }
}

/// "r-xp": the rights of the page that holds an address.
std::string rights_of(std::uint64_t address) {
  std::ifstream maps("/proc/self/maps");
  std::uint64_t begin = 0, end = 0;
  char dash = 0;
  std::string rights, rest;
  while (maps >> std::hex >> begin >> dash >> end >> rights && std::getline(maps, rest)) {
    if (begin <= address && address < end) return rights;
  }
  return "";
}

TEST_CASE("code cannot be written, and it goes with its object") {
  auto object = LoadedObject::load(compile(kReferences));
  REQUIRE(object);
  const auto address = std::bit_cast<std::uint64_t>((*object)->find("entry"));
  EXPECT(rights_of(address) == "r-xp");
  object->reset();
  EXPECT(rights_of(address) != "r-xp");
}

TEST_CASE("every truncation is refused") {
  for (const std::string_view text : {test::kKernels, kReferences}) {
    const Blob blob = compile(text);
    for (std::size_t length = 0; length < blob.size(); ++length) {
      // On the heap with exactly this length, so that AddressSanitizer sees a read behind it.
      const std::string sentence =
          refusal(Blob(blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(length)));
      CAPTURE(length);
      REQUIRE(sentence.starts_with("kernel blob: "));
    }
  }
}

TEST_CASE("random damage is refused or loaded, never a crash") {
  const Blob blobs[] = {compile(test::kKernels), compile(kReferences)};
  std::mt19937 random(4711);
  int refused = 0, loaded = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    Blob blob = blobs[trial % 2];
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i) {
      const std::size_t position = random() % blob.size();
      // A third of the trials aims at the section headers, which stand at the end, where the structure is.
      const std::size_t aimed = trial % 3 == 0 ? blob.size() - 1 - position % (blob.size() / 3) : position;
      blob[aimed] = static_cast<std::byte>(random() % 256);
    }
    if (refusal(blob).empty()) {
      ++loaded;
    } else {
      ++refused;
    }
  }
  EXPECT(refused > 500);
  EXPECT(loaded > 500);
}

TEST_CASE("hostile headers are refused by name") {
  const Blob blob = compile(kReferences);
  const auto header = [&](const std::function<void(Elf64_Ehdr&)>& change) {
    Blob changed = blob;
    auto value = at<Elf64_Ehdr>(changed, 0);
    change(value);
    put(changed, 0, value);
    return refusal(changed);
  };
  EXPECT(header([](Elf64_Ehdr& h) { h.e_ident[0] = 'X'; }).contains("does not begin as an ELF file"));
  EXPECT(header([](Elf64_Ehdr& h) { h.e_machine = EM_AARCH64; }).contains("x86-64 object file (machine 183"));
  EXPECT(header([](Elf64_Ehdr& h) { h.e_type = ET_DYN; }).contains("type 3"));
  EXPECT(header([](Elf64_Ehdr& h) { h.e_shnum = 0; }).contains("0 section headers"));
  EXPECT(header([](Elf64_Ehdr& h) { h.e_shnum = 0xffff; }).contains("65535 section headers"));
  EXPECT(header([](Elf64_Ehdr& h) { h.e_shoff = UINT64_MAX; }).contains("are left"));

  const auto sections = [&](std::uint32_t type, const std::function<void(Elf64_Shdr&)>& change) {
    return refusal(with_headers(blob, type, change));
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

TEST_CASE("hostile relocations are refused by name") {
  const Blob blob = compile(kReferences);
  const auto changed = [&](const std::function<void(Elf64_Rela&, const Elf64_Shdr&)>& change) {
    return refusal(with_entries<Elf64_Rela>(blob, SHT_RELA, change));
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
  EXPECT(changed([](Rela& r, const Section&) {
           r.r_info = ELF64_R_INFO(ELF64_R_SYM(r.r_info), R_X86_64_TPOFF32);
         }).contains("relocation type 23"));
  EXPECT(changed([](Rela& r, const Section&) { r.r_addend = INT64_MAX; }).contains("bytes away"));
}

TEST_CASE("hostile symbols are refused by name") {
  const Blob blob = compile(kReferences);
  const auto changed = [&](const std::function<void(Elf64_Sym&, const Elf64_Shdr&)>& change) {
    return refusal(with_entries<Elf64_Sym>(blob, SHT_SYMTAB, change));
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
  EXPECT(refusal(endless).contains("a symbol's name has no end"));
}

}  // namespace
}  // namespace diji::cpu
