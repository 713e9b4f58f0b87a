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

}  // namespace
}  // namespace diji::collective
