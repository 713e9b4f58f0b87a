// Messages between ranks of different hosts, over connected streams.
#pragma once

#include "collective/clock.h"
#include "collective/tcp_link.h"
#include "collective/transport.h"

#include <memory>
#include <string>
#include <vector>

namespace diji::collective {

struct TcpOptions {
  /// Longer fragments save headers and system calls, shorter ones are combined while still in the cache.
  std::int64_t fragment_bytes = 256 << 10;
  bool payload_crc = true;         ///< headers always have one
  std::vector<std::string> names;  ///< of the ranks, for errors; empty: "rank 2"
  Clock clock;
};

/// Payloads are written from where they lie: their ticket is free when the kernel has all of them. What a
/// peer does to one link (its end without a goodbye, corruption, an abort) ends all of them.
class TcpTransport final : public Transport {
 public:
  /// `streams[rank]`, null where another transport leads there. Errors: out_of_memory.
  static Result<std::shared_ptr<TcpTransport>> create(std::vector<std::unique_ptr<Stream>> streams,
                                                      TcpOptions options = {});
  /// Says goodbye, unless a fork stands between.
  ~TcpTransport() override;

  std::string_view name() const override { return "tcp"; }
  std::int64_t fragment_bytes() const override { return options_.fragment_bytes; }
  Result<std::optional<Ticket>> send(std::span<const int> peers, CallTag tag,
                                     std::span<const std::byte> bytes) override;
  bool is_free(Ticket ticket) override;
  int reader_of(Ticket ticket) const override;
  Result<std::optional<Message>> peek(int peer) override;
  Result<void> release(int peer) override;
  Result<void> pump() override;
  void poll_descriptors(std::vector<pollfd>& descriptors) const override;
  void broadcast_abort(const Abort& abort) override;
  void publish_call(const CallRecord& call) override;
  std::optional<CallRecord> peer_call(int peer) const override { return link(peer).call(); }
  bool hear_aborts(std::vector<Abort>& heard) override;

 private:
  struct Pending {
    Ticket ticket = kFree;
    std::size_t unwritten = 0;  ///< peers
  };
  explicit TcpTransport(TcpOptions options);
  TcpLink& link(int rank) const { return *links_[static_cast<std::size_t>(rank)]; }
  void flush(TcpLink& link);
  void note(const TcpLink& link);

  TcpOptions options_;
  std::uint32_t forks_;
  std::vector<std::unique_ptr<TcpLink>> links_;  ///< by rank
  std::vector<char> heard_;                      ///< by rank: its abort was handed on
  std::vector<Pending> pending_;
  std::vector<Ticket> written_;
  Ticket tickets_ = kFree;
  bool has_aborted_ = false;
  std::int64_t looked_us_ = 0;    ///< for silent hosts
  std::optional<Error> failure_;  ///< the first of any link
};

}  // namespace diji::collective
