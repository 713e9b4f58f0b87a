// How processes that share a secret begin to talk over a socket: bytes, and the proof that each knows it.
#pragma once

#include "collective/hmac.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace diji::collective {

using Bytes = std::vector<std::uint8_t>;

void put(Bytes& to, std::string_view text);
/// Little endian.
void put_number(Bytes& to, std::uint64_t number, int bytes);
std::uint64_t number_at(const Bytes& from, std::size_t at, int bytes);

inline constexpr std::size_t kNonceBytes = 32;
Bytes random_bytes(std::size_t count);
/// HMAC with the token over both random numbers and what is being said, so that neither side's proof can be
/// played back as the other's.
Digest proof(const std::string& token, std::string_view role, const Bytes& nonces, const Bytes& said);

/// Owns a descriptor.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket();
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  int descriptor() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

/// Sends all, within the deadline; the socket does not block.
bool send_all(int socket, const Bytes& bytes, std::int64_t deadline_us);
/// Adds what has come, up to `wanted` bytes in all. False: the other side is gone.
bool receive_some(int socket, Bytes& bytes, std::size_t wanted);
/// Adds bytes until there are `wanted`. False: gone, or not within the deadline.
bool receive_all(int socket, Bytes& bytes, std::size_t wanted, std::int64_t deadline_us);

}  // namespace diji::collective
