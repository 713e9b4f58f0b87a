// What a virtual accelerator is, as a file of `key = value` lines says it, and how long things take on it.
#pragma once

#include "base/error.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <thread>

namespace diji::sim {

/// Each member is a key of the file; `#` begins a comment. The defaults are of no particular product: a card
/// of 32 GB with about 20 TFLOP/s, 1 TB/s of memory bandwidth and a link of 25 GB/s.
struct Card {
  double devices = 8;
  double memory_bytes = 32e9;
  double flops_per_s = 20e12;
  double bytes_per_s = 1e12;        ///< of device memory
  double link_bytes_per_s = 25e9;   ///< host to device and back
  double link_latency_ns = 5000;    ///< before each copy over the link
  double peer_bytes_per_s = 25e9;   ///< between cards, each way
  double peer_latency_ns = 5000;    ///< of each message between cards
  double launch_latency_ns = 4000;  ///< before each launch and each copy on the device
  double clock_mhz = 1500;          ///< where it does not throttle
  double temperature_idle_c = 35;   ///< after a long time without work
  double temperature_busy_c = 75;   ///< after a long time of nothing but work
  double temperature_time_s = 30;   ///< in which it gets 63 % of the way there
  double throttle_c = 90;           ///< from here on it computes slower
  double throttle_share = 0.5;      ///< at this share of its clock
  // Faults; 0: none. Counted from 1 for each opened device.
  double fault_device = -1;  ///< the ordinal that has them; -1: all
  double fail_alloc = 0;     ///< this allocation finds no memory
  double fail_launch = 0;    ///< this launch fails
  double flip_bit = 0;       ///< one bit of this copy to the host is wrong
  double dead_after = 0;     ///< after so many calls the device is lost: every call fails
  double slow = 1;           ///< everything takes so many times as long
};

/// Errors: a line that is no `key = value`, an unknown key (with the nearest one), a value out of range.
Result<Card> parse_card(std::string_view text, const std::string& file);
/// The card that DIJI_SIM names; an empty file is one of defaults.
Result<Card> current_card();

/// Simulated time of one opened device, in nanoseconds since it was opened. Work is placed on one of three
/// engines (compute, link to the host, links to peers) as soon as its stream, its engine and the host's
/// thread, which submits it, have come so far. Each thread has a time of its own: one that waits for a copy
/// does not hold up another that launches. A pure function of the calls of each engine in their order, and of
/// which thread makes them. Not thread-safe.
class CardClock {
 public:
  explicit CardClock(const Card& card) : card_(card), temperature_c_(card.temperature_idle_c) {}

  /// When work ends that a stream, busy until `stream_ns`, begins as early as it can.
  std::uint64_t launch(std::uint64_t stream_ns, std::uint64_t flops, std::uint64_t bytes);
  std::uint64_t link_copy(std::uint64_t stream_ns, std::uint64_t bytes);
  /// The calling thread took part in an exchange of so much, after `begin_ns`. When it goes on.
  std::uint64_t exchange(std::uint64_t begin_ns, std::uint64_t bytes, std::uint64_t messages);
  /// The calling thread waited for that moment.
  void host_waits_until(std::uint64_t ns);

  std::uint64_t host_ns() const;    ///< of the calling thread
  std::uint64_t latest_ns() const;  ///< of the thread that has come farthest
  std::uint64_t busy_ns() const { return busy_ns_; }
  double temperature_c() const;
  double clock_mhz() const;

 private:
  void pass_to(std::uint64_t ns);
  double share_at(double temperature_c) const;

  Card card_;
  double temperature_c_;
  std::uint64_t temperature_ns_ = 0;  ///< the moment of temperature_c_
  std::map<std::thread::id, std::uint64_t> host_ns_;
  std::uint64_t compute_ns_ = 0, link_ns_ = 0, peer_ns_ = 0, busy_ns_ = 0;
};

}  // namespace diji::sim
