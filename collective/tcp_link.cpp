// Frames to bytes and back; nothing here ever waits.
#include "collective/tcp_link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

namespace diji::collective {
namespace {

constexpr std::array<std::byte, FrameHeader::kBytes> kZeros{};

std::size_t bytes_of_frame(std::size_t payload) {
  return FrameHeader::kBytes + payload + padding_of(payload);
}

}  // namespace

Result<ByteRing> ByteRing::create(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(bytes, 64 << 10));
  const int memory = memfd_create("diji-link", MFD_CLOEXEC);
  void* start = MAP_FAILED;
  bool mapped = false;
  // Its pages are taken at once: a full memory is an error here and not SIGBUS later.
  int reason = memory < 0 ? errno : posix_fallocate(memory, 0, static_cast<off_t>(size));
  if (reason == 0) {
    start = mmap(nullptr, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    reason = errno;
  }
  if (start != MAP_FAILED) {
    auto* data = static_cast<std::byte*>(start);
    mapped = true;
    for (std::byte* half : {data, data + size}) {
      mapped &= mmap(half, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) != MAP_FAILED;
    }
    reason = errno;
    if (!mapped) munmap(start, 2 * size);
  }
  if (memory >= 0) close(memory);
  if (!mapped) {
    return fail(ErrorCode::out_of_memory, "{} bytes for what comes over a link: {}", size,
                std::strerror(reason));
  }
  return ByteRing(static_cast<std::byte*>(start), size);
}

ByteRing::~ByteRing() {
  if (data_ != nullptr) munmap(data_, 2 * size_);
}

ByteRing::ByteRing(ByteRing&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

ByteRing& ByteRing::operator=(ByteRing&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<std::unique_ptr<TcpLink>> TcpLink::create(std::unique_ptr<Stream> stream, int peer,
                                                 std::string peer_name, std::int64_t fragment_bytes) {
  // One fragment is read while the next one comes.
  const std::size_t least = 2 * bytes_of_frame(static_cast<std::size_t>(fragment_bytes));
  ByteRing ring = TRY(ByteRing::create(least));
  return std::unique_ptr<TcpLink>(
      new TcpLink(std::move(stream), peer, std::move(peer_name), fragment_bytes, std::move(ring)));
}

TcpLink::TcpLink(std::unique_ptr<Stream> stream, int peer, std::string peer_name, std::int64_t fragment_bytes,
                 ByteRing ring)
    : stream_(std::move(stream)),
      peer_(peer),
      peer_name_(std::move(peer_name)),
      fragment_bytes_(fragment_bytes),
      name_(stream_->name()),
      ring_(std::move(ring)) {}

bool TcpLink::has_queued(Ticket ticket) const {
  return std::ranges::find(queue_, ticket, &Outgoing::ticket) != queue_.end();
}

bool TcpLink::has_queued_data() const {
  return std::ranges::any_of(queue_, [](const Outgoing& frame) { return frame.ticket != kFree; });
}

void TcpLink::flush(std::vector<Ticket>& written) {
  while (!queue_.empty() && !has_ended_) {
    std::array<iovec, 3 * kQueuedFrames + 6> parts;
    std::size_t count = 0;
    std::size_t skip = front_written_;
    std::size_t whole = 0;
    for (const Outgoing& frame : queue_) {
      if (count + 3 > parts.size()) break;
      for (const std::span<const std::byte> part :
           {std::span<const std::byte>(frame.header), frame.payload,
            std::span<const std::byte>(kZeros).first(padding_of(frame.payload.size()))}) {
        const std::size_t skipped = std::min(skip, part.size());
        skip -= skipped;
        if (skipped == part.size()) continue;
        parts[count++] = {const_cast<std::byte*>(part.data()) + skipped, part.size() - skipped};
        whole += part.size() - skipped;
      }
    }
    const Result<std::size_t> sent = stream_->send(std::span(parts).first(count));
    if (!sent) {
      fill();  // what the peer said before it went may be why
      return end(sent.error().message);
    }
    if (*sent == 0 || written_off(*sent, written) < whole) return;
  }
}

// Takes `bytes` that were written off the queue.
std::size_t TcpLink::written_off(std::size_t bytes, std::vector<Ticket>& written) {
  front_written_ += bytes;
  while (!queue_.empty() && front_written_ >= bytes_of_frame(queue_.front().payload.size())) {
    front_written_ -= bytes_of_frame(queue_.front().payload.size());
    if (queue_.front().ticket != kFree) written.push_back(queue_.front().ticket);
    queue_.pop_front();
  }
  return bytes;
}

void TcpLink::abandon() {
  if (front_written_ == 0 || queue_.empty()) {
    queue_.clear();
    return;
  }
  queue_.erase(queue_.begin() + 1, queue_.end());
  Outgoing& begun = queue_.front();
  if (begun.kept) return;
  begun.kept = std::make_shared<std::vector<std::byte>>(begun.payload.begin(), begun.payload.end());
  begun.payload = *begun.kept;
  begun.ticket = kFree;
}

void TcpLink::fill() {
  while (!has_ended_ && !failure_ && has_space()) {
    const std::size_t space = ring_.size() - (filled_ - consumed_);
    const Result<std::size_t> came = stream_->receive({ring_.at(filled_), space});
    if (!came) return end(came.error().message);
    if (*came == 0) return;
    filled_ += *came;
    parse();
    if (*came < space) return;  // that was all; a look at nothing costs a system call
  }
}

void TcpLink::end_if_silent() {
  if (has_ended_) return;
  const std::int64_t silent_ms = stream_->silent_ms();
  if (silent_ms >= kSilentMs)
    end(fmt::format("its host has answered nothing for {:.1f} s", static_cast<double>(silent_ms) / 1e3));
}

void TcpLink::parse() {
  while (!failure_ && filled_ - parsed_ >= FrameHeader::kBytes) {
    const std::byte* start = ring_.at(parsed_);
    const auto header = FrameHeader::decode(
        std::span<const std::byte, FrameHeader::kBytes>(start, FrameHeader::kBytes), fragment_bytes_);
    if (!header) return corrupted(header.error());
    const std::size_t whole = bytes_of_frame(header->bytes);
    if (filled_ - parsed_ < whole) return;
    if (auto taken = take(*header, {start + FrameHeader::kBytes, header->bytes}); !taken)
      return corrupted(taken.error());
    if (header->kind == FrameHeader::Kind::data) frames_.push_back({header->tag, parsed_, header->bytes});
    parsed_ += whole;
    if (frames_.empty()) consumed_ = parsed_;
  }
}

Result<void> TcpLink::take(const FrameHeader& header, std::span<const std::byte> payload) {
  last_sequence_ = header.tag.sequence;
  TRY(header.check_payload(payload));
  if (header.kind == FrameHeader::Kind::goodbye) has_left_ = true;
  if (header.kind == FrameHeader::Kind::abort) {
    Abort told = TRY(decode_abort(payload));
    if (!abort_) abort_ = std::move(told);
  }
  if (header.kind == FrameHeader::Kind::call) call_ = TRY(decode_call(header.tag, payload));
  return {};
}

std::optional<Message> TcpLink::front() const {
  if (frames_.empty()) return std::nullopt;
  const Frame& frame = frames_.front();
  return Message{frame.tag, {ring_.at(frame.position) + FrameHeader::kBytes, frame.bytes}};
}

void TcpLink::pop() {
  frames_.pop_front();
  consumed_ = frames_.empty() ? parsed_ : frames_.front().position;
}

Error TcpLink::left_error() const {
  Error error = fail(ErrorCode::peer_lost, "{} has left the communicator ({})", peer_name_, name_).error();
  error.peer.rank = peer_;
  return error;
}

void TcpLink::end(std::string_view why) {
  has_ended_ = true;
  if (has_left_ || abort_ || failure_) return;
  failure_ = fail(ErrorCode::peer_lost, "{} is gone: {} ({})", peer_name_, why, name_).error();
  failure_->peer.rank = peer_;
}

void TcpLink::corrupted(const Error& why) {
  failure_ = fail(ErrorCode::corrupted, "link {} with {}, in or after call #{}: {}", name_, peer_name_,
                  last_sequence_, why.message)
                 .error();
  failure_->peer.rank = peer_;
  failure_->peer.sequence = last_sequence_;
}

}  // namespace diji::collective
