// Links whose cable is cut, for a while or for good, and a link that is only full.
#include "tests/unit/collective/socket_world.h"
#include "tests/unit/expect.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

namespace diji::collective {
namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// A connection inside of a network of its own, which a process of its own can take down: what is sent then
// goes nowhere, and nobody is told.
class Cable {
 public:
  Cable() {
    int control[2] = {-1, -1};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) == 0, "a socket pair");
    keeper_ = fork();
    if (keeper_ == 0) keep(control[1]);
    close(control[1]);
    control_ = control[0];
    for (int& end : ends_) end = receive_descriptor();
  }
  ~Cable() {
    close(control_);
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
    kill(keeper_, SIGKILL);
    waitpid(keeper_, nullptr, 0);
  }
  Cable(const Cable&) = delete;
  Cable& operator=(const Cable&) = delete;

  bool exists() const { return ends_[0] >= 0 && ends_[1] >= 0; }
  int take(int i) { return std::exchange(ends_[static_cast<std::size_t>(i)], -1); }
  void cut() { order('-'); }
  void heal() { order('+'); }

 private:
  // Between fork and exit, in a process that may have had other threads: system calls alone.
  [[noreturn]] static void keep(int given) {
    constexpr int control = 3;  // nothing else of the test's stays open here
    dup2(given, control);
    close_range(control + 1, ~0U, 0);
    const bool own = unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    if (!own || !set_up(true)) _exit(1);
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener, any, length) != 0 || listen(listener, 1) != 0) _exit(1);
    if (getsockname(listener, any, &length) != 0) _exit(1);
    const int caller = ::socket(AF_INET, SOCK_STREAM, 0);
    if (connect(caller, any, length) != 0) _exit(1);
    const int called = accept(listener, nullptr, nullptr);
    for (const int end : {caller, called}) {
      if (!send_descriptor(control, end)) _exit(1);
      close(end);
    }
    for (char order = 0; read(control, &order, 1) == 1;) {
      if (!set_up(order == '+') || write(control, &order, 1) != 1) _exit(1);
    }
    _exit(0);
  }

  static bool set_up(bool up) {
    const int any = ::socket(AF_INET, SOCK_DGRAM, 0);
    ifreq request{};
    std::memcpy(request.ifr_name, "lo", 3);
    request.ifr_flags = static_cast<short>(up ? IFF_UP : 0);
    const bool done = ioctl(any, SIOCSIFFLAGS, &request) == 0;
    close(any);
    return done;
  }

  union Space {
    cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  };
  static msghdr one_descriptor(Space& space, iovec& byte) {
    msghdr message{};
    message.msg_iov = &byte;
    message.msg_iovlen = 1;
    message.msg_control = space.bytes;
    message.msg_controllen = sizeof space.bytes;
    return message;
  }
  static bool send_descriptor(int control, int descriptor) {
    char letter = 'd';
    iovec byte{&letter, 1};
    Space space{};
    const msghdr message = one_descriptor(space, byte);
    space.header = {CMSG_LEN(sizeof descriptor), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(&space.header), &descriptor, sizeof descriptor);
    return sendmsg(control, &message, 0) == 1;
  }
  int receive_descriptor() const {
    char letter = 0;
    iovec byte{&letter, 1};
    Space space{};
    msghdr message = one_descriptor(space, byte);
    int descriptor = -1;
    if (recvmsg(control_, &message, MSG_CMSG_CLOEXEC) == 1 && message.msg_controllen > 0)
      std::memcpy(&descriptor, CMSG_DATA(&space.header), sizeof descriptor);
    return descriptor;
  }
  void order(char letter) const {
    CHECK(write(control_, &letter, 1) == 1 && read(control_, &letter, 1) == 1, "the keeper does it");
  }

  pid_t keeper_ = -1;
  int control_ = -1;
  std::array<int, 2> ends_ = {-1, -1};
};

struct End {
  std::optional<Error> error;
  std::int64_t ended_us = 0;
  int right = 0;
  bool wrong = false;
};

// Two ranks at the ends of the cable.
SocketWorld world_over(Cable& cable) {
  SocketWorld world({0, 1}, {.timeout_us = 20'000'000});
  for (int rank = 0; rank < 2; ++rank) {
    close(world.socket(rank, 1 - rank));
    world.socket(rank, 1 - rank) = cable.take(rank);
  }
  return world;
}

// All-reduces of 2 MB over the cable until one fails or `over`; `before` runs before each.
std::array<End, 2> sums_over(Cable& cable, const std::atomic<bool>& over,
                             const std::function<void(int call)>& before = {}) {
  constexpr std::size_t kCount = 500'000;
  SocketWorld world = world_over(cable);
  std::array<End, 2> ends;
  world.run([&](Communicator& communicator) {
    End& end = ends[static_cast<std::size_t>(communicator.rank())];
    std::vector<std::int32_t> data(kCount);
    for (int call = 0; !end.error; ++call) {
      if (before) before(call);
      std::ranges::fill(data, over ? -1'000'000 : 1);  // both go on until both have seen that it is over
      const auto done = communicator.run({.operation = Operation::all_reduce,
                                          .input = data.data(),
                                          .output = data.data(),
                                          .count = kCount,
                                          .type = ElementType::i32});
      if (!done) {
        end.error = done.error();
        break;
      }
      if (data[0] < 0) break;
      ++end.right;
      end.wrong |= std::ranges::count(data, 2) != std::ssize(data);
    }
    end.ended_us = now_us();
  });
  return ends;
}

// Until `calls` has come to `number`, for 15 s at most: the ranks may have failed.
void wait_for(const std::atomic<int>& calls, int number) {
  for (int ms = 0; ms < 15'000 && calls < number; ++ms) sleep_ms(1);
}

void cut_for_good() {
  Cable cable;
  std::atomic<bool> over = false;
  std::int64_t cut_us = 0;
  std::atomic<int> calls = 0;
  std::thread cutter([&] {
    wait_for(calls, 3);
    cable.cut();
    cut_us = now_us();
  });
  const auto ends = sums_over(cable, over, [&](int call) { calls = call; });
  cutter.join();
  std::vector<double> seconds;
  for (const End& end : ends) {
    REQUIRE(end.error.has_value());
    CAPTURE(end.error->message);
    EXPECT(end.right > 0);
    EXPECT_FALSE(end.wrong);
    EXPECT(end.error->code == ErrorCode::peer_lost);
    EXPECT(end.ended_us - cut_us > 2'000'000);
    EXPECT(end.ended_us - cut_us < 10'000'000);  // 4 s, for a busy machine
    seconds.push_back(static_cast<double>(end.ended_us - cut_us) / 1e6);
  }
  MESSAGE("noticed after " << seconds[0] << " s and " << seconds[1] << " s: " << ends[0].error->message);
}

void cut_for_a_while() {
  Cable cable;
  std::atomic<bool> over = false;
  std::atomic<int> calls = 0;
  int healed_at = 0;
  std::thread cutter([&] {
    wait_for(calls, 3);
    cable.cut();
    sleep_ms(1500);
    healed_at = calls;
    cable.heal();
    wait_for(calls, healed_at + 5);
    over = true;
  });
  const auto ends = sums_over(cable, over, [&](int call) { calls = call; });
  cutter.join();
  for (const End& end : ends) {
    CAPTURE((end.error ? end.error->message : ""));
    EXPECT_FALSE(end.error.has_value());
    EXPECT_FALSE(end.wrong);
    EXPECT(end.right > healed_at + 2);
  }
}

// Longer than a host may be silent, with a window that is shut: 64 MB do not fit into the buffers between.
void busy_peer() {
  constexpr std::int64_t kCount = 16'000'000;
  Cable cable;
  world_over(cable).run([&](Communicator& communicator) {
    const bool receives = communicator.rank() == 1;
    std::vector<std::int32_t> data(kCount, receives ? 0 : 5);
    if (receives) sleep_ms(6000);
    const auto done = communicator.run({.operation = receives ? Operation::receive : Operation::send,
                                        .input = data.data(),
                                        .output = data.data(),
                                        .count = kCount,
                                        .type = ElementType::i32,
                                        .peer = 1 - communicator.rank()});
    CAPTURE((done ? "" : done.error().message));
    EXPECT(done.has_value());
    EXPECT(std::ranges::count(data, 5) == kCount);
  });
}

TEST_CASE("a cut cable is a lost rank in seconds; a healed one, and a rank that computes, are not") {
  if (!Cable().exists()) {
    MESSAGE("not tested: this process may not have a network of its own");
    return;
  }
  std::vector<std::thread> trials;
  for (const auto& trial : {cut_for_good, cut_for_a_while, busy_peer}) trials.emplace_back(trial);
  for (std::thread& trial : trials) trial.join();
}

}  // namespace
}  // namespace diji::collective
