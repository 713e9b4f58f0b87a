// What every function of the C headers does with an error: keeps it for the calling thread, gives its status.
#pragma once

#include "base/host_memory.h"
#include "diji/diji.h"

#include <string_view>
#include <utility>

namespace diji::c_api {

/// Keeps `error` for the functions diji_error_* of this thread.
diji_status_code failed(const Error& error);

/// The status of what `body` returns. Memory that runs out inside is an error like any other: nothing may be
/// thrown into C.
template <typename Body>
diji_status_code guarded(Body&& body) {
  const auto done = with_host_memory(std::forward<Body>(body));
  return done ? DIJI_STATUS_OK : failed(done.error());
}

inline std::unexpected<Error> usage(std::string_view sentence) {
  return fail(ErrorCode::usage, "{}", sentence);
}

}  // namespace diji::c_api
