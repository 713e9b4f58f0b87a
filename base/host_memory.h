// Where host memory that ran out becomes an error: at a module's border, so that code inside need not ask.
#pragma once

#include "base/check.h"
#include "base/error.h"

#include <new>
#include <stdexcept>
#include <utility>

namespace diji {

/// Takes no memory itself: the sentence fits into the string.
inline Error no_host_memory() {
  Error error;
  error.code = ErrorCode::out_of_memory;
  error.message = "no host memory";
  return error;
}

/// What `body`, which gives a Result, returns; out_of_memory where host memory ran out inside of it. Lengths
/// that no container can have are the same: a file may ask for them.
template <typename Body>
auto with_host_memory(Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return std::unexpected(no_host_memory());
  } catch (const std::length_error&) {
    return std::unexpected(no_host_memory());
  } catch (const std::bad_expected_access<Error>& taken) {
    // Where a value was taken for granted, as of HostTensor::of(), only memory can have been missing.
    CHECK(taken.error().code == ErrorCode::out_of_memory, "a value is taken only from a result that has one");
    return std::unexpected(no_host_memory());
  }
}

}  // namespace diji
