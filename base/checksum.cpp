// xxHash, compiled in here and nowhere else.
#include "base/checksum.h"

#include "base/files.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

namespace diji {

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum_of(std::string_view text) { return checksum_of(std::as_bytes(std::span(text))); }

std::string digest_of(std::span<const std::span<const std::byte>> parts, Behind behind) {
  constexpr std::size_t kChunkBytes = 1 << 24;  // 4096 pages: the calls that give them back do not show
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_128bits_reset(&state);
  for (const auto part : parts) {
    for (std::size_t at = 0; at < part.size(); at += kChunkBytes) {
      const auto chunk = part.subspan(at, std::min(kChunkBytes, part.size() - at));
      XXH3_128bits_update(&state, chunk.data(), chunk.size());
      if (behind == Behind::forget_pages) forget_pages(chunk);
    }
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string digest_of(std::string_view text) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  return digest_of(std::span(&part, 1));
}

}  // namespace diji
