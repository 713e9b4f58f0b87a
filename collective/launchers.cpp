// The table, and what its rows share: numbers, tokens, hosts, and rank 0's line in a key-value space.
#include "collective/launchers.h"

#include "base/log.h"
#include "collective/clock.h"
#include "collective/handshake.h"
#include "collective/key_values.h"
#include "collective/socket_address.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

namespace diji::collective {
namespace {

Result<int> number_of(const Environment& environment, const char* name) {
  const auto text = environment(name);
  if (!text) return fail(ErrorCode::usage, "{} is not set, though other variables of the launcher are", name);
  int number = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (problem != std::errc() || end != text->data() + text->size() || number < 0) {
    return fail(ErrorCode::usage, "{}={} is no number of 0 or more", name, *text);
  }
  return number;
}

Result<std::int64_t> microseconds_of(const Environment& environment, const char* name,
                                     std::int64_t otherwise) {
  const auto seconds = environment(name);
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
// hosts. A scheduler's name for the node is not asked: two nodes of one machine can share memory all the
// same.
std::string host_key(const Environment& environment) {
  if (const auto given = environment("DIJI_HOST_ID")) return *given;
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

// ---- rank 0's address and token, by the launcher's own key-value space ----

constexpr std::string_view kLineHead = "diji1";  // and the version of the line
constexpr std::string_view kNoToken = "-";       // all ranks have a file with it

// "diji1,10.0.0.1:4000,2f6c…": where rank 0 will listen, and a secret that nobody else is told.
Result<std::string> line_of_rank_0(const Environment& environment, Identity& identity) {
  const auto given = environment("DIJI_RENDEZVOUS");
  const std::string interface = environment("DIJI_SOCKET_IFNAME").value_or("");
  const auto port = std::make_shared<Socket>(TRY(
      reserve_port_at(given ? *given : TRY(address_for_others(interface.substr(0, interface.find(',')))))));
  identity.port = port;
  identity.address = own_address_of(port->descriptor());
  std::string token(kNoToken);
  if (identity.token.empty()) {
    token.clear();
    for (const std::uint8_t byte : random_bytes(16)) token += fmt::format("{:02x}", byte);
    identity.token = token;
  }
  return fmt::format("{},{},{}", kLineHead, identity.address, token);
}

Result<void> read_line(const std::string& line, Identity& identity) {
  const std::size_t first = line.find(',');
  const std::size_t second = line.find(',', first + 1);
  if (first == std::string::npos || second == std::string::npos || line.substr(0, first) != kLineHead ||
      second == first + 1 || second + 1 == line.size()) {
    return fail(ErrorCode::corrupted,
                "what rank 0 left at the launcher is no address of this version of diji");
  }
  identity.address = line.substr(first + 1, second - first - 1);
  const std::string token = line.substr(second + 1);
  if (identity.token.empty() && token == kNoToken)
    return fail(ErrorCode::usage, "rank 0 has a DIJI_TOKEN_FILE, this rank has none");
  if (identity.token.empty()) identity.token = token;
  return {};
}

Result<void> meet_through(const KeyValues& values, const Environment& environment, Identity& identity) {
  if (values.rank == 0) return values.leave(TRY(line_of_rank_0(environment, identity)));
  return read_line(TRY(values.find()), identity);
}

// A launcher answers once in a process's life (PMI), and rank 0's address holds for all communicators that
// the process makes. By what the launcher calls this process.
struct Asked {
  std::mutex one_conversation;  ///< held while it lasts, its deadline at most: a second one would garble both
  std::map<std::string, Identity> known;
};
Asked& asked() {
  static Asked asked;
  return asked;
}

Result<void> ask_launcher(const Environment& environment, Identity& identity, const std::string& process,
                          const std::function<Result<KeyValues>()>& open) {
  const std::lock_guard lock(asked().one_conversation);
  const auto known = asked().known.find(process);
  if (known != asked().known.end()) {
    const Identity& before = known->second;
    identity.rank = before.rank;
    identity.world = before.world;
    identity.address = before.address;
    identity.token = before.token;
    identity.port = before.port;
    return {};
  }
  const KeyValues values = TRY(open());
  identity.rank = values.rank;
  identity.world = values.world;
  if (values.world > 1) {
    const auto met = meet_through(values, environment, identity);
    if (!met)
      return in_context(fmt::format("start-up of rank {} of {}", values.rank, values.world), met.error());
  }
  asked().known[process] = identity;
  identity.session = values.session;
  return {};
}

// ---- the rows ----

Applies diji_applies(const Environment& environment) {
  if (environment("DIJI_RANK") || environment("DIJI_WORLD_SIZE")) return Applies::yes;
  return environment("DIJI_RENDEZVOUS") ? Applies::perhaps : Applies::no;
}
Result<void> identify_diji(const Environment& environment, Identity& identity) {
  identity.rank = TRY(number_of(environment, "DIJI_RANK"));
  identity.world = TRY(number_of(environment, "DIJI_WORLD_SIZE"));
  identity.address = environment("DIJI_RENDEZVOUS").value_or("");
  if (identity.address.empty() && identity.world > 1 && identity.rank < identity.world) {
    return fail(ErrorCode::usage,
                "DIJI_RENDEZVOUS is not set: the address (HOST:PORT) at which rank 0 listens");
  }
  return {};
}

// RANK or MASTER_ADDR alone are set by many a shell.
Applies torchrun_applies(const Environment& environment) {
  if (!environment("RANK") || !environment("WORLD_SIZE")) return Applies::no;
  return environment("MASTER_ADDR") && environment("MASTER_PORT") ? Applies::yes : Applies::perhaps;
}
Result<void> identify_torchrun(const Environment& environment, Identity& identity) {
  identity.rank = TRY(number_of(environment, "RANK"));
  identity.world = TRY(number_of(environment, "WORLD_SIZE"));
  if (const auto given = environment("DIJI_RENDEZVOUS")) {
    identity.address = *given;
    return {};
  }
  const auto host = environment("MASTER_ADDR");
  if (!host)
    return fail(ErrorCode::usage, "MASTER_ADDR is not set, though other variables of the launcher are");
  // Its store listens at the port itself; the one after it is ours.
  const int port = TRY(number_of(environment, "MASTER_PORT")) + 1;
  identity.address = fmt::format("{}:{}", *host, port);
  return {};
}

// Programs close descriptors that they do not know before they start others; the variable stays.
bool is_socket(const Environment& environment) {
  struct stat status{};
  const auto descriptor = number_of(environment, "PMI_FD");
  return descriptor && fstat(*descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}
Applies pmi_applies(const Environment& environment) {
  if (!environment("PMI_FD") && !environment("PMI_RANK")) return Applies::no;
  return environment("PMI_RANK") && environment("PMI_SIZE") && is_socket(environment) ? Applies::yes
                                                                                      : Applies::perhaps;
}
Result<void> identify_pmi(const Environment& environment, Identity& identity) {
  const int rank = identity.rank = TRY(number_of(environment, "PMI_RANK"));
  const int world = identity.world = TRY(number_of(environment, "PMI_SIZE"));
  if (world == 1) return {};
  const int descriptor = TRY(number_of(environment, "PMI_FD"));
  return ask_launcher(environment, identity, fmt::format("pmi {} {}", descriptor, rank),
                      [&] { return key_values_of_pmi(descriptor, rank, world, identity.deadline_us); });
}

Applies pmix_applies(const Environment& environment) {
  return environment("PMIX_NAMESPACE") ? Applies::yes : Applies::no;
}
Result<void> identify_pmix(const Environment& environment, Identity& identity) {
  const auto job = environment("PMIX_NAMESPACE");
  if (!job)
    return fail(ErrorCode::usage, "PMIX_NAMESPACE is not set: no launcher with PMIx started this rank");
  const int rank = TRY(number_of(environment, "PMIX_RANK"));
  return ask_launcher(environment, identity, fmt::format("pmix {} {}", *job, rank),
                      [&] { return key_values_of_pmix(identity.deadline_us); });
}

// A shell of salloc, or a step that was started without either PMI: it says nothing of a rendezvous.
Applies always(const Environment&) { return Applies::yes; }
Result<void> identify_alone(const Environment& environment, Identity&) {
  const auto tasks = environment("SLURM_STEP_NUM_TASKS");
  if (tasks && *tasks != "1" && !environment("DIJI_LAUNCHER")) {
    warn(
        "this is one of {} tasks of a step of Slurm that has no PMI: a job of one rank (srun --mpi=pmix "
        "joins "
        "them, DIJI_LAUNCHER=alone says that this is meant)",
        *tasks);
  }
  return {};
}

constexpr std::array kLaunchers = {
    Launcher{"diji", diji_applies, identify_diji},  // named by hand, or by `diji launch`
    // Starts processes of its own, which have the variables of what started it too.
    Launcher{"torchrun", torchrun_applies, identify_torchrun},
    // Its socket is handed from process to process; variables of an outer PMIx are there as well.
    Launcher{"pmi", pmi_applies, identify_pmi},
    Launcher{"pmix", pmix_applies, identify_pmix},
    Launcher{"alone", always, identify_alone},
};

}  // namespace

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

std::span<const Launcher> launchers() { return kLaunchers; }

Result<const Launcher*> launcher_of(const Environment& environment) {
  if (const auto wanted = environment("DIJI_LAUNCHER")) {
    const auto row = std::ranges::find(kLaunchers, *wanted, &Launcher::name);
    if (row != kLaunchers.end()) return &*row;
    std::vector<std::string_view> names;
    for (const Launcher& launcher : kLaunchers) names.push_back(launcher.name);
    return fail(ErrorCode::usage, "DIJI_LAUNCHER={}: there are {}", *wanted, fmt::join(names, ", "));
  }
  const Launcher* found = nullptr;
  for (const Launcher& launcher : kLaunchers) {
    const Applies applies = launcher.applies(environment);
    const bool last = launcher.name == kLaunchers.back().name;
    if (applies == Applies::yes && !(last && found != nullptr)) return &launcher;
    if (applies == Applies::perhaps && found == nullptr) found = &launcher;
  }
  return found;
}

Result<Identity> identity_from(const Environment& environment, std::int64_t timeout_us) {
  Identity identity;
  identity.host = host_key(environment);
  identity.timeout_us = TRY(microseconds_of(environment, "DIJI_TIMEOUT", identity.timeout_us));
  if (timeout_us >= 0) identity.timeout_us = timeout_us;
  identity.warning_us = TRY(microseconds_of(environment, "DIJI_WARN_AFTER", identity.warning_us));
  if (const auto path = environment("DIJI_TOKEN_FILE")) identity.token = TRY(token_from(*path));
  identity.deadline_us = now_us() + identity.timeout_us;
  const Launcher* launcher = TRY(launcher_of(environment));
  identity.source = launcher->name;
  TRY(launcher->identify(environment, identity));
  if (identity.world < 1 || identity.rank >= identity.world)
    return fail(ErrorCode::usage, "rank {} of a world of {}", identity.rank, identity.world);
  return identity;
}

}  // namespace diji::collective
