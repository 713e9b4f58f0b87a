// The child tells its steps through a pipe; the parent waits for the next one, or for the end.
#include "tools/guard.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace diji::tools {
namespace {

constexpr char kEndOfStep = '\n';
constexpr std::string_view kDone = "\x04";  // no step is called so

void tell(int pipe, std::string_view step) {
  std::string line(step);
  line += kEndOfStep;
  // A parent that is gone has nobody left to tell.
  (void)!::write(pipe, line.data(), line.size());
}

/// Ended, or killed because it hung.
struct End {
  bool hung = false;
  bool done = false;
  std::string step = "starting";
};

/// Reads steps until the pipe closes or nothing comes for too long.
End watch(int pipe, int timeout_s) {
  End end;
  std::string unread;
  for (;;) {
    pollfd waiting = {pipe, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, timeout_s * 1000);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      end.hung = true;
      return end;
    }
    std::array<char, 4096> bytes{};
    const ssize_t count = ::read(pipe, bytes.data(), bytes.size());
    if (count <= 0) return end;
    unread.append(bytes.data(), static_cast<std::size_t>(count));
    for (std::size_t at = 0; (at = unread.find(kEndOfStep)) != std::string::npos; unread.erase(0, at + 1)) {
      const std::string step = unread.substr(0, at);
      if (step == kDone) {
        end.done = true;
      } else {
        end.step = step;
      }
    }
  }
}

Result<int> verdict(const End& end, int status, int timeout_s, std::string_view suspect) {
  if (end.hung)
    return fail(ErrorCode::deadline, "{}: no answer within {} s; {} was given up", end.step, timeout_s,
                suspect);
  if (WIFSIGNALED(status))
    return fail(ErrorCode::device, "{}: {} ended the process: signal {} ({})", end.step, suspect,
                WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  if (!end.done)
    return fail(ErrorCode::device, "{}: {} ended the process with exit code {}", end.step, suspect,
                WEXITSTATUS(status));
  return WEXITSTATUS(status);
}

}  // namespace

Result<int> guarded(int timeout_s, std::string_view suspect,
                    const std::function<Result<int>(const StepBegins&)>& job) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return fail(ErrorCode::io, "a pipe: {}", std::strerror(errno));
  const pid_t child = ::fork();
  if (child < 0) return fail(ErrorCode::io, "a child process: {}", std::strerror(errno));
  if (child == 0) {
    ::close(ends[0]);
    auto code = job([pipe = ends[1]](std::string_view step) { tell(pipe, step); });
    tell(ends[1], kDone);
    return code;
  }
  ::close(ends[1]);
  const End end = watch(ends[0], timeout_s);
  ::close(ends[0]);
  if (end.hung) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return verdict(end, status, timeout_s, suspect);
}

Result<void> tried(int timeout_s, const std::function<void()>& job) {
  TRY(guarded(timeout_s, "the plugin", [&](const StepBegins& begins) -> Result<int> {
    begins("loading it");
    job();
    begins(kDone);
    ::_exit(0);  // not this process's exit handlers and buffers
  }));
  return {};
}

}  // namespace diji::tools
