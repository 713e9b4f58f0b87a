// Where everything lies in the shared memory of a host: header, boards, channels, slots.
#include "collective/host_segment.h"

#include "base/check.h"

#include <algorithm>
#include <bit>
#include <string_view>

namespace diji::collective {
namespace {

constexpr std::uint64_t kMagic = 0x6c6c6f63696a6964;  // "dijicoll" where the low byte comes first
constexpr std::uint32_t kLayoutVersion = 4;
constexpr std::int64_t kPage = 4096;

struct Header {
  std::uint64_t magic = 0;
  std::uint32_t layout_version = 0;
  std::uint32_t header_bytes =
      0;  ///< and with it that of boards and channels: builds whose structs differ differ here
  std::uint64_t communicator = 0;
  SegmentShape shape;
  char version[32] = {};
  FirstFailure failure;
  ShrinkDecision shrink;
  std::atomic<std::uint32_t> attached = 0;
};

constexpr std::int64_t round_up(std::int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
constexpr std::int64_t kHeaderBytes = round_up(sizeof(Header));
constexpr std::uint32_t kStructs =
    static_cast<std::uint32_t>(sizeof(Header) + (sizeof(Board) << 12) + (sizeof(Channel) << 3));

std::int64_t boards_bytes(const SegmentShape& shape) {
  return round_up(shape.ranks * std::int64_t{sizeof(Board)});
}
std::int64_t channels_bytes(const SegmentShape& shape) {
  return round_up(std::int64_t{shape.ranks} * shape.ranks * std::int64_t{sizeof(Channel)});
}
std::int64_t slots_of_sender(const SegmentShape& shape) {
  return std::int64_t{shape.ranks} * shape.pair_slots + shape.shared_slots;
}
Header& header_of(const SharedMemory& memory) { return *reinterpret_cast<Header*>(memory.data()); }

}  // namespace

SegmentShape SegmentShape::for_ranks(int ranks) {
  // A fragment of 128 KiB lies in the second cache beside what it is combined with, and takes 10 us to copy,
  // against which its line costs nothing. Two slots a pair are the least with which one is filled while the
  // other is read. Where other programs keep the cores busy a sender that has filled its slots waits for its
  // turn after each filling: as many slots as lines made a broadcast of 64 MiB between two ranks four times
  // as fast there. Those that are free first are taken first, so ranks that run at the same time use a few
  // only.
  constexpr std::int64_t kBudget = 128 << 20;
  constexpr std::int64_t kFragmentMax = 128 << 10;
  constexpr std::int64_t kFragmentMin = 4 << 10;
  SegmentShape shape;
  shape.ranks = ranks;
  shape.pair_slots = ranks <= 2 ? static_cast<int>(Channel::kLines) : std::clamp(16 / ranks, 2, 8);
  shape.shared_slots = ranks > 2 ? 16 : 0;
  const std::int64_t each = kBudget / (ranks * slots_of_sender(shape));
  shape.fragment_bytes =
      std::clamp(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(each))), kFragmentMin,
                 kFragmentMax);
  return shape;
}

std::int64_t SegmentShape::bytes() const {
  return kHeaderBytes + boards_bytes(*this) + channels_bytes(*this) +
         ranks * slots_of_sender(*this) * fragment_bytes;
}

Result<std::shared_ptr<HostSegment>> HostSegment::create(SegmentShape shape, std::uint64_t communicator) {
  std::shared_ptr<HostSegment> segment(new HostSegment);
  segment->memory_ = TRY(SharedMemory::create("diji-ranks", shape.bytes()));
  segment->shape_ = shape;
  Header& header = header_of(*segment->memory_);
  header.layout_version = kLayoutVersion;
  header.header_bytes = kStructs;
  header.communicator = communicator;
  header.shape = shape;
  std::string_view(DIJI_VERSION).copy(header.version, sizeof(header.version) - 1);
  header.magic = kMagic;
  return segment;
}

Result<std::shared_ptr<HostSegment>> HostSegment::attach(std::shared_ptr<SharedMemory> memory) {
  if (memory->size() < kHeaderBytes || header_of(*memory).magic != kMagic) {
    return fail(ErrorCode::malformed, "shared memory of {} bytes is not that of ranks", memory->size());
  }
  const Header& header = header_of(*memory);
  if (header.layout_version != kLayoutVersion || header.header_bytes != kStructs ||
      std::string_view(header.version) != DIJI_VERSION) {
    return fail(ErrorCode::no_device,
                "the ranks of this host run diji {} (shared memory layout {}), this one {} (layout {}): "
                "all must be of one version",
                header.version, header.layout_version, DIJI_VERSION, kLayoutVersion);
  }
  if (header.shape.ranks < 1 || header.shape.bytes() != memory->size()) {
    return fail(ErrorCode::malformed, "shared memory of {} bytes says that it serves {} ranks",
                memory->size(), header.shape.ranks);
  }
  std::shared_ptr<HostSegment> segment(new HostSegment);
  segment->shape_ = header.shape;
  segment->memory_ = std::move(memory);
  return segment;
}

std::uint64_t HostSegment::communicator() const { return header_of(*memory_).communicator; }
FirstFailure& HostSegment::first_failure() const { return header_of(*memory_).failure; }

std::atomic<std::uint32_t>& HostSegment::attached() const { return header_of(*memory_).attached; }

ShrinkDecision& HostSegment::shrink_decision() const { return header_of(*memory_).shrink; }

Board& HostSegment::board(int local) const {
  DCHECK(local >= 0 && local < shape_.ranks, "a rank of this host");
  return reinterpret_cast<Board*>(memory_->data() + kHeaderBytes)[local];
}

Channel& HostSegment::channel(int from, int to) const {
  std::byte* start = memory_->data() + kHeaderBytes + boards_bytes(shape_);
  return reinterpret_cast<Channel*>(start)[from * shape_.ranks + to];
}

std::byte* HostSegment::slots(int from) const {
  return memory_->data() + kHeaderBytes + boards_bytes(shape_) + channels_bytes(shape_) +
         from * slots_of_sender(shape_) * shape_.fragment_bytes;
}

std::int64_t HostSegment::pair_slot([[maybe_unused]] int from, int to, int index) const {
  return (std::int64_t{to} * shape_.pair_slots + index) * shape_.fragment_bytes;
}

std::int64_t HostSegment::shared_slot([[maybe_unused]] int from, int index) const {
  return (std::int64_t{shape_.ranks} * shape_.pair_slots + index) * shape_.fragment_bytes;
}

void HostSegment::ring_all() const {
  for (int local = 0; local < shape_.ranks; ++local) board(local).doorbell.ring();
}

}  // namespace diji::collective
