// Parts, copies and remainders of communicators whose ranks say that they are on several hosts.
#include "collective/bootstrap.h"
#include "collective/host_links.h"
#include "collective/meeting.h"
#include "collective/regroup.h"
#include "collective/socket_address.h"
#include "tests/unit/collective/reference.h"
#include "tests/unit/expect.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace diji::collective {
namespace {

constexpr std::int64_t kTimeoutUs = 10'000'000;

// body(communicator) on a thread for each of the hosts named.
void run_on(const std::vector<std::string>& hosts, const std::function<void(Communicator&)>& body) {
  const Socket reserved(reserve_loopback_port().value());
  const std::string address = own_address_of(reserved.descriptor());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    threads.emplace_back([&, rank] {
      auto group = join({.rank = static_cast<int>(rank),
                         .world = static_cast<int>(hosts.size()),
                         .address = address,
                         .token = "a secret",
                         .host = hosts[rank],
                         .timeout_us = kTimeoutUs});
      REQUIRE(group.has_value());
      const auto communicator = Communicator::create(std::move(*group), {.timeout_us = kTimeoutUs}).value();
      body(*communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Some of all operations; nothing where each gave what it should.
std::optional<std::string> problem_of(Communicator& communicator) {
  constexpr std::size_t kStride = 23;
  const std::vector<CallCase> cases = call_cases(communicator.world());
  for (std::size_t i = 0; i < cases.size(); i += kStride) {
    if (auto problem = run_case(communicator, cases[i])) return problem;
  }
  return std::nullopt;
}

TEST_CASE("parts and copies of a communicator span hosts") {
  run_on({"a", "b", "a", "b", "c"}, [](Communicator& communicator) {
    const auto copy = dup(communicator);
    REQUIRE(copy.has_value());
    EXPECT((*copy)->transports() == communicator.transports());
    EXPECT(problem_of(**copy) == std::nullopt);
    const int rank = communicator.rank();
    const auto part = split(communicator, rank == 4 ? -1 : rank / 2, -rank);
    REQUIRE(part.has_value());
    EXPECT((*part == nullptr) == (rank == 4));
    if (*part == nullptr) return;
    EXPECT((*part)->world() == 2);
    EXPECT((*part)->transports() == "tcp");
    EXPECT(problem_of(**part) == std::nullopt);
    const auto half = split(**copy, rank % 2, rank);  // without rank 4, that has left
    EXPECT(!half.has_value());
  });
}

TEST_CASE("two copies of a communicator make parts at the same time") {
  run_on({"a", "b", "b"}, [](Communicator& communicator) {
    const auto copy = dup(communicator);
    REQUIRE(copy.has_value());
    std::thread other([&] {
      const auto part = split(**copy, 0, 0);
      REQUIRE(part.has_value());
      EXPECT(problem_of(**part) == std::nullopt);
    });
    const auto part = split(communicator, 0, -communicator.rank());
    REQUIRE(part.has_value());
    EXPECT(problem_of(**part) == std::nullopt);
    other.join();
  });
}

// Everybody but `gone`, which leaves after a call, calls until that fails (the others' first call may, when
// one of them has noticed); then shrinks.
void lose(const std::vector<std::string>& hosts, int gone,
          const std::function<void(Communicator&, Result<std::unique_ptr<Communicator>>)>& rest_of) {
  run_on(hosts, [&](Communicator& communicator) {
    std::int64_t one = 1;
    const Call call{.operation = Operation::all_reduce,
                    .input = &one,
                    .output = &one,
                    .count = 1,
                    .type = ElementType::i64};
    EXPECT(shrink(communicator, 1'000'000).error().code == ErrorCode::usage);
    const auto first = communicator.run(call);
    if (communicator.rank() == gone) return;
    const auto lost = communicator.run(call);
    REQUIRE(!lost.has_value());
    if (!first) EXPECT(first.error().message == lost.error().message);
    EXPECT(lost.error().peer.rank == gone);
    rest_of(communicator, shrink(communicator, kTimeoutUs));
  });
}

TEST_CASE("after a loss the ranks of several hosts go on without it") {
  const std::vector<std::string> hosts = {"a", "b", "a", "b", "b"};
  for (const int gone : {0, 1, 4}) {  // the first that would lead, and others
    lose(hosts, gone, [&](Communicator& old, Result<std::unique_ptr<Communicator>> rest) {
      REQUIRE(rest.has_value());
      EXPECT((*rest)->world() == 4);
      EXPECT((*rest)->rank() == old.rank() - (old.rank() > gone ? 1 : 0));
      const bool alone = gone == 0 && old.rank() == 2;  // on its host
      EXPECT((*rest)->transports() == (alone ? "tcp" : "shm+tcp"));
      EXPECT(problem_of(**rest) == std::nullopt);
    });
  }
}

TEST_CASE("two ranks on two hosts: the one that is left goes on alone") {
  for (const int gone : {0, 1}) {
    lose({"a", "b"}, gone, [](Communicator&, Result<std::unique_ptr<Communicator>> rest) {
      REQUIRE(rest.has_value());
      EXPECT((*rest)->world() == 1);
    });
  }
}

struct Attendance {
  int world = 2;
  std::vector<int> absent;  ///< listen, as a stopped process does
  std::vector<int> gone;    ///< do not listen
  std::vector<int> suspects;
  std::int64_t time_us = 1'500'000;
};

std::vector<Result<std::vector<int>>> outcomes_of(const Attendance& attendance) {
  const auto among = [](const std::vector<int>& ranks, int rank) {
    return std::ranges::find(ranks, rank) != ranks.end();
  };
  std::vector<std::vector<LinkListener>> listeners;
  std::vector<Addresses> addresses;
  for (int rank = 0; rank < attendance.world; ++rank) {
    listeners.push_back(listen_for_links("127.0.0.1:1", "", false).value());
    addresses.push_back({listeners.back().front().address});
    if (among(attendance.gone, rank)) listeners.back().clear();
  }
  std::vector<Result<std::vector<int>>> outcomes(static_cast<std::size_t>(attendance.world));
  std::vector<std::thread> threads;
  const std::int64_t begin_us = now_us();
  for (int rank = 0; rank < attendance.world; ++rank) {
    if (among(attendance.absent, rank) || among(attendance.gone, rank)) continue;
    threads.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      outcomes[at] = meet({.rank = rank,
                           .id = 11,
                           .token = "token",
                           .begin_us = begin_us,
                           .deadline_us = begin_us + attendance.time_us,
                           .dead = {},
                           .suspects = attendance.suspects},
                          listeners[at], addresses);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

TEST_CASE("a rank that is gone is known at once; nobody waits for the time to pass") {
  const std::int64_t begin_us = now_us();
  const auto outcomes =
      outcomes_of({.world = 5, .absent = {}, .gone = {0, 3}, .suspects = {}, .time_us = 60'000'000});
  EXPECT(now_us() - begin_us < 30'000'000);
  for (const int rank : {1, 2, 4}) {
    const auto& outcome = outcomes[static_cast<std::size_t>(rank)];
    REQUIRE(outcome.has_value());
    EXPECT(*outcome == std::vector{1, 2, 4});
  }
}

TEST_CASE("a rank that is silent is left behind, also where it should have led") {
  for (const std::vector<int>& suspects : {std::vector<int>{}, std::vector<int>{0}}) {
    const auto outcomes = outcomes_of({.world = 4, .absent = {0}, .gone = {}, .suspects = suspects});
    for (const std::size_t rank : {1UL, 2UL, 3UL}) {
      REQUIRE(outcomes[rank].has_value());
      EXPECT(*outcomes[rank] == std::vector{1, 2, 3});
    }
  }
}

TEST_CASE("too few ranks do not go on, and half of them only with the lowest") {
  const auto few = outcomes_of({.world = 5, .absent = {0, 1, 2}, .gone = {}, .suspects = {}});
  for (const std::size_t rank : {3UL, 4UL}) {
    REQUIRE(!few[rank].has_value());
    EXPECT(few[rank].error().code == ErrorCode::peer_lost);
    EXPECT(few[rank].error().message.contains("Partitioned"));
  }
  const auto low = outcomes_of({.world = 4, .absent = {2, 3}, .gone = {}, .suspects = {}});
  for (const std::size_t rank : {0UL, 1UL}) {
    REQUIRE(low[rank].has_value());
    EXPECT(*low[rank] == std::vector{0, 1});
  }
  const auto high = outcomes_of({.world = 4, .absent = {0, 1}, .gone = {}, .suspects = {}});
  for (const std::size_t rank : {2UL, 3UL}) EXPECT(!high[rank].has_value());
}

}  // namespace
}  // namespace diji::collective
