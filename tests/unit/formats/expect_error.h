// An expected failure: its code, and words that its sentence must have.
#pragma once

#include "base/error.h"
#include "tests/unit/expect.h"

#include <initializer_list>
#include <string>
#include <string_view>

namespace diji::test {

template <typename T>
void expect_error(const Result<T>& result, ErrorCode code, std::initializer_list<std::string_view> words) {
  REQUIRE_FALSE(result.has_value());
  CAPTURE(result.error().message);
  EXPECT(name_of(result.error().code) == name_of(code));
  for (const std::string_view word : words) {
    CAPTURE(std::string(word));
    EXPECT(result.error().message.find(word) != std::string::npos);
  }
}

}  // namespace diji::test
