// getaddrinfo and the three calls after it.
#include "collective/socket_address.h"

#include "collective/clock.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>

namespace diji::collective {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<Found> resolve(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) {
    return fail(ErrorCode::usage, "'{}' is no address; HOST:PORT or [IPv6]:PORT", address);
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int problem = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (problem != 0) return fail(ErrorCode::usage, "'{}' is no address: {}", address, gai_strerror(problem));
  return Found(found, &freeaddrinfo);
}

int open_socket(const addrinfo& address) {
  return socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

std::string text_of(const sockaddr_storage& address) {
  char host[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
    inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
    return fmt::format("{}:{}", host, ntohs(v4->sin_port));
  }
  if (address.ss_family != AF_INET6) return "?";
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
  inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
  return fmt::format("[{}]:{}", host, ntohs(v6->sin6_port));
}

// A port that is bound for reuse, and at which nobody listens, may be bound for reuse again.
Result<int> bind_to(const std::string& address) {
  const Found addresses = TRY(resolve(address));
  const int socket = open_socket(*addresses);
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (socket >= 0 && bind(socket, addresses->ai_addr, addresses->ai_addrlen) == 0) return socket;
  const int reason = errno;
  if (socket >= 0) close(socket);
  return fail(ErrorCode::io, "listening at {}: {}", address, std::strerror(reason));
}

struct Attempt {
  int socket = -1;
  int problem = 0;  ///< errno of the last address, without a socket
};

Result<Attempt> connect_once(const std::string& address, std::int64_t deadline_us) {
  const Found addresses = TRY(resolve(address));
  Attempt attempt;
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    const int client = open_socket(*one);
    if (client < 0) continue;
    const int on = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int problem = connect(client, one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (problem == EINPROGRESS) {
      pollfd ready{client, POLLOUT, 0};
      const std::int64_t wait_ms = std::max<std::int64_t>((deadline_us - now_us()) / 1000, 1);
      socklen_t length = sizeof problem;
      if (poll(&ready, 1, static_cast<int>(wait_ms)) > 0)
        getsockopt(client, SOL_SOCKET, SO_ERROR, &problem, &length);
    }
    if (problem == 0) return Attempt{client, 0};
    attempt.problem = problem;
    close(client);
  }
  return attempt;
}

}  // namespace

Result<int> listen_at(const std::string& address) {
  const int listener = TRY(bind_to(address));
  if (listen(listener, SOMAXCONN) == 0) return listener;
  const int reason = errno;
  close(listener);
  return fail(ErrorCode::io, "listening at {}: {}", address, std::strerror(reason));
}

Result<int> connect_to(const std::string& address, std::int64_t deadline_us) {
  return TRY(connect_once(address, deadline_us)).socket;
}

bool nobody_listens_at(const std::string& address) {
  constexpr std::int64_t kAnswerUs = 200'000;
  const auto attempt = connect_once(address, now_us() + kAnswerUs);
  if (!attempt) return false;
  if (attempt->socket >= 0) close(attempt->socket);
  return attempt->problem == ECONNREFUSED;
}

Result<bool> is_loopback(const std::string& address) {
  const Found addresses = TRY(resolve(address));
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET) {
      const auto* v4 = reinterpret_cast<const sockaddr_in*>(one->ai_addr);
      if (ntohl(v4->sin_addr.s_addr) >> 24 != 127) return false;
    } else {
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(one->ai_addr);
      if (!IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)) return false;
    }
  }
  return true;
}

Result<int> reserve_loopback_port() { return reserve_port_at("127.0.0.1:0"); }

Result<int> reserve_port_at(const std::string& address) { return bind_to(address); }

Result<std::string> own_address_towards(const std::string& address) {
  const Found addresses = TRY(resolve(address));
  int reason = 0;
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    // Connecting a socket for datagrams sends nothing: the kernel looks up the way and binds to its
    // interface.
    const int probe = socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool there = probe >= 0 && connect(probe, one->ai_addr, one->ai_addrlen) == 0;
    reason = errno;
    const std::string own = there ? own_address_of(probe) : "";
    if (probe >= 0) close(probe);
    if (there) return own.substr(0, own.rfind(':')) + ":0";
  }
  return fail(ErrorCode::io, "no way to {}: {}", address, std::strerror(reason));
}

namespace {

// The first address that `wanted` takes: IPv4 before IPv6, no link-local ones. Empty where there is none.
Result<std::string> first_address(const std::function<bool(const ifaddrs&)>& wanted) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return fail(ErrorCode::io, "interfaces: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family || !wanted(*one)) continue;
      if ((one->ifa_flags & IFF_UP) == 0) continue;
      sockaddr_storage address{};
      std::memcpy(&address, one->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
      if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
      const std::string own = text_of(address);
      return own.substr(0, own.rfind(':')) + ":0";
    }
  }
  return "";
}

}  // namespace

Result<std::string> address_of_interface(const std::string& name) {
  std::string own = TRY(first_address([&](const ifaddrs& one) { return name == one.ifa_name; }));
  if (!own.empty()) return own;
  return fail(ErrorCode::usage, "DIJI_SOCKET_IFNAME={}: no interface of that name is up and has an address",
              name);
}

Result<std::string> address_for_others(const std::string& name) {
  if (!name.empty()) return address_of_interface(name);
  // Addresses of documentation (RFC 5737, RFC 3849): only a default route leads there, and nothing is sent.
  for (const char* outside : {"192.0.2.1:9", "[2001:db8::1]:9"}) {
    if (auto own = own_address_towards(outside)) return own;
  }
  std::string own =
      TRY(first_address([](const ifaddrs& one) { return (one.ifa_flags & IFF_LOOPBACK) == 0; }));
  return own.empty() ? "127.0.0.1:0" : own;
}

std::string own_address_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0 ? text_of(address) : "?";
}

std::string peer_address_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  return getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0 ? text_of(address) : "?";
}

}  // namespace diji::collective
