// Whom a deadline blames: the end of the chain of those who wait, as far as its ranks say.
#include "tests/unit/collective/simulated_time.h"
#include "tests/unit/collective/socket_world.h"
#include "tests/unit/expect.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

namespace diji::collective {
namespace {

Result<void> pass(Communicator& communicator, Operation operation, int peer, std::int64_t timeout_us = -1) {
  std::int32_t token = 0;
  return communicator.run({.operation = operation,
                           .input = &token,
                           .output = &token,
                           .count = 1,
                           .type = ElementType::i32,
                           .peer = peer,
                           .timeout_us = timeout_us});
}

Result<void> gather_to(Communicator& communicator, int root) {
  const std::int32_t mine = 0;
  std::int32_t all[8] = {};
  return communicator.run({.operation = Operation::gather,
                           .input = &mine,
                           .output = all,
                           .count = 1,
                           .type = ElementType::i32,
                           .root = root,
                           .algorithm = "direct"});
}

// Whom the first deadline blames; rank `late` comes when the others have ended.
int blamed(std::vector<int> hosts, int late, const std::function<Result<void>(Communicator&)>& body) {
  CommunicatorOptions options;
  options.timeout_us = 800'000;
  const int others = static_cast<int>(hosts.size()) - 1;
  std::atomic<int> ended = 0;
  std::mutex mutex;
  std::vector<Error> errors;
  SocketWorld(std::move(hosts), options).run([&](Communicator& communicator) {
    if (communicator.rank() == late) {
      while (ended < others) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    const Result<void> done = body(communicator);
    ++ended;
    const std::scoped_lock lock(mutex);
    if (!done) errors.push_back(done.error());
  });
  int guilty = -1;
  for (const Error& error : errors) {
    CAPTURE(error.message);
    EXPECT(error.code == ErrorCode::deadline);
    EXPECT((guilty < 0 || error.peer.rank == guilty));
    guilty = static_cast<int>(error.peer.rank);
  }
  return guilty;
}

// Rank 2 gathers and waits for rank 1; rank 0 has given its part, and waits for rank 2 in its next call.
TEST_CASE("a rank of another host that is in an earlier call is not at the end of the chain") {
  EXPECT(blamed({0, 1, 2}, 1, [](Communicator& communicator) -> Result<void> {
           TRY(gather_to(communicator, 2));
           return communicator.run({.operation = Operation::barrier, .algorithm = "dissemination"});
         }) == 1);
}

// Rank 1 first waits for rank 2, says so, and then for rank 3; rank 0 is the first whose time is over.
TEST_CASE("whoever waits for another rank than before tells the other hosts") {
  EXPECT(blamed({0, 1, 2, 3}, 3, [](Communicator& communicator) -> Result<void> {
           const int rank = communicator.rank();
           if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(200));
           TRY(gather_to(communicator, 1));
           if (rank == 0) return pass(communicator, Operation::receive, 1, 600'000);
           return rank == 1 ? pass(communicator, Operation::send, 0) : Result<void>();
         }) == 3);
}

// Rank 1's thread is just between two sleeps when rank 0's time is over.
TEST_CASE("a rank that looks again just then is not taken for one that is stuck") {
  for (const bool stuck : {false, true}) {
    SimulatedTime time(1);
    const auto segment = HostSegment::create(SegmentShape::for_ranks(3), 7).value();
    Group group{.id = 7, .rank = 0, .segment = segment};
    const auto shm = std::make_shared<ShmTransport>(segment, 0, std::vector{0, 1, 2}, no_regions());
    for (int rank = 0; rank < 3; ++rank) {
      group.members.push_back({.host = "here", .pid = getpid(), .server = "", .local = rank});
      group.links.push_back(rank == 0 ? nullptr : shm);
    }
    std::optional<Error> error;
    time.start(0, [&] {
      const auto communicator =
          Communicator::create(group, {.timeout_us = 1'000'000, .clock = Clock(time)}).value();
      const auto done = pass(*communicator, Operation::receive, 1);
      if (!done) error = done.error();
    });
    FlightRecorder& recorder = segment->board(1).recorder;
    recorder.begin({.sequence = 0, .operation = Operation::barrier});
    time.later(1'015'000, [&] {
      if (!stuck) recorder.waits_for(2);
    });
    EXPECT(time.run(100'000));
    REQUIRE(error.has_value());
    CAPTURE(error->message);
    EXPECT(error->peer.rank == (stuck ? 1 : 2));
  }
}

}  // namespace
}  // namespace diji::collective
