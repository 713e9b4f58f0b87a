// The watcher's thread and the first failure of a segment.
#include "collective/liveness.h"

#include "collective/clock.h"
#include "collective/forks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>

namespace diji::collective {

struct ProcessWatcher::State {
  struct Watched {
    int descriptor = -1;
    std::function<void()> died;
  };
  std::mutex mutex;  ///< of all below; callbacks run without it
  std::vector<Watched> watched;
  std::vector<std::weak_ptr<std::function<void()>>> heartbeats;
  bool stopping = false;
  std::uint32_t forks = forks_of_this_process();
  int wake = -1;

  ~State() {
    for (const Watched& process : watched) close(process.descriptor);
    if (wake >= 0) close(wake);
  }

  void run() {
    std::int64_t next_beat = now_us();
    std::vector<pollfd> descriptors;
    while (true) {
      if (now_us() >= next_beat) {
        beat_all();
        next_beat = now_us() + kHeartbeatUs;
      }
      descriptors.assign(1, {wake, POLLIN, 0});
      {
        const std::lock_guard lock(mutex);
        if (stopping) return;
        for (const Watched& process : watched) descriptors.push_back({process.descriptor, POLLIN, 0});
      }
      const std::int64_t left_ms = std::max<std::int64_t>((next_beat - now_us()) / 1000, 1);
      if (poll(descriptors.data(), descriptors.size(), static_cast<int>(left_ms)) <= 0) continue;
      if (descriptors[0].revents != 0) {
        std::uint64_t count = 0;
        static_cast<void>(read(wake, &count, sizeof count));
      }
      for (std::size_t i = 1; i < descriptors.size(); ++i) {
        if (descriptors[i].revents != 0) announce(descriptors[i].fd);
      }
    }
  }

  void announce(int descriptor) {
    std::function<void()> died;
    {
      const std::lock_guard lock(mutex);
      const auto found = std::ranges::find(watched, descriptor, &Watched::descriptor);
      if (found == watched.end()) return;
      died = std::move(found->died);
      close(found->descriptor);
      watched.erase(found);
    }
    died();
  }

  void beat_all() {
    std::vector<std::shared_ptr<std::function<void()>>> due;
    {
      const std::lock_guard lock(mutex);
      std::erase_if(heartbeats, [](const auto& heartbeat) { return heartbeat.expired(); });
      for (const auto& heartbeat : heartbeats) due.push_back(heartbeat.lock());
    }
    for (const auto& heartbeat : due) {
      if (heartbeat) (*heartbeat)();
    }
  }

  void notify() const {
    const std::uint64_t one = 1;
    static_cast<void>(write(wake, &one, sizeof one));
  }
};

ProcessWatcher::ProcessWatcher() : state_(std::make_shared<State>()) {
  state_->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::thread([state = state_] { state->run(); }).detach();
}

ProcessWatcher::~ProcessWatcher() {
  // A child has no such thread, and may have its mutex in the state in which the thread held it.
  if (state_->forks != forks_of_this_process()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->notify();
}

Result<void> ProcessWatcher::watch(int pid, std::function<void()> died) {
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) {
    auto error = fail(errno == ESRCH ? ErrorCode::peer_lost : ErrorCode::io,
                      "process {} cannot be watched: {}", pid, std::strerror(errno));
    error.error().peer.pid = pid;
    return error;
  }
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  {
    const std::lock_guard lock(state_->mutex);
    state_->watched.push_back({descriptor, std::move(died)});
  }
  state_->notify();
  return {};
}

std::shared_ptr<void> ProcessWatcher::beat(std::function<void()> heartbeat) {
  auto handle = std::make_shared<std::function<void()>>(std::move(heartbeat));
  const std::lock_guard lock(state_->mutex);
  state_->heartbeats.push_back(handle);
  return handle;
}

void report_failure(const HostSegment& segment, const Error& error, int reporter) {
  FirstFailure& failure = segment.first_failure();
  if (failure.once.claim()) {
    failure.code = static_cast<std::uint32_t>(error.code);
    failure.guilty = static_cast<std::int32_t>(error.peer.rank);
    failure.reporter = reporter;
    failure.sequence = static_cast<std::uint32_t>(error.peer.sequence);
    const std::size_t length = std::min(error.message.size(), sizeof(failure.message) - 1);
    std::memcpy(failure.message, error.message.data(), length);
    failure.message[length] = '\0';
    failure.once.publish();
  }
  segment.ring_all();  // with a fence before all that the user writes from here on: was_unclaimed()
}

std::optional<Error> reported_failure(const HostSegment& segment) {
  const FirstFailure& failure = segment.first_failure();
  if (!failure.once.is_published()) return std::nullopt;
  Error error;
  error.code = static_cast<ErrorCode>(failure.code);
  error.message = failure.message;
  error.peer.rank = failure.guilty;
  error.peer.sequence = static_cast<std::int32_t>(failure.sequence);
  return error;
}

}  // namespace diji::collective
