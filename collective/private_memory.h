// Memory of one rank that was not allocated to be shared: where the kernel lets them, the others of its host
// read it in place all the same (process_vm_readv), with one copy instead of two.
#pragma once

#include "base/error.h"
#include "collective/operation.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace diji::collective {

enum class PrivateReads : std::uint8_t {
  never,
  where_faster,  ///< as measured: reads_are_faster, kLentBytesMin, one reader of a message
  always,        ///< every message that does not fit into its line: for tests
};

/// DIJI_PROCESS_VM: on (where_faster, the default) or off (never). Errors: usage.
Result<PrivateReads> private_reads_from_environment();

/// Whether to leave the messages of an operation in private memory, by its bytes as choose() counts them, and
/// for `ranks` that have `cores` together; the reasons are with the numbers in the source.
bool reads_are_faster(Operation operation, std::int64_t bytes, int ranks, int cores);
/// Shorter messages are copied (measured with the above: 16 KiB are even): a read costs a system call at
/// either end.
inline constexpr std::int64_t kLentBytesMin = 32 << 10;

/// On a rank's board: a random word, and where it lies in the private memory of this rank. A process in which
/// it is found there is that rank's. Address 0: nobody may read.
struct PrivateOffer {
  std::atomic<std::uint64_t> word = 0;
  std::atomic<std::uint64_t> address = 0;  ///< written after `word`
};

/// What a transport has of it: of its rank and of peers.
struct PrivateAccess {
  PrivateReads reads = PrivateReads::never;
  std::vector<int> pids;  ///< by place in the segment
};

/// One rank's private memory as another one reads it.
class PrivateMemory {
 public:
  PrivateMemory() = default;
  /// Whether process `pid` has the word where the offer says.
  PrivateMemory(int pid, const PrivateOffer& offer);
  /// No, where the kernel withholds it (Yama, seccomp, another user), where it has no such call, where `pid`
  /// is another process in this one's namespace, and where nothing is offered.
  bool may_read() const { return may_read_; }

  enum class Outcome : std::uint8_t {
    whole,
    gone,    ///< the process is, or another one has its number: somebody says so (Watcher)
    denied,  ///< errno says why
  };
  /// Copies target.size() bytes from there. With each of them the word is read again, in one look at one
  /// process, so that bytes of another process never count.
  Outcome read(std::uint64_t address, std::span<std::byte> target) const;

 private:
  int pid_ = 0;
  std::uint64_t word_ = 0;
  std::uint64_t word_address_ = 0;
  bool may_read_ = false;
};

/// Whether the kernel can read `bytes` of this process for others: not what a device's driver has mapped, or
/// what is kept secret. Asked of both ends.
bool is_readable_by_others(std::span<const std::byte> bytes);

}  // namespace diji::collective
