// Several connections as one stream.
#include "collective/stream.h"

#include "collective/tcp_transport.h"
#include "tests/unit/collective/socket_world.h"
#include "tests/unit/expect.h"

#include <poll.h>

#include <random>

namespace diji::collective {
namespace {

struct Ends {
  std::unique_ptr<Stream> a;
  std::unique_ptr<Stream> b;
  std::vector<int> sockets_of_b;
};

Ends ends_of(int lanes) {
  Ends ends;
  std::vector<int> a(static_cast<std::size_t>(lanes));
  std::vector<int> b(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) SocketWorld::connect(a[i], b[i]);
  const std::vector<std::vector<int>> left{a};
  const std::vector<std::vector<int>> right{b};
  ends.a = std::move(socket_streams(left).front());
  ends.b = std::move(socket_streams(right).front());
  ends.sockets_of_b = b;
  return ends;
}

void wait_for(const Stream& stream, short events) {
  std::vector<pollfd> descriptors;
  stream.poll_for(events, descriptors);
  REQUIRE(descriptors.size() == 1);
  EXPECT(::poll(descriptors.data(), descriptors.size(), 10'000) == 1);
}

TEST_CASE("bytes come in order, whatever the pieces") {
  for (const int lanes : {1, 2, 3}) {
    Ends ends = ends_of(lanes);
    std::mt19937 random(static_cast<unsigned>(lanes));
    std::vector<std::byte> sent(3'000'000);
    for (std::byte& byte : sent) byte = static_cast<std::byte>(random());
    std::thread sender([&] {
      std::mt19937 sizes(7);
      for (std::size_t at = 0; at < sent.size();) {
        iovec parts[3];
        std::size_t begin = at;
        for (iovec& part : parts) {
          part = {sent.data() + begin, std::min<std::size_t>(sizes() % 100'000, sent.size() - begin)};
          begin += part.iov_len;
        }
        const auto taken = ends.a->send(parts);
        REQUIRE(taken.has_value());
        if (*taken == 0 && begin > at) wait_for(*ends.a, POLLOUT);
        at += *taken;
      }
    });
    std::vector<std::byte> come(sent.size());
    for (std::size_t at = 0; at < come.size();) {
      const auto n = ends.b->receive(
          std::span(come).subspan(at, std::min<std::size_t>(random() % 200'000 + 1, come.size() - at)));
      REQUIRE(n.has_value());
      if (*n == 0) wait_for(*ends.b, POLLIN);
      at += *n;
    }
    sender.join();
    EXPECT(come == sent);
  }
}

TEST_CASE("blocks take turns: a second interface carries half of the bytes") {
  Ends ends = ends_of(2);
  std::vector<std::byte> bytes(3 * kStripeBytes / 2);
  iovec part{bytes.data(), bytes.size()};
  std::size_t sent = 0;
  std::vector<std::byte> into(16 << 10);
  std::size_t first = 0;
  std::size_t second = 0;
  while (sent < bytes.size() || first + second < bytes.size()) {
    part = {bytes.data() + sent, bytes.size() - sent};
    sent += ends.a->send(std::span(&part, 1)).value();
    const auto n0 = recv(ends.sockets_of_b[0], into.data(), into.size(), MSG_DONTWAIT);
    const auto n1 = recv(ends.sockets_of_b[1], into.data(), into.size(), MSG_DONTWAIT);
    if (n0 > 0) first += static_cast<std::size_t>(n0);
    if (n1 > 0) second += static_cast<std::size_t>(n1);
  }
  EXPECT(first == kStripeBytes);
  EXPECT(second == kStripeBytes / 2);
}

TEST_CASE("one lane that ends is an error that names it") {
  Ends ends = ends_of(2);
  const std::string lane = ends.b->name();
  EXPECT(lane.contains(", "));
  shutdown(ends.sockets_of_b[0], SHUT_RDWR);
  std::byte byte{};
  const auto ended = ends.a->receive({&byte, 1});
  REQUIRE(!ended.has_value());
  EXPECT(ended.error().code == ErrorCode::peer_lost);
  EXPECT(ended.error().message.contains(" on "));
}

}  // namespace
}  // namespace diji::collective
