// Whatever one rank does, no other waits past its deadline, gets a wrong result or learns another cause.
#include "collective/bootstrap.h"
#include "collective/handshake.h"
#include "collective/socket_address.h"
#include "tests/unit/collective/fault_trials.h"
#include "tests/unit/collective/reference.h"
#include "tests/unit/collective/thread_world.h"
#include "tests/unit/expect.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

namespace diji::collective {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::int64_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

std::int64_t resident_bytes() {
  malloc_trim(0);  // what other tests have freed must not make room for a leak
  std::ifstream stream("/proc/self/statm");
  std::int64_t pages = 0;
  std::int64_t resident = 0;
  stream >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Start-up as processes do it, and a call, by two ranks.
void meet_and_part() {
  const Socket reserved(reserve_loopback_port().value());
  const std::string address = own_address_of(reserved.descriptor());
  std::vector<std::thread> ranks;
  std::atomic<int> good = 0;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      auto group = join({.rank = rank, .world = 2, .address = address, .host = "here"});
      if (!group) return;
      const auto communicator = Communicator::create(std::move(*group));
      if (communicator && (*communicator)->run({.operation = Operation::barrier})) ++good;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT(good == 2);
}

TEST_CASE("a rank that leaves at once has left nobody without the memory") {
  for (int round = 0; round < 20; ++round) {
    const Socket reserved(reserve_loopback_port().value());
    const std::string address = own_address_of(reserved.descriptor());
    std::vector<std::thread> ranks;
    std::atomic<int> joined = 0;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        if (join({.rank = rank, .world = 3, .address = address, .host = "here", .timeout_us = 5'000'000}))
          ++joined;
      });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT(joined == 3);
  }
}

// DIJI_FAULT_TRIALS=9500 is the long run; DIJI_FAULT_SEED=N with DIJI_FAULT_TRIALS=1 repeats one.
TEST_CASE("fault trials: all ranks end in time, right or with the same first failure") {
  const std::uint64_t first = setting("DIJI_FAULT_SEED", 1);
  const std::uint64_t trials = setting("DIJI_FAULT_TRIALS", 100);
  std::array<int, kFaultCount> drawn{};
  std::uint64_t bad = 0;
  for (std::uint64_t seed = first; seed < first + trials; ++seed) {
    const Trial trial = draw_trial(seed);
    ++drawn[static_cast<std::size_t>(trial.fault)];
    const std::vector<std::string> problems = run_trial(trial);
    if (problems.empty()) continue;
    ++bad;
    MESSAGE(text_of(trial));
    for (const std::string& problem : problems) MESSAGE(problem);
  }
  EXPECT(bad == 0);
  std::printf("fault trials from seed %lu: %lu, of each fault %d %d %d %d %d %d; bad: %lu\n", first, trials,
              drawn[0], drawn[1], drawn[2], drawn[3], drawn[4], drawn[5], bad);
}

TEST_CASE("communicators that come and go leave no descriptor, thread or memory") {
  const std::uint64_t rounds = std::min<std::uint64_t>(setting("DIJI_FAULT_TRIALS", 100), 1'000);
  const std::int64_t descriptors = entries_of("/proc/self/fd");
  const std::int64_t threads = entries_of("/proc/self/task");
  for (int i = 0; i < 20; ++i) meet_and_part();  // what the C library and the allocator keep
  const std::int64_t resident = resident_bytes();
  for (std::uint64_t i = 0; i < rounds; ++i) meet_and_part();
  const std::int64_t until_us = now_us() + 5'000'000;  // watchers end by themselves
  while (now_us() < until_us &&
         (entries_of("/proc/self/task") > threads || entries_of("/proc/self/fd") > descriptors)) {
    std::this_thread::yield();
  }
  const std::int64_t grown = resident_bytes() - resident;
  std::printf("communicators: %lu rounds, %ld descriptors, %ld threads, %ld bytes more\n", rounds,
              entries_of("/proc/self/fd") - descriptors, entries_of("/proc/self/task") - threads, grown);
  EXPECT(entries_of("/proc/self/fd") <= descriptors);
  EXPECT(entries_of("/proc/self/task") <= threads);
#if !defined(__has_feature) || !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
  EXPECT(grown < 2 << 20);  // one of their segments has 4 MiB; sanitizers keep what is freed
#endif
}

// DIJI_BUSY_SECONDS=180 is the long run.
TEST_CASE("sixteen ranks on busy cores: no false alarm") {
  const auto seconds = static_cast<std::int64_t>(setting("DIJI_BUSY_SECONDS", 1));
  std::atomic<bool> over = false;
  std::vector<std::thread> burners;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    burners.emplace_back([&] {
      while (!over) relax();
    });
  }
  std::mutex mutex;
  std::vector<std::string> said;
  CommunicatorOptions options;
  options.warn = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    said.push_back(text);
  };
  std::atomic<std::int64_t> calls = 0;
  const std::int64_t end_us = now_us() + seconds * 1'000'000;
  ThreadWorld(16, options).run([&](Communicator& communicator) {
    for (std::int32_t more = 1; more != 0; ++calls) {
      for (const CallCase& one : {CallCase{.operation = Operation::all_to_all, .count = 100},
                                  CallCase{.operation = Operation::all_reduce, .count = 2'000}}) {
        if (const auto problem = run_case(communicator, one)) options.warn(*problem);
      }
      std::int32_t mine = now_us() < end_us ? 1 : 0;
      const auto agreed = communicator.run({.operation = Operation::all_reduce,
                                            .input = &mine,
                                            .output = &more,
                                            .count = 1,
                                            .type = ElementType::i32,
                                            .reduction = Reduction::min});
      if (!agreed) return options.warn(agreed.error().message);
    }
  });
  over = true;
  for (std::thread& burner : burners) burner.join();
  std::printf("busy cores: %ld rounds of calls of a rank in %ld s\n", calls.load(), seconds);
  for (const std::string& one : said) MESSAGE(one);
  EXPECT(said.empty());
}

}  // namespace
}  // namespace diji::collective
