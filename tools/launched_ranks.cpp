// fork, exec, pidfds and a signalfd in one poll loop.
#include "tools/launched_ranks.h"

#include "collective/machine_topology.h"
#include "collective/socket_address.h"
#include "tools/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace diji::tools {
namespace {

// Survivors notice a death within a second and have that long to say so and to end by themselves.
constexpr auto kGrace = std::chrono::seconds(10);

// In memory that only this user's processes can open, through /proc/PID/fd: there is no file to clean up when
// the launcher is killed.
Result<int> token_descriptor() {
  std::array<unsigned char, 16> random{};
  if (getrandom(random.data(), random.size(), 0) != std::ssize(random))
    return fail(ErrorCode::io, "no random numbers");
  std::string token;
  for (const unsigned char byte : random) token += fmt::format("{:02x}", byte);
  token += '\n';
  const int descriptor = memfd_create("diji-token", MFD_CLOEXEC);
  if (descriptor < 0 || fchmod(descriptor, S_IRUSR | S_IWUSR) != 0 ||
      write(descriptor, token.data(), token.size()) != std::ssize(token)) {
    const int why = errno;
    if (descriptor >= 0) close(descriptor);
    return fail(ErrorCode::io, "memory for the job's token: {}", std::strerror(why));
  }
  return descriptor;
}

// Of all threads of the process. Empty where the kernel does not tell (CONFIG_PROC_CHILDREN).
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code gone;
  for (std::filesystem::directory_iterator task(fmt::format("/proc/{}/task", parent), gone), end;
       !gone && task != end; task.increment(gone)) {
    std::ifstream listed(task->path() / "children");
    for (pid_t child = 0; listed >> child;) children.push_back(child);
  }
  return children;
}

// A shell that waits for its command passes no signal on.
void signal_tree(pid_t process, int signal) {
  const std::vector<pid_t> children = children_of(process);
  kill(process, signal);
  for (const pid_t child : children) signal_tree(child, signal);
}

// What ranks have started and left behind becomes this process's (PR_SET_CHILD_SUBREAPER) and ends here.
void end_orphans() {
  for (std::vector<pid_t> orphans; !(orphans = children_of(getpid())).empty();) {
    for (const pid_t orphan : orphans) kill(orphan, SIGKILL);
    for (const pid_t orphan : orphans) waitpid(orphan, nullptr, 0);
  }
}

// Ranks that wait for each other on one core while another core works for somebody else take ten times as
// long.
std::vector<std::vector<int>> bindings_for(int ranks) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || ranks > CPU_COUNT(&allowed)) return {};
  if (const auto host = collective::host_of_machine()) return collective::bindings_of(*host, ranks);
  // Without hwloc hardware threads are taken for cores of one node, in the system's order.
  collective::Host plain;
  for (int pu = 0; pu < CPU_SETSIZE; ++pu) {
    if (CPU_ISSET(pu, &allowed)) plain.cores.push_back({.pus = {pu}});
  }
  return collective::bindings_of(plain, ranks);
}

void bind_to(const std::vector<int>& pus) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (const int pu : pus) CPU_SET(pu, &mine);
  sched_setaffinity(0, sizeof mine, &mine);
}

std::string ending(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace

Result<std::unique_ptr<LaunchedRanks>> LaunchedRanks::start(const LaunchOptions& options) {
  std::unique_ptr<LaunchedRanks> job(new LaunchedRanks);
  job->capture_ = options.capture;
  job->token_ = TRY(token_descriptor());
  job->port_ = TRY(collective::reserve_loopback_port());
  job->address_ = collective::own_address_of(job->port_);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  job->signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  job->ranks_.resize(static_cast<std::size_t>(options.ranks));
  if (options.bind)
    job->bindings_ = options.bindings.empty() ? bindings_for(options.ranks) : options.bindings;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const auto spawned = job->spawn(options, rank);
    if (spawned) continue;
    job->kill_all(SIGKILL);
    return std::unexpected(spawned.error());
  }
  return job;
}

// The child tells through a pipe that closes with exec why there was none.
Result<void> LaunchedRanks::spawn(const LaunchOptions& options, int rank) {
  Rank& child = ranks_[static_cast<std::size_t>(rank)];
  const bool piped = options.tag || options.capture;
  std::array<int, 2> output = {-1, -1};
  std::array<int, 2> problem = {-1, -1};
  if (pipe2(problem.data(), O_CLOEXEC) != 0 || (piped && pipe2(output.data(), O_CLOEXEC) != 0)) {
    return fail(ErrorCode::io, "a pipe to rank {}: {}", rank, std::strerror(errno));
  }
  const pid_t launcher = getpid();
  child.pid = fork();
  if (child.pid < 0) return fail(ErrorCode::io, "a process for rank {}: {}", rank, std::strerror(errno));
  if (child.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (piped) dup2(output[1], STDOUT_FILENO);
    if (!bindings_.empty()) bind_to(bindings_[static_cast<std::size_t>(rank)]);
    setenv("DIJI_RANK", std::to_string(rank).c_str(), 1);
    setenv("DIJI_LOCAL_RANK", std::to_string(rank).c_str(), 1);
    setenv("DIJI_WORLD_SIZE", std::to_string(options.ranks).c_str(), 1);
    setenv("DIJI_RENDEZVOUS", address_.c_str(), 1);
    setenv("DIJI_TOKEN_FILE", fmt::format("/proc/{}/fd/{}", launcher, token_).c_str(), 1);
    if (options.timeout_s) setenv("DIJI_TIMEOUT", fmt::format("{}", *options.timeout_s).c_str(), 1);
    std::vector<char*> words;
    for (const std::string& word : options.command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execvp(words[0], words.data());
    const int why = errno;
    static_cast<void>(!write(problem[1], &why, sizeof why));
    _exit(127);
  }
  close(problem[1]);
  if (piped) {
    close(output[1]);
    child.output = output[0];
    fcntl(child.output, F_SETFL, O_NONBLOCK);
  }
  child.watch = static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0));
  int why = 0;
  const bool failed = read(problem[0], &why, sizeof why) == sizeof why;
  close(problem[0]);
  if (failed) return fail(ErrorCode::not_found, "{}: {}", options.command[0], std::strerror(why));
  return {};
}

LaunchedRanks::~LaunchedRanks() {
  kill_all(SIGKILL);
  for (Rank& rank : ranks_) {
    if (rank.pid > 0 && !rank.ended) waitpid(rank.pid, nullptr, 0);
    for (const int descriptor : {rank.watch, rank.output}) {
      if (descriptor >= 0) close(descriptor);
    }
  }
  end_orphans();
  for (const int descriptor : {signals_, token_, port_}) {
    if (descriptor >= 0) close(descriptor);
  }
}

void LaunchedRanks::kill_all(int signal) {
  for (const Rank& rank : ranks_) {
    if (rank.pid > 0 && !rank.ended) signal_tree(rank.pid, signal);
  }
}

int LaunchedRanks::wait() {
  constexpr int kTickMs = 1000;
  int tick_ms = 5;  // until the ranks have met, ever more slowly: they may be no ranks of diji's
  while (std::ranges::any_of(ranks_, [](const Rank& rank) { return !rank.ended; })) {
    std::vector<pollfd> descriptors = {{signals_, POLLIN, 0}};
    for (const Rank& rank : ranks_) {
      descriptors.push_back({rank.ended ? -1 : rank.watch, POLLIN, 0});
      descriptors.push_back({rank.ended ? -1 : rank.output, POLLIN, 0});
    }
    if (poll(descriptors.data(), descriptors.size(), tick_ms) == 0 && !segment_) {
      hold_segment();
      tick_ms = segment_ ? kTickMs : std::min(tick_ms + tick_ms / 8 + 1, kTickMs);
    }
    signalfd_siginfo signal{};
    if (read(signals_, &signal, sizeof signal) == sizeof signal) {
      interrupted_ = static_cast<int>(signal.ssi_signo);
      kill_all(interrupted_);
      end_all_at_ = std::min(end_all_at_, std::chrono::steady_clock::now() + kGrace);
    }
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      read_lines(ranks_[i], i, false);
      if (descriptors[2 * i + 1].revents != 0) {
        reap(ranks_[i]);
        read_lines(ranks_[i], i, true);
      }
    }
    if (std::chrono::steady_clock::now() > end_all_at_) kill_all(SIGKILL);
  }
  if (interrupted_ != 0) return 128 + interrupted_;
  int first = 0;
  for (const Rank& rank : ranks_) {
    const int code = WIFEXITED(rank.status) ? WEXITSTATUS(rank.status) : 0;
    if (code == exit_code(ErrorCode::deadline)) lost_ = true;
    if (first == 0) first = code;
  }
  return lost_ ? exit_code(ErrorCode::peer_lost) : first;
}

void LaunchedRanks::reap(Rank& rank) {
  if (waitpid(rank.pid, &rank.status, WNOHANG) != rank.pid) return;
  rank.ended = true;
  if (!segment_) hold_segment();
  const bool bad = !WIFEXITED(rank.status) || WEXITSTATUS(rank.status) == exit_code(ErrorCode::peer_lost);
  if (bad && interrupted_ == 0 && !std::exchange(lost_, true)) {
    look_inside();
    end_all_at_ = std::chrono::steady_clock::now() + kGrace;
  }
}

// Memory that outlives the ranks: all survivors may have ended before it can be asked for.
void LaunchedRanks::hold_segment() {
  for (const Rank& alive : ranks_) {
    if (alive.ended) continue;
    if (auto segments = collective::segments_of_process(alive.pid)) {
      segment_ = segments->front();
      return;
    }
  }
}

// What each was doing.
void LaunchedRanks::look_inside() {
  hold_segment();
  if (!segment_) return;
  for (const collective::RankStatus& status : collective::status_of(*segment_).ranks) {
    const auto rank = std::ranges::find(ranks_, status.pid, &Rank::pid);
    if (rank != ranks_.end()) rank->last = collective::text_of(status);
  }
}

void LaunchedRanks::read_lines(Rank& rank, std::size_t number, bool to_the_end) {
  if (rank.output < 0) return;
  std::array<char, 65536> bytes;
  ssize_t count = 0;
  while ((count = read(rank.output, bytes.data(), bytes.size())) > 0) {
    if (capture_) {
      if (number == 0) output_.append(bytes.data(), static_cast<std::size_t>(count));
      continue;
    }
    rank.line.append(bytes.data(), static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = rank.line.find('\n')) != std::string::npos;
         rank.line.erase(0, end + 1)) {
      print("[{}] {}\n", number, rank.line.substr(0, end));
    }
  }
  if (count == 0) {  // it has closed its stdout, and may live on
    close(std::exchange(rank.output, -1));
    to_the_end = true;
  }
  if (to_the_end && !rank.line.empty()) print("[{}] {}\n", number, std::exchange(rank.line, ""));
  std::fflush(stdout);
}

std::vector<std::string> LaunchedRanks::report() const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    lines.push_back(fmt::format("rank {} (pid {}): {}{}{}", i, ranks_[i].pid, ending(ranks_[i].status),
                                ranks_[i].last.empty() ? "" : "; ", ranks_[i].last));
  }
  return lines;
}

}  // namespace diji::tools
