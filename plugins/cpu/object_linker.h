// A checked object as the bytes of an image: laid out, with its relocations applied for one address in
// memory.
#pragma once

#include "plugins/cpu/elf_object.h"
#include "plugins/cpu/relocation.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace diji::cpu {

/// The address of a function of the host, or 0.
using HostSymbol = std::uint64_t (*)(std::string_view name);

/// Ends of an image's parts, each a multiple of the page: code from 0 on, then constants, then data.
struct ImageLayout {
  std::size_t code_end = 0;
  std::size_t constants_end = 0;
  std::size_t bytes = 0;
};

/// Bytes to bytes: nothing here knows the processor that it runs on. The object outlives it.
class ObjectLinker {
 public:
  ObjectLinker(const ElfObject& object, const Machine& machine) : object_(object), machine_(machine) {}

  /// First. `page` is a power of two. Errors: malformed, for names that nothing offers.
  Result<ImageLayout> lay_out(std::size_t page, HostSymbol host);
  /// Then. `image` has the layout's bytes, all zero, and is to run at `base`, a multiple of the page. Errors:
  /// malformed, for a relocation that is not one that kernels use, or does not fit.
  Result<void> link(std::span<std::byte> image, std::uint64_t base);
  /// Of a symbol that is defined, in the image.
  std::size_t offset_of(const ElfSymbol& symbol) const {
    return offsets_[symbol.section] + static_cast<std::size_t>(symbol.value);
  }

 private:
  struct Stub {
    std::uint64_t target;  ///< the host's function
    std::size_t offset;
  };
  using Place = std::pair<std::uint32_t, std::uint64_t>;  ///< section and offset in it

  Result<void> find_references(HostSymbol host);
  void fill();
  RelocationValue value_of(const ElfRelocation& relocation, Via via) const;
  Result<RelocationValue> value_of_pair(const ElfRelocation& relocation) const;
  Result<void> relocate(const ElfRelocation& relocation);
  std::uint64_t address_of(const ElfSymbol& symbol) const { return base_ + offset_of(symbol); }

  const ElfObject& object_;
  const Machine& machine_;
  std::map<std::uint32_t, Stub> stubs_;               ///< by symbol
  std::map<std::uint32_t, std::size_t> table_;        ///< by symbol: offset of its address
  std::map<Place, const ElfRelocation*> first_half_;  ///< of pairs
  std::vector<std::size_t> offsets_;                  ///< by section
  std::span<std::byte> image_;
  std::uint64_t base_ = 0;
};

}  // namespace diji::cpu
