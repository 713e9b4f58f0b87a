// MemoryPool: best fit in blocks that are taken from the device once and kept.
#include "base/checked.h"
#include "base/host_memory.h"
#include "device/device.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define DIJI_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DIJI_POISON 1
#endif
#endif
#if defined(DIJI_POISON)
#include <sanitizer/asan_interface.h>
#endif

namespace diji {
namespace {

/// A block is at least this large: small buffers share one call of the driver, which costs microseconds to a
/// millisecond.
constexpr std::uint64_t kBlockBytesMin = 2u << 20;

#if defined(DIJI_POISON)
void poison(std::byte* base, std::uint64_t offset, std::uint64_t bytes) {
  if (base != nullptr) ASAN_POISON_MEMORY_REGION(base + offset, bytes);
}
void unpoison(std::byte* base, std::uint64_t offset, std::uint64_t bytes) {
  if (base != nullptr) ASAN_UNPOISON_MEMORY_REGION(base + offset, bytes);
}
constexpr bool kPoison = true;
#else
void poison(std::byte*, std::uint64_t, std::uint64_t) {}
void unpoison(std::byte*, std::uint64_t, std::uint64_t) {}
constexpr bool kPoison = false;
#endif

/// Ordered by size, then age of the block, then offset: the first entry that is large enough is the best fit,
/// and the choice does not depend on addresses.
using FreeKey = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;
using FreeChunks = std::set<FreeKey>;

struct Chunk {
  std::uint64_t bytes = 0;
  /// Of a lent chunk: the entry that it gets among the free ones, so that giving it back takes no memory and
  /// cannot fail.
  FreeChunks::node_type entry;

  bool lent() const { return !entry.empty(); }
};

/// One allocation of the device, cut into chunks that cover it without a gap; no two free chunks are
/// neighbours.
struct Block {
  diji_buffer* handle = nullptr;
  std::uint64_t bytes = 0;
  std::byte* base = nullptr;              ///< in host memory, where freed chunks are poisoned; else null
  std::map<std::uint64_t, Chunk> chunks;  ///< by offset
};

bool pool_is_off() {
  const char* value = std::getenv("DIJI_POOL");
  return value != nullptr && std::string_view(value) == "off";
}

}  // namespace

struct MemoryPool::Impl {
  Device& device;
  const std::string name;
  const bool off = pool_is_off();
  const std::uint64_t alignment;

  mutable std::mutex mutex;  ///< guards what follows; never held over a call of the device
  PoolState state;
  std::uint64_t next_block = 0;
  std::map<std::uint64_t, Block> blocks;                 ///< by age
  std::map<const diji_buffer*, std::uint64_t> block_of;  ///< handle to age
  FreeChunks free_chunks;

  Impl(Device& owner, std::string pool_name)
      : device(owner), name(std::move(pool_name)), alignment(owner.info().alignment) {}

  const diji_device_plugin_table& table() const { return device.plugin().table(); }

  struct Piece {
    diji_buffer* handle;
    std::uint64_t offset;
  };

  bool within_limit(std::uint64_t more) const {
    return state.limit_bytes == 0 ||
           (state.held_bytes <= state.limit_bytes && more <= state.limit_bytes - state.held_bytes);
  }

  void note_lent(std::uint64_t bytes) {
    state.used_bytes += bytes;
    state.peak_bytes = std::max(state.peak_bytes, state.used_bytes);
  }

  /// The smallest free chunk of at least `rounded` bytes; what is left of it stays free. Under the lock.
  bool take(std::uint64_t rounded, std::uint64_t bytes, Piece& piece) {
    const auto best = free_chunks.lower_bound(FreeKey{rounded, 0, 0});
    if (best == free_chunks.end()) return false;
    const auto [size, age, offset] = *best;
    Block& block = blocks.at(age);
    Chunk& chunk = block.chunks.at(offset);
    if (size > rounded) {  // what takes memory comes first: when there is none, nothing has changed
      FreeChunks rest = {{size - rounded, age, offset + rounded}};
      block.chunks.emplace(offset + rounded, Chunk{size - rounded, {}});
      free_chunks.merge(rest);
    }
    chunk.bytes = rounded;
    chunk.entry = free_chunks.extract(best);
    unpoison(block.base, offset, bytes);
    note_lent(rounded);
    piece = {block.handle, offset};
    return true;
  }

  /// Before the device is asked, so that two threads cannot pass the limit.
  Result<void> reserve(std::uint64_t bytes) {
    const std::scoped_lock lock(mutex);
    if (!within_limit(bytes)) return fail(ErrorCode::out_of_memory, "the pool's limit");
    state.held_bytes += bytes;
    return {};
  }

  /// A new block from the device, listed as one free chunk. The error is the device's or the limit's.
  Result<void> add_block(std::uint64_t bytes) {
    // The entries before the block: a block that cannot be listed would be lost.
    std::map<std::uint64_t, Block> fresh;
    std::map<const diji_buffer*, std::uint64_t> known;
    Block& block = fresh[0];
    block.bytes = bytes;
    block.chunks.emplace(0, Chunk{bytes, {}});
    known.emplace(nullptr, 0);
    FreeChunks chunk = {{bytes, 0, 0}};
    TRY(reserve(bytes));
    auto handle = with_host_memory([&] { return device_alloc(bytes); });
    const std::scoped_lock lock(mutex);
    if (!handle) {
      state.held_bytes -= bytes;
      return std::unexpected(std::move(handle).error());
    }
    block.handle = *handle;
    block.base = host_address(*handle);
    poison(block.base, 0, bytes);
    const std::uint64_t age = next_block++;
    auto block_entry = fresh.extract(fresh.begin());
    auto known_entry = known.extract(known.begin());
    auto chunk_entry = chunk.extract(chunk.begin());
    block_entry.key() = age;
    known_entry.key() = *handle;
    known_entry.mapped() = age;
    chunk_entry.value() = {bytes, age, 0};
    blocks.insert(std::move(block_entry));
    block_of.insert(std::move(known_entry));
    free_chunks.insert(std::move(chunk_entry));
    return {};
  }

  Result<diji_buffer*> device_alloc(std::uint64_t bytes) {
    diji_buffer* handle = nullptr;
    const diji_status status = table().alloc(device.handle_, bytes, &handle);
    if (status != DIJI_OK) return std::unexpected(device.error_of(status, "alloc"));
    if (handle == nullptr)
      return fail(ErrorCode::device, "{}: alloc succeeded but gave no buffer", device.name());
    return handle;
  }

  std::byte* host_address(diji_buffer* handle) {
    void* address = nullptr;
    if (!kPoison || !device.info().host_visible || table().map(handle, &address) != DIJI_OK) return nullptr;
    return static_cast<std::byte*>(address);
  }

  /// Blocks without a lent chunk go back to the device.
  void trim() {
    std::map<std::uint64_t, Block> unused;
    {
      const std::scoped_lock lock(mutex);
      for (auto entry = blocks.begin(); entry != blocks.end();) {
        Block& block = entry->second;
        const bool idle = block.chunks.size() == 1 && !block.chunks.begin()->second.lent();
        if (!idle) {
          ++entry;
          continue;
        }
        free_chunks.erase({block.bytes, entry->first, 0});
        block_of.erase(block.handle);
        unused.insert(blocks.extract(entry++));
      }
    }
    std::uint64_t returned = 0;
    for (const auto& [age, block] : unused) {
      unpoison(block.base, 0, block.bytes);
      table().free(device.handle_, nullptr, block.handle);
      returned += block.bytes;
    }
    const std::scoped_lock lock(mutex);
    state.held_bytes -= returned;
  }

  Error out_of_memory(std::uint64_t asked, std::string_view why) const {
    const std::scoped_lock lock(mutex);
    const std::string limit = state.limit_bytes == 0 ? "none" : fmt::format("{}", state.limit_bytes);
    Error error;
    error.code = ErrorCode::out_of_memory;
    error.bytes = static_cast<std::int64_t>(std::min<std::uint64_t>(asked, INT64_MAX));
    error.pool = fmt::format("{} of {}: used {}, held {}, peak {}, limit {}", name, device.name(),
                             state.used_bytes, state.held_bytes, state.peak_bytes, limit);
    error.message = fmt::format("pool '{}' of {}: asked {} bytes, used {}, held {}, limit {}: {}", name,
                                device.name(), asked, state.used_bytes, state.held_bytes, limit, why);
    return error;
  }

  Result<Piece> allocate_off(std::uint64_t rounded);
  Result<Piece> allocate_piece(std::uint64_t rounded, std::uint64_t bytes);
  void give_back_off(diji_buffer* handle, std::uint64_t rounded);
  void give_back_piece(const Piece& piece);

  std::uint64_t rounded(std::uint64_t bytes) const {
    return std::max<std::uint64_t>((bytes + alignment - 1) / alignment * alignment, alignment);
  }
};

/// DIJI_POOL=off: each buffer is an allocation of the device, so that a sanitizer sees its exact bounds.
Result<MemoryPool::Impl::Piece> MemoryPool::Impl::allocate_off(std::uint64_t bytes) {
  TRY(reserve(bytes));
  auto handle = with_host_memory([&] { return device_alloc(bytes); });
  const std::scoped_lock lock(mutex);
  if (!handle) {
    state.held_bytes -= bytes;
    return std::unexpected(std::move(handle).error());
  }
  note_lent(bytes);
  return Piece{*handle, 0};
}

void MemoryPool::Impl::give_back_off(diji_buffer* handle, std::uint64_t bytes) {
  table().free(device.handle_, nullptr, handle);
  const std::scoped_lock lock(mutex);
  state.used_bytes -= bytes;
  state.held_bytes -= bytes;
}

Result<MemoryPool::Impl::Piece> MemoryPool::Impl::allocate_piece(std::uint64_t rounded_bytes,
                                                                 std::uint64_t bytes) {
  const auto try_take = [&](Piece& piece) {
    const std::scoped_lock lock(mutex);
    return take(rounded_bytes, bytes, piece);
  };
  Piece piece{};
  // First what is there; then a new block; then one of exactly this size; then the same after unused blocks
  // went back. Another thread may take the new block first, so each step looks again.
  if (try_take(piece)) return piece;
  Error last;
  for (const bool after_trim : {false, true}) {
    if (after_trim) trim();
    for (const std::uint64_t size : {std::max(rounded_bytes, kBlockBytesMin), rounded_bytes}) {
      Result<void> added;
      do {  // again where another thread was quicker to take from the new block
        added = add_block(size);
        if (try_take(piece)) return piece;
      } while (added);
      last = std::move(added).error();
      if (last.code != ErrorCode::out_of_memory) return std::unexpected(std::move(last));
    }
  }
  return std::unexpected(std::move(last));
}

void MemoryPool::Impl::give_back_piece(const Piece& piece) {
  const std::scoped_lock lock(mutex);
  const auto age = block_of.find(piece.handle);
  CHECK(age != block_of.end(), "a buffer goes back to the pool that lent it");
  Block& block = blocks.at(age->second);
  auto chunk = block.chunks.find(piece.offset);
  CHECK(chunk != block.chunks.end() && chunk->second.lent(), "a buffer goes back once");
  state.used_bytes -= chunk->second.bytes;
  auto entry = std::exchange(chunk->second.entry, {});
  poison(block.base, piece.offset, chunk->second.bytes);
  const auto merge_into = [&](auto left, auto right) {
    left->second.bytes += right->second.bytes;
    block.chunks.erase(right);
    return left;
  };
  if (const auto right = std::next(chunk); right != block.chunks.end() && !right->second.lent()) {
    free_chunks.erase({right->second.bytes, age->second, right->first});
    chunk = merge_into(chunk, right);
  }
  if (chunk != block.chunks.begin() && !std::prev(chunk)->second.lent()) {
    const auto left = std::prev(chunk);
    free_chunks.erase({left->second.bytes, age->second, left->first});
    chunk = merge_into(left, chunk);
  }
  entry.value() = {chunk->second.bytes, age->second, chunk->first};
  free_chunks.insert(std::move(entry));
}

MemoryPool::MemoryPool(Device& device, std::string name, std::uint64_t limit_bytes)
    : impl_(std::make_unique<Impl>(device, std::move(name))) {
  impl_->state.limit_bytes = limit_bytes;
}

MemoryPool::~MemoryPool() {
  CHECK(impl_->state.used_bytes == 0, "all buffers go back before their pool goes");
  impl_->trim();
}

Result<Buffer> MemoryPool::allocate(std::uint64_t bytes) {
  // Beyond this, rounding up could overflow, and no device has it.
  constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 60;
  if (bytes > kBytesMax) return std::unexpected(impl_->out_of_memory(bytes, "no device has that much"));
  const std::uint64_t rounded = impl_->rounded(bytes);
  auto piece = impl_->off ? impl_->allocate_off(rounded) : impl_->allocate_piece(rounded, bytes);
  if (!piece) {
    if (piece.error().code != ErrorCode::out_of_memory) return std::unexpected(std::move(piece).error());
    return std::unexpected(impl_->out_of_memory(bytes, piece.error().message));
  }
  Buffer buffer;
  buffer.pool_ = this;
  buffer.handle_ = piece->handle;
  buffer.offset_ = piece->offset;
  buffer.bytes_ = bytes;
  return buffer;
}

void MemoryPool::give_back(Buffer& buffer) {
  if (impl_->off) return impl_->give_back_off(buffer.handle_, impl_->rounded(buffer.bytes_));
  impl_->give_back_piece({buffer.handle_, buffer.offset_});
}

PoolState MemoryPool::state() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->state;
}

const std::string& MemoryPool::name() const { return impl_->name; }

void MemoryPool::set_limit(std::uint64_t bytes) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->state.limit_bytes = bytes;
}

void MemoryPool::trim() { impl_->trim(); }

}  // namespace diji
