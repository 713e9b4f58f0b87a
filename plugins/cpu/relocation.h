// What is peculiar to the objects of one kind of processor: kinds of relocations, and how code reaches far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace diji::cpu {

/// How a relocation finds the address that it is about.
enum class Via : std::uint8_t {
  refused,  ///< not a kind that kernels use
  nothing,  ///< nothing is changed
  symbol,   ///< the symbol, or its stub where the host has it
  table,    ///< the symbol's entry in the table of addresses
  pair,     ///< what the relocation at the symbol is about, of which this one takes the low bits
};

struct RelocationKind {
  Via via = Via::refused;
  std::uint8_t bytes = 0;    ///< how many change
  bool begins_pair = false;  ///< one of Via::pair may stand for it
};

/// The addresses that a relocation is computed from, as they will be when kernels run. They wrap, as they
/// must.
struct RelocationValue {
  std::uint64_t target;   ///< what it is about, with its addend
  std::uint64_t address;  ///< where it stands; of a pair, where the first one stands
  std::int64_t distance() const { return static_cast<std::int64_t>(target - address); }
};

enum class Applied : std::uint8_t { done, too_far, misaligned };

/// Pure functions of bytes: each machine's run on every other.
struct Machine {
  std::string_view name;      ///< "x86-64"
  std::uint16_t elf_machine;  ///< EM_*
  std::uint32_t unwind_type;  ///< a section type that is dropped; 0: none
  std::size_t stub_bytes;     ///< of code that jumps to any address; a multiple of 8
  void (*write_stub)(std::byte* at, std::uint64_t target);
  RelocationKind (*kind)(std::uint32_t type);
  /// Changes the kind's bytes at `at`.
  Applied (*apply)(std::uint32_t type, std::byte* at, const RelocationValue& value);
};

const Machine& x86_64_machine();
const Machine& aarch64_machine();
const Machine& riscv64_machine();
/// Of the processor that this program is compiled for; null where kernels are shared objects only.
const Machine* own_machine();

}  // namespace diji::cpu
