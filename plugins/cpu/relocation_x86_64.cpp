// x86-64: the System V ABI's relocation types, as far as LLVM uses them for position-independent code.
#include "plugins/cpu/relocation.h"

#include <elf.h>

#include <array>
#include <cstring>
#include <utility>

namespace diji::cpu {
namespace {

constexpr std::uint32_t kUnwindType = 0x70000001;  // SHT_X86_64_UNWIND, which glibc 2.36 does not name

// jmp *0(%rip) followed by the address: reaches a host function from anywhere.
constexpr std::array<unsigned char, 6> kJump = {0xff, 0x25, 0, 0, 0, 0};
constexpr std::size_t kStubBytes = 16;

void write_stub(std::byte* at, std::uint64_t target) {
  std::memcpy(at, kJump.data(), kJump.size());
  std::memcpy(at + kJump.size(), &target, sizeof(target));
}

RelocationKind kind(std::uint32_t type) {
  switch (type) {
    case R_X86_64_NONE: return {Via::nothing};
    case R_X86_64_64:
    case R_X86_64_PC64: return {Via::symbol, 8};
    case R_X86_64_PC32:
    case R_X86_64_PLT32: return {Via::symbol, 4};
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX: return {Via::table, 4};
    default: return {};
  }
}

Applied apply(std::uint32_t type, std::byte* at, const RelocationValue& value) {
  const std::int64_t distance = value.distance();
  if (type == R_X86_64_64) {
    std::memcpy(at, &value.target, sizeof(value.target));
  } else if (type == R_X86_64_PC64) {
    std::memcpy(at, &distance, sizeof(distance));
  } else {
    if (!std::in_range<std::int32_t>(distance)) return Applied::too_far;
    std::memcpy(at, &distance, sizeof(std::int32_t));
  }
  return Applied::done;
}

}  // namespace

const Machine& x86_64_machine() {
  static constexpr Machine machine = {.name = "x86-64",
                                      .elf_machine = EM_X86_64,
                                      .unwind_type = kUnwindType,
                                      .stub_bytes = kStubBytes,
                                      .write_stub = write_stub,
                                      .kind = kind,
                                      .apply = apply};
  return machine;
}

}  // namespace diji::cpu
