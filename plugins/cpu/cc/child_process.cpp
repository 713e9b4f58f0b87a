// posix_spawn into a process group of its own, output into memory, waited for with a deadline.
#include "plugins/cpu/cc/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

namespace diji::cpu {
namespace {

constexpr std::size_t kOutputMax = 64 << 10;

struct File {
  explicit File(int number) : descriptor(number) {}
  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor;
};

struct SpawnOptions {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  explicit SpawnOptions(int output) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnOptions() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnOptions(const SpawnOptions&) = delete;
  SpawnOptions& operator=(const SpawnOptions&) = delete;
};

// The status, or nothing at the deadline. Polls: compilers take tens of milliseconds, and no signal handler
// of the program around diji is touched.
Result<int> wait_for(pid_t child, std::string_view name, std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  auto pause = std::chrono::milliseconds(1);
  for (int status = 0;;) {
    const pid_t done = waitpid(child, &status, WNOHANG);
    if (done == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (done < 0 && errno != EINTR) return fail(ErrorCode::io, "{}: {}", name, strerror(errno));
    if (std::chrono::steady_clock::now() >= end) {
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      return fail(ErrorCode::deadline, "{}: not done after {} s, and ended", name,
                  std::chrono::duration<double>(deadline).count());
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(16));
  }
}

}  // namespace

Result<Finished> run_program(std::span<const std::string> arguments, std::chrono::milliseconds deadline) {
  const File output(memfd_create("output", MFD_CLOEXEC));
  if (output.descriptor < 0)
    return fail(ErrorCode::io, "no memory for what {} says: {}", arguments[0], strerror(errno));
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  const SpawnOptions options(output.descriptor);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, pointers[0], &options.actions, &options.attributes, pointers.data(), environ);
  if (failed != 0) {
    return fail(failed == ENOENT ? ErrorCode::not_found : ErrorCode::io, "{} could not be started: {}",
                arguments[0], strerror(failed));
  }
  Finished finished{.exit_code = TRY(wait_for(child, arguments[0], deadline)), .output = {}};
  finished.output.resize(kOutputMax);
  const ssize_t read = pread(output.descriptor, finished.output.data(), kOutputMax, 0);
  finished.output.resize(read < 0 ? 0 : static_cast<std::size_t>(read));
  return finished;
}

}  // namespace diji::cpu
