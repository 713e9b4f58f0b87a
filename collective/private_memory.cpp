// process_vm_readv, and how a rank makes sure that what it read was its peer's.
#include "collective/private_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace diji::collective {
namespace {

iovec at(std::uint64_t address, std::size_t bytes) {
  return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), bytes};
}

}  // namespace

Result<PrivateReads> private_reads_from_environment() {
  const char* value = std::getenv("DIJI_PROCESS_VM");
  const std::string_view word = value == nullptr || *value == '\0' ? "on" : value;
  if (word != "on" && word != "off")
    return fail(ErrorCode::usage, "DIJI_PROCESS_VM={}: there are on and off", word);
  return word == "on" ? PrivateReads::where_faster : PrivateReads::never;
}

// Measured between two ranks with a core each (docs/measured/2026-12-03-collectives.md, "Private memory that
// peers read"). A read is one copy where slots take two, but the kernel's is slower, and where bytes go one
// way the two of slots are made by two cores at the same time. Reading what is to be combined lost
// (all_reduce: 1.0 to 1.1 of the time). More ranks than cores gain nothing: whoever has filled slots goes on,
// whoever lends memory waits until its reader had a turn.
bool reads_are_faster(Operation operation, std::int64_t bytes, int ranks, int cores) {
  constexpr std::int64_t kOneWayMax = 512 << 10;  // at 1 MiB even, from 2 MiB 1.3 of the time
  constexpr std::int64_t kMax = 8 << 20;          // at 8 MiB 0.7 to 0.9, at 16 MiB 0.7 to 1.0, then up to 1.3
  if (ranks > cores) return false;
  switch (operation) {
    case Operation::broadcast:
    case Operation::gather: return bytes <= kOneWayMax;
    case Operation::scatter:
    case Operation::all_gather:
    case Operation::all_to_all: return bytes <= kMax;
    default: return false;
  }
}

PrivateMemory::PrivateMemory(int pid, const PrivateOffer& offer) : pid_(pid) {
  word_address_ = offer.address.load(std::memory_order_acquire);
  word_ = offer.word.load(std::memory_order_relaxed);
  may_read_ = word_address_ != 0 && read(word_address_, {}) == Outcome::whole;
}

PrivateMemory::Outcome PrivateMemory::read(std::uint64_t address, std::span<std::byte> target) const {
  std::uint64_t found = 0;
  const std::array<iovec, 2> here = {iovec{target.data(), target.size()}, iovec{&found, sizeof found}};
  const std::array<iovec, 2> there = {at(address, target.size()), at(word_address_, sizeof word_)};
  const ssize_t read = process_vm_readv(pid_, here.data(), here.size(), there.data(), there.size(), 0);
  if (read < 0) return errno == ESRCH ? Outcome::gone : Outcome::denied;
  if (read != static_cast<ssize_t>(target.size() + sizeof found)) {
    errno = EFAULT;  // what the kernel says where nothing at all could be read
    return Outcome::denied;
  }
  return found == word_ ? Outcome::whole : Outcome::gone;
}

bool is_readable_by_others(std::span<const std::byte> bytes) {
  if (bytes.empty()) return true;
  std::array<std::byte, 2> ends{};
  const std::array<iovec, 1> here = {iovec{ends.data(), ends.size()}};
  const std::array<iovec, 2> there = {iovec{const_cast<std::byte*>(&bytes.front()), 1},
                                      iovec{const_cast<std::byte*>(&bytes.back()), 1}};
  return process_vm_readv(getpid(), here.data(), here.size(), there.data(), there.size(), 0) ==
         static_cast<ssize_t>(ends.size());
}

}  // namespace diji::collective
