// The note that `ld --build-id` leaves, found through the loaded segments.
#include "runtime/build_id.h"

#include <fmt/format.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace diji {
namespace {

struct Search {
  std::uintptr_t address;  // of code in the object that is looked for
  std::string id;
};

bool holds(const dl_phdr_info& object, std::uintptr_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& segment = object.dlpi_phdr[i];
    const std::uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address - begin < segment.p_memsz) return true;
  }
  return false;
}

// Notes lie behind each other: sizes, name and description, each padded to four bytes.
std::string id_in(const char* notes, std::size_t bytes) {
  const auto padded = [](std::size_t size) { return (size + 3) / 4 * 4; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const std::size_t whole = sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    if (whole > bytes) return "";
    const std::string_view name(notes + sizeof note, note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU", 4)) {
      std::string id;
      const std::string_view text(notes + sizeof note + padded(note.n_namesz), note.n_descsz);
      for (const char c : text) id += fmt::format("{:02x}", static_cast<unsigned char>(c));
      return id;
    }
    notes += whole;
    bytes -= whole;
  }
  return "";
}

int look_at(dl_phdr_info* object, std::size_t, void* context) {
  auto& search = *static_cast<Search*>(context);
  if (!holds(*object, search.address)) return 0;
  for (int i = 0; i < object->dlpi_phnum && search.id.empty(); ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type == PT_NOTE)
      search.id = id_in(reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  }
  return 1;
}

}  // namespace

std::string build_id() {
  Search search{.address = reinterpret_cast<std::uintptr_t>(&build_id), .id = {}};
  ::dl_iterate_phdr(look_at, &search);
  return search.id;
}

}  // namespace diji
