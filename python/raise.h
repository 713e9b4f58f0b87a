// Errors of C++ as Python's exceptions, in one place.
#pragma once

#include "base/host_memory.h"

#include <nanobind/nanobind.h>

#include <string_view>
#include <utility>

namespace diji::python {

/// Sets the exception of diji.errors that fits. The null object that comes back is what nanobind takes for
/// "an exception is set".
nanobind::object raise(const Error& error);
nanobind::object raise(ErrorCode code, std::string_view message);

/// What may take long, beside other threads of Python. Memory that runs out inside is an error like others.
template <typename Body>
auto without_gil(Body&& body) -> decltype(body()) {
  const nanobind::gil_scoped_release released;
  return with_host_memory(std::forward<Body>(body));
}

}  // namespace diji::python
