// CHECK for the programmer's own mistakes: what a user, a file, a network or a device can cause is an Error
// instead.
#pragma once

#include <source_location>
#include <string_view>

namespace diji {

/// Prints the sentence with its place to stderr and aborts.
[[noreturn]] void check_failed(std::string_view condition, std::string_view why,
                               std::source_location where = std::source_location::current());

}  // namespace diji

#define CHECK(condition, why)                                  \
  do {                                                         \
    if (!(condition)) ::diji::check_failed(#condition, (why)); \
  } while (false)

#ifdef NDEBUG
#define DCHECK(condition, why) \
  do {                         \
  } while (false)
#else
#define DCHECK(condition, why) CHECK(condition, why)
#endif
