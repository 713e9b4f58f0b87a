// Every operation over sockets, alone and beside shared memory, and what a link that lies or breaks does.
#include "collective/tcp_transport.h"

#include "tests/unit/collective/reference.h"
#include "tests/unit/collective/socket_world.h"
#include "tests/unit/expect.h"

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>

namespace diji::collective {
namespace {

std::vector<std::string> problems_of(SocketWorld& sockets, std::size_t every) {
  std::vector<std::string> problems;
  std::mutex mutex;
  const std::vector<CallCase> cases = call_cases(sockets.world());
  sockets.run([&](Communicator& communicator) {
    for (std::size_t i = 0; i < cases.size(); i += every) {
      const auto problem = run_case(communicator, cases[i]);
      if (!problem) continue;
      const std::lock_guard lock(mutex);
      problems.push_back(*problem);
    }
  });
  return problems;
}

void expect_none(const std::vector<std::string>& problems) {
  for (std::size_t i = 0; i < std::min<std::size_t>(problems.size(), 5); ++i) MESSAGE(problems[i]);
  EXPECT(problems.empty());
}

TEST_CASE("over sockets every operation gives what its definition says") {
  for (const int world : {2, 3, 5}) {
    std::vector<int> hosts;
    for (int rank = 0; rank < world; ++rank) hosts.push_back(rank);
    SocketWorld sockets(hosts);
    expect_none(problems_of(sockets, 7));
  }
}

TEST_CASE("and where messages have many fragments and no CRC") {
  SocketWorld sockets({0, 1, 2}, {}, {.fragment_bytes = 4096, .payload_crc = false});
  expect_none(problems_of(sockets, 11));
}

TEST_CASE("and over shared memory and sockets together") {
  SocketWorld two({0, 0, 1, 1});
  expect_none(problems_of(two, 7));
  SocketWorld uneven({0, 1, 1, 0, 1});
  expect_none(problems_of(uneven, 13));
}

TEST_CASE("large messages go both ways at once, to a peer that comes late too") {
  constexpr std::int64_t kCount = 3'000'000;  // 12 MB, more than any buffer between
  SocketWorld({0, 1}).run([&](Communicator& communicator) {
    const int rank = communicator.rank();
    std::vector<std::int32_t> out(kCount, rank + 1);
    std::vector<std::int32_t> in(kCount);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const Call calls[] = {{.operation = Operation::send,
                           .input = out.data(),
                           .count = kCount,
                           .type = ElementType::i32,
                           .peer = 1 - rank},
                          {.operation = Operation::receive,
                           .output = in.data(),
                           .count = kCount,
                           .type = ElementType::i32,
                           .peer = 1 - rank}};
    EXPECT(communicator.run_group(calls).has_value());
    EXPECT(in == std::vector<std::int32_t>(kCount, 2 - rank));
  });
}

TEST_CASE("a deadline names the rank that did not read what it was sent") {
  CommunicatorOptions options;
  options.timeout_us = 300'000;
  std::atomic<bool> ended = false;
  SocketWorld({0, 1, 2}, options).run([&](Communicator& communicator) {
    std::vector<std::int32_t> data(3'000'000);
    if (communicator.rank() == 1) {
      const auto sent = communicator.run({.operation = Operation::send,
                                          .input = data.data(),
                                          .count = std::ssize(data),
                                          .type = ElementType::i32,
                                          .peer = 2});
      REQUIRE(!sent.has_value());
      EXPECT(sent.error().code == ErrorCode::deadline);
      EXPECT(sent.error().peer.rank == 2);
      EXPECT(sent.error().peer.sequence == 0);
      ended = true;
    }
    while (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
}

// Between two ends: passes bytes on, and does something to the one with number `at` in one direction.
class Proxy {
 public:
  using Change = std::function<bool(std::byte&)>;  ///< false: the link ends here
  Proxy(SocketWorld& world, int from, int to, std::int64_t at, Change change)
      : at_(at), change_(std::move(change)) {
    close(world.socket(from, to));
    close(world.socket(to, from));
    SocketWorld::connect(world.socket(from, to), ends_[0]);
    SocketWorld::connect(world.socket(to, from), ends_[1]);
    thread_ = std::thread([this] { pass(); });
  }
  ~Proxy() {
    stop_ = true;
    thread_.join();
    for (const int end : ends_) close(end);
  }
  bool happened() const { return happened_; }

 private:
  void pass() {
    std::vector<std::byte> buffer(64 << 10);
    std::int64_t passed = 0;
    bool open[2] = {true, true};
    while (!stop_ && (open[0] || open[1])) {
      pollfd ready[2] = {{open[0] ? ends_[0] : -1, POLLIN, 0}, {open[1] ? ends_[1] : -1, POLLIN, 0}};
      poll(ready, 2, 5);
      for (int side = 0; side < 2; ++side) {
        if (ready[side].revents == 0) continue;
        const ssize_t n = recv(ends_[side], buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (n <= 0) {
          open[side] = false;
          shutdown(ends_[1 - side], SHUT_WR);
          continue;
        }
        std::span<std::byte> bytes(buffer.data(), static_cast<std::size_t>(n));
        if (side == 0 && at_ >= passed && at_ < passed + n) {
          happened_ = true;
          if (!change_(bytes[static_cast<std::size_t>(at_ - passed)])) {
            for (const int end : ends_) shutdown(end, SHUT_RDWR);
            return;
          }
        }
        if (side == 0) passed += n;
        pass_on(ends_[1 - side], bytes);
      }
    }
  }
  void pass_on(int to, std::span<const std::byte> bytes) {
    while (!bytes.empty() && !stop_) {
      const ssize_t n = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(n));
      } else if (errno == EAGAIN) {
        pollfd ready{to, POLLOUT, 0};
        poll(&ready, 1, 5);
      } else {
        return;
      }
    }
  }

  std::int64_t at_;
  Change change_;
  int ends_[2] = {-1, -1};
  std::atomic<bool> stop_ = false;
  std::atomic<bool> happened_ = false;
  std::thread thread_;
};

struct Outcome {
  int right = 0;  ///< calls
  bool wrong = false;
  std::optional<Error> error;
  std::int64_t longest_us = 0;
};

// Three all-reduces of `count` elements on each rank, until one fails.
std::vector<Outcome> three_sums(SocketWorld& world, std::int64_t count) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(world.world()));
  world.run([&](Communicator& communicator) {
    Outcome& outcome = outcomes[static_cast<std::size_t>(communicator.rank())];
    for (int call = 0; call < 3 && !outcome.error; ++call) {
      std::vector<std::int32_t> input(static_cast<std::size_t>(count));
      std::vector<std::int32_t> expected(input.size());
      for (std::size_t i = 0; i < input.size(); ++i) {
        input[i] = communicator.rank() * 1000 + call + static_cast<int>(i);
        for (int rank = 0; rank < communicator.world(); ++rank)
          expected[i] += rank * 1000 + call + static_cast<int>(i);
      }
      std::vector<std::int32_t> output(input.size());
      const std::int64_t begin_us = now_us();
      const auto done = communicator.run({.operation = Operation::all_reduce,
                                          .input = input.data(),
                                          .output = output.data(),
                                          .count = count,
                                          .type = ElementType::i32});
      outcome.longest_us = std::max(outcome.longest_us, now_us() - begin_us);
      if (!done) {
        outcome.error = done.error();
      } else {
        ++outcome.right;
        outcome.wrong |= output != expected;
      }
    }
  });
  return outcomes;
}

constexpr std::int64_t kSoonUs = 2'500'000;  // what breaks is noticed in 0.1 s; this is for a busy machine

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Same first failure where several fail.
void expect_agreement(const std::vector<Outcome>& outcomes) {
  const Error* first = nullptr;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.error) continue;
    if (first == nullptr) first = &*outcome.error;
    CAPTURE(first->message);
    CAPTURE(outcome.error->message);
    EXPECT(outcome.error->code == first->code);
    EXPECT(outcome.error->peer.rank == first->peer.rank);
  }
}

// DIJI_WIRE_TRIALS=5000 is a long run; DIJI_WIRE_SEED=N with DIJI_WIRE_TRIALS=1 repeats one.
TEST_CASE("one byte that flips on the wire: an error or the right result, on every rank, soon") {
  const std::uint64_t first_seed = setting("DIJI_WIRE_SEED", 1);
  const std::uint64_t trials = setting("DIJI_WIRE_TRIALS", 200);
  int flipped = 0;
  int noticed = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + trials; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::int64_t count = std::array<std::int64_t, 4>{1, 13, 3000, 100'000}[random() % 4];
    SocketWorld world(random() % 2 == 0 ? std::vector{0, 1} : std::vector{0, 0, 1}, {},
                      {.fragment_bytes = 8 << 10});
    const int far = world.world() - 1;
    const bool out = random() % 2 == 0;
    const int from = out ? 0 : far;
    const auto at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count * 4 * 3 + 150));
    const auto bit = static_cast<std::byte>(1 << random() % 8);
    Proxy proxy(world, from, out ? far : 0, at, [&](std::byte& byte) {
      byte ^= bit;
      return true;
    });
    const std::vector<Outcome> outcomes = three_sums(world, count);
    flipped += proxy.happened() ? 1 : 0;
    bool any = false;
    for (const Outcome& outcome : outcomes) {
      EXPECT_FALSE(outcome.wrong);
      EXPECT(outcome.longest_us < kSoonUs);
      if (!outcome.error) continue;
      any = true;
      CAPTURE(outcome.error->message);
      EXPECT(proxy.happened());
      EXPECT((outcome.error->code == ErrorCode::corrupted || outcome.error->code == ErrorCode::peer_lost));
    }
    expect_agreement(outcomes);
    noticed += any ? 1 : 0;
  }
  std::printf("wire trials from seed %lu: %lu, flipped %d, noticed %d\n", first_seed, trials, flipped,
              noticed);
  EXPECT((trials < 200 || noticed > 50));
}

TEST_CASE("corruption names link, rank and call") {
  SocketWorld world({0, 1});
  // In the payload of the second call's only message: frames of 32 + 32 bytes.
  Proxy proxy(world, 0, 1, 64 + 33, [](std::byte& byte) {
    byte ^= std::byte{1};
    return true;
  });
  const std::vector<Outcome> outcomes = three_sums(world, 8);
  REQUIRE(outcomes[1].error.has_value());
  const Error& error = *outcomes[1].error;
  CAPTURE(error.message);
  EXPECT(error.code == ErrorCode::corrupted);
  EXPECT(error.peer.rank == 0);
  // What came ahead of its call may end the call before it; the sentence names the one it belongs to.
  EXPECT(error.peer.sequence == outcomes[1].right);
  EXPECT(error.message.find("link ? - ? with rank 0, in or after call #1") != std::string::npos);
}

TEST_CASE("a link that breaks in the middle is a lost rank, on every host") {
  for (const std::int64_t at : {0, 31, 40, 5000, 100'000}) {
    CAPTURE(at);
    SocketWorld world({0, 0, 1, 2});
    Proxy proxy(world, 0, 2, at, [](std::byte&) { return false; });
    const std::vector<Outcome> outcomes = three_sums(world, 100'000);
    REQUIRE(proxy.happened());
    for (const Outcome& outcome : outcomes) {
      EXPECT_FALSE(outcome.wrong);
      EXPECT(outcome.longest_us < kSoonUs);
      REQUIRE(outcome.error.has_value());
      EXPECT(outcome.error->code == ErrorCode::peer_lost);
    }
    expect_agreement(outcomes);
  }
}

TEST_CASE("random bytes from a peer are corruption") {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 20; ++trial) {
    SocketWorld world({0, 1});
    std::vector<std::uint64_t> noise(1 + random() % 3000);
    for (std::uint64_t& word : noise) word = random();
    const int peer = world.socket(1, 0);
    const auto sent = send(peer, noise.data(), noise.size() * 8, MSG_NOSIGNAL);
    REQUIRE(sent > 0);
    shutdown(peer, SHUT_WR);
    const auto communicator = Communicator::create(world.group(0)).value();
    const auto done = communicator->run({.operation = Operation::barrier});
    REQUIRE(!done.has_value());
    const bool whole = static_cast<std::size_t>(sent) >= FrameHeader::kBytes;
    CAPTURE(done.error().message);
    EXPECT(done.error().code == (whole ? ErrorCode::corrupted : ErrorCode::peer_lost));
    EXPECT(done.error().peer.rank == 1);
    close(peer);
  }
}

TEST_CASE("who leaves properly has left; who is waited for after that is named") {
  std::atomic<int> failed = 0;
  SocketWorld({0, 1, 1}).run([&](Communicator& communicator) {
    EXPECT(communicator.run({.operation = Operation::barrier}).has_value());
    if (communicator.rank() == 0) return;
    const auto done = communicator.run({.operation = Operation::barrier});
    REQUIRE(!done.has_value());
    EXPECT(done.error().code == ErrorCode::peer_lost);
    EXPECT(done.error().peer.rank == 0);
    EXPECT(done.error().message.find("has left") != std::string::npos);
    ++failed;
  });
  EXPECT(failed == 2);
}

TEST_CASE("an abort from a thread inside or outside of a call ends the calls of all hosts") {
  for (const bool inside : {false, true}) {
    SocketWorld world({0, 0, 1, 2});
    std::atomic<int> ended = 0;
    const auto wait_for = [&](int others) {
      while (ended < others) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    world.run([&](Communicator& communicator) {
      std::thread other;
      if (communicator.rank() == 1) {
        other = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
          communicator.abort("enough");
        });
        if (!inside) wait_for(3);
      }
      if (communicator.rank() == 3 && inside) wait_for(3);  // it computes, and hears of it afterwards
      const std::int64_t begin_us = now_us();
      const auto done = communicator.run({.operation = Operation::barrier});
      EXPECT(now_us() - begin_us < kSoonUs);
      ++ended;
      if (other.joinable()) other.join();
      REQUIRE(!done.has_value());
      CAPTURE(done.error().message);
      EXPECT(done.error().code == ErrorCode::aborted);
      EXPECT(done.error().peer.rank == 1);
      EXPECT(done.error().message.find("enough") != std::string::npos);
    });
  }
}

TEST_CASE("ranks of two hosts that call different things are told the same, with both calls") {
  std::vector<std::int64_t> ranks(4);
  SocketWorld({0, 0, 1, 1}).run([&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const std::int32_t one = 1;
    std::int32_t sum = 0;
    const Call call{.operation = Operation::all_reduce,
                    .input = &one,
                    .output = &sum,
                    .count = 1,
                    .type = rank < 2 ? ElementType::i32 : ElementType::u32};
    const auto done = communicator.run(call);
    REQUIRE(!done.has_value());
    EXPECT(done.error().code == ErrorCode::call_mismatch);
    ranks[rank] = done.error().peer.rank;
    CAPTURE(done.error().message);
    EXPECT(done.error().message.find("all_reduce of 1 i32, sum") != std::string::npos);
    EXPECT(done.error().message.find("all_reduce of 1 u32, sum") != std::string::npos);
  });
  for (const std::int64_t rank : ranks) EXPECT(rank == ranks[0]);
}

// Rank 1 makes calls that give it nothing to wait for; what it did differently shows when it is in another.
TEST_CASE("a difference in a call that was over for one side is named by that call") {
  SocketWorld({0, 1}).run([&](Communicator& communicator) {
    std::int32_t data[4] = {};
    const int rank = communicator.rank();
    const Call call{.operation = Operation::broadcast,
                    .input = data,
                    .output = data,
                    .count = rank == 0 ? 4 : 3,
                    .type = ElementType::i32};
    auto done = communicator.run(call);
    if (rank == 0) {
      EXPECT(done.has_value());
      done = communicator.run({.operation = Operation::barrier});
    }
    REQUIRE(!done.has_value());
    CAPTURE(done.error().message);
    EXPECT(done.error().code == ErrorCode::call_mismatch);
    EXPECT(done.error().message.find("broadcast of 4 i32, root 0") != std::string::npos);
    EXPECT(done.error().message.find("broadcast of 3 i32, root 0") != std::string::npos);
    EXPECT(done.error().message.find("(#0)") != std::string::npos);
  });
}

// Which no message would tell: each waits for the other.
TEST_CASE("ranks of two hosts that both wait find out that they differ") {
  SocketWorld({0, 1}).run([&](Communicator& communicator) {
    std::int32_t data[4] = {};
    const std::int64_t begin_us = now_us();
    const auto done = communicator.run({.operation = Operation::broadcast,
                                        .input = data,
                                        .output = data,
                                        .count = 4,
                                        .type = ElementType::i32,
                                        .root = 1 - communicator.rank()});
    REQUIRE(!done.has_value());
    CAPTURE(done.error().message);
    EXPECT(done.error().code == ErrorCode::call_mismatch);
    EXPECT(done.error().message.find("root 0") != std::string::npos);
    EXPECT(done.error().message.find("root 1") != std::string::npos);
    EXPECT(now_us() - begin_us < kSoonUs);
  });
}

// In a ring rank 3 waits for 2, 0 for 3 and 1 for 0.
TEST_CASE("a deadline blames the end of a chain that goes over hosts") {
  CommunicatorOptions options;
  options.timeout_us = 600'000;
  std::mutex mutex;
  std::vector<Error> errors;
  SocketWorld({0, 1, 2, 3}, options).run([&](Communicator& communicator) {
    if (communicator.rank() == 2) {
      while (std::scoped_lock(mutex), errors.size() < 3) std::this_thread::yield();
      return;
    }
    const std::int32_t mine = 0;
    std::int32_t all[4] = {};
    const auto done = communicator.run({.operation = Operation::all_gather,
                                        .input = &mine,
                                        .output = all,
                                        .count = 1,
                                        .type = ElementType::i32,
                                        .algorithm = "ring"});
    const std::scoped_lock lock(mutex);
    errors.push_back(done ? Error{} : done.error());
  });
  for (const Error& error : errors) {
    CAPTURE(error.message);
    EXPECT(error.code == ErrorCode::deadline);
    EXPECT(error.peer.rank == 2);
  }
}

TEST_CASE("a rank that is late is said to be where it told that it is") {
  std::mutex mutex;
  std::string warning;  // of rank 0, the last
  CommunicatorOptions options;
  options.warning_us = 200'000;
  options.warn = [&](const std::string& text) {
    const std::scoped_lock lock(mutex);
    if (text.starts_with("rank 0")) warning = text;
  };
  SocketWorld({0, 1}, options).run([&](Communicator& communicator) {
    const auto late = [&](int rank) {
      if (communicator.rank() == rank) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    };
    late(0);  // and rank 1 waits, so that it tells of its call, and of its end
    EXPECT(communicator.run({.operation = Operation::barrier}).has_value());
    late(1);
    EXPECT(communicator.run({.operation = Operation::barrier}).has_value());
  });
  CAPTURE(warning);
  EXPECT(warning.find("for rank 1") != std::string::npos);
  EXPECT(warning.find("said last that it is alive and outside of calls; its last was #0 barrier") !=
         std::string::npos);
}

}  // namespace
}  // namespace diji::collective
