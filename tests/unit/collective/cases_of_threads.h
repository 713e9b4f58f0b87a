// Cases made by ranks as threads, and what was wrong with them.
#pragma once

#include "collective/plan.h"
#include "tests/unit/collective/reference.h"
#include "tests/unit/collective/thread_world.h"
#include "tests/unit/expect.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

namespace diji::collective {

inline std::vector<std::string> problems_of(ThreadWorld& world, const std::vector<CallCase>& cases) {
  std::vector<std::string> problems;
  std::mutex mutex;
  world.run([&](Communicator& communicator) {
    for (const CallCase& call_case : cases) {
      const auto problem = run_case(communicator, call_case);
      if (!problem) continue;
      const std::lock_guard lock(mutex);
      problems.push_back(*problem);
    }
  });
  return problems;
}

/// Says the first five.
inline void expect_none(const std::vector<std::string>& problems) {
  CAPTURE(problems.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(problems.size(), 5); ++i) MESSAGE(problems[i]);
  EXPECT(problems.empty());
}

/// Every algorithm, with messages of a few bytes, and long ones of some fragments of up to 64 KiB.
/// `registered`: some or all sides lie in registered memory, else none.
inline std::vector<CallCase> every_algorithm(int ranks, bool registered) {
  std::vector<CallCase> cases;
  unsigned number = 0;
  for (const Algorithm& algorithm : algorithms()) {
    const PlanRequest request{.operation = algorithm.operation, .world = ranks};
    if (!algorithm.supports(request) || algorithm.operation == Operation::barrier) continue;
    for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
      for (const std::int64_t count : {7, 20'011}) {
        for (const unsigned sides : {15U, 1U + number % 14}) {
          ++number;
          CallCase c{.operation = algorithm.operation, .type = type, .count = count};
          c.reduction = reduces(c.operation) && number % 3 == 0 ? Reduction::average : Reduction::sum;
          c.algorithm = algorithm.name;
          c.root = has_root(c.operation) ? static_cast<int>(number) % ranks : 0;
          c.in_place = number % 2 == 0;
          c.exact = algorithm.name == "direct" && reduces(c.operation) && number % 5 == 0;
          c.ragged = !algorithm.equal_counts && number % 3 == 0 &&
                     (c.operation == Operation::all_gather || c.operation == Operation::reduce_scatter);
          c.registered = registered ? sides : 0;
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

}  // namespace diji::collective
