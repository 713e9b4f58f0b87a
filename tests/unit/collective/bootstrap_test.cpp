// Start-up of ranks that say they are on several hosts, over the loopback interface.
#include "collective/bootstrap.h"

#include "collective/host_links.h"
#include "collective/liveness.h"
#include "collective/socket_address.h"
#include "tests/unit/collective/reference.h"
#include "tests/unit/expect.h"

#include <sys/socket.h>

#include <cstdlib>
#include <mutex>
#include <thread>

namespace diji::collective {
namespace {

struct Met {
  std::vector<std::string> transports;
  std::vector<std::string> problems;
  std::vector<WorldShape> shapes;
  std::vector<std::string> plans;  ///< of an all_reduce of 1000 f32
};

// A rank for each host named, as a thread: meets the others and makes some of the calls.
Met meet(const std::vector<std::string>& hosts, const std::string& loopback = "127.0.0.1",
         bool should_fail = false) {
  Met met;
  met.transports.resize(hosts.size());
  met.shapes.resize(hosts.size());
  met.plans.resize(hosts.size());
  const Socket reserved(reserve_loopback_port().value());
  const std::string port = own_address_of(reserved.descriptor()).substr(std::string("127.0.0.1").size());
  const std::string address = loopback + port;
  const std::vector<CallCase> cases = call_cases(static_cast<int>(hosts.size()));
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const Identity identity{.rank = static_cast<int>(rank),
                              .world = static_cast<int>(hosts.size()),
                              .address = address,
                              .token = "a secret",
                              .host = hosts[rank],
                              .timeout_us = 10'000'000};
      auto group = join(identity);
      std::optional<std::string> problem;
      if (!group) {
        problem = group.error().message;
      } else {
        const auto communicator = Communicator::create(std::move(*group)).value();
        met.transports[rank] = communicator->transports();
        met.shapes[rank] = communicator->shape();
        const Call call{.operation = Operation::all_reduce, .count = 1000};
        met.plans[rank] = plan_id(call, communicator->shape(), communicator->plan_of(call).value());
        for (std::size_t i = 0; i < cases.size() && !problem; i += 17)
          problem = run_case(*communicator, cases[i]);
      }
      const std::lock_guard lock(mutex);
      if (problem) met.problems.push_back(*problem);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!should_fail) {
    for (const std::string& problem : met.problems) MESSAGE(problem);
  }
  return met;
}

using Texts = std::vector<std::string>;

TEST_CASE("ranks of one host share memory, ranks of several have links too") {
  const Met one = meet({"a", "a", "a"});
  EXPECT(one.problems.empty());
  EXPECT(one.transports == Texts(3, "shm"));
  const Met two = meet({"a", "b", "a", "b", "b"});
  EXPECT(two.problems.empty());
  EXPECT(two.transports == Texts(5, "shm+tcp"));
  const Met alone = meet({"a", "b", "c"});
  EXPECT(alone.problems.empty());
  EXPECT(alone.transports == Texts(3, "tcp"));
  const Met uneven = meet({"a", "b", "b"});
  EXPECT(uneven.problems.empty());
  EXPECT(uneven.transports == Texts{"tcp", "shm+tcp", "shm+tcp"});
}

TEST_CASE("all ranks know the hosts of the world and take rank 0's table") {
  const Met plain = meet({"a", "a", "b", "b"});
  EXPECT(plain.problems.empty());
  EXPECT(plain.shapes == std::vector(4, WorldShape{.ranks = 4, .hosts = 2, .node_ranks = 2}));
  EXPECT(plain.plans == Texts(4, plain.plans[0]));
  EXPECT(plain.plans[0].starts_with("hierarchical/"));
  const Met mingled = meet({"a", "b", "a", "b"});
  EXPECT(mingled.problems.empty());
  EXPECT(mingled.shapes == std::vector(4, WorldShape{.ranks = 4, .hosts = 2}));
  EXPECT_FALSE(mingled.plans[0].starts_with("hierarchical/"));
  setenv("DIJI_TUNING", "all_reduce hosts=2: <=2K exchange; <=4000 ring/slices=2", 1);
  const Met tuned = meet({"a", "a", "b", "b"});
  setenv("DIJI_TUNING", "all_reduce: rings", 1);
  const Met wrong = meet({"a", "a", "b"}, "127.0.0.1", true);
  unsetenv("DIJI_TUNING");
  EXPECT(tuned.problems.empty());
  EXPECT(tuned.plans == Texts(4, tuned.plans[0]));
  EXPECT(tuned.plans[0].starts_with("ring/2-"));
  REQUIRE(wrong.problems.size() == 3);  // nobody waits for rank 0
  for (const std::string& problem : wrong.problems)
    EXPECT(problem.starts_with("rank 0: DIJI_TUNING:1:13: all_reduce has no algorithm rings"));
}

TEST_CASE("ranks meet and talk over IPv6") {
  const auto there = listen_at("[::1]:0");
  if (!there) {
    MESSAGE("not run: this machine has no IPv6 loopback: ", there.error().message);
    return;
  }
  const Socket closed(*there);
  const Met met = meet({"a", "b", "c"}, "[::1]");
  EXPECT(met.problems.empty());
  EXPECT(met.transports == Texts(3, "tcp"));
}

TEST_CASE("DIJI_TCP_CRC=off takes the CRC from payloads; other words are refused") {
  EXPECT(payload_crc_from_environment().value());
  setenv("DIJI_TCP_CRC", "off", 1);
  EXPECT_FALSE(payload_crc_from_environment().value());
  const Met met = meet({"a", "b"});
  setenv("DIJI_TCP_CRC", "perhaps", 1);
  const auto refused = join({});
  unsetenv("DIJI_TCP_CRC");
  EXPECT(met.problems.empty());
  REQUIRE(!refused.has_value());
  EXPECT(refused.error().code == ErrorCode::usage);
}

TEST_CASE("DIJI_TRANSPORT=tcp leaves shared memory out; other words are refused") {
  setenv("DIJI_TRANSPORT", "tcp", 1);
  const Met met = meet({"a", "a", "a"});
  setenv("DIJI_TRANSPORT", "pigeon", 1);
  const auto refused = join({});
  unsetenv("DIJI_TRANSPORT");
  EXPECT(met.problems.empty());
  EXPECT(met.transports == Texts(3, "tcp"));
  REQUIRE(!refused.has_value());
  EXPECT(refused.error().code == ErrorCode::usage);
}

TEST_CASE("a listener is on the interface asked for, and on loopback alone without a token") {
  const auto listener = listen_for_links("127.0.0.1:1", "", false);
  REQUIRE(listener.has_value());
  EXPECT(listener->front().address.starts_with("127.0.0.1:"));
  EXPECT(listen_for_links("10.1.2.3:1", "lo", false)->front().address.starts_with("127.0.0.1:"));
  EXPECT(listen_for_links("127.0.0.1:1", "lo,lo", false)->size() == 2);
  EXPECT(listen_for_links("127.0.0.1:1", "lo,", false).error().code == ErrorCode::usage);
  EXPECT(listen_for_links("127.0.0.1:1", "no-such-interface", true).error().code == ErrorCode::usage);
}

TEST_CASE("strangers, and callers with another token, get no link") {
  const auto listeners = listen_for_links("127.0.0.1:1", "", false).value();
  const std::string called = listeners.front().address;
  const std::vector<Addresses> to_low{{called}, {}};
  const std::vector<Addresses> to_high{{}, {called}};
  // Rank 1 is called by a stranger who says something else, by one who says nothing, and by rank 0, first
  // with a wrong token.
  HostLinks high;
  const LinkOptions right{.rank = 1, .id = 5, .token = "right", .deadline_us = now_us() + 20'000'000};
  std::thread rank_1([&] { high = connect_links(right, listeners, 1, to_low); });
  Socket noise(connect_to(called, now_us() + 1'000'000).value());
  EXPECT(send_all(noise.descriptor(), random_bytes(4000), now_us() + 1'000'000));
  const Socket silent(connect_to(called, now_us() + 1'000'000).value());
  LinkOptions low{.rank = 0, .id = 5, .token = "wrong", .deadline_us = now_us() + 3'000'000};
  const auto wrong = connect_links(low, {}, 1, to_high);
  REQUIRE(wrong.failure.has_value());
  EXPECT(wrong.failure->code == ErrorCode::deadline);
  EXPECT(wrong.failure->peer.missing == std::vector{1});
  low.token = "right";
  low.deadline_us = right.deadline_us;
  const auto linked = connect_links(low, {}, 1, to_high);
  rank_1.join();
  EXPECT(!linked.failure);
  EXPECT(!high.failure);
  REQUIRE(linked.sockets[1].size() == 1);
  REQUIRE(high.sockets[0].size() == 1);
  const Socket a(linked.sockets[1][0]);
  const Socket b(high.sockets[0][0]);
  EXPECT(peer_address_of(a.descriptor()) == own_address_of(b.descriptor()));
}

TEST_CASE("a rank that takes up no call is named by all others, who find each other") {
  constexpr int kRanks = 5;
  for (const int silent : {0, 2, 4}) {
    std::vector<std::vector<LinkListener>> listeners;
    std::vector<Addresses> all;
    for (int rank = 0; rank < kRanks; ++rank) {
      listeners.push_back(listen_for_links("127.0.0.1:1", "", false).value());
      all.push_back({listeners.back().front().address});
    }
    std::vector<HostLinks> linked(kRanks);
    std::vector<std::thread> threads;
    const std::int64_t deadline_us = now_us() + 2'000'000;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == silent) continue;  // it listens, as a stopped process does
      threads.emplace_back([&, rank] {
        const auto at = static_cast<std::size_t>(rank);
        std::vector<Addresses> addresses = all;
        addresses[at].clear();
        linked[at] = connect_links({rank, 5, "token", deadline_us}, listeners[at], 1, addresses);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == silent) continue;
      const HostLinks& own = linked[static_cast<std::size_t>(rank)];
      REQUIRE(own.failure.has_value());
      const std::string named = fmt::format("has no link to rank {} at {} (", silent,
                                            all[static_cast<std::size_t>(silent)].front());
      EXPECT(own.failure->message.contains(named));
      EXPECT(own.failure->peer.missing == std::vector{silent});
      for (const auto& sockets : own.sockets) {
        for (const int socket : sockets) const Socket closed(socket);
      }
    }
  }
}

}  // namespace
}  // namespace diji::collective
