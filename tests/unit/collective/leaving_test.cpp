// The last bytes of a rank that leaves, and what it was told and never read.
#include "collective/tcp_transport.h"

#include "tests/unit/expect.h"

#include <array>
#include <cstring>

namespace diji::collective {
namespace {

struct StreamState {
  bool takes = true;      ///< bytes
  int looks_left = 0;     ///< at is_delivered until it is
  bool finished = false;  ///< before or after that
  bool finished_early = false;
  std::vector<std::byte> comes;  ///< what the other end has said
};

class ScriptedStream final : public Stream {
 public:
  explicit ScriptedStream(StreamState& state) : state_(state) {}
  std::string name() const override { return "a script"; }
  void poll_for(short, std::vector<pollfd>&) const override {}
  Result<std::size_t> send(std::span<const iovec> parts) override {
    std::size_t whole = 0;
    for (const iovec& part : parts) whole += part.iov_len;
    return state_.takes ? whole : 0;
  }
  Result<std::size_t> receive(std::span<std::byte> into) override {
    const std::size_t bytes = std::min(into.size(), state_.comes.size());
    std::memcpy(into.data(), state_.comes.data(), bytes);
    state_.comes.erase(state_.comes.begin(), state_.comes.begin() + static_cast<std::ptrdiff_t>(bytes));
    return bytes;
  }
  std::int64_t silent_ms() const override { return 0; }
  bool is_delivered() const override { return state_.looks_left == 0 || --state_.looks_left == 0; }
  void finish() override {
    state_.finished = true;
    state_.finished_early = state_.looks_left > 0;
  }

 private:
  StreamState& state_;
};

std::shared_ptr<TcpTransport> transport_over(StreamState& state) {
  std::vector<std::unique_ptr<Stream>> streams(2);
  streams[1] = std::make_unique<ScriptedStream>(state);
  return TcpTransport::create(std::move(streams)).value();
}

std::vector<std::byte> goodbye() {
  FrameHeader header;
  header.kind = FrameHeader::Kind::goodbye;
  const auto wire = header.encode();
  return {wire.begin(), wire.end()};
}

TEST_CASE("what a rank told of itself and nobody read is no reason to miss one that has left") {
  StreamState state{.takes = false, .comes = goodbye()};
  const auto transport = transport_over(state);
  transport->publish_call({.sequence = 3, .operation = Operation::barrier});
  EXPECT(transport->pump().has_value());
}

TEST_CASE("data that nobody will read is one") {
  StreamState state{.takes = false};
  const auto transport = transport_over(state);
  const std::array<std::byte, 8> data{};
  EXPECT(transport->send(std::array{1}, {}, data).has_value());
  state.comes = goodbye();
  const auto pumped = transport->pump();
  REQUIRE(!pumped.has_value());
  EXPECT(pumped.error().code == ErrorCode::peer_lost);
}

TEST_CASE("whoever leaves stays until the others' hosts have all that it sent, for a second at most") {
  for (const int looks : {5, 1'000'000}) {
    StreamState state{.looks_left = looks};
    const std::int64_t begin_us = now_us();
    transport_over(state).reset();
    EXPECT(state.finished);
    EXPECT(state.finished_early == (looks > 5));
    if (looks > 5) EXPECT(now_us() - begin_us >= 1'000'000);
  }
}

}  // namespace
}  // namespace diji::collective
