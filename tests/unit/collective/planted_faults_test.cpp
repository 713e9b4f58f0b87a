// A plan with one planted mistake is caught by the checker, or it is no mistake: then playing it in random
// orders finds nothing either.
#include "tests/unit/collective/played.h"
#include "tests/unit/expect.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

namespace diji::collective {
namespace {

constexpr std::array<std::string_view, 12> kKinds = {
    "dropped", "doubled", "swapped", "earlier", "source chunk",         "target chunk",
    "peer",    "source",  "target",  "payload", "operands of one rank", "operands of all ranks"};

bool hears(const Step& step) {
  return step.action == Action::receive || step.action == Action::receive_reduce ||
         step.action == Action::fold;
}
bool reads(const Step& step, int rank) {
  if (step.action == Action::fold) return step.fold_position(rank) >= 0;
  return step.action != Action::receive;
}

class Planter {
 public:
  Planter(std::vector<Plan>& plans, std::mt19937& random)
      : plans_(plans), random_(random), plan_(plans[below(plans.size())]) {}

  /// Changes something that a step uses; false where the step drawn has nothing of the kind.
  bool plant(std::size_t kind) {
    if (plan_.steps.empty()) return false;
    at_ = below(plan_.steps.size());
    const Step before = plan_.steps[at_];
    switch (kind) {
      case 0: plan_.steps.erase(here()); return true;
      case 1: plan_.steps.insert(here(), before); return true;
      case 2: return swap();
      case 3: return move_earlier();
      case 11: return flip_all();
      default: change(kind, plan_.steps[at_]); return plan_.steps[at_] != before;
    }
  }

 private:
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  int other(int value, int count) {
    return count < 2 ? value
                     : (value + 1 + static_cast<int>(below(static_cast<std::size_t>(count - 1)))) % count;
  }
  Place other(Place place) { return static_cast<Place>(other(static_cast<int>(place), 4)); }
  std::vector<Step>::iterator here() { return plan_.steps.begin() + static_cast<std::ptrdiff_t>(at_); }
  int chunks_of(Place place) const {
    return place == Place::partial   ? plan_.chunks() * plan_.partial_copies
           : place == Place::scratch ? plan_.scratch_chunks
                                     : plan_.chunks();
  }

  // What two steps do, not when.
  bool swap() {
    if (at_ + 1 == plan_.steps.size() || plan_.steps[at_] == plan_.steps[at_ + 1]) return false;
    std::swap(plan_.steps[at_], plan_.steps[at_ + 1]);
    std::swap(plan_.steps[at_].round, plan_.steps[at_ + 1].round);
    return true;
  }
  bool move_earlier() {
    Step& step = plan_.steps[at_];
    const auto first = std::ranges::find(plan_.steps, step.round, &Step::round);
    if (first == plan_.steps.begin()) return false;
    step.round = std::prev(first)->round;
    std::rotate(first, here(), std::next(here()));
    return true;
  }
  bool flip_all() {
    bool any = false;
    for (Plan& plan : plans_) {
      for (Step& step : plan.steps) {
        if (step.action != Action::receive_reduce && step.action != Action::reduce) continue;
        step.incoming_first = !step.incoming_first;
        any = true;
      }
    }
    return any;
  }
  void change(std::size_t kind, Step& step) {
    const bool combines = step.action == Action::receive_reduce || step.action == Action::reduce;
    const bool writes = step.action != Action::send;
    const bool has_source = reads(step, plan_.rank);
    if (kind == 4 && has_source) step.source_chunk = other(step.source_chunk, chunks_of(step.source));
    if (kind == 5 && writes) step.target_chunk = other(step.target_chunk, chunks_of(step.target));
    if (kind == 6 && step.peer >= 0) step.peer = other(step.peer, static_cast<int>(plans_.size()));
    if (kind == 7 && has_source) step.source = other(step.source);
    if (kind == 8 && writes) step.target = other(step.target);
    if (kind == 9 && hears(step)) step.payload = other(step.payload);
    if (kind == 10 && combines) step.incoming_first = !step.incoming_first;
  }

  std::vector<Plan>& plans_;
  std::mt19937& random_;
  Plan& plan_;
  std::size_t at_ = 0;
};

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::vector<Aliasing> aliasings_of(const std::vector<Plan>& plans) {
  const Operation operation = plans[0].request.operation;
  if (operation == Operation::all_to_all || operation == Operation::barrier) return {{}};
  return {{false, false}, {true, false}, {false, true}, {true, true}};
}

bool is_caught(const std::vector<Plan>& plans) {
  return std::ranges::any_of(aliasings_of(plans),
                             [&](Aliasing aliasing) { return !check_plans(plans, aliasing).has_value(); });
}

// What playing them finds, in a few orders of every aliasing.
std::optional<std::string> found(const std::vector<Plan>& plans, std::mt19937& random) {
  for (const Aliasing aliasing : aliasings_of(plans)) {
    for (int order = 0; order < 3; ++order) {
      if (auto problem = play(plans, aliasing, random)) return problem;
    }
  }
  return std::nullopt;
}

PlanRequest draw(const Algorithm& algorithm, std::mt19937& random) {
  const int world = 2 + static_cast<int>(random() % 8);
  return {.operation = algorithm.operation,
          .world = world,
          .root = static_cast<int>(random() % static_cast<unsigned>(world)),
          .slices = 1 + static_cast<int>(random() % 3),
          .node_ranks = 2 + static_cast<int>(random() % 2)};
}

TEST_CASE("every algorithm gives the right result in random orders of its steps") {
  std::mt19937 random(1);
  for (const Algorithm& algorithm : algorithms()) {
    for (int trial = 0; trial < 10; ++trial) {
      const PlanRequest request = draw(algorithm, random);
      if (!algorithm.supports(request)) continue;
      const auto problem = found(plans_of(algorithm, request), random);
      if (problem) MESSAGE(name_of(algorithm.operation), " ", algorithm.name, ": ", *problem);
      EXPECT_FALSE(problem.has_value());
    }
  }
}

TEST_CASE("a plan with one planted mistake is caught, or is as good as before" *
          doctest::test_suite("proof")) {
  const std::uint64_t first = setting("DIJI_TEST_SEED", std::random_device{}());
  const std::uint64_t count = setting("DIJI_TEST_COUNT", 6'000);
  MESSAGE("planted mistakes from DIJI_TEST_SEED=", first, ", DIJI_TEST_COUNT=", count);
  std::array<int, kKinds.size()> planted{};
  std::array<int, kKinds.size()> same{};
  int both = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const Algorithm& algorithm = algorithms()[seed % algorithms().size()];
    const PlanRequest request = draw(algorithm, random);
    if (!algorithm.supports(request)) continue;
    std::vector<Plan> plans = plans_of(algorithm, request);
    const std::size_t kind = random() % kKinds.size();
    if (!Planter(plans, random).plant(kind)) continue;
    ++planted[kind];
    const bool caught = is_caught(plans);
    const auto problem = found(plans, random);
    if (caught) {
      both += problem ? 1 : 0;
      continue;
    }
    ++same[kind];
    if (problem)
      MESSAGE("seed ", seed, ": ", name_of(algorithm.operation), " ", algorithm.name, ", world ",
              request.world, ": not caught: ", kKinds[kind], ": ", *problem);
    EXPECT_FALSE(problem.has_value());
  }
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
    MESSAGE(kKinds[kind], ": ", planted[kind], " planted, ", same[kind], " of them as good as before");
    if (count > 1000) EXPECT(planted[kind] > 0);
  }
  // The second opinion is one: alone it finds most, but not every order of a race.
  const int caught = std::reduce(planted.begin(), planted.end()) - std::reduce(same.begin(), same.end());
  MESSAGE(caught, " caught, ", both, " of them found by playing too");
  EXPECT(both >= caught * 3 / 4);
  // A step that is missing or done twice is always one too few or too many.
  EXPECT(same[0] + same[1] == 0);
}

}  // namespace
}  // namespace diji::collective
