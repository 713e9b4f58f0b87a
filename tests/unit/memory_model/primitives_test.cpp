// What orders the ranks' shared memory, in every execution that the memory model permits; and each order and
// fence of it made weaker, which must be found.
#include "collective/channel.h"
#include "collective/doorbell.h"
#include "collective/host_segment.h"
#include "collective/record_ring.h"
#include "collective/reduce.h"
#include "collective/shrink_decision.h"
#include "collective/write_once.h"
#include "tests/unit/expect.h"
#include "tests/unit/memory_model/explorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <string_view>

namespace diji::memory_model {
namespace {

using collective::BasicDoorbell;
using collective::BasicWriteOnce;
using collective::Board;
using collective::Inbox;
using collective::Outbox;
using collective::RecordRing;
using collective::SharedSlots;

struct Line {
  Atomic<std::uint32_t> sequence = 0;
  Plain<int> payload;
  Plain<int> slot;
};
template <std::uint32_t ShortOnes>
struct BasicChannel {
  static constexpr std::uint32_t kLines = 2;
  static constexpr std::uint32_t kShortOnes = ShortOnes;
  Atomic<std::uint64_t> consumed = 0;
  std::array<Line, kLines> lines;
};
using Channel = BasicChannel<1>;

// Short messages, twice as many as there are lines.
Program lines() {
  struct Memory {
    Channel channel;
    Outbox<Channel> out{channel, 0};
    Inbox<Channel> in{channel};
  };
  constexpr int kMessages = 6;
  const auto m = std::make_shared<Memory>();
  Program program;
  program.threads.emplace_back([m] {
    for (int i = 0; i < kMessages; ++i) {
      await(m->out.has_room());
      m->out.line().payload = i;
      m->out.publish();
    }
  });
  program.threads.emplace_back([m] {
    for (int i = 0; i < kMessages; ++i) {
      const Line* line = m->in.peek();
      await(line != nullptr);
      require(line->payload == i, "each message once, in order");
      m->in.release(false);
    }
  });
  return program;
}

// Messages in slots of the pair, written with streaming stores.
Program pair_slots(int slots) {
  struct Memory {
    explicit Memory(int count) : out(channel, count) {}
    Channel channel;
    std::array<Plain<int>, 2> slots;
    Outbox<Channel> out;
    Inbox<Channel> in{channel};
  };
  constexpr int kMessages = 5;
  const auto m = std::make_shared<Memory>(slots);
  Program program;
  program.threads.emplace_back([m] {
    for (int i = 0; i < kMessages; ++i) {
      await(m->out.has_room());
      const auto slot = m->out.take_slot();
      await(slot.has_value());
      m->slots[static_cast<std::size_t>(*slot)].stream(i);
      collective::order<Machine>(collective::Store::streaming);
      m->out.line().slot = *slot;
      m->out.publish();
    }
  });
  program.threads.emplace_back([m] {
    for (int i = 0; i < kMessages; ++i) {
      const Line* line = m->in.peek();
      await(line != nullptr);
      require(m->slots[static_cast<std::size_t>(line->slot)] == i, "the slot of the message");
      m->in.release(false);
    }
  });
  return program;
}

// Two senders stream to one receiver, which folds what both sent.
Program fan_in() {
  struct Memory {
    std::array<Channel, 2> channels;
    std::array<Plain<int>, 2> slots;
    std::array<Outbox<Channel>, 2> out{Outbox(channels[0], 1), Outbox(channels[1], 1)};
    std::array<Inbox<Channel>, 2> in{Inbox(channels[0]), Inbox(channels[1])};
  };
  constexpr int kMessages = 2;
  const auto m = std::make_shared<Memory>();
  Program program;
  program.threads.emplace_back([m] {
    for (int i = 0; i < kMessages; ++i) {
      for (Inbox<Channel>& in : m->in) await(in.peek() != nullptr);
      require(m->slots[0] + m->slots[1] == 2 * i, "both slots of the message");
      for (Inbox<Channel>& in : m->in) in.release(false);
    }
  });
  for (std::size_t sender = 0; sender < 2; ++sender) {
    program.threads.emplace_back([m, sender] {
      Outbox<Channel>& out = m->out[sender];
      for (int i = 0; i < kMessages; ++i) {
        await(out.has_room());
        await(out.take_slot().has_value());
        m->slots[sender].stream(i);
        collective::order<Machine>(collective::Store::streaming);
        out.publish();
      }
    });
  }
  return program;
}

// Slots that two receivers read: a message to each of them refers to the same one.
Program shared_slots(int slots) {
  struct Memory {
    explicit Memory(int count) : taken(count) {}
    std::array<Channel, 2> channels;
    std::array<Plain<int>, 2> slots;
    std::array<Outbox<Channel>, 2> out{Outbox(channels[0], 0), Outbox(channels[1], 0)};
    std::array<Inbox<Channel>, 2> in{Inbox(channels[0]), Inbox(channels[1])};
    SharedSlots taken;
  };
  constexpr int kMessages = 3;
  const auto m = std::make_shared<Memory>(slots);
  Program program;
  program.threads.emplace_back([m] {
    constexpr int kPeers[] = {0, 1};
    for (int i = 0; i < kMessages; ++i) {
      for (Outbox<Channel>& out : m->out) await(out.has_room());
      const auto slot =
          m->taken.take(kPeers, [&](int peer) -> auto& { return m->out[static_cast<std::size_t>(peer)]; });
      await(slot.has_value());
      m->slots[static_cast<std::size_t>(*slot)] = i;
      for (Outbox<Channel>& out : m->out) {
        out.line().slot = *slot;
        out.publish();
      }
    }
  });
  for (std::size_t receiver = 0; receiver < 2; ++receiver) {
    program.threads.emplace_back([m, receiver] {
      Inbox<Channel>& in = m->in[receiver];
      for (int i = 0; i < kMessages; ++i) {
        const Line* line = in.peek();
        await(line != nullptr);
        require(m->slots[static_cast<std::size_t>(line->slot)] == i, "the slot of the message");
        in.release(false);
      }
    });
  }
  return program;
}

// The fence that ThreadSanitizer knows (collective/processor.h).
struct SanitizedMachine : Machine {
  static void full_fence(Atomic<std::uint32_t>& word) { word.fetch_add(0, std::memory_order_acq_rel); }
};

// Of each ringer so many things come; the sleeper looks for them one after the other, as a call does.
template <typename Machine>
Program doorbell(std::size_t ringers, std::uint32_t things) {
  struct Memory {
    BasicDoorbell<Machine> bell;
    std::array<Atomic<std::uint32_t>, 2> there;
  };
  const auto m = std::make_shared<Memory>();
  Program program;
  program.threads.emplace_back([m, ringers, things] {
    for (std::uint32_t thing = 1; thing <= things; ++thing) {
      for (std::size_t ringer = 0; ringer < ringers; ++ringer) {
        const auto has_come = [&] { return m->there[ringer].load(std::memory_order_acquire) >= thing; };
        if (has_come()) continue;
        while (true) {
          const std::uint32_t announced = m->bell.announce();
          if (has_come()) break;
          m->bell.sleep(announced, 0);
        }
        m->bell.withdraw();
      }
    }
  });
  for (std::size_t ringer = 0; ringer < ringers; ++ringer) {
    program.threads.emplace_back([m, ringer, things] {
      for (std::uint32_t thing = 1; thing <= things; ++thing) {
        m->there[ringer].store(thing, std::memory_order_release);
        m->bell.ring();
      }
    });
  }
  return program;
}

// Both ends of a channel sleep: one for room, one for messages, all of them short.
template <typename Channel>
Program two_bells() {
  struct Memory {
    Channel channel;
    Outbox<Channel> out{channel, 0};
    Inbox<Channel> in{channel};
    BasicDoorbell<Machine> sender, receiver;
  };
  constexpr int kMessages = 3;
  const auto sleep_until = [](BasicDoorbell<Machine>& bell, const auto& look) {
    if (look()) return;
    while (true) {
      const std::uint32_t announced = bell.announce();
      if (look()) return bell.withdraw();
      bell.sleep(announced, 0);
    }
  };
  const auto m = std::make_shared<Memory>();
  Program program;
  program.threads.emplace_back([m, sleep_until] {
    for (int i = 0; i < kMessages; ++i) {
      sleep_until(m->sender, [&] { return m->out.has_room(); });
      m->out.line().payload = i;
      m->out.publish();
      m->receiver.ring();
    }
  });
  program.threads.emplace_back([m, sleep_until] {
    for (int i = 0; i < kMessages; ++i) {
      sleep_until(m->receiver, [&] { return m->in.peek() != nullptr; });
      require(m->in.oldest().payload == i, "each message once, in order");
      if (m->in.release(true)) m->sender.ring();
    }
  });
  return program;
}

Program write_once() {
  struct Memory {
    BasicWriteOnce<Machine> once;
    Plain<int> guilty = -1;
    std::array<int, 3> seen{};
    int claims = 0;
  };
  const auto m = std::make_shared<Memory>();
  Program program;
  for (int rank = 0; rank < 3; ++rank) {
    program.threads.emplace_back([m, rank] {
      if (m->once.claim()) {
        ++m->claims;
        m->guilty = rank;
        m->once.publish();
        require(m->once.is_claimed(), "claimed");
      }
      await(m->once.is_published());
      m->seen[static_cast<std::size_t>(rank)] = m->guilty;
    });
  }
  program.at_end = [m] {
    require(m->claims == 1, "one writes");
    require(m->seen[0] == m->seen[1] && m->seen[1] == m->seen[2], "all read the same");
  };
  return program;
}

// Two ranks give up, one of which then writes to its registered memory; a third has read it in place, and
// looks afterwards whether that was before. The memory is of atomics here, for the race is what it is about.
Program giving_up(bool rings) {
  struct Memory {
    BasicWriteOnce<Machine> failure;
    BasicDoorbell<Machine> bell;
    Atomic<std::uint32_t> registered = 0;
  };
  const auto m = std::make_shared<Memory>();
  const auto give_up = [m, rings] {
    if (m->failure.claim()) m->failure.publish();
    if (rings) m->bell.ring();
  };
  Program program;
  program.threads.emplace_back(give_up);
  program.threads.emplace_back([m, give_up] {
    give_up();
    m->registered.store(1, std::memory_order_relaxed);
  });
  program.threads.emplace_back([m] {
    const std::uint32_t read = m->registered.load(std::memory_order_relaxed);
    if (m->failure.was_unclaimed()) require(read == 0, "what was there before anybody gave up");
  });
  return program;
}

struct Segment {
  struct OneBoard {
    Atomic<std::uint32_t> state = Board::kPresent;
    Atomic<std::uint32_t> shrinking = 0;
  };
  struct Decision {
    BasicWriteOnce<Machine> once;
    Plain<std::uint64_t> survivors[1];
  };
  explicit Segment(int count) : ranks(count) {}
  const OneBoard& board(int local) const { return boards[static_cast<std::size_t>(local)]; }
  collective::SegmentShape shape() const { return {.ranks = ranks}; }
  Decision& shrink_decision() const { return decision; }

  int ranks;
  std::array<OneBoard, 3> boards;
  mutable Decision decision;
  std::array<std::uint64_t, 3> seen{};
};

// All come; or the last one is dead, whom the others may have found too late already.
Program shrink(bool last_dies) {
  constexpr int kRanks = 3;
  const auto m = std::make_shared<Segment>(kRanks);
  const int alive = last_dies ? kRanks - 1 : kRanks;
  Program program;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(alive); ++rank) {
    program.threads.emplace_back([m, rank, last_dies] {
      m->boards[rank].shrinking.store(1, std::memory_order_relaxed);
      await(collective::decide_survivors(*m, last_dies && either()));
      m->seen[rank] = m->decision.survivors[0];
    });
  }
  if (last_dies) {
    program.threads.emplace_back(
        [m] { m->boards[kRanks - 1].state.store(Board::kDead, std::memory_order_relaxed); });
  }
  program.at_end = [m, alive, last_dies] {
    for (int rank = 1; rank < alive; ++rank)
      require(m->seen[static_cast<std::size_t>(rank)] == m->seen[0], "all go on with the same");
    require(m->seen[0] < 1U << alive && (last_dies || m->seen[0] == 7), "with those who came");
  };
  return program;
}

// A record says its number twice, and later that number times ten.
template <std::uint32_t Records>
Program records(std::uint64_t adds, int tries) {
  using Ring = RecordRing<Atomic, 3, Records>;
  const auto m = std::make_shared<Ring>();
  Program program;
  program.threads.emplace_back([m, adds] {
    for (std::uint64_t number = 1; number <= adds; ++number) {
      m->add({number, number, 0});
      m->change_latest(2, number * 10);
    }
  });
  program.threads.emplace_back([m, tries] {
    const std::uint32_t count = m->count();
    for (std::uint32_t i = count - std::min(count, Records); i < count; ++i) {
      const auto record = m->read(i, tries);
      if (!record) continue;
      const auto [number, again, changed] = *record;
      require(number == again && (changed == 0 || changed == number * 10), "words of one record");
      require(number > i && (number - 1) % Records == i % Records,
              "that record, or a later one in its place");
    }
  });
  return program;
}

struct Primitive {
  std::string_view name;
  std::vector<std::function<Program()>> programs;
};

std::vector<Primitive> primitives() {
  return {
      {"lines of a channel", {lines}},
      {"slots of a pair, streamed", {[] { return pair_slots(1); }, [] { return pair_slots(2); }, fan_in}},
      {"slots for several", {[] { return shared_slots(1); }, [] { return shared_slots(2); }}},
      {"doorbell", {[] { return doorbell<Machine>(1, 2); }, [] { return doorbell<Machine>(2, 1); }}},
      {"doorbell, sanitized",
       {[] { return doorbell<SanitizedMachine>(1, 2); }, [] { return doorbell<SanitizedMachine>(2, 1); }}},
      {"channel with doorbells", {two_bells<BasicChannel<2>>}},
      {"write once", {write_once}},
      {"giving up", {[] { return giving_up(true); }}},
      {"shrink decision", {[] { return shrink(false); }, [] { return shrink(true); }}},
      {"flight recorder", {[] { return records<1>(3, 2); }, [] { return records<2>(3, 2); }}},
  };
}

std::string_view name_of(Strength strength) {
  switch (strength) {
    case Strength::acquire: return "acquire";
    case Strength::release: return "release";
    case Strength::full_fence: return "full fence";
    case Strength::acquire_fence: return "acquire fence";
    default: return "streaming fence";
  }
}
bool is_of_collective(const Weakening& order) {
  return std::string_view(order.site.file).find("unit/memory_model/") == std::string_view::npos;
}

struct Proof {
  std::string_view name;
  std::uint64_t executions = 0;
  std::uint64_t states = 0;
  double seconds = 0;
  std::vector<Weakening> met;
  std::vector<Weakening> caught;
};

bool is_in(const std::vector<Weakening>& orders, const Weakening& order) {
  return std::ranges::find(orders, order) != orders.end();
}

Proof prove(const Primitive& primitive) {
  const auto begin = std::chrono::steady_clock::now();
  Proof proof;
  proof.name = primitive.name;
  for (const auto& program : primitive.programs) {
    const Report report = explore(program);
    REQUIRE_MESSAGE(report.fault.empty(), primitive.name, ": ", report.fault);
    REQUIRE(report.executions > 0);
    proof.executions += report.executions;
    proof.states += report.states;
    for (const Weakening& order : report.orders) {
      if (is_of_collective(order) && !is_in(proof.met, order)) proof.met.push_back(order);
    }
  }
  std::ranges::copy_if(proof.met, std::back_inserter(proof.caught), [&](const Weakening& order) {
    return std::ranges::any_of(primitive.programs,
                               [&](const auto& program) { return !explore(program, order).fault.empty(); });
  });
  proof.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return proof;
}

TEST_CASE("primitives hold in every execution, and would not with any order or fence less") {
  std::vector<Proof> proofs;
  std::vector<Weakening> met, caught;
  for (const Primitive& primitive : primitives()) {
    proofs.push_back(prove(primitive));
    const Proof& proof = proofs.back();
    met.insert(met.end(), proof.met.begin(), proof.met.end());
    caught.insert(caught.end(), proof.caught.begin(), proof.caught.end());
  }
  // What one primitive does not need of an order that it shares, another does.
  std::string table = fmt::format("{:<28} {:>10} {:>9} {:>16} {:>8}\n", "primitive", "executions", "states",
                                  "weaker: caught", "s");
  for (const Proof& proof : proofs) {
    std::size_t missed = 0;
    for (const Weakening& order : proof.met) {
      if (is_in(caught, order)) continue;
      ++missed;
      MESSAGE(fmt::format("{} holds without the {} at {}:{}:{}", proof.name, name_of(order.without),
                          order.site.file, order.site.line, order.site.column));
    }
    EXPECT(missed == 0);
    table += fmt::format("{:<28} {:>10} {:>9} {:>9} of {:>3} {:>8.2f}\n", proof.name, proof.executions,
                         proof.states, proof.caught.size(), proof.caught.size() + missed, proof.seconds);
  }
  MESSAGE(table);
  // No order is written there that no program above has come past.
  const std::regex ordered("memory_order_(acquire|release|acq_rel|seq_cst)|::[a-z]+_fence\\(");
  for (const std::string_view name :
       {"channel.h", "doorbell.h", "record_ring.h", "reduce.h", "shrink_decision.h", "write_once.h"}) {
    std::ifstream file(fmt::format("{}/collective/{}", DIJI_SOURCE_DIR, name));
    std::string text;
    std::uint32_t line = 0;
    for (line = 1; std::getline(file, text); ++line) {
      if (!std::regex_search(text, ordered)) continue;
      INFO(name, ":", line, ": ", text);
      EXPECT(std::ranges::any_of(met, [&](const Weakening& order) {
        return std::string_view(order.site.file).ends_with(name) && order.site.line == line;
      }));
    }
    EXPECT(line > 10);
  }
}

TEST_CASE("a rank that gives up without a ring may be seen to write before it did") {
  EXPECT(!explore([] { return giving_up(false); }).fault.empty());
}

TEST_CASE("a receiver that rings less often than there are lines leaves the sender asleep") {
  const Report report = explore(two_bells<BasicChannel<3>>);
  EXPECT(report.fault.find("a thread sleeps that nobody is left to wake") == 0);
}

}  // namespace
}  // namespace diji::memory_model
