// Proof that a peer knows the job's token without sending it: HMAC with SHA-256 (RFC 2104, FIPS 180-4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace diji::collective {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::span<const std::uint8_t> bytes);
Digest hmac_sha256(std::span<const std::uint8_t> key, std::span<const std::uint8_t> message);
/// Takes the same time wherever the two differ.
bool equal_digests(const Digest& a, const Digest& b);

}  // namespace diji::collective
