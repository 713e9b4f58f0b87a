// Error codes, the command's exit codes, context, TRY and CHECK.
#include "base/error.h"

#include "base/check.h"
#include "tests/unit/expect.h"

#include <set>
#include <string>

namespace diji {
namespace {

Result<int> half_of(int value) {
  if (value % 2 != 0) return fail(ErrorCode::usage, "{} is odd", value);
  return value / 2;
}

Result<void> must_be_even(int value) {
  TRY(half_of(value));
  return {};
}

Result<int> quarter_of(int value) {
  TRY(must_be_even(value));
  const int half = TRY(half_of(value));
  return half_of(half);
}

TEST_CASE("TRY gives the value or returns the error") {
  EXPECT(quarter_of(12) == 3);
  EXPECT(quarter_of(7).error().message == "7 is odd");
  EXPECT(quarter_of(6).error().message == "3 is odd");
}

TEST_CASE("context goes in front and keeps the typed fields") {
  auto error = fail(ErrorCode::malformed, "cut off");
  error.error().offset = 17;
  const auto wider = in_context("input 'x'", error.error());
  EXPECT(wider.error().message == "input 'x': cut off");
  EXPECT(wider.error().offset == 17);
  EXPECT(wider.error().code == ErrorCode::malformed);
}

TEST_CASE("every code has a name of its own and an exit code from the contract") {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(ErrorCode::aborted); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    names.insert(name_of(code));
    EXPECT(exit_code(code) >= 1);
    EXPECT(exit_code(code) <= 5);
  }
  EXPECT(names.size() == static_cast<std::size_t>(ErrorCode::aborted) + 1);
  EXPECT(names.count("unknown") == 0);
  EXPECT(exit_code(ErrorCode::failed) == 1);
  EXPECT(exit_code(ErrorCode::usage) == 2);
  EXPECT(exit_code(ErrorCode::data) == 3);
  EXPECT(exit_code(ErrorCode::out_of_memory) == 4);
  EXPECT(exit_code(ErrorCode::deadline) == 5);
}

TEST_CASE("CHECK aborts when its condition does not hold") {
  EXPECT(test::aborts([] { CHECK(1 + 1 == 3, "arithmetic"); }));
  EXPECT_FALSE(test::aborts([] { CHECK(1 + 1 == 2, "arithmetic"); }));
}

}  // namespace
}  // namespace diji
