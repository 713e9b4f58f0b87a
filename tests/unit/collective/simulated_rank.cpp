// Decorators around what a rank runs on.
#include "tests/unit/collective/simulated_rank.h"

#include <utility>

namespace diji::collective {
namespace {

constexpr int kPlantedMessage = 3;  // of a rank on a transport, with which something is wrong

}  // namespace

Result<std::optional<Ticket>> SimulatedTransport::send(std::span<const int> peers, CallTag tag,
                                                       std::span<const std::byte> bytes) {
  message_();
  time_.maybe_switch();
  if (planted_ == Planted::lost_message && ++sent_ == kPlantedMessage) return kFree;
  return inner_->send(peers, tag, bytes);
}

Result<std::optional<Message>> SimulatedTransport::peek(int peer) {
  time_.maybe_switch();
  std::optional<Message> message = TRY(inner_->peek(peer));
  if (message && planted_ == Planted::any_tag) {
    if (const auto own = recorder_.latest()) message->tag = {own->signature, own->sequence};
  }
  return message;
}

Result<void> SimulatedTransport::release(int peer) {
  message_();
  time_.maybe_switch();
  if (planted_ == Planted::read_twice && ++released_ == kPlantedMessage) return {};
  return inner_->release(peer);
}

Result<void> SimulatedTransport::pump() {
  time_.maybe_switch();
  return inner_->pump();
}

void SimulatedTransport::broadcast_abort(const Abort& abort) {
  if (planted_ != Planted::silent_failure) inner_->broadcast_abort(abort);
}

class Deaths::RankWatcher final : public Watcher {
 public:
  RankWatcher(Deaths& deaths, int rank, std::int64_t late_us)
      : deaths_(deaths), rank_(rank), late_us_(late_us), alive_(std::make_shared<int>(0)) {}

  Result<void> watch(int pid, std::function<void()> died) override {
    const int watched = pid - kFirstPid;
    if (deaths_.is_dead(watched) && !deaths_.untold_)
      return fail(ErrorCode::peer_lost, "process {} cannot be watched: it is dead", pid);
    deaths_.watches_.push_back({rank_, watched, late_us_, alive_, std::move(died)});
    return {};
  }
  std::shared_ptr<void> beat(std::function<void()> heartbeat) override {
    auto handle = std::make_shared<std::function<void()>>(std::move(heartbeat));
    deaths_.beat(rank_, handle);
    return handle;
  }

 private:
  Deaths& deaths_;
  int rank_;
  std::int64_t late_us_;
  std::shared_ptr<void> alive_;
};

std::shared_ptr<Watcher> Deaths::watcher(int rank, std::int64_t late_us) {
  return std::make_shared<RankWatcher>(*this, rank, late_us);
}

void Deaths::kill(int rank) {
  dead_[static_cast<std::size_t>(rank)] = 1;
  time_.freeze(rank);
  if (untold_) return;
  for (const Watch& watch : watches_) {
    if (watch.watched != rank) continue;
    const std::int64_t after_us = time_.random().below(watch.late_us + 1);
    told_us_ = std::max(told_us_, time_.time_us() + after_us);
    time_.later(after_us, [this, watch] { tell(watch); });
  }
}

void Deaths::tell(const Watch& watch) {
  if (watch.alive.expired() || is_dead(watch.watcher)) return;
  constexpr std::int64_t kLaterUs = 10'000;  // a stopped process's thread is stopped too
  if (time_.is_frozen(watch.watcher)) return time_.later(kLaterUs, [this, watch] { tell(watch); });
  time_.note(static_cast<std::uint64_t>(watch.watcher) + 1000);
  time_.speak_as(watch.watcher);
  watch.died();
}

void Deaths::beat(int rank, const std::weak_ptr<std::function<void()>>& heartbeat) {
  if (is_dead(rank)) return;
  if (const auto now = heartbeat.lock()) {
    if (!time_.is_frozen(rank)) {
      time_.speak_as(rank);
      (*now)();
    }
    time_.later(Watcher::kHeartbeatUs, [this, rank, heartbeat] { beat(rank, heartbeat); });
  }
}

}  // namespace diji::collective
