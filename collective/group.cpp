// What ranks set up together before they are a communicator: memory that those of a host share, and links.
#include "collective/communicator.h"

#include "collective/host_links.h"
#include "collective/shm_transport.h"
#include "collective/tcp_transport.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <map>
#include <set>
#include <string_view>
#include <thread>

namespace diji::collective {
namespace {

// Whoever offers the memory may be the first to have nothing left to do here.
void wait_until_attached(const Group& group, std::int64_t deadline_us) {
  const auto others = static_cast<std::uint32_t>(group.segment->shape().ranks - 1);
  while (group.segment->attached().load(std::memory_order_acquire) < others && now_us() < deadline_us) {
    const bool all_alive = std::ranges::all_of(group.members, [](const Member& member) {
      return member.local < 0 || kill(member.pid, 0) == 0 || errno != ESRCH;
    });
    if (!all_alive) return;  // the watcher says who
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// The rank whose server cannot be reached: its process ended between its introduction and now.
Error gone_in_start_up(const Group& group, const std::string& server, const Error& why) {
  const auto member = std::ranges::find(group.members, server, &Member::server);
  Error error = why;
  if (member == group.members.end()) return error;
  if (error.code == ErrorCode::io) error.code = ErrorCode::peer_lost;
  error.peer.rank = member - group.members.begin();
  error.peer.host = member->host;
  error.peer.pid = member->pid;
  error.message = fmt::format("start-up: rank {} on {} (pid {}) gives no memory: {}", error.peer.rank,
                              member->host, member->pid, why.message);
  return error;
}

// What every rank of a group that spans hosts cuts messages into: the least of sockets, and of the slots of
// any host whose ranks use them.
std::int64_t least_fragment(const Group& group, std::int64_t of_sockets) {
  std::int64_t least = of_sockets;
  std::map<std::string_view, int> ranks;  ///< by host
  for (const Member& member : group.members) ++ranks[member.machine];
  for (const auto& [machine, count] : ranks) {
    if (!group.wires->only_tcp && count > 1)
      least = std::min(least, SegmentShape::for_ranks(count).fragment_bytes);
  }
  return least;
}

}  // namespace

int Group::hosts() const {
  std::set<std::string_view> machines;
  for (const Member& member : members) machines.insert(member.machine);
  return static_cast<int>(machines.size());
}

Result<void> share_segment(Group& group, bool leads, const std::string& leader, std::int64_t deadline_us) {
  struct Offer {
    std::shared_ptr<DescriptorServer> server;
    std::uint64_t id;
    std::shared_ptr<HostSegment> segment;
    ~Offer() { server->withdraw(id); }
  };
  const auto here =
      std::ranges::count_if(group.members, [](const Member& member) { return member.local >= 0; });
  if (leads) {
    group.segment = TRY(HostSegment::create(SegmentShape::for_ranks(static_cast<int>(here)), group.id));
    group.server->offer(group.id, group.segment->memory()->descriptor());
    group.keep = std::make_shared<Offer>(group.server, group.id, group.segment);
    wait_until_attached(group, deadline_us);
  } else {
    const auto offered = fetch_descriptor(leader, group.id, deadline_us);
    if (!offered) return std::unexpected(gone_in_start_up(group, leader, offered.error()));
    const int descriptor = *offered;
    group.segment = TRY(HostSegment::attach(TRY(SharedMemory::map(descriptor))));
    group.segment->attached().fetch_add(1, std::memory_order_release);
  }
  return {};
}

RegionAccess regions_of(const Group& group) {
  std::vector<std::string> servers(static_cast<std::size_t>(group.segment->shape().ranks));
  PrivateAccess private_memory{group.private_reads, std::vector<int>(servers.size())};
  for (const Member& member : group.members) {
    if (member.local < 0) continue;
    servers[static_cast<std::size_t>(member.local)] = member.server;
    private_memory.pids[static_cast<std::size_t>(member.local)] = member.pid;
  }
  RegionAccess access =
      group.memory ? access_through_servers(group.memory, std::move(servers)) : no_regions();
  access.private_memory = std::move(private_memory);
  return access;
}

Result<void> link_ranks(Group& group, std::int64_t deadline_us) {
  const bool only_tcp = group.wires && group.wires->only_tcp;
  std::vector<int> locals;
  std::vector<Addresses> addresses;  ///< of those that this rank has sockets with
  std::vector<std::string> names;
  for (int rank = 0; rank < group.world(); ++rank) {
    const Member& member = group.members[static_cast<std::size_t>(rank)];
    locals.push_back(member.local);
    names.push_back(fmt::format("rank {} on {} (pid {})", rank, member.host, member.pid));
    const bool near = member.local >= 0 && !only_tcp;
    addresses.push_back(near || rank == group.rank ? Addresses{} : member.addresses);
  }
  const auto own = static_cast<std::size_t>(group.rank);
  const auto shm = std::make_shared<ShmTransport>(group.segment, locals[own], locals, regions_of(group));
  std::shared_ptr<TcpTransport> tcp;
  if (only_tcp || std::ranges::count(locals, -1) > 0) {
    const Wires& wires = *group.wires;
    const LinkOptions options{group.rank, group.id, wires.token, deadline_us};
    const auto lanes = static_cast<int>(group.members[own].addresses.size());
    HostLinks linked = connect_links(options, wires.listeners, lanes, addresses);
    tcp = TRY(TcpTransport::create(socket_streams(linked.sockets),
                                   {.payload_crc = wires.payload_crc, .names = std::move(names)}));
    if (linked.failure) {  // those that are linked may be in a call already
      tcp->broadcast_abort({*linked.failure, group.rank});
      return std::unexpected(*std::move(linked.failure));
    }
    group.fragment_bytes = least_fragment(group, tcp->fragment_bytes());
  }
  for (std::size_t rank = 0; rank < locals.size(); ++rank) {
    std::shared_ptr<Transport> link = shm;
    if (locals[rank] < 0 || only_tcp) link = tcp;
    group.links.push_back(rank == own ? nullptr : std::move(link));
  }
  return {};
}

}  // namespace diji::collective
