// Parts, copies and remainders of communicators.
#include "collective/regroup.h"

#include "tests/unit/collective/thread_world.h"
#include "tests/unit/expect.h"

#include <atomic>

namespace diji::collective {
namespace {

std::int64_t sum_of_ranks(Communicator& communicator, std::int64_t mine) {
  std::int64_t sum = -1;
  const auto done = communicator.run({.operation = Operation::all_reduce,
                                      .input = &mine,
                                      .output = &sum,
                                      .count = 1,
                                      .type = ElementType::i64});
  EXPECT(done.has_value());
  return sum;
}

TEST_CASE("split by color and key; a color below 0 is in none") {
  ThreadWorld(5).run([&](Communicator& communicator) {
    const int rank = communicator.rank();
    const int color = rank == 4 ? -1 : rank % 2;
    auto part = split(communicator, color, -rank);
    REQUIRE(part.has_value());
    EXPECT((*part == nullptr) == (rank == 4));
    if (*part == nullptr) return;
    EXPECT((*part)->world() == 2);
    EXPECT((*part)->rank() == (rank < 2 ? 1 : 0));  // the key turns their order round
    EXPECT(sum_of_ranks(**part, rank) == (color == 0 ? 2 : 4));
  });
}

TEST_CASE("a copy is a communicator of its own") {
  ThreadWorld(3).run([&](Communicator& communicator) {
    auto copy = dup(communicator);
    REQUIRE(copy.has_value());
    EXPECT(sum_of_ranks(**copy, 1) == 3);
    EXPECT(sum_of_ranks(communicator, 2) == 6);
  });
}

TEST_CASE("after a loss the others go on without it, in their old order") {
  ThreadWorld world(4);
  world.run([&](Communicator& communicator) {
    EXPECT(shrink(communicator, 1'000'000).error().code == ErrorCode::usage);
    EXPECT(sum_of_ranks(communicator, 1) == 4);
    const int rank = communicator.rank();
    if (rank == 2) {
      world.segment().board(2).state.store(Board::kDead);  // as the watcher finds it
      Error error;
      error.code = ErrorCode::peer_lost;
      error.peer.rank = 2;
      error.message = "rank 2 died";
      report_failure(world.segment(), error, 0);
      return;
    }
    std::int64_t one = 1;
    const auto lost = communicator.run({.operation = Operation::all_reduce,
                                        .input = &one,
                                        .output = &one,
                                        .count = 1,
                                        .type = ElementType::i64});
    REQUIRE(!lost.has_value());
    EXPECT(lost.error().peer.rank == 2);
    auto rest = shrink(communicator, 5'000'000);
    REQUIRE(rest.has_value());
    EXPECT((*rest)->world() == 3);
    EXPECT((*rest)->rank() == (rank == 3 ? 2 : rank));
    EXPECT(sum_of_ranks(**rest, 1) == 3);
  });
}

}  // namespace
}  // namespace diji::collective
