// sendmsg and recv, neither of which ever waits, and what the kernel knows of the other host.
#include "collective/stream.h"

#include "collective/socket_address.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace diji::collective {
namespace {

std::unexpected<Error> lost(int reason) { return fail(ErrorCode::peer_lost, "{}", std::strerror(reason)); }

class SocketStream final : public Stream {
 public:
  explicit SocketStream(int socket) : socket_(socket) { set_options(); }
  ~SocketStream() override { close(socket_); }

  std::string name() const override {
    return fmt::format("{} - {}", own_address_of(socket_), peer_address_of(socket_));
  }
  void poll_for(short events, std::vector<pollfd>& descriptors) const override {
    descriptors.push_back({socket_, events, 0});
  }

  Result<std::size_t> send(std::span<const iovec> parts) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    while (true) {
      const ssize_t n = sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n >= 0) return static_cast<std::size_t>(n);
      if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
      if (errno != EINTR) return lost(errno);
    }
  }

  Result<std::size_t> receive(std::span<std::byte> into) override {
    while (true) {
      const ssize_t n = recv(socket_, into.data(), into.size(), MSG_DONTWAIT);
      if (n > 0) return static_cast<std::size_t>(n);
      if (n == 0) return fail(ErrorCode::peer_lost, "closed the connection");
      if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
      if (errno != EINTR) return lost(errno);
    }
  }

  std::int64_t silent_ms() const override {
    // After 4 s data was repeated four times, at 0.2, 0.6, 1.4 and 3 s (RFC 6298); two more may be lost on
    // the way.
    constexpr int kRepeats = 2;
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(socket_, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;  // no TCP
    const bool asked = info.tcpi_retransmits >= kRepeats || info.tcpi_probes > kRepeats;
    return asked ? info.tcpi_last_ack_recv : 0;
  }

  bool is_delivered() const override {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(socket_, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return true;  // no TCP: at once
    int unacknowledged = 0;
    return ioctl(socket_, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0;
  }

  // Closing a socket with bytes unread resets the connection, and what is on its way may be lost with it.
  void finish() override {
    constexpr int kDrained = 64;  // buffers: a peer that goes on sending is cut off
    std::array<std::byte, 16 << 10> nowhere;
    shutdown(socket_, SHUT_WR);
    for (int i = 0; i < kDrained; ++i) {
      if (recv(socket_, nowhere.data(), nowhere.size(), MSG_DONTWAIT) <= 0) break;
    }
  }

 private:
  // A dead host answers nothing: three unanswered probes, a second apart, end an idle link, and a link over
  // which a rank waits is idle. TCP_USER_TIMEOUT stays unset: it replaces the number of probes, and it counts
  // a window that stays shut like silence, so that a peer that computes and does not read would be cut off
  // though its host answers every probe. While data is on its way there are no keepalive probes: silent_ms
  // asks the kernel for what it repeats in vain.
  void set_options() const {
    const auto set = [this](int level, int name, int value) {  // no error of a socket that is not TCP matters
      setsockopt(socket_, level, name, &value, sizeof value);
    };
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  }

  int socket_;
};

}  // namespace

std::unique_ptr<Stream> socket_stream(int socket) { return std::make_unique<SocketStream>(socket); }

std::vector<std::unique_ptr<Stream>> socket_streams(std::span<const std::vector<int>> sockets) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (const std::vector<int>& of_rank : sockets) {
    std::vector<std::unique_ptr<Stream>> lanes;
    for (const int socket : of_rank) lanes.push_back(socket_stream(socket));
    streams.push_back(striped_stream(std::move(lanes)));
  }
  return streams;
}

}  // namespace diji::collective
