// Each direction is a queue of pieces with the time at which they come.
#include "tests/unit/collective/simulated_network.h"

#include "base/check.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace diji::collective {

// What TCP does with a peer that answers nothing (set_options in stream.cpp): an idle link ends after a
// second and three probes; data is repeated for the first time soon and then twice as long each time.
constexpr std::int64_t kIdleEndsUs = 4'000'000;
constexpr std::int64_t kAskedUs = 700'000;  // two repeats, at 0.2 and 0.6 s

class SimulatedStream final : public Stream {
 public:
  SimulatedStream(SimulatedNetwork& network, int own, int other)
      : network_(network), own_(own), other_(other) {}
  ~SimulatedStream() override { network_.close(own_, other_); }

  std::string name() const override { return fmt::format("{} - {}", own_, other_); }
  void poll_for(short events, std::vector<pollfd>& descriptors) const override {
    descriptors.push_back({descriptor(), events, 0});
  }

  Result<std::size_t> send(std::span<const iovec> parts) override {
    network_.time_.maybe_switch();
    if (const char* why = network_.end_of(own_, other_, false)) return fail(ErrorCode::peer_lost, "{}", why);
    return network_.send(own_, other_, parts);
  }

  Result<std::size_t> receive(std::span<std::byte> into) override {
    network_.time_.maybe_switch();
    auto& from = network_.direction(other_, own_);
    std::size_t most = into.size();
    Random& random = network_.time_.random();
    if (network_.shape_.short_pieces && random.one_in(2))
      most = static_cast<std::size_t>(1 + random.below(std::min<std::int64_t>(std::ssize(into), 100)));
    std::size_t got = 0;
    while (got < most && network_.has_arrived(from)) {
      auto& chunk = from.chunks.front();
      const std::size_t bytes = std::min(most - got, chunk.bytes.size() - chunk.read);
      std::memcpy(into.data() + got, chunk.bytes.data() + chunk.read, bytes);
      got += bytes;
      chunk.read += bytes;
      from.held -= bytes;
      if (chunk.read == chunk.bytes.size()) from.chunks.pop_front();
    }
    network_.time_.note(got * 64 + static_cast<std::size_t>(descriptor()));
    if (got > 0) return got;
    if (const char* why = network_.end_of(own_, other_, true)) return fail(ErrorCode::peer_lost, "{}", why);
    return 0;
  }

  std::int64_t silent_ms() const override { return network_.silent_us(own_, other_) / 1000; }

  bool is_delivered() const override {
    const auto& out = network_.direction(own_, other_);
    return out.reader_gone || out.chunks.empty() || network_.has_arrived(out.chunks.back());
  }

  void finish() override {
    auto& to = network_.direction(own_, other_);
    if (!to.finished) {
      to.finished = true;
      to.fin_us = network_.arrival_us(to);
    }
    auto& from = network_.direction(other_, own_);
    while (network_.has_arrived(from)) {
      from.held -= from.chunks.front().bytes.size() - from.chunks.front().read;
      from.chunks.pop_front();
    }
  }

 private:
  int descriptor() const { return own_ * network_.ranks_ + other_; }
  SimulatedNetwork& network_;
  int own_;
  int other_;
};

SimulatedNetwork::SimulatedNetwork(SimulatedTime& time, int ranks, NetworkShape shape)
    : time_(time), ranks_(ranks), shape_(shape), directions_(static_cast<std::size_t>(ranks * ranks)) {
  time_.set_readiness([this](int descriptor, int events) { return is_ready(descriptor, events); });
}

SimulatedNetwork::~SimulatedNetwork() { time_.set_readiness({}); }

std::unique_ptr<Stream> SimulatedNetwork::end(int from, int to) {
  return std::make_unique<SimulatedStream>(*this, from, to);
}

void SimulatedNetwork::wake_at(std::int64_t us) {  // for whoever polls
  if (us != kNever) time_.later(us - time_.time_us(), [] {});
}

std::int64_t SimulatedNetwork::delay_us() {
  return shape_.latency_us + time_.random().below(shape_.jitter_us + 1);
}

// When what is sent now comes: never before what was sent earlier.
std::int64_t SimulatedNetwork::arrival_us(Direction& to) {
  if (to.cut_us != kNever || to.stalled) return to.last_arrival_us = kNever;
  to.last_arrival_us = std::max(to.last_arrival_us, time_.time_us() + delay_us());
  wake_at(to.last_arrival_us);
  return to.last_arrival_us;
}

std::size_t SimulatedNetwork::send(int from, int to, std::span<const iovec> parts) {
  Direction& out = direction(from, to);
  std::size_t whole = 0;
  for (const iovec& part : parts) whole += part.iov_len;
  std::size_t most = std::min(whole, shape_.buffer_bytes - std::min(out.held, shape_.buffer_bytes));
  if (most > 1 && shape_.short_pieces && time_.random().one_in(2))
    most = static_cast<std::size_t>(
        1 + time_.random().below(std::min<std::int64_t>(static_cast<std::int64_t>(most), 200)));
  time_.note(most * 64 + static_cast<std::size_t>(from * ranks_ + to));
  if (most == 0) return 0;
  Chunk chunk;
  for (const iovec& part : parts) {
    const auto* bytes = static_cast<const std::byte*>(part.iov_base);
    const std::size_t taken = std::min(part.iov_len, most - chunk.bytes.size());
    chunk.bytes.insert(chunk.bytes.end(), bytes, bytes + taken);
  }
  if (out.flip && out.flip->first >= out.sent && out.flip->first < out.sent + most) {
    chunk.bytes[out.flip->first - out.sent] ^= static_cast<std::byte>(1 << out.flip->second);
    flipped_us_ = time_.time_us();
  }
  out.sent += most;
  if (out.finished || out.lost_us != kNever) return most;  // of a dead process, or after a reset: to nowhere
  if (out.reader_gone) {                                   // it is answered that nobody is there
    if (out.reset_us == kNever) wake_at(out.reset_us = time_.time_us() + 2 * delay_us());
    return most;
  }
  chunk.arrives_us = arrival_us(out);
  out.held += most;
  out.chunks.push_back(std::move(chunk));
  return most;
}

bool SimulatedNetwork::has_arrived(const Chunk& chunk) const { return chunk.arrives_us <= time_.time_us(); }

bool SimulatedNetwork::has_arrived(const Direction& from) const {
  return !from.chunks.empty() && has_arrived(from.chunks.front());
}

// Why `own`'s end of the link to `other` gives nothing more; null while it may.
const char* SimulatedNetwork::end_of(int own, int other, bool reads) const {
  const Direction& out = direction(own, other);
  const Direction& in = direction(other, own);
  const std::int64_t us = time_.time_us();
  if (in.lost_us <= us || out.reset_us <= us) return reads ? "Connection reset by peer" : "Broken pipe";
  if (reads && in.fin_us <= us && in.chunks.empty()) return "closed the connection";
  const std::int64_t cut_us = std::min(out.cut_us, in.cut_us);
  if (cut_us == kNever || us - cut_us < kIdleEndsUs) return nullptr;
  const bool idle = std::ranges::all_of(out.chunks, [&](const Chunk& chunk) { return has_arrived(chunk); });
  return idle ? "Connection timed out" : nullptr;
}

std::int64_t SimulatedNetwork::silent_us(int own, int other) const {
  const Direction& out = direction(own, other);
  const Direction& in = direction(other, own);
  const std::int64_t us = time_.time_us();
  if (in.cut_us == kNever) return 0;  // what the other one repeats is heard
  const bool asks =
      std::ranges::any_of(out.chunks, [&](const Chunk& chunk) { return chunk.arrives_us > us; }) ||
      out.cut_us == kNever;
  return asks && us - in.cut_us >= kAskedUs ? us - in.cut_us : 0;
}

bool SimulatedNetwork::is_ready(int descriptor, int events) const {
  const int own = descriptor / ranks_;
  const int other = descriptor % ranks_;
  if (end_of(own, other, true) != nullptr) return true;  // POLLHUP and POLLERR need not be asked for
  if ((events & POLLIN) != 0 && has_arrived(direction(other, own))) return true;
  return (events & POLLOUT) != 0 && direction(own, other).held < shape_.buffer_bytes;
}

// What was underway to `own` or unread there makes the difference between an end and a reset.
void SimulatedNetwork::close(int own, int other) {
  Direction& out = direction(own, other);
  Direction& in = direction(other, own);
  if (in.reader_gone) return;
  in.reader_gone = true;
  const bool unread = has_arrived(in);
  const bool underway = !in.chunks.empty();
  in.chunks.clear();
  in.held = 0;
  if (unread) {
    tell_reset(own, other);
  } else {
    if (!out.finished) out.fin_us = arrival_us(out);
    if (underway) wake_at(in.reset_us = std::min(in.reset_us, time_.time_us() + 2 * delay_us()));
  }
  out.finished = true;
}

// `other` hears that `own` knows of no connection; what is on its way to it may be lost.
void SimulatedNetwork::tell_reset(int own, int other) {
  Direction& out = direction(own, other);
  if (out.cut_us != kNever || out.stalled) return;
  if (time_.random().one_in(2)) {
    std::erase_if(out.chunks, [&](const Chunk& chunk) {
      const bool lost = chunk.arrives_us > time_.time_us();
      if (lost) out.held -= chunk.bytes.size() - chunk.read;
      return lost;
    });
    out.last_arrival_us = time_.time_us();
  }
  out.lost_us = std::max(out.last_arrival_us, time_.time_us() + delay_us());
  wake_at(out.lost_us);
}

void SimulatedNetwork::kill(int rank) {
  for (int other = 0; other < ranks_; ++other) {
    if (other != rank) close(rank, other);
  }
}

void SimulatedNetwork::reset(int a, int b) {
  tell_reset(a, b);
  tell_reset(b, a);
}

void SimulatedNetwork::cut(int from, int to) {
  Direction& out = direction(from, to);
  if (out.cut_us != kNever) return;
  out.cut_us = time_.time_us();
  for (Chunk& chunk : out.chunks) {
    if (chunk.arrives_us > time_.time_us()) chunk.arrives_us = out.last_arrival_us = kNever;
  }
  if (out.fin_us > time_.time_us() && out.finished) out.fin_us = kNever;
  // An idle end, on either side, is told by its kernel.
  wake_at(out.cut_us + kIdleEndsUs);
}

void SimulatedNetwork::heal(int from, int to) {
  constexpr std::int64_t kRepeatUs = 1'500'000;
  Direction& out = direction(from, to);
  const std::int64_t cut_us = std::exchange(out.cut_us, kNever);
  if (cut_us != kNever) release(out, std::min(kRepeatUs, 2 * (time_.time_us() - cut_us)));
}

void SimulatedNetwork::set_stalled(int from, int to, bool stalled) {
  Direction& out = direction(from, to);
  out.stalled = stalled;
  if (stalled) {
    for (Chunk& chunk : out.chunks) {
      if (chunk.arrives_us > time_.time_us()) chunk.arrives_us = out.last_arrival_us = kNever;
    }
    if (out.fin_us > time_.time_us() && out.finished) out.fin_us = kNever;
  } else {
    release(out, 0);
  }
}

// What was held back comes now, in order, within `longest_us`.
void SimulatedNetwork::release(Direction& out, std::int64_t longest_us) {
  out.last_arrival_us = time_.time_us() + delay_us() + time_.random().below(longest_us + 1);
  for (Chunk& chunk : out.chunks) {
    if (chunk.arrives_us == kNever) chunk.arrives_us = out.last_arrival_us;
  }
  if (out.finished && out.fin_us == kNever) out.fin_us = out.last_arrival_us;
  wake_at(out.last_arrival_us);
}

void SimulatedNetwork::flip(int from, int to, std::uint64_t at, int bit) {
  direction(from, to).flip = std::pair(at, bit);
}

}  // namespace diji::collective
