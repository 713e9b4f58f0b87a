// send, recv and getrandom with their loops.
#include "collective/handshake.h"

#include "collective/clock.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace diji::collective {

void put(Bytes& to, std::string_view text) { to.insert(to.end(), text.begin(), text.end()); }
void put_number(Bytes& to, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::uint8_t>(number >> (8 * i)));
}
std::uint64_t number_at(const Bytes& from, std::size_t at, int bytes) {
  std::uint64_t number = 0;
  for (int i = 0; i < bytes; ++i)
    number |= static_cast<std::uint64_t>(from[at + static_cast<std::size_t>(i)]) << (8 * i);
  return number;
}

Bytes random_bytes(std::size_t count) {
  Bytes bytes(count);
  static_cast<void>(getrandom(bytes.data(), bytes.size(), 0));
  return bytes;
}

Digest proof(const std::string& token, std::string_view role, const Bytes& nonces, const Bytes& said) {
  Bytes message;
  put(message, role);
  message.insert(message.end(), nonces.begin(), nonces.end());
  message.insert(message.end(), said.begin(), said.end());
  return hmac_sha256({reinterpret_cast<const std::uint8_t*>(token.data()), token.size()}, message);
}

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool send_all(int socket, const Bytes& bytes, std::int64_t deadline_us) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<std::size_t>(n);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return false;
    pollfd ready{socket, POLLOUT, 0};
    if (now_us() >= deadline_us) return false;
    poll(&ready, 1, 10);
  }
  return true;
}

bool receive_some(int socket, Bytes& bytes, std::size_t wanted) {
  std::array<std::uint8_t, 4096> part;
  while (bytes.size() < wanted) {
    const ssize_t n = recv(socket, part.data(), std::min(part.size(), wanted - bytes.size()), 0);
    if (n > 0) {
      bytes.insert(bytes.end(), part.begin(), part.begin() + n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    } else {
      return true;
    }
  }
  return true;
}

bool receive_all(int socket, Bytes& bytes, std::size_t wanted, std::int64_t deadline_us) {
  while (bytes.size() < wanted) {
    if (!receive_some(socket, bytes, wanted)) return false;
    if (bytes.size() >= wanted) break;
    if (now_us() >= deadline_us) return false;
    pollfd ready{socket, POLLIN, 0};
    poll(&ready, 1, 10);
  }
  return true;
}

}  // namespace diji::collective
