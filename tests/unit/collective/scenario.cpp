// Worlds, programs and faults as dice.
#include "tests/unit/collective/scenario.h"

#include <algorithm>
#include <array>

namespace diji::collective {
namespace {

constexpr std::array<std::string_view, kSimulatedFaultCount> kFaultNames = {
    "none",     "kill", "stop",        "late",  "leave", "abort",
    "mismatch", "cut",  "cut one way", "stall", "flip",  "reset"};

bool binds_blocks(Operation operation) {
  return operation == Operation::all_gather || operation == Operation::reduce_scatter ||
         operation == Operation::gather || operation == Operation::scatter;
}

// Around none, one and several slots and frames.
std::int64_t draw_count(Random& random, int world, ElementType type, std::int64_t slot_bytes) {
  const std::int64_t slot = slot_bytes / bytes_of(type);
  const std::array<std::int64_t, 8> counts = {0, 1, 3, 17, slot, slot + 1, 2 * slot + 3, random.below(400)};
  return std::min<std::int64_t>(random.of(std::span<const std::int64_t>(counts)),
                                6'000 / (world * world) + 20);
}

CallCase draw_case(Random& random, const WorldShape& shape, std::int64_t slot_bytes) {
  const int world = shape.ranks;
  CallCase c;
  c.operation = static_cast<Operation>(random.below(kOperationCount));
  if (c.operation == Operation::receive) c.operation = Operation::send;
  do {
    c.type = static_cast<ElementType>(random.below(kElementTypeCount));
    c.reduction =
        reduces(c.operation) ? static_cast<Reduction>(random.below(kReductionCount)) : Reduction::sum;
    // The reference of an 8-bit float takes longer than all the rest.
  } while (!supports(c.reduction, c.type) ||
           (bytes_of(c.type) == 1 && is_floating(c.type) && !random.one_in(8)));
  if (c.operation == Operation::send) c.type = ElementType::i32;
  c.count = draw_count(random, world, c.type, slot_bytes);
  if (c.operation == Operation::send) return c;
  if (has_root(c.operation)) c.root = static_cast<int>(random.below(world));
  c.in_place = random.one_in(3);
  c.ragged = binds_blocks(c.operation) && random.one_in(3);
  c.exact = reduces(c.operation) && random.one_in(4);
  c.reals = c.exact && is_floating(c.type);
  if (c.exact) return c;
  std::vector<std::string_view> names = {""};
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.operation != c.operation || (c.ragged && algorithm.equal_counts)) continue;
    if (algorithm.supports(
            {.operation = c.operation, .world = world, .root = c.root, .node_ranks = shape.node_ranks}))
      names.push_back(algorithm.name);
  }
  c.algorithm = random.of(std::span<const std::string_view>(names));
  return c;
}

// What another call can be that all can notice.
Difference draw_difference(Random& random, const CallCase& c) {
  std::vector<Difference> differences = {Difference::operation};
  const bool plain = c.operation != Operation::barrier && c.operation != Operation::send && !c.ragged;
  if (plain) differences.push_back(Difference::count);
  if (plain && c.count > 0) {  // empty calls send nothing that could differ
    differences.push_back(Difference::type);
    if (has_root(c.operation)) differences.push_back(Difference::root);
    if (reduces(c.operation)) differences.push_back(Difference::reduction);
  }
  return random.of(std::span<const Difference>(differences));
}

std::vector<int> far_from(const Scenario& s, int victim) {  // ranks of other hosts
  std::vector<int> far;
  for (int rank = 0; rank < s.world(); ++rank) {
    if (s.hosts[static_cast<std::size_t>(rank)] != s.hosts[static_cast<std::size_t>(victim)])
      far.push_back(rank);
  }
  return far;
}

void draw_second(Random& random, Scenario& s) {
  s.second_victim = static_cast<int>((s.victim + 1 + random.below(s.world() - 1)) % s.world());
  std::vector<SimulatedFault> faults = {SimulatedFault::kill, SimulatedFault::kill, SimulatedFault::abort};
  const std::vector<int> far = far_from(s, s.second_victim);
  if (!far.empty()) {
    s.second_other = random.of(std::span<const int>(far));
    faults.insert(faults.end(), {SimulatedFault::cut, SimulatedFault::reset});
  }
  s.second = random.of(std::span<const SimulatedFault>(faults));
  constexpr std::array<std::int64_t, 4> kAfterUs = {1, 300, 30'000, 800'000};
  s.second_after_us = random.below(random.of(std::span<const std::int64_t>(kAfterUs)));
}

void draw_fault(Random& random, Scenario& s) {
  std::vector<SimulatedFault> faults = {SimulatedFault::none,  SimulatedFault::kill,    SimulatedFault::kill,
                                        SimulatedFault::stop,  SimulatedFault::late,    SimulatedFault::leave,
                                        SimulatedFault::abort, SimulatedFault::mismatch};
  s.victim = static_cast<int>(random.below(s.world()));
  const std::vector<int> far = far_from(s, s.victim);
  if (!far.empty()) {
    s.other = random.of(std::span<const int>(far));
    faults.insert(faults.end(), {SimulatedFault::cut, SimulatedFault::cut_one_way, SimulatedFault::stall,
                                 SimulatedFault::flip, SimulatedFault::reset});
  }
  s.fault = random.of(std::span<const SimulatedFault>(faults));
  s.call = static_cast<int>(random.below(std::ssize(s.program)));
  s.message = random.one_in(3) ? 0 : static_cast<int>(random.below(random.one_in(2) ? 4 : 40));
  s.difference = draw_difference(random, s.program[static_cast<std::size_t>(s.call)]);
  constexpr std::int64_t kDeadlineUs = 1'500'000;
  constexpr std::int64_t kShortUs = 400'000;
  const bool passes = random.one_in(2);
  switch (s.fault) {
    case SimulatedFault::stop:
    case SimulatedFault::late:
    case SimulatedFault::stall:
      s.lasts_us = 1 + random.below(kShortUs);
      if (passes) break;
      s.timeout_us = kDeadlineUs;
      s.lasts_us = 2 * kDeadlineUs + random.below(1'000'000);
      break;
    case SimulatedFault::cut:
    case SimulatedFault::cut_one_way: s.lasts_us = passes ? 1 + random.below(kShortUs) : 0; break;
    case SimulatedFault::flip:
      s.flip_at = static_cast<std::uint64_t>(random.below(random.one_in(2) ? 200 : 3'000));
      s.flip_bit = static_cast<int>(random.below(8));
      break;
    default: break;
  }
  if (!s.passes() && random.one_in(4)) draw_second(random, s);
}

}  // namespace

std::string_view name_of(SimulatedFault fault) { return kFaultNames[static_cast<std::size_t>(fault)]; }

bool Scenario::passes() const {
  switch (fault) {
    case SimulatedFault::none: return true;
    case SimulatedFault::stop:
    case SimulatedFault::late:
    case SimulatedFault::stall: return lasts_us < timeout_us;
    case SimulatedFault::cut:
    case SimulatedFault::cut_one_way: return lasts_us > 0;
    default: return false;
  }
}

Scenario draw_scenario(std::uint64_t seed) {
  Random random(seed);
  Scenario s{.seed = seed};
  const int world = static_cast<int>(2 + (random.one_in(3) ? random.below(8) : random.below(4)));
  const std::int64_t hosts = 1 + random.below(std::min(world, 3));
  // Where hosts are alike there are plans of their own.
  const bool alike = world % hosts == 0 && random.one_in(2);
  for (int rank = 0; rank < world; ++rank)
    s.hosts.push_back(static_cast<int>(alike ? rank * hosts / world : random.below(hosts)));
  std::vector<int> used;  // hosts without gaps, in the order of their first ranks
  for (int& host : s.hosts) {
    auto place = std::ranges::find(used, host);
    if (place == used.end()) place = used.insert(used.end(), host);
    host = static_cast<int>(place - used.begin());
  }
  constexpr std::array<std::int64_t, 3> kSlots = {256, 512, 1024};
  s.slot_bytes = random.of(std::span<const std::int64_t>(kSlots));
  s.frame_bytes = random.of(std::span<const std::int64_t>(kSlots));
  s.pair_slots = static_cast<int>(2 + random.below(2));
  s.shared_slots = static_cast<int>(random.below(4));
  constexpr std::array<std::int64_t, 4> kLatencies = {0, 20, 200, 5'000};
  constexpr std::array<std::int64_t, 3> kBuffers = {700, 3'000, 60'000};
  s.network = {.latency_us = random.of(std::span<const std::int64_t>(kLatencies)),
               .jitter_us = random.of(std::span<const std::int64_t>(kLatencies)),
               .buffer_bytes = static_cast<std::size_t>(random.of(std::span<const std::int64_t>(kBuffers))),
               .short_pieces = random.one_in(2)};
  s.hiccup_us = std::array<std::int64_t, 4>{0, 0, 300, 20'000}[static_cast<std::size_t>(random.below(4))];
  s.patience = {.spins = static_cast<int>(random.below(3)), .yields = static_cast<int>(random.below(6))};
  const std::int64_t calls = 1 + random.below(6);
  std::vector<std::string> machines;
  for (const int host : s.hosts) machines.push_back(fmt::format("host{}", host));
  for (std::int64_t i = 0; i < calls; ++i)
    s.program.push_back(draw_case(random, shape_of(machines), std::min(s.slot_bytes, s.frame_bytes)));
  draw_fault(random, s);
  return s;
}

std::string text_of(const Scenario& s) {
  std::string text = fmt::format(
      "seed {}: hosts {}, slots {}/{}/{}, frames {}, latency {}+{}, buffers {}{}, hiccups {}; "
      "timeout {:.1f} s; {}",
      s.seed, fmt::join(s.hosts, " "), s.slot_bytes, s.pair_slots, s.shared_slots, s.frame_bytes,
      s.network.latency_us, s.network.jitter_us, s.network.buffer_bytes,
      s.network.short_pieces ? ", short pieces" : "", s.hiccup_us, static_cast<double>(s.timeout_us) / 1e6,
      name_of(s.fault));
  if (s.fault == SimulatedFault::none) {
  } else if (s.fault == SimulatedFault::flip) {
    text += fmt::format(" of byte {} from rank {} to {}", s.flip_at, s.victim, s.other);
  } else {
    text += fmt::format(" of rank {} (other {}) in call {} after {} messages", s.victim, s.other, s.call,
                        s.message);
    if (s.fault == SimulatedFault::mismatch)
      text += fmt::format(", difference {}", static_cast<int>(s.difference));
    if (s.lasts_us > 0) text += fmt::format(", for {} us", s.lasts_us);
  }
  if (s.second != SimulatedFault::none) {
    text += fmt::format(", {} us later {} of rank {} (other {})", s.second_after_us, name_of(s.second),
                        s.second_victim, s.second_other);
  }
  for (const CallCase& c : s.program) text += "; " + text_of(c);
  return text;
}

}  // namespace diji::collective
