// What several links have in common: tickets, one failure for all, and the last words.
#include "collective/tcp_transport.h"

#include "base/check.h"
#include "collective/forks.h"

#include <poll.h>

#include <algorithm>

namespace diji::collective {

TcpTransport::TcpTransport(TcpOptions options)
    : options_(std::move(options)), forks_(forks_of_this_process()) {}

Result<std::shared_ptr<TcpTransport>> TcpTransport::create(std::vector<std::unique_ptr<Stream>> streams,
                                                           TcpOptions options) {
  std::shared_ptr<TcpTransport> transport(new TcpTransport(std::move(options)));
  transport->links_.resize(streams.size());
  transport->heard_.assign(streams.size(), 0);
  for (std::size_t rank = 0; rank < streams.size(); ++rank) {
    if (!streams[rank]) continue;
    const auto& names = transport->options_.names;
    transport->links_[rank] = TRY(TcpLink::create(std::move(streams[rank]), static_cast<int>(rank),
                                                  names.empty() ? fmt::format("rank {}", rank) : names[rank],
                                                  transport->options_.fragment_bytes));
  }
  return transport;
}

TcpTransport::~TcpTransport() {
  if (forks_ != forks_of_this_process()) return;  // the links are the parent's
  // What was sent is on its way when a call ends, and only a call that failed leaves the rest of a frame. But
  // whoever closes a socket in which something is unread, such as another's word of a slow call, takes back
  // what has not arrived: within this time data is repeated twice (at 0.2 and 0.6 s, RFC 6298).
  constexpr std::int64_t kLeaveUs = 1'000'000;
  constexpr std::int64_t kLookAgainUs = 1'000;
  const std::int64_t until_us = options_.clock.now_us() + kLeaveUs;
  FrameHeader goodbye;
  goodbye.kind = FrameHeader::Kind::goodbye;
  for (const auto& link : links_) {
    if (link && !link->has_ended()) link->push({.header = goodbye.encode()});
  }
  while (true) {
    std::vector<pollfd> unwritten;
    bool all_arrived = true;
    for (const auto& link : links_) {
      if (!link) continue;
      link->flush(written_);
      if (link->has_ended()) continue;
      if (link->has_queued()) link->stream().poll_for(POLLOUT, unwritten);
      all_arrived &= !link->has_queued() && link->stream().is_delivered();
    }
    if (all_arrived || options_.clock.now_us() >= until_us) break;
    options_.clock.poll(unwritten, kLookAgainUs);
  }
  for (const auto& link : links_) {
    if (link) link->stream().finish();
  }
}

void TcpTransport::note(const TcpLink& link) {
  if (failure_) return;
  if (link.abort()) {
    failure_ = link.abort()->error;
  } else if (link.failure()) {
    failure_ = link.failure();
  } else if (link.has_left() && link.has_queued_data()) {
    failure_ = link.left_error();
  }
}

void TcpTransport::flush(TcpLink& link) {
  if (!link.has_queued()) return;
  written_.clear();
  link.flush(written_);
  for (const Ticket ticket : written_) {
    const auto pending = std::ranges::find(pending_, ticket, &Pending::ticket);
    if (pending != pending_.end() && --pending->unwritten == 0) pending_.erase(pending);
  }
  note(link);
}

Result<std::optional<Ticket>> TcpTransport::send(std::span<const int> peers, CallTag tag,
                                                 std::span<const std::byte> bytes) {
  DCHECK(std::ssize(bytes) <= fragment_bytes(), "a message is at most a fragment");
  for (const int rank : peers) {
    if (!link(rank).has_room()) flush(link(rank));
    if (failure_) return std::unexpected(*failure_);
    if (link(rank).has_left()) return std::unexpected(link(rank).left_error());
    if (!link(rank).has_room()) return std::nullopt;
  }
  FrameHeader header;
  header.bytes = static_cast<std::uint32_t>(bytes.size());
  header.tag = tag;
  header.has_payload_crc = options_.payload_crc;
  if (options_.payload_crc) header.payload_crc = crc32c(bytes);
  const FrameHeader::Wire wire = header.encode();
  const Ticket ticket = ++tickets_;
  pending_.push_back({ticket, peers.size()});
  for (const int rank : peers) {
    link(rank).push({.header = wire, .payload = bytes, .kept = {}, .ticket = ticket});
    flush(link(rank));
  }
  if (failure_) return std::unexpected(*failure_);
  const bool all_written = pending_.empty() || pending_.back().ticket != ticket;
  return all_written ? kFree : ticket;
}

bool TcpTransport::is_free(Ticket ticket) {
  const auto is_pending = [&] {
    return std::ranges::find(pending_, ticket, &Pending::ticket) != pending_.end();
  };
  if (ticket == kFree || !is_pending()) return true;
  for (const auto& link : links_) {
    if (link && link->has_queued(ticket)) flush(*link);
  }
  return !is_pending();
}

int TcpTransport::reader_of(Ticket ticket) const {
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    if (links_[rank] && links_[rank]->has_queued(ticket)) return static_cast<int>(rank);
  }
  return -1;
}

Result<std::optional<Message>> TcpTransport::peek(int rank) {
  TcpLink& from = link(rank);
  std::optional<Message> message = from.front();
  if (!message && !failure_) {
    from.fill();
    note(from);
    message = from.front();
  }
  if (failure_) return std::unexpected(*failure_);
  if (!message && from.has_left()) return std::unexpected(from.left_error());
  return message;
}

Result<void> TcpTransport::release(int rank) {
  link(rank).pop();
  return {};
}

Result<void> TcpTransport::pump() {
  constexpr std::int64_t kLookUs = 250'000;
  const std::int64_t us = options_.clock.coarse_now_us();
  const bool looks = us - looked_us_ >= kLookUs;
  if (looks) looked_us_ = us;
  for (const auto& link : links_) {
    if (!link) continue;
    flush(*link);
    link->fill();
    if (looks) link->end_if_silent();
    note(*link);
  }
  if (failure_) return std::unexpected(*failure_);
  return {};
}

void TcpTransport::poll_descriptors(std::vector<pollfd>& descriptors) const {
  for (const auto& link : links_) {
    if (!link || link->has_ended()) continue;
    const bool reads = link->has_space() && !link->failure();
    const int events = (reads ? POLLIN : 0) | (link->has_queued() ? POLLOUT : 0);
    if (events != 0) link->stream().poll_for(static_cast<short>(events), descriptors);
  }
}

void TcpTransport::broadcast_abort(const Abort& abort) {
  if (has_aborted_) return;
  has_aborted_ = true;
  const auto payload = std::make_shared<std::vector<std::byte>>(encode_abort(abort));
  FrameHeader header;
  header.kind = FrameHeader::Kind::abort;
  header.bytes = static_cast<std::uint32_t>(payload->size());
  header.tag.sequence = static_cast<std::uint32_t>(abort.error.peer.sequence);
  header.has_payload_crc = true;
  header.payload_crc = crc32c(*payload);
  pending_.clear();
  for (const auto& link : links_) {
    if (!link) continue;
    link->abandon();
    if (link->has_ended()) continue;
    link->push({.header = header.encode(), .payload = *payload, .kept = payload});
    flush(*link);
  }
}

void TcpTransport::publish_call(const CallRecord& call) {
  if (has_aborted_) return;
  const auto bytes = encode_call(call);
  const auto payload = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  FrameHeader header;
  header.kind = FrameHeader::Kind::call;
  header.bytes = static_cast<std::uint32_t>(payload->size());
  header.tag = {call.signature, call.sequence};
  header.has_payload_crc = true;
  header.payload_crc = crc32c(*payload);
  for (const auto& link : links_) {
    if (!link || link->has_ended() || !link->has_room_for_words()) continue;
    link->push({.header = header.encode(), .payload = *payload, .kept = payload});
    flush(*link);
  }
}

bool TcpTransport::hear_aborts(std::vector<Abort>& heard) {
  bool complete = true;
  static_cast<void>(pump());
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    const TcpLink* link = links_[rank].get();
    if (link == nullptr) continue;
    if (link->abort() && heard_[rank] == 0) heard.push_back(*link->abort());
    if (link->abort()) heard_[rank] = 1;
    complete &= link->abort() || link->has_ended() || link->has_left() || link->failure();
  }
  return complete;
}

}  // namespace diji::collective
