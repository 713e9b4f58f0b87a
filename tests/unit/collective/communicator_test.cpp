// Every operation on ranks as threads against its definition, and what a failing rank does to the others.
#include "collective/communicator.h"

#include "tests/unit/collective/reference.h"
#include "tests/unit/collective/thread_world.h"
#include "tests/unit/expect.h"

#include <mutex>

namespace diji::collective {
namespace {

std::vector<std::string> problems_of(int world, const std::vector<CallCase>& cases) {
  std::vector<std::string> problems;
  std::mutex mutex;
  ThreadWorld(world).run([&](Communicator& communicator) {
    for (const CallCase& call_case : cases) {
      const auto problem = run_case(communicator, call_case);
      if (!problem) continue;
      const std::lock_guard lock(mutex);
      problems.push_back(*problem);
    }
  });
  return problems;
}

TEST_CASE("every operation, type and reduction gives what its definition says") {
  for (const int world : {1, 2, 3, 5, 8}) {
    const std::vector<std::string> problems = problems_of(world, call_cases(world));
    CAPTURE(problems.size());
    for (std::size_t i = 0; i < std::min<std::size_t>(problems.size(), 5); ++i) MESSAGE(problems[i]);
    EXPECT(problems.empty());
  }
}

TEST_CASE("every algorithm gives what its operation's definition says") {
  for (const int world : {2, 3, 6, 8}) {
    std::vector<CallCase> cases;
    for (const Algorithm& algorithm : algorithms()) {
      const PlanRequest request{.operation = algorithm.operation, .world = world};
      if (!algorithm.supports(request)) continue;
      for (const ElementType type :
           {ElementType::f32, ElementType::bf16, ElementType::i32, ElementType::f8e4m3}) {
        for (const std::int64_t count : {0, 1, 5, 999, 40'001}) {
          if (count > 1000 && type != ElementType::f32) continue;
          for (const Reduction reduction : {Reduction::sum, Reduction::average}) {
            if (!reduces(algorithm.operation) && reduction != Reduction::sum) continue;
            CallCase c{
                .operation = algorithm.operation, .type = type, .reduction = reduction, .count = count};
            c.algorithm = algorithm.name;
            c.root = has_root(c.operation) ? static_cast<int>(count) % world : 0;
            c.in_place = cases.size() % 2 == 0;
            c.ragged = !algorithm.equal_counts && cases.size() % 3 == 0 &&
                       (c.operation == Operation::all_gather || c.operation == Operation::reduce_scatter);
            cases.push_back(c);
          }
        }
      }
    }
    const std::vector<std::string> problems = problems_of(world, cases);
    for (std::size_t i = 0; i < std::min<std::size_t>(problems.size(), 5); ++i) MESSAGE(problems[i]);
    EXPECT(problems.empty());
  }
}

TEST_CASE("exact mode is the left fold in rank order, of reals too") {
  for (int world = 1; world <= 16; ++world) {
    std::vector<CallCase> cases;
    for (const Operation operation :
         {Operation::all_reduce, Operation::reduce_scatter, Operation::reduce, Operation::scan}) {
      for (const ElementType type :
           {ElementType::f64, ElementType::f32, ElementType::f16, ElementType::bf16}) {
        for (const Reduction reduction : {Reduction::sum, Reduction::average, Reduction::product}) {
          cases.push_back({.operation = operation,
                           .type = type,
                           .reduction = reduction,
                           .count = 101,
                           .exact = true,
                           .reals = true});
        }
      }
    }
    const std::vector<std::string> problems = problems_of(world, cases);
    for (std::size_t i = 0; i < std::min<std::size_t>(problems.size(), 5); ++i) MESSAGE(problems[i]);
    EXPECT(problems.empty());
  }
}

}  // namespace
}  // namespace diji::collective
