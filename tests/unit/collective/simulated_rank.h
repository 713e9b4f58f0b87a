// What stands around a rank's production code in the simulator: its transports, watched, and the word of
// deaths.
#pragma once

#include "collective/communicator.h"
#include "tests/unit/collective/simulated_time.h"
#include "tests/unit/collective/simulator.h"

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace diji::collective {

/// Passes everything on; other ranks may run before each message, and a planted mistake is made here.
class SimulatedTransport final : public Transport {
 public:
  /// `message`: called before each message that is sent or released.
  SimulatedTransport(std::shared_ptr<Transport> inner, SimulatedTime& time, Planted planted,
                     const FlightRecorder& recorder, std::function<void()> message)
      : inner_(std::move(inner)),
        time_(time),
        planted_(planted),
        recorder_(recorder),
        message_(std::move(message)) {}

  std::string_view name() const override { return inner_->name(); }
  std::int64_t fragment_bytes() const override { return inner_->fragment_bytes(); }
  Result<std::optional<Ticket>> send(std::span<const int> peers, CallTag tag,
                                     std::span<const std::byte> bytes) override;
  bool is_free(Ticket ticket) override { return inner_->is_free(ticket); }
  int reader_of(Ticket ticket) const override { return inner_->reader_of(ticket); }
  Result<std::optional<Message>> peek(int peer) override;
  Result<void> release(int peer) override;
  Result<void> pump() override;
  void poll_descriptors(std::vector<pollfd>& descriptors) const override {
    inner_->poll_descriptors(descriptors);
  }
  void broadcast_abort(const Abort& abort) override;
  void publish_call(const CallRecord& call) override { inner_->publish_call(call); }
  std::optional<CallRecord> peer_call(int peer) const override { return inner_->peer_call(peer); }
  bool hear_aborts(std::vector<Abort>& heard) override { return inner_->hear_aborts(heard); }

 private:
  std::shared_ptr<Transport> inner_;
  SimulatedTime& time_;
  Planted planted_;
  const FlightRecorder& recorder_;
  std::function<void()> message_;
  int sent_ = 0;
  int released_ = 0;
};

/// Who of the ranks' processes is dead; a watcher of each asks.
class Deaths {
 public:
  explicit Deaths(SimulatedTime& time, int ranks, bool untold)
      : time_(time), untold_(untold), dead_(static_cast<std::size_t>(ranks)) {}

  static constexpr int kFirstPid = 1'000'000'000;  // of no process of this machine
  /// The watcher of `rank`; its word comes late by up to `late_us`.
  std::shared_ptr<Watcher> watcher(int rank, std::int64_t late_us);
  void kill(int rank);
  bool is_dead(int rank) const { return dead_[static_cast<std::size_t>(rank)] != 0; }
  /// When the last of those who watched was told.
  std::int64_t told_us() const { return told_us_; }

 private:
  struct Watch {
    int watcher;
    int watched;
    std::int64_t late_us;
    std::weak_ptr<void> alive;
    std::function<void()> died;
  };
  class RankWatcher;
  void tell(const Watch& watch);
  void beat(int rank, const std::weak_ptr<std::function<void()>>& heartbeat);

  SimulatedTime& time_;
  bool untold_;
  std::vector<char> dead_;
  std::vector<Watch> watches_;
  std::int64_t told_us_ = 0;
};

}  // namespace diji::collective
