// The environment, the introduction, and the first segment.
#include "collective/bootstrap.h"

#include "base/reader.h"
#include "collective/descriptor_server.h"
#include "collective/host_links.h"
#include "collective/rendezvous.h"
#include "collective/tuned_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

namespace diji::collective {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

Result<int> number_of(const char* name) {
  const auto text = variable(name);
  if (!text) return fail(ErrorCode::usage, "{} is not set, though other variables of the launcher are", name);
  int number = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (problem != std::errc() || end != text->data() + text->size() || number < 0) {
    return fail(ErrorCode::usage, "{}={} is no number of 0 or more", name, *text);
  }
  return number;
}

Result<std::int64_t> microseconds_of(const char* name, std::int64_t otherwise) {
  const auto seconds = variable(name);
  if (!seconds) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(seconds->c_str(), &end);
  if (*end != '\0' || !(value > 0) || value * 1e6 > kTimeoutMaxUs)
    return fail(ErrorCode::usage, "{}={} is no number of seconds", name, *seconds);
  return static_cast<std::int64_t>(value * 1e6);
}

std::string first_line_of(const char* path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return line;
}

// Abstract sockets belong to a network namespace: two containers of one machine that do not share it are two
// hosts.
std::string host_key() {
  if (const auto given = variable("DIJI_HOST_ID")) return *given;
  struct stat space{};
  const bool known = stat("/proc/self/ns/net", &space) == 0;
  return fmt::format("{}/{}", first_line_of("/proc/sys/kernel/random/boot_id"), known ? space.st_ino : 0);
}

Result<std::string> token_from(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0)
    return fail(ErrorCode::not_found, "DIJI_TOKEN_FILE={}: no such file", path);
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0 || status.st_uid != geteuid()) {
    return fail(ErrorCode::usage, "DIJI_TOKEN_FILE={}: others may read it; make it yours alone (chmod 600)",
                path);
  }
  std::string token = first_line_of(path.c_str());
  if (token.empty()) return fail(ErrorCode::usage, "DIJI_TOKEN_FILE={} is empty", path);
  return token;
}

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

Result<Identity> identity_from_environment() {
  Identity identity;
  identity.host = host_key();
  identity.timeout_us = TRY(microseconds_of("DIJI_TIMEOUT", identity.timeout_us));
  identity.warning_us = TRY(microseconds_of("DIJI_WARN_AFTER", identity.warning_us));
  if (const auto path = variable("DIJI_TOKEN_FILE")) identity.token = TRY(token_from(*path));
  const bool torchrun =
      !variable("DIJI_RANK") && variable("RANK") && variable("WORLD_SIZE") && variable("MASTER_ADDR");
  if (!variable("DIJI_RANK") && !torchrun) return identity;
  identity.source = torchrun ? "torchrun" : "diji launch";
  identity.rank = TRY(number_of(torchrun ? "RANK" : "DIJI_RANK"));
  identity.world = TRY(number_of(torchrun ? "WORLD_SIZE" : "DIJI_WORLD_SIZE"));
  if (identity.world < 1 || identity.rank >= identity.world) {
    return fail(ErrorCode::usage, "rank {} of a world of {}", identity.rank, identity.world);
  }
  if (torchrun) {  // its store listens at the port itself; the one after it is ours
    identity.address = fmt::format("{}:{}", *variable("MASTER_ADDR"), TRY(number_of("MASTER_PORT")) + 1);
  } else if (const auto address = variable("DIJI_RENDEZVOUS")) {
    identity.address = *address;
  } else if (identity.world > 1) {
    return fail(ErrorCode::usage,
                "DIJI_RENDEZVOUS is not set: the address (HOST:PORT) at which rank 0 listens");
  }
  return identity;
}

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
  const auto wires = std::make_shared<Wires>();
  wires->token = identity.token;
  wires->payload_crc = payload_crc;
  if (identity.world > 1) {
    wires->listeners = TRY(listen_for_links(identity.address, variable("DIJI_SOCKET_IFNAME").value_or(""),
                                            !identity.token.empty()));
  }
  // Whatever is wrong with it, all ranks hear of it: nobody waits for rank 0.
  const std::string tuning = identity.rank == 0 ? carried(tuning_from_environment()) : "";
  Words mine{identity.host, host_name(), getpid(), server->address(), {}, transport, tuning};
  for (const LinkListener& listener : wires->listeners) mine.addresses.push_back(listener.address);
  const std::int64_t deadline_us = now_us() + identity.timeout_us;
  const Introduction all = TRY(introduce({.rank = identity.rank,
                                          .world = identity.world,
                                          .address = identity.address,
                                          .token = identity.token,
                                          .timeout_us = identity.timeout_us},
                                         mine.text()));
  Group group{.id = all.id, .rank = identity.rank, .server = server};
  group.memory = std::make_shared<RegisteredMemory>(server);
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
  Identity identity = TRY(identity_from_environment());
  if (options.timeout_us < 0) options.timeout_us = identity.timeout_us;
  identity.timeout_us = options.timeout_us;
  if (options.warning_us < 0) options.warning_us = identity.warning_us;
  return Communicator::create(TRY(join(identity)), std::move(options));
}

}  // namespace diji::collective
