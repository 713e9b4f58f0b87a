// 64-bit ARM: relocations of the small code model, whose addresses are a page of 4 KiB and a place in it.
#include "plugins/cpu/relocation.h"

#include <elf.h>

#include <array>
#include <cstring>

namespace diji::cpu {
namespace {

// ldr x16, 8; br x16; the address. x16 is there for code between a call and its function.
constexpr std::array<std::uint32_t, 2> kJump = {0x58000050, 0xd61f0200};
constexpr std::size_t kStubBytes = 16;
constexpr std::uint64_t kPage = 4096;

void write_stub(std::byte* at, std::uint64_t target) {
  std::memcpy(at, kJump.data(), sizeof(kJump));
  std::memcpy(at + sizeof(kJump), &target, sizeof(target));
}

RelocationKind kind(std::uint32_t type) {
  switch (type) {
    case R_AARCH64_NONE: return {Via::nothing};
    case R_AARCH64_ABS64:
    case R_AARCH64_PREL64: return {Via::symbol, 8};
    case R_AARCH64_PREL32:
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
    case R_AARCH64_LDST16_ABS_LO12_NC:
    case R_AARCH64_LDST32_ABS_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LDST128_ABS_LO12_NC: return {Via::symbol, 4};
    case R_AARCH64_ADR_GOT_PAGE:
    case R_AARCH64_LD64_GOT_LO12_NC: return {Via::table, 4};
    default: return {};
  }
}

bool fits(std::int64_t value, int bits) {
  const std::int64_t limit = std::int64_t{1} << (bits - 1);
  return -limit <= value && value < limit;
}

/// `count` bits of an instruction from bit `first` on.
void put_field(std::byte* at, int first, int count, std::uint64_t value) {
  std::uint32_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  const std::uint32_t mask = (std::uint32_t{1} << count) - 1;
  word = (word & ~(mask << first)) | (static_cast<std::uint32_t>(value) & mask) << first;
  std::memcpy(at, &word, sizeof(word));
}

Applied put_branch(std::byte* at, std::int64_t distance) {
  if (distance % 4 != 0) return Applied::misaligned;
  if (!fits(distance, 28)) return Applied::too_far;
  put_field(at, 0, 26, static_cast<std::uint64_t>(distance) >> 2);
  return Applied::done;
}

Applied put_page(std::byte* at, const RelocationValue& value) {
  const auto pages = static_cast<std::int64_t>(value.target / kPage - value.address / kPage);
  if (!fits(pages, 21)) return Applied::too_far;
  put_field(at, 29, 2, static_cast<std::uint64_t>(pages));
  put_field(at, 5, 19, static_cast<std::uint64_t>(pages) >> 2);
  return Applied::done;
}

/// Loads and stores count their place in the page by what they move: 1 << scale bytes.
Applied put_in_page(std::byte* at, std::uint64_t target, int scale) {
  const std::uint64_t place = target % kPage;
  if ((place & ((std::uint64_t{1} << scale) - 1)) != 0) return Applied::misaligned;
  put_field(at, 10, 12, place >> scale);
  return Applied::done;
}

Applied apply(std::uint32_t type, std::byte* at, const RelocationValue& value) {
  const std::int64_t distance = value.distance();
  switch (type) {
    case R_AARCH64_ABS64: std::memcpy(at, &value.target, 8); return Applied::done;
    case R_AARCH64_PREL64: std::memcpy(at, &distance, 8); return Applied::done;
    case R_AARCH64_PREL32:
      if (!fits(distance, 32)) return Applied::too_far;
      std::memcpy(at, &distance, 4);
      return Applied::done;
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26: return put_branch(at, distance);
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADR_GOT_PAGE: return put_page(at, value);
    case R_AARCH64_LDST16_ABS_LO12_NC: return put_in_page(at, value.target, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return put_in_page(at, value.target, 2);
    case R_AARCH64_LD64_GOT_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC: return put_in_page(at, value.target, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC: return put_in_page(at, value.target, 4);
    default: return put_in_page(at, value.target, 0);  // ADD_ABS_LO12_NC and of one byte
  }
}

}  // namespace

const Machine& aarch64_machine() {
  static constexpr Machine machine = {.name = "aarch64",
                                      .elf_machine = EM_AARCH64,
                                      .unwind_type = 0,
                                      .stub_bytes = kStubBytes,
                                      .write_stub = write_stub,
                                      .kind = kind,
                                      .apply = apply};
  return machine;
}

}  // namespace diji::cpu
