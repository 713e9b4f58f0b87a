// /proc/PID/fd has the memfds of a process; whoever may read it may map them.
#include "collective/inspect.h"

#include "collective/call.h"
#include "collective/clock.h"
#include "collective/liveness.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>

namespace diji::collective {

CommunicatorStatus status_of(const HostSegment& segment) {
  CommunicatorStatus status{.id = segment.communicator(), .failure = reported_failure(segment)};
  for (int local = 0; local < segment.shape().ranks; ++local) {
    const Board& board = segment.board(local);
    RankStatus rank;
    rank.rank = board.rank.load(std::memory_order_relaxed);
    rank.pid = board.pid.load(std::memory_order_relaxed);
    rank.state = static_cast<Board::State>(board.state.load(std::memory_order_acquire));
    rank.silent_s = static_cast<double>(now_us() - board.heartbeat_us.load(std::memory_order_relaxed)) / 1e6;
    rank.calls = board.recorder.all();
    status.ranks.push_back(std::move(rank));
  }
  std::erase_if(status.ranks,
                [](const RankStatus& rank) { return rank.rank < 0; });  // they have not attached yet
  std::ranges::sort(status.ranks, {}, &RankStatus::rank);
  return status;
}

Result<std::vector<std::shared_ptr<HostSegment>>> segments_of_process(int pid) {
  const std::filesystem::path folder = fmt::format("/proc/{}/fd", pid);
  std::error_code problem;
  std::map<int, std::filesystem::path> found;  // by descriptor: the order in which they were made
  for (auto entry = std::filesystem::directory_iterator(folder, problem);
       !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
    std::error_code unreadable;
    const std::string target = std::filesystem::read_symlink(entry->path(), unreadable).string();
    const std::string name = entry->path().filename().string();
    int descriptor = -1;
    if (target.starts_with("/memfd:diji-ranks") &&
        std::from_chars(name.data(), name.data() + name.size(), descriptor).ec == std::errc()) {
      found[descriptor] = entry->path();
    }
  }
  if (problem) {
    return fail(problem.value() == ENOENT ? ErrorCode::not_found : ErrorCode::io, "process {}: {}", pid,
                problem.message());
  }
  std::vector<std::shared_ptr<HostSegment>> segments;
  for (const auto& [number, path] : found) {
    const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return fail(ErrorCode::io, "{}: {}", path.string(), std::strerror(errno));
    segments.push_back(TRY(HostSegment::attach(TRY(SharedMemory::map(descriptor)))));
  }
  if (segments.empty()) return fail(ErrorCode::not_found, "process {} is no rank of a job", pid);
  return segments;
}

std::string text_of(const RankStatus& status) {
  constexpr double kSilentS = 4 * Watcher::kHeartbeatUs / 1e6;
  if (status.calls.empty())
    return status.state == Board::kAbsent ? "has not joined" : "has not called anything yet";
  const CallRecord& last = status.calls.back();
  std::string text;
  if (last.end_us != 0) {
    text = fmt::format("after #{} {}", last.sequence, text_of(last));
  } else {
    text = fmt::format("in #{} {}, {:.1f} s", last.sequence, text_of(last),
                       static_cast<double>(now_us() - last.begin_us) / 1e6);
    if (last.waits_for >= 0) text += fmt::format(", waits for rank {}", last.waits_for);
  }
  if (status.state == Board::kFinished) text += "; has left";
  if (status.state == Board::kDead) text += "; died";
  if (status.state == Board::kPresent && status.silent_s > kSilentS) {
    text += fmt::format("; no sign of life for {:.1f} s", status.silent_s);
  }
  return text;
}

}  // namespace diji::collective
