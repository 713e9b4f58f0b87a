// The environment, the introduction, and the first segment.
#include "collective/bootstrap.h"

#include "base/reader.h"
#include "collective/descriptor_server.h"
#include "collective/host_links.h"
#include "collective/rendezvous.h"
#include "collective/tuned_file.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

namespace diji::collective {
namespace {

// What each rank says of itself, as lines; order and number are fixed, versions are compared before.
struct Words {
  std::string host_key;
  std::string host_name;
  int pid = 0;
  std::string server;
  std::vector<std::string> addresses;  ///< none in a world of one
  std::string transport;               ///< "auto", or "tcp": none of the ranks uses shared memory
  std::string tuning;                  ///< of rank 0: carried()

  std::string text() const {
    return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n", host_key, host_name, pid, server,
                       fmt::join(addresses, ","), transport, tuning);
  }
  static Result<Words> parse(int rank, const std::string& text) {
    std::istringstream lines(text);
    Words words;
    std::string pid;
    std::getline(lines, words.host_key);
    std::getline(lines, words.host_name);
    std::getline(lines, pid);
    std::getline(lines, words.server);
    std::string addresses;
    std::getline(lines, addresses);
    std::istringstream list(addresses);
    for (std::string one; std::getline(list, one, ',');) words.addresses.push_back(one);
    std::getline(lines, words.transport);
    std::getline(lines, words.tuning);
    if (!lines || std::from_chars(pid.data(), pid.data() + pid.size(), words.pid).ec != std::errc()) {
      return fail(ErrorCode::corrupted, "rank {} introduced itself with something else than seven lines",
                  rank);
    }
    return words;
  }
};

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "this host";
}

}  // namespace

Result<bool> payload_crc_from_environment() {
  const std::string crc = variable("DIJI_TCP_CRC").value_or("on");
  if (crc != "on" && crc != "off")
    return fail(ErrorCode::usage, "DIJI_TCP_CRC={}: there are on and off", crc);
  return crc == "on";
}

Result<Group> join(const Identity& identity) {
  const std::shared_ptr<DescriptorServer> server = TRY(DescriptorServer::start());
  const std::string transport = variable("DIJI_TRANSPORT").value_or("auto");
  if (transport != "auto" && transport != "tcp")
    return fail(ErrorCode::usage, "DIJI_TRANSPORT={}: there are auto and tcp", transport);
  const bool payload_crc = TRY(payload_crc_from_environment());
  const PrivateReads private_reads = TRY(private_reads_from_environment());
  const auto wires = std::make_shared<Wires>();
  wires->token = identity.token;
  wires->payload_crc = payload_crc;
  wires->launcher = identity.source;
  if (identity.world > 1) {
    wires->listeners = TRY(listen_for_links(identity.address, variable("DIJI_SOCKET_IFNAME").value_or(""),
                                            !identity.token.empty()));
  }
  // Whatever is wrong with it, all ranks hear of it: nobody waits for rank 0.
  const std::string tuning = identity.rank == 0 ? carried(tuning_from_environment()) : "";
  Words mine{identity.host, host_name(), getpid(), server->address(), {}, transport, tuning};
  for (const LinkListener& listener : wires->listeners) mine.addresses.push_back(listener.address);
  const std::int64_t deadline_us =
      identity.deadline_us > 0 ? identity.deadline_us : now_us() + identity.timeout_us;
  const Introduction all = TRY(introduce({.rank = identity.rank,
                                          .world = identity.world,
                                          .address = identity.address,
                                          .token = identity.token,
                                          .timeout_us = identity.timeout_us,
                                          .deadline_us = deadline_us},
                                         mine.text()));
  Group group{.id = all.id, .rank = identity.rank, .server = server};
  group.memory = std::make_shared<RegisteredMemory>(server);
  group.private_reads = private_reads;
  std::map<std::string, int> hosts;  ///< how many ranks each has
  for (int rank = 0; rank < identity.world; ++rank) {
    Words words = TRY(Words::parse(rank, all.words[static_cast<std::size_t>(rank)]));
    const int place = hosts[words.host_key]++;
    wires->only_tcp |= words.transport == "tcp";
    if (rank == 0) group.tuning = std::make_shared<const Tuning>(TRY(received(words.tuning)));
    group.members.push_back({.host = std::move(words.host_name),
                             .pid = words.pid,
                             .server = std::move(words.server),
                             .local = words.host_key == identity.host ? place : -1,
                             .machine = std::move(words.host_key),
                             .addresses = std::move(words.addresses)});
  }
  group.wires = wires;
  const auto leader = std::ranges::find(group.members, 0, &Member::local);
  const bool leads = leader - group.members.begin() == identity.rank;
  TRY(share_segment(group, leads, leader->server, deadline_us));
  group.watcher = std::make_shared<ProcessWatcher>();
  TRY(link_ranks(group, deadline_us));
  return group;
}

Result<std::unique_ptr<Communicator>> communicator_of_job(CommunicatorOptions options) {
  const Identity identity = TRY(identity_from(variable, options.timeout_us));
  options.timeout_us = identity.timeout_us;
  if (options.warning_us < 0) options.warning_us = identity.warning_us;
  return Communicator::create(TRY(join(identity)), std::move(options));
}

}  // namespace diji::collective
