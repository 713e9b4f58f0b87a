// Bytes in order between two ranks, sent and received without ever waiting.
#pragma once

#include "base/error.h"

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct pollfd;

namespace diji::collective {

/// One end; its destructor closes it.
class Stream {
 public:
  Stream() = default;
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// "10.0.0.1:4000 - 10.0.0.2:5000"
  virtual std::string name() const = 0;
  /// Adds what Clock::poll waits for until `events` (POLLIN, POLLOUT) may go on.
  virtual void poll_for(short events, std::vector<pollfd>& descriptors) const = 0;
  /// Bytes of `parts`, from the first on, that were taken; 0: none go now. Errors: peer_lost, with the reason
  /// alone.
  virtual Result<std::size_t> send(std::span<const iovec> parts) = 0;
  /// Bytes that came; 0: none now. Errors: peer_lost, with the reason alone, also at the end of the stream.
  virtual Result<std::size_t> receive(std::span<std::byte> into) = 0;
  /// For how long the other end's host has answered nothing though it was asked more than once; else 0.
  virtual std::int64_t silent_ms() const = 0;
  /// The other end's host has all that was taken. Nobody is told when that becomes so.
  virtual bool is_delivered() const = 0;
  /// Says that nothing more will be sent, and reads what has come to nowhere.
  virtual void finish() = 0;
};

/// Over a connected socket, which it takes.
std::unique_ptr<Stream> socket_stream(int socket);
/// One stream over several, whose other ends are striped in the same order: blocks of kStripeBytes go over
/// them in turn. One lane is that stream itself; none is null.
std::unique_ptr<Stream> striped_stream(std::vector<std::unique_ptr<Stream>> lanes);
inline constexpr std::size_t kStripeBytes = 64 << 10;
/// Of each rank, over its connected sockets (none: null), which they take.
std::vector<std::unique_ptr<Stream>> socket_streams(std::span<const std::vector<int>> sockets);

}  // namespace diji::collective
