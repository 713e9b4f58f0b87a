// Memory that all ranks of a host map: what one of them allocates here, the others read in place instead of
// from a copy in slots.
#pragma once

#include "base/error.h"
#include "collective/descriptor_server.h"
#include "collective/private_memory.h"
#include "collective/shared_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace diji::collective {

class RegisteredMemory;

/// Bytes where they lie, for whoever can map the region. Regions have random numbers, none of which comes
/// twice: what was freed is never taken for what was allocated at its address later.
struct RegionPlace {
  std::uint64_t region = 0;
  std::int64_t offset = 0;
};

/// Owns memory that peers can read; any part of it may be the input or output of a call, as any other memory
/// may. Freed with this object, which must not be while a call uses it. A peer that still reads it then (its
/// call failed here, not there) keeps its pages until it has.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& other) noexcept { *this = std::move(other); }
  Allocation& operator=(Allocation&& other) noexcept;
  ~Allocation();

  /// At the start of a page, zero-filled at first.
  std::byte* data() const { return memory_ ? memory_->data() : nullptr; }
  std::int64_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data(), static_cast<std::size_t>(size_)}; }

 private:
  friend class RegisteredMemory;
  std::shared_ptr<RegisteredMemory> owner_;
  std::shared_ptr<SharedMemory> memory_;
  std::uint64_t region_ = 0;
  std::int64_t size_ = 0;
};

/// What a rank has allocated, and what it has mapped of its peers: shared by a communicator and its parts and
/// copies. Safe for use by several threads.
class RegisteredMemory : public std::enable_shared_from_this<RegisteredMemory> {
 public:
  /// Peers ask `server` for what this rank allocates.
  explicit RegisteredMemory(std::shared_ptr<DescriptorServer> server);
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  /// All pages are there when this returns. Errors: usage, below 1 byte; out_of_memory, naming size and
  /// reason, the cgroup's limit among them, or more than kRegionsMax regions.
  Result<Allocation> allocate(std::int64_t bytes);
  static constexpr std::size_t kRegionsMax = 4096;
  /// The region of this rank that all of `bytes` lies in.
  std::optional<RegionPlace> find(std::span<const std::byte> bytes) const;
  /// Memory of this rank itself, for peers that are threads of its process.
  std::shared_ptr<SharedMemory> own(std::uint64_t region) const;

  /// The region of the peer whose server is at `address`, mapped to be read; nothing while the answer is not
  /// there: ask again. Never waits longer than a moment, also where the peer is stopped or dead. Errors:
  /// corrupted, where the peer has no such region (any more); malformed, io.
  Result<std::shared_ptr<SharedMemory>> map(const std::string& address, std::uint64_t region);
  /// Gives back what peers have freed; also done by map.
  void drop_freed();
  /// Regions of peers that are mapped here.
  std::size_t mapped() const;

 private:
  friend class Allocation;
  struct Own {
    std::uint64_t region = 0;
    std::int64_t bytes = 0;
    std::shared_ptr<SharedMemory> memory;
  };
  void release(std::uint64_t region, const SharedMemory& memory);

  std::shared_ptr<DescriptorServer> server_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Own, std::greater<>> own_;  ///< by start: the first not above an address
  std::map<std::uint64_t, std::shared_ptr<SharedMemory>> theirs_;
  std::map<std::uint64_t, std::unique_ptr<DescriptorRequest>> asked_;  ///< not answered yet
  std::atomic<bool> has_own_ = false;
  std::uint32_t forks_;
};

/// The region of that number which rank `local` of this host allocated, mapped here; nothing: not yet.
using RegionLookup = std::function<Result<std::shared_ptr<SharedMemory>>(int local, std::uint64_t region)>;

/// How a transport comes by memory that messages refer to: that of its rank and that of peers.
struct RegionAccess {
  std::shared_ptr<const RegisteredMemory> own;
  RegionLookup of_peers;
  PrivateAccess private_memory;  ///< what is not registered
};
/// Where no memory is registered, and nobody reads another's.
inline RegionAccess no_regions() { return {}; }
/// `servers[local]` is the address of that rank's DescriptorServer.
RegionAccess access_through_servers(std::shared_ptr<RegisteredMemory> memory,
                                    std::vector<std::string> servers);

}  // namespace diji::collective
