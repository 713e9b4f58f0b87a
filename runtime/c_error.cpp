// diji_error_*: the calling thread's last error.
#include "runtime/c_error.h"

#include "diji/collective.h"

#include <algorithm>
#include <span>

namespace diji::c_api {
namespace {

// Plain bytes, which no lack of memory can keep from being written; what does not fit is cut off.
struct LastError {
  ErrorCode code = ErrorCode::failed;
  std::int64_t offset = -1;
  std::int64_t rank = -1;
  std::int64_t pid = -1;
  std::int64_t sequence = -1;
  double elapsed_s = -1;
  char message[16384] = "";
  char file[4096] = "";
  char host[256] = "";
  char peer_args[512] = "";
};
LastError& last_error() {
  thread_local LastError error;
  return error;
}

void copy_text(std::span<char> to, std::string_view text) {
  const std::size_t length = std::min(text.size(), to.size() - 1);
  std::copy_n(text.data(), length, to.data());
  to[length] = '\0';
}

}  // namespace

diji_status_code failed(const Error& error) {
  LastError& last = last_error();
  last.code = error.code;
  last.offset = error.offset;
  last.rank = error.peer.rank;
  last.pid = error.peer.pid;
  last.sequence = error.peer.sequence;
  last.elapsed_s = error.peer.elapsed_s;
  copy_text(last.message, error.message);
  copy_text(last.file, error.file);
  copy_text(last.host, error.peer.host);
  copy_text(last.peer_args, error.peer.peer_args);
  return static_cast<diji_status_code>(exit_code(error.code));
}

}  // namespace diji::c_api

using diji::c_api::last_error;

const char* diji_error_message(void) { return last_error().message; }
const char* diji_error_code(void) { return diji::name_of(last_error().code).data(); }
const char* diji_error_file(void) { return last_error().file; }
int64_t diji_error_offset(void) { return last_error().offset; }
int32_t diji_error_rank(void) { return static_cast<int32_t>(last_error().rank); }
const char* diji_error_host(void) { return last_error().host; }
int64_t diji_error_pid(void) { return last_error().pid; }
int64_t diji_error_sequence(void) { return last_error().sequence; }
double diji_error_elapsed_s(void) { return last_error().elapsed_s; }
const char* diji_error_peer_args(void) { return last_error().peer_args; }
