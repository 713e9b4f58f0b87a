// doctest for unit tests: its CHECK is called EXPECT here, because CHECK is diji's own macro (base/check.h).
#pragma once

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#define TEST_CASE DOCTEST_TEST_CASE
#define SUBCASE DOCTEST_SUBCASE
#define EXPECT(...) DOCTEST_CHECK(__VA_ARGS__)
#define EXPECT_FALSE(...) DOCTEST_CHECK_FALSE(__VA_ARGS__)
#define REQUIRE_FALSE(...) DOCTEST_REQUIRE_FALSE(__VA_ARGS__)
#define REQUIRE(...) DOCTEST_REQUIRE(__VA_ARGS__)
#define REQUIRE_MESSAGE(...) DOCTEST_REQUIRE_MESSAGE(__VA_ARGS__)
#define INFO(...) DOCTEST_INFO(__VA_ARGS__)
#define CAPTURE(...) DOCTEST_CAPTURE(__VA_ARGS__)
#define MESSAGE(...) DOCTEST_MESSAGE(__VA_ARGS__)

namespace diji::test {

/// True if `body` ends in abort(), as a failed CHECK does. Runs in a child process.
template <typename Body>
bool aborts(const Body& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // doctest's handler would report a crashed test
    if (std::freopen("/dev/null", "w", stderr) != nullptr) body();
    ::_exit(0);
  }
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
         WTERMSIG(status) == SIGABRT;
}

}  // namespace diji::test
