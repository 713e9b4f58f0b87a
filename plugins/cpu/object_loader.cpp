// Lays the sections of a checked object out in one mapping, applies its relocations and makes the code
// executable.
#include "plugins/cpu/object_loader.h"

#include "plugins/cpu/elf_object.h"
#include "plugins/cpu/host_symbols.h"

#include <fmt/format.h>

#include <sys/mman.h>

#include <algorithm>

#if defined(__x86_64__)
#include <elf.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <utility>
#endif

namespace diji::cpu {

#if defined(__x86_64__)

/// One load, from checked object to executable memory.
class ObjectLinker {
 public:
  explicit ObjectLinker(const ElfObject& object)
      : object_(object), page_(static_cast<std::size_t>(getpagesize())) {}

  Result<std::unique_ptr<LoadedObject>> link() {
    TRY(find_references());
    lay_out();
    std::unique_ptr<LoadedObject> loaded(new LoadedObject());
    void* memory = mmap(nullptr, image_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return fail(ErrorCode::out_of_memory, "no {} bytes for compiled kernels: {}", image_bytes_,
                  strerror(errno));
    }
    loaded->memory_ = memory;
    loaded->memory_bytes_ = image_bytes_;
    base_ = static_cast<std::byte*>(memory);
    fill();
    for (const ElfRelocation& relocation : object_.relocations) TRY(relocate(relocation));
    TRY(protect());
    for (const ElfSymbol& symbol : object_.symbols) {
      if (!symbol.is_function) continue;
      const std::uint64_t address = address_of(symbol);
      KernelFunction function;
      std::memcpy(&function, &address, sizeof(function));
      loaded->entries_.push_back({std::string(symbol.name), function});
      tell_perf(address, symbol);
    }
    std::ranges::sort(loaded->entries_, {}, &LoadedObject::Entry::name);
    return loaded;
  }

 private:
  // Where DIJI_PERF_MAP is set, the file in which Linux perf looks up the names of code without a file.
  static void tell_perf(std::uint64_t address, const ElfSymbol& symbol) {
    static const bool wanted = std::getenv("DIJI_PERF_MAP") != nullptr;
    if (!wanted) return;
    std::ofstream map(fmt::format("/tmp/perf-{}.map", getpid()), std::ios::app);
    map << fmt::format("{:x} {:x} {}@{:x}\n", address, symbol.size, symbol.name, address);
  }

  // jmp *0(%rip) followed by the address: reaches a host function from anywhere.
  static constexpr std::array<unsigned char, 6> kJump = {0xff, 0x25, 0, 0, 0, 0};
  static constexpr std::size_t kStubBytes = 16;
  static constexpr std::size_t kGotBytes = 8;

  static bool is_got(std::uint32_t type) {
    return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
  }

  /// Which symbols need a jump stub or an entry in the table of addresses; refuses names that nothing offers.
  Result<void> find_references() {
    for (const ElfRelocation& relocation : object_.relocations) {
      const ElfSymbol& symbol = object_.symbols[relocation.symbol];
      if (!symbol.defined && !stubs_.contains(relocation.symbol)) {
        const std::uint64_t address = host_symbol(symbol.name);
        if (address == 0) {
          return fail(ErrorCode::malformed, "kernel blob: it calls '{}', which kernels are not offered",
                      symbol.name);
        }
        stubs_.emplace(relocation.symbol, Stub{address, 0});
      }
      if (is_got(relocation.type)) got_.emplace(relocation.symbol, 0);
    }
    return {};
  }

  std::size_t round_to_page(std::size_t bytes) const { return (bytes + page_ - 1) / page_ * page_; }

  /// Code and stubs, then constants and addresses, then data: each from a page of its own, so that each gets
  /// its rights.
  void lay_out() {
    offsets_.assign(object_.sections.size(), 0);
    std::size_t end = 0;
    const auto append = [&](std::size_t bytes, std::size_t alignment) {
      const std::size_t start = (end + alignment - 1) / alignment * alignment;
      end = start + bytes;
      return start;
    };
    const auto append_sections = [&](SectionPlace place) {
      for (std::size_t i = 0; i < object_.sections.size(); ++i) {
        const ElfSection& section = object_.sections[i];
        if (section.place == place) offsets_[i] = append(section.size, section.alignment);
      }
    };
    append_sections(SectionPlace::code);
    for (auto& [symbol, stub] : stubs_) stub.offset = append(kStubBytes, kStubBytes);
    code_bytes_ = end = round_to_page(end);
    append_sections(SectionPlace::constants);
    for (auto& [symbol, offset] : got_) offset = append(kGotBytes, kGotBytes);
    constants_end_ = end = round_to_page(end);
    append_sections(SectionPlace::data);
    image_bytes_ = std::max(round_to_page(end), page_);
  }

  std::uint64_t address(std::size_t offset) const { return reinterpret_cast<std::uint64_t>(base_) + offset; }
  std::uint64_t address_of(const ElfSymbol& symbol) const {
    return address(offsets_[symbol.section]) + symbol.value;
  }

  void fill() {
    for (std::size_t i = 0; i < object_.sections.size(); ++i) {
      const ElfSection& section = object_.sections[i];
      if (section.place == SectionPlace::dropped || section.bytes.empty()) continue;
      std::memcpy(base_ + offsets_[i], section.bytes.data(), section.bytes.size());
    }
    for (const auto& [symbol, stub] : stubs_) {
      std::memcpy(base_ + stub.offset, kJump.data(), kJump.size());
      std::memcpy(base_ + stub.offset + kJump.size(), &stub.target, sizeof(stub.target));
    }
    for (const auto& [index, offset] : got_) {
      const auto stub = stubs_.find(index);
      const std::uint64_t target =
          stub == stubs_.end() ? address_of(object_.symbols[index]) : stub->second.target;
      std::memcpy(base_ + offset, &target, sizeof(target));
    }
  }

  /// The System V ABI's table of relocation types, as far as LLVM uses it for position-independent code.
  Result<void> relocate(const ElfRelocation& relocation) {
    const auto stub = stubs_.find(relocation.symbol);
    std::uint64_t target =
        stub == stubs_.end() ? address_of(object_.symbols[relocation.symbol]) : address(stub->second.offset);
    if (is_got(relocation.type)) target = address(got_.at(relocation.symbol));
    const std::size_t offset = offsets_[relocation.section] + static_cast<std::size_t>(relocation.offset);
    const std::uint64_t absolute =
        target + static_cast<std::uint64_t>(relocation.addend);  // wraps, as it must
    const std::uint64_t relative = absolute - address(offset);
    switch (relocation.type) {
      case R_X86_64_NONE: return {};
      case R_X86_64_64: return store(relocation, absolute, sizeof(std::uint64_t));
      case R_X86_64_PC64: return store(relocation, relative, sizeof(std::uint64_t));
      case R_X86_64_PC32:
      case R_X86_64_PLT32:
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX: {
        const auto distance = static_cast<std::int64_t>(relative);
        if (!std::in_range<std::int32_t>(distance)) {
          return fail(ErrorCode::malformed, "kernel blob: a reference to '{}' reaches {} bytes away",
                      object_.symbols[relocation.symbol].name, distance);
        }
        return store(relocation, relative, sizeof(std::uint32_t));
      }
      default:
        return fail(ErrorCode::malformed, "kernel blob: relocation type {} is not one that kernels use",
                    relocation.type);
    }
  }

  Result<void> store(const ElfRelocation& relocation, std::uint64_t value, std::size_t width) {
    if (object_.sections[relocation.section].size - relocation.offset < width) {
      return fail(ErrorCode::malformed, "kernel blob: a relocation at {} crosses the end of its section",
                  relocation.offset);
    }
    std::memcpy(base_ + offsets_[relocation.section] + relocation.offset, &value, width);
    return {};
  }

  Result<void> protect() {
    const auto set = [&](std::size_t begin, std::size_t end, int rights) {
      return begin == end || mprotect(base_ + begin, end - begin, rights) == 0;
    };
    if (set(0, code_bytes_, PROT_READ | PROT_EXEC) && set(code_bytes_, constants_end_, PROT_READ)) return {};
    return fail(ErrorCode::device, "the system gives no executable memory for compiled kernels: {}",
                strerror(errno));
  }

  struct Stub {
    std::uint64_t target;  ///< the host function
    std::size_t offset;
  };

  const ElfObject& object_;
  std::size_t page_;
  std::map<std::uint32_t, Stub> stubs_;       ///< by symbol
  std::map<std::uint32_t, std::size_t> got_;  ///< by symbol: offset of its address
  std::vector<std::size_t> offsets_;          ///< by section
  std::size_t code_bytes_ = 0;
  std::size_t constants_end_ = 0;
  std::size_t image_bytes_ = 0;
  std::byte* base_ = nullptr;
};

Result<std::unique_ptr<LoadedObject>> LoadedObject::load(std::span<const std::byte> blob) {
  const ElfObject object = TRY(parse_elf(blob));
  return ObjectLinker(object).link();
}

#else

Result<std::unique_ptr<LoadedObject>> LoadedObject::load(std::span<const std::byte> blob) {
  return load_shared(blob);
}

#endif

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
