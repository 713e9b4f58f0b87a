// Several interfaces as one stream: both ends know from the number of a byte which lane it takes.
#include "collective/stream.h"

#include <poll.h>

#include <algorithm>
#include <array>

namespace diji::collective {
namespace {

class StripedStream final : public Stream {
 public:
  explicit StripedStream(std::vector<std::unique_ptr<Stream>> lanes) : lanes_(std::move(lanes)) {}

  std::string name() const override {
    std::vector<std::string> names;
    for (const auto& lane : lanes_) names.push_back(lane->name());
    return fmt::format("{}", fmt::join(names, ", "));
  }

  void poll_for(short events, std::vector<pollfd>& descriptors) const override {
    if ((events & POLLIN) != 0) lane_at(received_).poll_for(POLLIN, descriptors);
    if ((events & POLLOUT) != 0) lane_at(sent_).poll_for(POLLOUT, descriptors);
  }

  Result<std::size_t> send(std::span<const iovec> parts) override {
    std::size_t taken = 0;
    while (true) {
      std::array<iovec, kPartsMax> block;
      const std::size_t count = block_of(parts, taken, block);
      if (count == 0) return taken;
      const auto sent = lane_at(sent_).send(std::span(block).first(count));
      if (!sent) return on_lane(sent_, sent.error());
      if (*sent == 0) return taken;
      taken += *sent;
      sent_ += *sent;
    }
  }

  Result<std::size_t> receive(std::span<std::byte> into) override {
    std::size_t come = 0;
    while (come < into.size()) {
      const std::size_t wanted = std::min(into.size() - come, left_of_block(received_));
      const auto n = lane_at(received_).receive(into.subspan(come, wanted));
      if (!n && come > 0) break;  // it says so again
      if (!n) return on_lane(received_, n.error());
      come += *n;
      received_ += *n;
      if (*n < wanted) break;
    }
    return come;
  }

  std::int64_t silent_ms() const override {
    std::int64_t longest = 0;
    for (const auto& lane : lanes_) longest = std::max(longest, lane->silent_ms());
    return longest;
  }

  bool is_delivered() const override {
    return std::ranges::all_of(lanes_, [](const auto& lane) { return lane->is_delivered(); });
  }

  void finish() override {
    for (const auto& lane : lanes_) lane->finish();
  }

 private:
  static constexpr std::size_t kPartsMax = 64;

  Stream& lane_at(std::uint64_t byte) const { return *lanes_[byte / kStripeBytes % lanes_.size()]; }
  static std::size_t left_of_block(std::uint64_t byte) { return kStripeBytes - byte % kStripeBytes; }

  std::unexpected<Error> on_lane(std::uint64_t byte, Error error) const {
    error.message += fmt::format(" on {}", lane_at(byte).name());
    return std::unexpected(std::move(error));
  }

  // How many entries of `block` hold what follows the first `skip` bytes of `parts`, up to the block's end.
  std::size_t block_of(std::span<const iovec> parts, std::size_t skip, std::span<iovec> block) const {
    std::size_t left = left_of_block(sent_);
    std::size_t count = 0;
    for (const iovec& part : parts) {
      const std::size_t skipped = std::min(skip, part.iov_len);
      skip -= skipped;
      const std::size_t bytes = std::min(part.iov_len - skipped, left);
      if (bytes == 0) continue;
      if (count == block.size()) break;
      block[count++] = {static_cast<std::byte*>(part.iov_base) + skipped, bytes};
      left -= bytes;
    }
    return count;
  }

  std::vector<std::unique_ptr<Stream>> lanes_;
  std::uint64_t sent_ = 0;  ///< bytes
  std::uint64_t received_ = 0;
};

}  // namespace

std::unique_ptr<Stream> striped_stream(std::vector<std::unique_ptr<Stream>> lanes) {
  if (lanes.empty()) return nullptr;
  if (lanes.size() == 1) return std::move(lanes.front());
  return std::make_unique<StripedStream>(std::move(lanes));
}

}  // namespace diji::collective
