// A memfd for each region, with one page behind the caller's bytes that says whether it is freed.
#include "collective/registered.h"

#include "collective/forks.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace diji::collective {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::uint64_t kMagic = 0x6e6f69676572696a;  // "jiregion" where the low byte comes first

// The last page of a region. A peer has it mapped to be read only.
struct Trailer {
  std::uint64_t magic = 0;
  std::uint64_t region = 0;
  std::atomic<std::uint32_t> freed = 0;
};

Trailer& trailer_of(const SharedMemory& memory) {
  return *reinterpret_cast<Trailer*>(memory.data() + memory.size() - kPage);
}

bool is_freed(const SharedMemory& memory) {
  return trailer_of(memory).freed.load(std::memory_order_acquire) != 0;
}

}  // namespace

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(memory_, other.memory_);
  std::swap(region_, other.region_);
  std::swap(size_, other.size_);
  return *this;
}

Allocation::~Allocation() {
  if (owner_) owner_->release(region_, *memory_);
}

RegisteredMemory::RegisteredMemory(std::shared_ptr<DescriptorServer> server)
    : server_(std::move(server)), forks_(forks_of_this_process()) {}

Result<Allocation> RegisteredMemory::allocate(std::int64_t bytes) {
  constexpr std::int64_t kBytesMax = std::int64_t{1} << 46;  // more than a process can map
  if (bytes < 1 || bytes > kBytesMax)
    return fail(ErrorCode::usage, "registered memory of {} bytes: from 1 to {}", bytes, kBytesMax);
  std::uint64_t region = 0;
  if (getrandom(&region, sizeof region, 0) != sizeof region)
    return fail(ErrorCode::io, "no random numbers: {}", std::strerror(errno));
  const std::int64_t whole = (bytes + kPage - 1) / kPage * kPage + kPage;
  Allocation allocation;
  allocation.memory_ = TRY(SharedMemory::create("diji-registered", whole));
  Trailer& trailer = trailer_of(*allocation.memory_);
  trailer.region = region;
  trailer.magic = kMagic;
  const std::lock_guard lock(mutex_);
  if (own_.size() >= kRegionsMax) {
    return fail(ErrorCode::out_of_memory,
                "registered memory: this rank has {} regions, the most there can be", kRegionsMax);
  }
  own_[allocation.data()] = {region, bytes, allocation.memory_};
  has_own_.store(true, std::memory_order_release);
  server_->offer(region, allocation.memory_->descriptor());
  allocation.owner_ = shared_from_this();
  allocation.region_ = region;
  allocation.size_ = bytes;
  return allocation;
}

void RegisteredMemory::release(std::uint64_t region, const SharedMemory& memory) {
  if (forks_ != forks_of_this_process()) return;  // a child's copy frees nothing of its parent's
  const std::lock_guard lock(mutex_);
  server_->withdraw(region);  // from here on nobody maps it
  trailer_of(memory).freed.store(1, std::memory_order_release);
  own_.erase(memory.data());
  has_own_.store(!own_.empty(), std::memory_order_release);
}

std::optional<RegionPlace> RegisteredMemory::find(std::span<const std::byte> bytes) const {
  if (!has_own_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto at = own_.lower_bound(bytes.data());  // the order is descending
  if (at == own_.end()) return std::nullopt;
  const std::int64_t offset = bytes.data() - at->first;
  if (offset > at->second.bytes || std::ssize(bytes) > at->second.bytes - offset) return std::nullopt;
  return RegionPlace{at->second.region, offset};
}

std::shared_ptr<SharedMemory> RegisteredMemory::own(std::uint64_t region) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(own_, region, [](const auto& entry) { return entry.second.region; });
  return found == own_.end() ? nullptr : found->second.memory;
}

Result<std::shared_ptr<SharedMemory>> RegisteredMemory::map(const std::string& address,
                                                            std::uint64_t region) {
  // A server answers within a turn of the scheduler: the first look waits for that, later ones do not.
  constexpr int kTurnMs = 20;
  std::unique_ptr<DescriptorRequest> request;
  {
    const std::lock_guard lock(mutex_);
    const auto found = theirs_.find(region);
    if (found != theirs_.end()) return found->second;
    if (const auto asked = asked_.extract(region)) request = std::move(asked.mapped());
  }
  const int wait_ms = request ? 0 : kTurnMs;
  if (!request) request = std::make_unique<DescriptorRequest>(address, region);
  const DescriptorRequest::Answer answer = request->answer(wait_ms);
  switch (answer.state) {
    case DescriptorRequest::State::waits: {
      const std::lock_guard lock(mutex_);
      asked_[region] = std::move(request);
      return nullptr;
    }
    // Whoever does not listen any more is dead, or about to say why it left: others tell (Watcher, boards).
    case DescriptorRequest::State::broken: return nullptr;
    case DescriptorRequest::State::unknown:
      return fail(ErrorCode::corrupted, "a message refers to registered memory {:016x}, which is freed",
                  region);
    case DescriptorRequest::State::there: break;
  }
  std::shared_ptr<SharedMemory> memory = TRY(SharedMemory::map(answer.descriptor, Access::read));
  if (memory->size() < 2 * kPage || trailer_of(*memory).magic != kMagic ||
      trailer_of(*memory).region != region) {
    return fail(ErrorCode::malformed, "what a peer sent as its registered memory {:016x} is none", region);
  }
  drop_freed();
  const std::lock_guard lock(mutex_);
  return theirs_.insert_or_assign(region, std::move(memory)).first->second;
}

void RegisteredMemory::drop_freed() {
  const std::lock_guard lock(mutex_);
  std::erase_if(theirs_, [](const auto& entry) { return is_freed(*entry.second); });
}

std::size_t RegisteredMemory::mapped() const {
  const std::lock_guard lock(mutex_);
  return theirs_.size();
}

RegionAccess access_through_servers(std::shared_ptr<RegisteredMemory> memory,
                                    std::vector<std::string> servers) {
  RegionLookup lookup = [memory, servers = std::move(servers)](int local, std::uint64_t region) {
    return memory->map(servers[static_cast<std::size_t>(local)], region);
  };
  return {std::move(memory), std::move(lookup), {}};
}

}  // namespace diji::collective
