// SCM_RIGHTS over an abstract socket: nothing in the file system to guess, to clean up or to race for.
#include "collective/descriptor_server.h"

#include "collective/clock.h"
#include "collective/forks.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

namespace diji::collective {
namespace {

constexpr int kAnswerMs = 1'000;  // a client that connects and says nothing is let go

sockaddr_un address_of(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);  // a leading zero byte: abstract
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

bool same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

// One byte: 1 with the descriptor, 0 without.
void answer(int socket, int descriptor) {
  char byte = descriptor >= 0 ? 1 : 0;
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  static_cast<void>(sendmsg(socket, &message, MSG_NOSIGNAL));
}

constexpr int kHasNone = -1;
constexpr int kBroken = -2;
constexpr int kNotYet = -3;

// The descriptor, or one of the above. `flags`: of recvmsg.
int receive_answer(int socket, int flags) {
  char byte = 0;
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return kNotYet;
  if (received != 1) return kBroken;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (byte == 0 || header == nullptr || header->cmsg_type != SCM_RIGHTS) return kHasNone;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

int ask(int socket, std::uint64_t key) {
  if (send(socket, &key, sizeof key, MSG_NOSIGNAL) != sizeof key) return kBroken;
  return receive_answer(socket, 0);
}

void limit_wait(int socket, std::int64_t wait_us) {
  const timeval limit{wait_us / 1'000'000, wait_us % 1'000'000};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

}  // namespace

struct DescriptorServer::State {
  std::string name;
  int listener = -1;
  int stop = -1;
  std::mutex mutex;
  std::map<std::uint64_t, int> offered;
  std::thread thread;
  std::uint32_t forks = forks_of_this_process();

  void serve() {
    while (true) {
      pollfd descriptors[2] = {{listener, POLLIN, 0}, {stop, POLLIN, 0}};
      if (poll(descriptors, 2, -1) < 0) continue;
      if (descriptors[1].revents != 0) return;
      const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      limit_wait(client, kAnswerMs * 1'000);
      std::uint64_t key = 0;
      if (same_user(client) && recv(client, &key, sizeof key, MSG_WAITALL) == sizeof key) {
        const std::lock_guard lock(mutex);
        const auto found = offered.find(key);
        answer(client, found == offered.end() ? -1 : found->second);
      }
      close(client);
    }
  }
};

Result<std::unique_ptr<DescriptorServer>> DescriptorServer::start() {
  auto state = std::make_shared<State>();
  std::uint64_t random[2] = {};
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return fail(ErrorCode::io, "no random numbers: {}", std::strerror(errno));
  state->name = fmt::format("diji-{:016x}{:016x}", random[0], random[1]);
  state->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t length = 0;
  const sockaddr_un address = address_of(state->name, length);
  if (state->listener < 0 ||
      bind(state->listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(state->listener, SOMAXCONN) != 0) {
    return fail(ErrorCode::io, "a unix socket for the ranks of this host: {}", std::strerror(errno));
  }
  state->stop = eventfd(0, EFD_CLOEXEC);
  state->thread = std::thread([server = state.get()] { server->serve(); });
  return std::unique_ptr<DescriptorServer>(new DescriptorServer(std::move(state)));
}

DescriptorServer::~DescriptorServer() {
  if (state_->forks != forks_of_this_process()) {  // a child has neither the thread nor the right to stop it
    state_->thread.detach();
    return;
  }
  const std::uint64_t one = 1;
  static_cast<void>(write(state_->stop, &one, sizeof one));
  state_->thread.join();
  close(state_->listener);
  close(state_->stop);
}

const std::string& DescriptorServer::address() const { return state_->name; }

void DescriptorServer::offer(std::uint64_t key, int descriptor) {
  const std::lock_guard lock(state_->mutex);
  state_->offered[key] = descriptor;
}

void DescriptorServer::withdraw(std::uint64_t key) {
  const std::lock_guard lock(state_->mutex);
  state_->offered.erase(key);
}

Result<int> fetch_descriptor(const std::string& address, std::uint64_t key, std::int64_t deadline_us) {
  constexpr auto kPause = std::chrono::milliseconds(2);
  while (true) {
    const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = 0;
    const sockaddr_un name = address_of(address, length);
    limit_wait(client, std::max<std::int64_t>(deadline_us - now_us(), 1'000));
    int descriptor = kBroken;
    const bool there = connect(client, reinterpret_cast<const sockaddr*>(&name), length) == 0;
    const int reason = errno;
    if (there) descriptor = ask(client, key);
    close(client);
    if (descriptor >= 0) return descriptor;
    if (!there && reason != EAGAIN)
      return fail(ErrorCode::io, "nobody listens at {}: {}", address, std::strerror(reason));
    if (now_us() >= deadline_us)
      return fail(ErrorCode::deadline, "{} did not offer its memory in time", address);
    std::this_thread::sleep_for(kPause);
  }
}

DescriptorRequest::DescriptorRequest(const std::string& address, std::uint64_t key)
    : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  socklen_t length = 0;
  const sockaddr_un name = address_of(address, length);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&name), length) == 0 &&
      send(socket_, &key, sizeof key, MSG_NOSIGNAL) == sizeof key) {
    return;
  }
  close(socket_);
  socket_ = -1;
}

DescriptorRequest::~DescriptorRequest() {
  if (socket_ >= 0) close(socket_);
}

DescriptorRequest::Answer DescriptorRequest::answer(int wait_ms) {
  if (socket_ < 0) return {State::broken};
  pollfd ready{socket_, POLLIN, 0};
  if (wait_ms > 0) poll(&ready, 1, wait_ms);
  const int descriptor = receive_answer(socket_, MSG_DONTWAIT);
  switch (descriptor) {
    case kNotYet: return {};
    case kBroken: return {State::broken};
    case kHasNone: return {State::unknown};
    default: return {State::there, descriptor};
  }
}

}  // namespace diji::collective
