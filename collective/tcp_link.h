// One connected stream: frames that wait to be written, and a ring of bytes that came, in which payloads are
// read.
#pragma once

#include "collective/frame.h"
#include "collective/stream.h"

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace diji::collective {

/// A ring mapped twice in a row, so that every stretch of it is contiguous.
class ByteRing {
 public:
  /// At least `bytes`, a power of two. Errors: out_of_memory.
  static Result<ByteRing> create(std::size_t bytes);
  ~ByteRing();
  ByteRing(ByteRing&& other) noexcept;
  ByteRing& operator=(ByteRing&& other) noexcept;
  std::size_t size() const { return size_; }
  /// Of the byte with number `position`; size() bytes follow it.
  std::byte* at(std::uint64_t position) const { return data_ + (position & (size_ - 1)); }

 private:
  ByteRing(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

class TcpLink {
 public:
  /// Errors of the link begin with `peer_name`. Errors: out_of_memory.
  static Result<std::unique_ptr<TcpLink>> create(std::unique_ptr<Stream> stream, int peer,
                                                 std::string peer_name, std::int64_t fragment_bytes);

  struct Outgoing {
    FrameHeader::Wire header{};
    std::span<const std::byte> payload;            ///< the caller's, until it is written
    std::shared_ptr<std::vector<std::byte>> kept;  ///< owns `payload` where that is not the caller's
    Ticket ticket = kFree;
  };
  /// Whether another frame may wait. Few may: what they refer to is the caller's memory anyway.
  bool has_room() const { return queue_.size() < kQueuedFrames; }
  bool has_queued() const { return !queue_.empty(); }
  bool has_queued(Ticket ticket) const;
  /// Not only what this rank tells of itself.
  bool has_queued_data() const;
  /// Whether a frame that is no data may wait too: two at most do.
  bool has_room_for_words() const { return queue_.size() <= kQueuedFrames; }
  void push(Outgoing frame) { queue_.push_back(std::move(frame)); }
  /// Writes as much as goes; adds the tickets of what is written.
  void flush(std::vector<Ticket>& written);
  /// Forgets what is queued, except for the rest of a frame that was begun, which is copied: the caller's
  /// memory is his again.
  void abandon();

  /// Reads what has come, as far as there is room, and checks it.
  void fill();
  bool has_space() const { return filled_ - consumed_ < ring_.size(); }
  /// Ends the link of a host that has answered nothing for kSilentMs though the kernel asked again.
  void end_if_silent();
  static constexpr std::uint32_t kSilentMs = 4'000;
  /// The oldest data frame. Its bytes stay until pop().
  std::optional<Message> front() const;
  void pop();

  /// Set once: the peer is lost, or what comes is corrupted and no longer read. The peer can still be told
  /// so, unless the link has ended.
  const std::optional<Error>& failure() const { return failure_; }
  const std::optional<Abort>& abort() const { return abort_; }
  const std::optional<CallRecord>& call() const { return call_; }  ///< what the peer told of itself last
  bool has_left() const { return has_left_; }  ///< said goodbye; what it sent before may be read
  bool has_ended() const { return has_ended_; }
  Error left_error() const;
  Stream& stream() const { return *stream_; }

 private:
  struct Frame {
    CallTag tag;
    std::uint64_t position = 0;  ///< of the header
    std::uint32_t bytes = 0;
  };
  static constexpr std::size_t kQueuedFrames = 16;

  TcpLink(std::unique_ptr<Stream> stream, int peer, std::string peer_name, std::int64_t fragment_bytes,
          ByteRing ring);
  void parse();
  Result<void> take(const FrameHeader& header, std::span<const std::byte> payload);
  void end(std::string_view why);
  void corrupted(const Error& why);
  std::size_t written_off(std::size_t bytes, std::vector<Ticket>& written);

  std::unique_ptr<Stream> stream_;
  int peer_;
  std::string peer_name_;
  std::int64_t fragment_bytes_;
  std::string name_;
  std::deque<Outgoing> queue_;
  std::size_t front_written_ = 0;  ///< of header, payload and padding of the first
  ByteRing ring_;
  std::uint64_t consumed_ = 0;  ///< numbers of bytes, counted from the first that came
  std::uint64_t parsed_ = 0;
  std::uint64_t filled_ = 0;
  std::deque<Frame> frames_;
  std::uint32_t last_sequence_ = 0;  ///< of the last frame that was whole
  bool has_left_ = false;
  bool has_ended_ = false;
  std::optional<Abort> abort_;
  std::optional<CallRecord> call_;
  std::optional<Error> failure_;
};

}  // namespace diji::collective
