// Ranks as threads over one mapping: the code that processes run, in one address space, where sanitizers see
// all of it.
#pragma once

#include "base/check.h"
#include "collective/communicator.h"
#include "collective/shm_transport.h"

#include <unistd.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace diji::collective {

class ThreadWorld {
 public:
  explicit ThreadWorld(int world, CommunicatorOptions options = {})
      : ThreadWorld(world, std::move(options), SegmentShape::for_ranks(world)) {}
  ThreadWorld(int world, CommunicatorOptions options, SegmentShape shape)
      : world_(world), options_(std::move(options)) {
    segment_ = HostSegment::create(shape, 7).value();
    for (int rank = 0; rank < world; ++rank) {
      servers_.push_back(DescriptorServer::start().value());
      memories_.push_back(std::make_shared<RegisteredMemory>(servers_.back()));
    }
  }

  HostSegment& segment() { return *segment_; }
  RegisteredMemory& memory(int rank) { return *memories_[static_cast<std::size_t>(rank)]; }
  /// Ranks read each other's registered memory at its owner's addresses, where a sanitizer knows it; else
  /// each maps it for itself, as processes do.
  void share_mappings() { shares_mappings_ = true; }
  /// Ranks read each other's private memory, messages of any length.
  void read_private_memory() { private_reads_ = PrivateReads::always; }
  Group group(int rank) {
    Group group{.id = 7,
                .rank = rank,
                .segment = segment_,
                .server = servers_[static_cast<std::size_t>(rank)],
                .memory = memories_[static_cast<std::size_t>(rank)],
                .private_reads = private_reads_};
    std::vector<int> locals;
    for (int other = 0; other < world_; ++other) {
      group.members.push_back({.host = "here",
                               .pid = getpid(),
                               .server = servers_[static_cast<std::size_t>(other)]->address(),
                               .local = other});
      locals.push_back(other);
    }
    RegionAccess regions = regions_of(group);
    if (shares_mappings_) {
      regions.of_peers = [all = memories_](int local, std::uint64_t region) {
        return all[static_cast<std::size_t>(local)]->own(region);
      };
    }
    const auto transport = std::make_shared<ShmTransport>(segment_, rank, locals, std::move(regions));
    for (int other = 0; other < world_; ++other) group.links.push_back(other == rank ? nullptr : transport);
    return group;
  }

  /// body(communicator) on a thread for each rank.
  void run(const std::function<void(Communicator&)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world_; ++rank) {
      threads.emplace_back([this, rank, &body] {
        const auto communicator = Communicator::create(group(rank), options_);
        CHECK(communicator.has_value(), "a communicator of threads");
        body(**communicator);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int world_;
  CommunicatorOptions options_;
  std::shared_ptr<HostSegment> segment_;
  std::vector<std::shared_ptr<DescriptorServer>> servers_;
  std::vector<std::shared_ptr<RegisteredMemory>> memories_;
  bool shares_mappings_ = false;
  PrivateReads private_reads_ = PrivateReads::never;
};

}  // namespace diji::collective
