// ThreadPool: every index once, workers apart, calls from inside a body, callers at the same time, sleeping
// workers.
#include "base/thread_pool.h"

#include "tests/unit/expect.h"

#include <atomic>
#include <chrono>
#include <limits>
#include <set>
#include <thread>
#include <vector>

namespace diji {
namespace {

constexpr int kThreads[] = {1, 2, 3, 7};

TEST_CASE("every index is visited once, in blocks of at most the grain") {
  for (const int threads : kThreads) {
    ThreadPool pool(threads);
    EXPECT(pool.threads() == threads);
    for (const std::int64_t count : {1, 2, 63, 64, 65, 1000}) {
      for (const std::int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
        std::atomic<int> wrong = 0;
        pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
          if (begin >= end || end - begin > grain || worker < 0 || worker >= threads) ++wrong;
          for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        for (const auto& visit : visits) wrong += visit == 1 ? 0 : 1;
        CAPTURE(threads);
        CAPTURE(count);
        CAPTURE(grain);
        EXPECT(wrong == 0);
      }
    }
  }
}

TEST_CASE("nothing to do calls nothing; wrong arguments are the programmer's mistake") {
  ThreadPool pool(2);
  pool.parallel_for(0, 1, [](std::int64_t, std::int64_t, int) { EXPECT(false); });
  ThreadPool alone(1);
  EXPECT(test::aborts([&alone] { alone.parallel_for(-1, 1, [](std::int64_t, std::int64_t, int) {}); }));
  EXPECT(test::aborts([&alone] { alone.parallel_for(1, 0, [](std::int64_t, std::int64_t, int) {}); }));
  EXPECT(test::aborts([] { const ThreadPool none(0); }));
}

TEST_CASE("a count near the end of the range does not overflow") {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  ThreadPool pool(3);
  std::atomic<std::uint64_t> total = 0;
  std::atomic<int> blocks = 0;
  pool.parallel_for(kMax, kMax / 3, [&](std::int64_t begin, std::int64_t end, int) {
    total += static_cast<std::uint64_t>(end - begin);
    ++blocks;
  });
  EXPECT(total == static_cast<std::uint64_t>(kMax));
  EXPECT(blocks == 4);
}

TEST_CASE("a worker's number is its own while a body runs, so scratch memory by worker is safe") {
  for (const int threads : kThreads) {
    ThreadPool pool(threads);
    std::vector<std::int64_t> scratch(static_cast<std::size_t>(threads));  // unguarded: TSan would see a race
    for (int launch = 0; launch < 200; ++launch) {
      pool.parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
        scratch[static_cast<std::size_t>(worker)] += end - begin;
      });
    }
    std::int64_t total = 0;
    for (const std::int64_t part : scratch) total += part;
    EXPECT(total == 200 * 100);
  }
}

TEST_CASE("workers take part") {
  ThreadPool pool(3);
  std::atomic<int> arrived = 0;
  std::atomic<int> workers_seen = 0;
  // Each of three blocks waits until all have begun: one thread alone would never return.
  pool.parallel_for(3, 1, [&](std::int64_t, std::int64_t, int worker) {
    workers_seen |= 1 << worker;
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
  });
  EXPECT(workers_seen == 7);
}

TEST_CASE("a call from inside a body runs on the calling thread under the same worker") {
  for (const int threads : kThreads) {
    ThreadPool pool(threads);
    std::atomic<std::int64_t> inner_total = 0;
    std::atomic<int> wrong = 0;
    pool.parallel_for(40, 1, [&](std::int64_t, std::int64_t, int outer) {
      const auto thread = std::this_thread::get_id();
      pool.parallel_for(25, 4, [&](std::int64_t begin, std::int64_t end, int inner) {
        if (inner != outer || std::this_thread::get_id() != thread || end - begin > 4) ++wrong;
        pool.parallel_for(2, 1,
                          [&](std::int64_t, std::int64_t, int third) { wrong += third == outer ? 0 : 1; });
        inner_total += end - begin;
      });
    });
    EXPECT(wrong == 0);
    EXPECT(inner_total == 40 * 25);
  }
}

TEST_CASE("a body may use another pool, which is a pool of its own") {
  ThreadPool outer(2);
  ThreadPool inner(2);
  std::atomic<std::int64_t> total = 0;
  outer.parallel_for(8, 1, [&](std::int64_t, std::int64_t, int) {
    inner.parallel_for(10, 1, [&](std::int64_t begin, std::int64_t end, int) { total += end - begin; });
  });
  EXPECT(total == 8 * 10);
}

TEST_CASE("several callers are served one after the other") {
  ThreadPool pool(3);
  constexpr int kCallers = 4;
  constexpr int kLaunches = 300;
  std::atomic<int> inside = 0;
  std::atomic<int> wrong = 0;
  std::atomic<std::int64_t> total = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int launch = 0; launch < kLaunches; ++launch) {
        std::atomic<std::int64_t> mine = 0;
        pool.parallel_for(1 + caller * 16, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
          const int bit = 1 << worker;
          if ((inside.fetch_or(bit) & bit) != 0) ++wrong;  // two bodies under one worker's number
          mine += end - begin;
          inside.fetch_and(~bit);
        });
        wrong += mine == 1 + caller * 16 ? 0 : 1;
        total += mine;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT(wrong == 0);
  EXPECT(total == kLaunches * (1 + 17 + 33 + 49));
}

TEST_CASE("workers that fell asleep wake up, and idle pools end") {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // far beyond the spinning time
    std::atomic<int> arrived = 0;
    pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t, int) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT(arrived == 2);
  }
  for (int i = 0; i < 50; ++i) const ThreadPool unused(3);
}

}  // namespace
}  // namespace diji
