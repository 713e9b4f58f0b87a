// Checksums and digests of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace diji {

/// XXH3, 64 bits: finds damage. Not cryptographic: it tells versions of bytes apart, not friends from foes.
std::uint64_t checksum_of(std::span<const std::byte> bytes);
std::uint64_t checksum_of(std::string_view text);

/// What becomes of the pages of parts that have been read: parts of mapped files can give them back, so that
/// a large file is not in memory as a whole.
enum class Behind : std::uint8_t { keep, forget_pages };
/// XXH3, 128 bits, as 32 hexadecimal digits: names bytes. Of all parts behind each other.
std::string digest_of(std::span<const std::span<const std::byte>> parts, Behind behind = Behind::keep);
std::string digest_of(std::string_view text);

}  // namespace diji
