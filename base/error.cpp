// The names and exit codes of errors, and the end of a failed CHECK.
#include "base/error.h"

#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace diji {

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::failed: return "failed";
    case ErrorCode::usage: return "usage";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::malformed: return "malformed";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::mismatch: return "mismatch";
    case ErrorCode::data: return "data";
    case ErrorCode::io: return "io";
    case ErrorCode::no_device: return "no_device";
    case ErrorCode::out_of_memory: return "out_of_memory";
    case ErrorCode::device: return "device";
    case ErrorCode::deadline: return "deadline";
    case ErrorCode::peer_lost: return "peer_lost";
    case ErrorCode::call_mismatch: return "call_mismatch";
    case ErrorCode::corrupted: return "corrupted";
    case ErrorCode::aborted: return "aborted";
  }
  return "unknown";
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::failed: return 1;
    case ErrorCode::usage: return 2;
    case ErrorCode::not_found:
    case ErrorCode::malformed:
    case ErrorCode::unsupported:
    case ErrorCode::mismatch:
    case ErrorCode::data:
    case ErrorCode::io: return 3;
    case ErrorCode::no_device:
    case ErrorCode::out_of_memory:
    case ErrorCode::device: return 4;
    case ErrorCode::deadline:
    case ErrorCode::peer_lost:
    case ErrorCode::call_mismatch:
    case ErrorCode::corrupted:
    case ErrorCode::aborted: return 5;
  }
  return 1;
}

std::unexpected<Error> in_context(std::string_view where, Error error) {
  error.message = fmt::format("{}: {}", where, error.message);
  return std::unexpected(std::move(error));
}

void check_failed(std::string_view condition, std::string_view why, std::source_location where) {
  fmt::print(stderr, "diji: internal error: {} ({}) at {}:{}\n", why, condition, where.file_name(),
             where.line());
  std::abort();
}

}  // namespace diji
