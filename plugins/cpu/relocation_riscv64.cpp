// 64-bit RISC-V without linker relaxation: addresses are auipc with the upper 20 bits of a distance, and an
// instruction with the lower 12, whose relocation names the auipc.
#include "plugins/cpu/relocation.h"

#include <elf.h>

#include <array>
#include <cstring>

namespace diji::cpu {
namespace {

// auipc t1, 0; ld t1, 16(t1); jr t1; nop; the address. t1 is what linkers' own stubs use.
constexpr std::array<std::uint32_t, 4> kJump = {0x00000317, 0x01033303, 0x00030067, 0x00000013};
constexpr std::size_t kStubBytes = 24;

void write_stub(std::byte* at, std::uint64_t target) {
  std::memcpy(at, kJump.data(), sizeof(kJump));
  std::memcpy(at + sizeof(kJump), &target, sizeof(target));
}

RelocationKind kind(std::uint32_t type) {
  switch (type) {
    case R_RISCV_NONE: return {Via::nothing};
    case R_RISCV_64: return {Via::symbol, 8};
    case R_RISCV_ADD32:  // tables of jumps: label minus table, one of each
    case R_RISCV_SUB32: return {Via::symbol, 4};
    case R_RISCV_CALL:
    case R_RISCV_CALL_PLT: return {Via::symbol, 8};
    case R_RISCV_PCREL_HI20: return {Via::symbol, 4, true};
    case R_RISCV_GOT_HI20: return {Via::table, 4, true};
    case R_RISCV_PCREL_LO12_I:
    case R_RISCV_PCREL_LO12_S: return {Via::pair, 4};
    default: return {};
  }
}

std::uint32_t word_at(const std::byte* at) {
  std::uint32_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;
}
void put_word(std::byte* at, std::uint32_t word) { std::memcpy(at, &word, sizeof(word)); }

// The lower 12 bits count from -2048 to 2047: the upper ones are those of the nearest multiple of 4096.
bool reaches(std::int64_t distance) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  return -kLimit - 2048 <= distance && distance < kLimit - 2048;
}
void put_upper(std::byte* at, std::int64_t distance) {
  put_word(at, (word_at(at) & 0xfff) | (static_cast<std::uint32_t>(distance + 2048) & 0xfffff000));
}
void put_lower(std::byte* at, std::int64_t distance) {
  put_word(at, (word_at(at) & 0xfffff) | static_cast<std::uint32_t>(distance) << 20);
}
void put_lower_of_store(std::byte* at, std::int64_t distance) {
  const auto low = static_cast<std::uint32_t>(distance);
  put_word(at, (word_at(at) & 0x01fff07f) | (low >> 5 & 0x7f) << 25 | (low & 0x1f) << 7);
}

Applied apply(std::uint32_t type, std::byte* at, const RelocationValue& value) {
  const std::int64_t distance = value.distance();
  const auto low = static_cast<std::uint32_t>(value.target);
  switch (type) {
    case R_RISCV_64: std::memcpy(at, &value.target, sizeof(value.target)); return Applied::done;
    case R_RISCV_ADD32: put_word(at, word_at(at) + low); return Applied::done;
    case R_RISCV_SUB32: put_word(at, word_at(at) - low); return Applied::done;
    default: break;
  }
  if (!reaches(distance)) return Applied::too_far;
  switch (type) {
    case R_RISCV_CALL:
    case R_RISCV_CALL_PLT:
      put_upper(at, distance);
      put_lower(at + 4, distance);
      break;
    case R_RISCV_PCREL_LO12_I: put_lower(at, distance); break;
    case R_RISCV_PCREL_LO12_S: put_lower_of_store(at, distance); break;
    default: put_upper(at, distance); break;  // PCREL_HI20 and GOT_HI20
  }
  return Applied::done;
}

}  // namespace

const Machine& riscv64_machine() {
  static constexpr Machine machine = {.name = "riscv64",
                                      .elf_machine = EM_RISCV,
                                      .unwind_type = 0,
                                      .stub_bytes = kStubBytes,
                                      .write_stub = write_stub,
                                      .kind = kind,
                                      .apply = apply};
  return machine;
}

}  // namespace diji::cpu
