// Ranks as threads on several hosts that are one: a segment for each, socket pairs between them.
#pragma once

#include "base/check.h"
#include "collective/communicator.h"
#include "collective/shm_transport.h"
#include "collective/tcp_transport.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace diji::collective {

class SocketWorld {
 public:
  /// `hosts[rank]`
  explicit SocketWorld(std::vector<int> hosts, CommunicatorOptions options = {}, TcpOptions tcp = {})
      : hosts_(std::move(hosts)), options_(std::move(options)), tcp_(std::move(tcp)) {
    const int count = *std::ranges::max_element(hosts_) + 1;
    fragment_bytes_ = tcp_.fragment_bytes;
    for (int host = 0; host < count; ++host) {
      const auto shape = SegmentShape::for_ranks(static_cast<int>(std::ranges::count(hosts_, host)));
      if (count < world()) fragment_bytes_ = std::min(fragment_bytes_, shape.fragment_bytes);
      segments_.push_back(HostSegment::create(shape, 7).value());
    }
    sockets_.assign(hosts_.size(), std::vector<int>(hosts_.size(), -1));
    for (int a = 0; a < world(); ++a) {
      for (int b = a + 1; b < world(); ++b) {
        if (host_of(a) != host_of(b)) connect(socket(a, b), socket(b, a));
      }
    }
  }

  int world() const { return static_cast<int>(hosts_.size()); }
  int host_of(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  HostSegment& segment(int rank) { return *segments_[static_cast<std::size_t>(host_of(rank))]; }
  /// Rank `from`'s end of its link to `to`, until group(from) takes it.
  int& socket(int from, int to) {
    return sockets_[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }
  static void connect(int& a, int& b) {
    int pair[2] = {-1, -1};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0, "a socket pair");
    a = pair[0];
    b = pair[1];
  }

  Group group(int rank) {
    Group group{.id = 7, .rank = rank, .fragment_bytes = fragment_bytes_};
    group.segment = segments_[static_cast<std::size_t>(host_of(rank))];
    std::vector<int> locals;
    int neighbours = 0;
    for (int other = 0; other < world(); ++other) {
      locals.push_back(host_of(other) == host_of(rank) ? neighbours++ : -1);
      group.members.push_back({.host = "here", .pid = getpid(), .server = "", .local = locals.back()});
    }
    const auto shm = std::make_shared<ShmTransport>(group.segment, locals[static_cast<std::size_t>(rank)],
                                                    locals, no_regions());
    const std::shared_ptr<Transport> tcp = TcpTransport::create(streams(rank), tcp_).value();
    for (int other = 0; other < world(); ++other) {
      const bool near = locals[static_cast<std::size_t>(other)] >= 0;
      group.links.push_back(other == rank ? nullptr : near ? std::shared_ptr<Transport>(shm) : tcp);
    }
    return group;
  }

  /// body(communicator) on a thread for each rank.
  void run(const std::function<void(Communicator&)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world(); ++rank) {
      threads.emplace_back([this, rank, &body] {
        const auto communicator = Communicator::create(group(rank), options_);
        CHECK(communicator.has_value(), "a communicator of threads");
        body(**communicator);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::unique_ptr<Stream>> streams(int rank) const {
    std::vector<std::unique_ptr<Stream>> streams;
    for (const int socket : sockets_[static_cast<std::size_t>(rank)])
      streams.push_back(socket < 0 ? nullptr : socket_stream(socket));
    return streams;
  }

  std::vector<int> hosts_;
  CommunicatorOptions options_;
  TcpOptions tcp_;
  std::int64_t fragment_bytes_ = 0;
  std::vector<std::shared_ptr<HostSegment>> segments_;
  std::vector<std::vector<int>> sockets_;
};

}  // namespace diji::collective
