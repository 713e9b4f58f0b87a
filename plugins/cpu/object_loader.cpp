// Gives a linked object executable memory: an own object file's, or of a shared object the dynamic linker's.
#include "plugins/cpu/object_loader.h"

#include "plugins/cpu/elf_object.h"
#include "plugins/cpu/host_symbols.h"
#include "plugins/cpu/object_linker.h"

#include <fmt/format.h>

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace diji::cpu {
namespace {

// Where DIJI_PERF_MAP is set, the file in which Linux perf looks up the names of code without a file.
void tell_perf(std::uint64_t address, const ElfSymbol& symbol) {
  static const bool wanted = std::getenv("DIJI_PERF_MAP") != nullptr;
  if (!wanted) return;
  std::ofstream map(fmt::format("/tmp/perf-{}.map", getpid()), std::ios::app);
  map << fmt::format("{:x} {:x} {}@{:x}\n", address, symbol.size, symbol.name, address);
}

Result<void> protect(std::byte* base, const ImageLayout& layout) {
  // What was written as data must be seen where instructions are fetched, on every core.
  __builtin___clear_cache(reinterpret_cast<char*>(base), reinterpret_cast<char*>(base + layout.code_end));
  const auto set = [&](std::size_t begin, std::size_t end, int rights) {
    return begin == end || mprotect(base + begin, end - begin, rights) == 0;
  };
  if (set(0, layout.code_end, PROT_READ | PROT_EXEC) &&
      set(layout.code_end, layout.constants_end, PROT_READ)) {
    return {};
  }
  return fail(ErrorCode::device, "the system gives no executable memory for compiled kernels: {}",
              strerror(errno));
}

bool is_shared(std::span<const std::byte> blob) {
  Elf64_Ehdr header;
  if (blob.size() < sizeof(header)) return false;
  std::memcpy(&header, blob.data(), sizeof(header));
  return header.e_type == ET_DYN;
}

}  // namespace

Result<std::unique_ptr<LoadedObject>> LoadedObject::load_either(std::span<const std::byte> blob) {
  return own_machine() == nullptr || is_shared(blob) ? load_shared(blob) : load(blob);
}

Result<std::unique_ptr<LoadedObject>> LoadedObject::load(std::span<const std::byte> blob) {
  const Machine* machine = own_machine();
  if (machine == nullptr) return fail(ErrorCode::unsupported, "kernel blob: no loader for this processor");
  const ElfObject object = TRY(parse_elf(blob, *machine));
  ObjectLinker linker(object, *machine);
  const ImageLayout layout = TRY(linker.lay_out(static_cast<std::size_t>(getpagesize()), host_symbol));
  std::unique_ptr<LoadedObject> loaded(new LoadedObject());
  void* memory = mmap(nullptr, layout.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::out_of_memory, "no {} bytes for compiled kernels: {}", layout.bytes,
                strerror(errno));
  }
  loaded->memory_ = memory;
  loaded->memory_bytes_ = layout.bytes;
  auto* base = static_cast<std::byte*>(memory);
  const auto base_address = reinterpret_cast<std::uint64_t>(base);
  TRY(linker.link({base, layout.bytes}, base_address));
  TRY(protect(base, layout));
  for (const ElfSymbol& symbol : object.symbols) {
    if (!symbol.is_function) continue;
    const std::uint64_t address = base_address + linker.offset_of(symbol);
    KernelFunction function;
    std::memcpy(&function, &address, sizeof(function));
    loaded->entries_.push_back({std::string(symbol.name), function});
    tell_perf(address, symbol);
  }
  std::ranges::sort(loaded->entries_, {}, &Entry::name);
  return loaded;
}

LoadedObject::~LoadedObject() {
  if (memory_ != nullptr) munmap(memory_, memory_bytes_);
  unload_shared();
}

KernelFunction LoadedObject::find(std::string_view name) const {
  if (library_ != nullptr) return find_shared(name);
  const auto entry = std::ranges::lower_bound(entries_, name, {}, &Entry::name);
  return entry != entries_.end() && entry->name == name ? entry->function : nullptr;
}

std::vector<std::string> LoadedObject::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

}  // namespace diji::cpu
