// The explorer against what is known of the memory model: small programs of the literature, all of whose
// outcomes are known.
#include "tests/unit/memory_model/explorer.h"

#include "tests/unit/expect.h"

#include <memory>
#include <set>

namespace diji::memory_model {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

struct Memory {
  Atomic<std::uint32_t> x = 0;
  Atomic<std::uint32_t> y = 0;
  Plain<int> data = 0;
  std::vector<int> seen = std::vector<int>(4);
  void look(std::size_t i, Atomic<std::uint32_t>& at, std::memory_order order = kRelaxed) {
    seen[i] = static_cast<int>(at.load(order));
  }
};
using Body = std::function<void(Memory&)>;
using Outcomes = std::set<std::vector<int>>;

Report play(const std::vector<Body>& bodies, Outcomes* outcomes = nullptr) {
  return explore([&] {
    const auto memory = std::make_shared<Memory>();
    Program program;
    for (const Body& body : bodies) program.threads.emplace_back([memory, body] { body(*memory); });
    program.at_end = [memory, outcomes] {
      if (outcomes != nullptr) outcomes->insert(memory->seen);
    };
    return program;
  });
}
// The first `seen` values of every outcome.
Outcomes outcomes(const std::vector<Body>& bodies, std::size_t seen) {
  Outcomes all;
  const Report report = play(bodies, &all);
  EXPECT(report.fault.empty());
  Outcomes cut;
  for (const auto& one : all) cut.emplace(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(seen));
  return cut;
}
bool happens(const std::vector<Body>& bodies, const std::vector<int>& outcome) {
  return outcomes(bodies, outcome.size()).contains(outcome);
}

Body fenced(const Body& first, const Body& second) {
  return [=](Memory& m) {
    first(m);
    Machine::full_fence(m.x);
    second(m);
  };
}

TEST_CASE("store buffering: both loads may miss, but not past full fences") {
  const Body set_x = [](Memory& m) { m.x.store(1, kRelease); };
  const Body set_y = [](Memory& m) { m.y.store(1, kRelease); };
  const Body see_y = [](Memory& m) { m.look(0, m.y, kAcquire); };
  const Body see_x = [](Memory& m) { m.look(1, m.x, kAcquire); };
  const auto both = [](const Body& first, const Body& second) {
    return [=](Memory& m) {
      first(m);
      second(m);
    };
  };
  EXPECT(outcomes({both(set_x, see_y), both(set_y, see_x)}, 2) == Outcomes{{0, 0}, {0, 1}, {1, 0}, {1, 1}});
  EXPECT(outcomes({fenced(set_x, see_y), fenced(set_y, see_x)}, 2) == Outcomes{{0, 1}, {1, 0}, {1, 1}});
  // A fence on one side only is none.
  EXPECT(happens({fenced(set_x, see_y), both(set_y, see_x)}, {0, 0}));
}

TEST_CASE("message passing: the flag's release and acquire carry the datum, each alone does not") {
  const auto passes = [](std::memory_order store, std::memory_order load) {
    return happens({[=](Memory& m) {
                      m.x.store(1, kRelaxed);
                      m.y.store(1, store);
                    },
                    [=](Memory& m) {
                      m.look(0, m.y, load);
                      m.look(1, m.x);
                    }},
                   {1, 0});
  };
  EXPECT(!passes(kRelease, kAcquire));
  EXPECT(passes(kRelaxed, kAcquire));
  EXPECT(passes(kRelease, kRelaxed));
  EXPECT(
      !happens({fenced([](Memory& m) { m.x.store(1, kRelaxed); }, [](Memory& m) { m.y.store(1, kRelaxed); }),
                fenced([](Memory& m) { m.look(0, m.y); }, [](Memory& m) { m.look(1, m.x); })},
               {1, 0}));
}

TEST_CASE("an acquire fence carries what was read before it from release stores and fences") {
  const auto passes = [](const Body& write, bool fence) {
    return happens({write,
                    [=](Memory& m) {
                      m.look(0, m.y);
                      if (fence) Machine::acquire_fence();
                      m.look(1, m.x);
                    }},
                   {1, 0});
  };
  const Body releases = [](Memory& m) {
    m.x.store(1, kRelaxed);
    m.y.store(1, kRelease);
  };
  const Body relaxed = [](Memory& m) {
    m.x.store(1, kRelaxed);
    m.y.store(1, kRelaxed);
  };
  EXPECT(!passes(releases, true));
  EXPECT(passes(releases, false));
  EXPECT(passes(relaxed, true));
}

TEST_CASE("one location is read in one order") {
  const auto seen = outcomes({[](Memory& m) {
                                m.x.store(1, kRelaxed);
                                m.x.store(2, kRelaxed);
                              },
                              [](Memory& m) {
                                m.look(0, m.x);
                                m.look(1, m.x);
                              }},
                             2);
  EXPECT(seen == Outcomes{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}});
}

TEST_CASE("independent reads of independent writes may disagree on the order, but not past full fences") {
  const Body set_x = [](Memory& m) { m.x.store(1, kRelease); };
  const Body set_y = [](Memory& m) { m.y.store(1, kRelease); };
  const Body x0 = [](Memory& m) { m.look(0, m.x, kAcquire); };
  const Body y1 = [](Memory& m) { m.look(1, m.y, kAcquire); };
  const Body y2 = [](Memory& m) { m.look(2, m.y, kAcquire); };
  const Body x3 = [](Memory& m) { m.look(3, m.x, kAcquire); };
  const auto both = [](const Body& first, const Body& second) {
    return [=](Memory& m) {
      first(m);
      second(m);
    };
  };
  EXPECT(happens({set_x, set_y, both(x0, y1), both(y2, x3)}, {1, 0, 1, 0}));
  EXPECT(!happens({set_x, set_y, fenced(x0, y1), fenced(y2, x3)}, {1, 0, 1, 0}));
}

TEST_CASE("the order of stores is not that of the steps: 2+2W") {
  const auto writes = [](bool fence) {
    return std::vector<Body>{[=](Memory& m) {
                               m.x.store(1, kRelease);
                               if (fence) Machine::full_fence(m.x);
                               m.y.store(2, kRelease);
                             },
                             [=](Memory& m) {
                               m.y.store(1, kRelease);
                               if (fence) Machine::full_fence(m.x);
                               m.x.store(2, kRelease);
                             },
                             [](Memory& m) {
                               m.look(0, m.x);
                               m.look(1, m.x);
                             },
                             [](Memory& m) {
                               m.look(2, m.y);
                               m.look(3, m.y);
                             }};
  };
  EXPECT(happens(writes(false), {2, 1, 2, 1}));
  EXPECT(!happens(writes(true), {2, 1, 2, 1}));
}

TEST_CASE("read-modify-writes are of one piece, and a release goes through them") {
  const Body add = [](Memory& m) { m.x.fetch_add(1, kRelaxed); };
  EXPECT(play({add, add, add}).executions == 6);  // orders of three
  const auto swap = [](std::size_t i) {
    return [i](Memory& m) {
      std::uint32_t none = 0;
      m.seen[i] = m.x.compare_exchange_strong(none, 1, kRelaxed) ? 1 : 0;
    };
  };
  EXPECT(outcomes({swap(0), swap(1)}, 2) == Outcomes{{0, 1}, {1, 0}});
  const Body publish = [](Memory& m) {
    m.data = 1;
    m.x.store(1, kRelease);
  };
  const Body read_at_2 = [](Memory& m) {
    await(m.x.load(kAcquire) == 2);
    require(m.data == 1, "the datum");
  };
  EXPECT(play({publish,
               [](Memory& m) {
                 await(m.x.load(kRelaxed) == 1);
                 m.x.fetch_add(1, kRelaxed);
               },
               read_at_2})
             .fault.empty());
  EXPECT(!play({publish,
                [](Memory& m) {
                  await(m.x.load(kRelaxed) == 1);
                  m.x.store(2, kRelaxed);
                },
                read_at_2})
              .fault.empty());
}

TEST_CASE("each execution is looked at once") {
  const Body set_x = [](Memory& m) { m.x.store(1, kRelaxed); };
  const Body set_y = [](Memory& m) { m.y.store(1, kRelaxed); };
  EXPECT(play({set_x, set_y}).executions == 1);
  EXPECT(play({set_x, set_x, set_x}).executions == 6);
  const Body see_x = [](Memory& m) { m.look(0, m.x); };
  EXPECT(play({set_x, see_x}).executions == 2);
  EXPECT(play({set_x, see_x, [](Memory& m) { m.look(1, m.x); }}).executions == 4);
  // No load returns what is stored later (load buffering is not in the model).
  EXPECT(outcomes({[](Memory& m) {
                     m.look(0, m.x);
                     m.y.store(1, kRelaxed);
                   },
                   [](Memory& m) {
                     m.look(1, m.y);
                     m.x.store(1, kRelaxed);
                   }},
                  2) == Outcomes{{0, 0}, {0, 1}, {1, 0}});
}

TEST_CASE("plain memory: races are faults, order by a flag is none") {
  const Body write = [](Memory& m) { m.data = 1; };
  const Body read = [](Memory& m) { m.seen[0] = m.data; };
  EXPECT(play({read, read}).fault.empty());
  EXPECT(!play({write, read}).fault.empty());
  EXPECT(!play({write, write}).fault.empty());
  const auto passed = [](std::memory_order store, std::memory_order load, bool reads_first) {
    return play({[=](Memory& m) {
                   if (reads_first)
                     m.seen[0] = m.data;
                   else
                     m.data = 1;
                   m.x.store(1, store);
                 },
                 [=](Memory& m) {
                   await(m.x.load(load) == 1);
                   if (reads_first)
                     m.data = 1;
                   else
                     require(m.data == 1, "what was written");
                 }})
        .fault.empty();
  };
  for (const bool reads_first : {false, true}) {
    EXPECT(passed(kRelease, kAcquire, reads_first));
    EXPECT(!passed(kRelaxed, kAcquire, reads_first));
    EXPECT(!passed(kRelease, kRelaxed, reads_first));
  }
  // What is written after the flag is not passed by it.
  EXPECT(!play({[](Memory& m) {
                  m.x.store(1, kRelease);
                  m.data = 1;
                },
                [](Memory& m) {
                  await(m.x.load(kAcquire) == 1);
                  m.seen[0] = m.data;
                }})
              .fault.empty());
}

TEST_CASE("streaming stores: a release does not carry them, a fence before it does") {
  const auto streams = [](bool fence_before, bool fence_after) {
    return play({[=](Memory& m) {
                   m.data.stream(1);
                   require(m.data == 1, "its own store");
                   if (fence_before) Machine::streaming_fence();
                   m.x.store(1, kRelease);
                   if (fence_after) Machine::streaming_fence();
                 },
                 [](Memory& m) {
                   await(m.x.load(kAcquire) == 1);
                   require(m.data == 1, "what was streamed");
                 }})
        .fault.empty();
  };
  EXPECT(streams(true, false));
  EXPECT(!streams(false, false));
  EXPECT(!streams(false, true));
}

TEST_CASE("a futex: who looks after the wake sees the word, who slept before it wakes") {
  const Body waker = [](Memory& m) {
    m.x.store(1, kRelaxed);
    Machine::wake(m.x);
  };
  const Body sleeper = [](Memory& m) { Machine::wait(m.x, 0, 0); };
  EXPECT(play({waker, sleeper}).fault.empty());
  // A wake before the store may come too early.
  EXPECT(!play({[](Memory& m) {
                  Machine::wake(m.x);
                  m.x.store(1, kRelaxed);
                },
                sleeper})
              .fault.empty());
}

}  // namespace
}  // namespace diji::memory_model
