// Lays the sections of a checked object out in one image and applies its relocations.
#include "plugins/cpu/object_linker.h"

#include <algorithm>
#include <cstring>

namespace diji::cpu {
namespace {

constexpr std::size_t kStubAlignment = 16;
constexpr std::size_t kAddressBytes = 8;

}  // namespace

/// Which symbols need a jump stub or an entry in the table of addresses; refuses names that nothing offers.
Result<void> ObjectLinker::find_references(HostSymbol host) {
  for (const ElfRelocation& relocation : object_.relocations) {
    const ElfSymbol& symbol = object_.symbols[relocation.symbol];
    const RelocationKind kind = machine_.kind(relocation.type);
    if (kind.via == Via::refused) {
      return fail(ErrorCode::malformed, "kernel blob: relocation type {} is not one that kernels use",
                  relocation.type);
    }
    if (kind.via == Via::nothing) continue;
    if (!symbol.defined && !stubs_.contains(relocation.symbol)) {
      const std::uint64_t address = host(symbol.name);
      if (address == 0) {
        return fail(ErrorCode::malformed, "kernel blob: it calls '{}', which kernels are not offered",
                    symbol.name);
      }
      stubs_.emplace(relocation.symbol, Stub{address, 0});
    }
    if (kind.via == Via::table) table_.emplace(relocation.symbol, 0);
    if (kind.begins_pair) first_half_.emplace(Place{relocation.section, relocation.offset}, &relocation);
  }
  return {};
}

/// Code and stubs, then constants and addresses, then data: each from a page of its own, so that each gets
/// its rights.
Result<ImageLayout> ObjectLinker::lay_out(std::size_t page, HostSymbol host) {
  TRY(find_references(host));
  offsets_.assign(object_.sections.size(), 0);
  ImageLayout layout;
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
  const auto end_of_part = [&] { return end = (end + page - 1) / page * page; };
  append_sections(SectionPlace::code);
  for (auto& [symbol, stub] : stubs_) stub.offset = append(machine_.stub_bytes, kStubAlignment);
  layout.code_end = end_of_part();
  append_sections(SectionPlace::constants);
  for (auto& [symbol, offset] : table_) offset = append(kAddressBytes, kAddressBytes);
  layout.constants_end = end_of_part();
  append_sections(SectionPlace::data);
  layout.bytes = std::max(end_of_part(), page);
  return layout;
}

void ObjectLinker::fill() {
  for (std::size_t i = 0; i < object_.sections.size(); ++i) {
    const ElfSection& section = object_.sections[i];
    if (section.place == SectionPlace::dropped || section.bytes.empty()) continue;
    std::memcpy(&image_[offsets_[i]], section.bytes.data(), section.bytes.size());
  }
  for (const auto& [symbol, stub] : stubs_) machine_.write_stub(&image_[stub.offset], stub.target);
  for (const auto& [index, offset] : table_) {
    const auto stub = stubs_.find(index);
    const std::uint64_t target =
        stub == stubs_.end() ? address_of(object_.symbols[index]) : stub->second.target;
    std::memcpy(&image_[offset], &target, sizeof(target));
  }
}

RelocationValue ObjectLinker::value_of(const ElfRelocation& relocation, Via via) const {
  const auto stub = stubs_.find(relocation.symbol);
  std::uint64_t target =
      stub == stubs_.end() ? address_of(object_.symbols[relocation.symbol]) : base_ + stub->second.offset;
  if (via == Via::table) target = base_ + table_.at(relocation.symbol);
  return {.target = target + static_cast<std::uint64_t>(relocation.addend),
          .address = base_ + offsets_[relocation.section] + relocation.offset};
}

Result<RelocationValue> ObjectLinker::value_of_pair(const ElfRelocation& relocation) const {
  const ElfSymbol& symbol = object_.symbols[relocation.symbol];
  const auto first = first_half_.find({symbol.section, symbol.value});
  if (!symbol.defined || first == first_half_.end()) {
    return fail(ErrorCode::malformed, "kernel blob: a relocation at {} has no first half", relocation.offset);
  }
  return value_of(*first->second, machine_.kind(first->second->type).via);
}

Result<void> ObjectLinker::relocate(const ElfRelocation& relocation) {
  const RelocationKind kind = machine_.kind(relocation.type);
  if (kind.via == Via::nothing) return {};
  if (object_.sections[relocation.section].size - relocation.offset < kind.bytes) {
    return fail(ErrorCode::malformed, "kernel blob: a relocation at {} crosses the end of its section",
                relocation.offset);
  }
  const RelocationValue value =
      kind.via == Via::pair ? TRY(value_of_pair(relocation)) : value_of(relocation, kind.via);
  std::byte* at = &image_[offsets_[relocation.section] + static_cast<std::size_t>(relocation.offset)];
  const std::string_view name = object_.symbols[relocation.symbol].name;
  switch (machine_.apply(relocation.type, at, value)) {
    case Applied::done: return {};
    case Applied::too_far:
      return fail(ErrorCode::malformed, "kernel blob: a reference to '{}' reaches {} bytes away", name,
                  value.distance());
    case Applied::misaligned: break;
  }
  return fail(ErrorCode::malformed, "kernel blob: a reference to '{}' of relocation type {} is misaligned",
              name, relocation.type);
}

Result<void> ObjectLinker::link(std::span<std::byte> image, std::uint64_t base) {
  image_ = image;
  base_ = base;
  fill();
  for (const ElfRelocation& relocation : object_.relocations) TRY(relocate(relocation));
  return {};
}

}  // namespace diji::cpu
