// The table of launchers: who is taken for which variables, what is refused, and rank 0's line.
#include "collective/launchers.h"

#include "tests/unit/expect.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

namespace diji::collective {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

Variables operator+(Variables all, const Variables& more) {
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

const Variables kDiji = {{"DIJI_RANK", "1"}, {"DIJI_WORLD_SIZE", "4"}, {"DIJI_RENDEZVOUS", "127.0.0.1:4000"}};
const Variables kTorchrun = {
    {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
const Variables kPmix = {{"PMIX_NAMESPACE", "slurm.pmix.5.0"}, {"PMIX_RANK", "1"}};
const Variables kSlurm = {{"SLURM_JOB_ID", "6"}, {"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "0"}};

// As a launcher hands it over, closed or not.
struct Sockets {
  Sockets() { REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0); }
  ~Sockets() {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;
  Variables variables(int rank, int world) const {
    return {{"PMI_FD", std::to_string(ends[0])},
            {"PMI_RANK", std::to_string(rank)},
            {"PMI_SIZE", std::to_string(world)}};
  }
  std::array<int, 2> ends{};
};

std::string launcher_for(const Variables& variables) {
  const auto found = launcher_of(environment_of(variables));
  return found ? std::string((*found)->name) : found.error().message;
}

TEST_CASE("the launcher that is named wins, then the innermost") {
  const Sockets open;
  const Variables pmi = open.variables(0, 2);
  const Variables closed = {{"PMI_FD", "1023"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}};
  EXPECT(launcher_for({}) == "alone");
  EXPECT(launcher_for(kSlurm) == "alone");
  EXPECT(launcher_for(kDiji) == "diji");
  EXPECT(launcher_for(kTorchrun) == "torchrun");
  EXPECT(launcher_for(kPmix) == "pmix");
  EXPECT(launcher_for(pmi) == "pmi");
  EXPECT(launcher_for(kSlurm + kPmix + pmi + kTorchrun + kDiji) == "diji");
  EXPECT(launcher_for(kSlurm + kPmix + kTorchrun) == "torchrun");  // srun starts torchrun, that starts ranks
  EXPECT(launcher_for(kSlurm + kPmix + pmi) == "pmi");             // mpirun in a step of srun
  EXPECT(launcher_for(kPmix + closed) == "pmix");  // the other way round: the socket was closed
  EXPECT(launcher_for({{"RANK", "3"}, {"MASTER_ADDR", "x"}}) == "alone");
  EXPECT(launcher_for(kPmix + Variables{{"RANK", "3"}, {"WORLD_SIZE", "4"}}) == "pmix");
  EXPECT(launcher_for(kDiji + Variables{{"DIJI_LAUNCHER", "torchrun"}}) == "torchrun");
  EXPECT(launcher_for(kPmix + Variables{{"DIJI_LAUNCHER", "alone"}}) == "alone");
  const std::string unknown = launcher_for({{"DIJI_LAUNCHER", "slurm"}});
  EXPECT(unknown.contains("diji, torchrun, pmi, pmix, alone"));
}

TEST_CASE("every launcher has a name of its own, and the last one always applies") {
  std::map<std::string_view, int> names;
  for (const Launcher& launcher : launchers()) EXPECT(++names[launcher.name] == 1);
  EXPECT(launchers().back().applies(environment_of({})) == Applies::yes);
}

// What identity_from says to variables that do not do.
std::string refusal(const Variables& variables) {
  const auto identity = identity_from(environment_of(variables), 1'000'000);
  if (identity) return fmt::format("taken as rank {} of {}", identity->rank, identity->world);
  EXPECT(identity.error().code == ErrorCode::usage);
  return identity.error().message;
}

TEST_CASE("what is missing or wrong is named") {
  EXPECT(refusal({{"DIJI_RANK", "1"}}).contains("DIJI_WORLD_SIZE is not set"));
  EXPECT(refusal({{"DIJI_WORLD_SIZE", "2"}}).contains("DIJI_RANK is not set"));
  EXPECT(refusal({{"DIJI_RENDEZVOUS", "127.0.0.1:1"}}).contains("DIJI_RANK is not set"));
  EXPECT(refusal({{"DIJI_RANK", "1"}, {"DIJI_WORLD_SIZE", "2"}}).contains("DIJI_RENDEZVOUS is not set"));
  EXPECT(refusal(kDiji + Variables{{"DIJI_RANK", "4"}}).contains("rank 4 of a world of 4"));
  EXPECT(refusal(kDiji + Variables{{"DIJI_RANK", "1x"}}).contains("DIJI_RANK=1x is no number"));
  EXPECT(refusal(kDiji + Variables{{"DIJI_TIMEOUT", "soon"}}).contains("DIJI_TIMEOUT=soon"));
  EXPECT(refusal({{"RANK", "1"}, {"WORLD_SIZE", "2"}}).contains("MASTER_ADDR is not set"));
  EXPECT(
      refusal({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}).contains("MASTER_PORT is not set"));
  EXPECT(refusal({{"PMIX_NAMESPACE", "a"}}).contains("PMIX_RANK is not set"));
  EXPECT(refusal({{"DIJI_LAUNCHER", "pmix"}}).contains("PMIX_NAMESPACE is not set"));
  EXPECT(refusal({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).contains("PMI_FD is not set"));
  EXPECT(refusal({{"PMI_RANK", "1"}, {"PMI_FD", "1023"}}).contains("PMI_SIZE is not set"));
  EXPECT(refusal({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "1023"}}).contains("is no open socket"));
  const std::filesystem::path file = "token-that-others-read";
  std::ofstream(file) << "secret\n";
  chmod(file.c_str(), 0644);
  EXPECT(refusal(kDiji + Variables{{"DIJI_TOKEN_FILE", file}}).contains("others may read it"));
  std::filesystem::remove(file);
}

TEST_CASE("variables of diji launch and torchrun say who this is") {
  const Identity diji = identity_from(environment_of(kDiji)).value();
  EXPECT(std::tuple(diji.rank, diji.world, diji.address, diji.source) ==
         std::tuple(1, 4, "127.0.0.1:4000", "diji"));
  EXPECT(diji.timeout_us == 120'000'000);
  const Identity torchrun = identity_from(environment_of(kTorchrun), 7'000'000).value();
  EXPECT(std::tuple(torchrun.rank, torchrun.world, torchrun.address, torchrun.source) ==
         std::tuple(2, 4, "node1:29501", "torchrun"));
  EXPECT(torchrun.timeout_us == 7'000'000);
  const Variables moved = {{"DIJI_RENDEZVOUS", "node2:5"}};
  EXPECT(identity_from(environment_of(kTorchrun + moved))->address == "node2:5");
  const Identity alone = identity_from(environment_of(kSlurm)).value();
  EXPECT(std::tuple(alone.rank, alone.world, alone.source) == std::tuple(0, 1, "alone"));
  EXPECT(alone.host == identity_from(environment_of({}))->host);
  EXPECT(identity_from(environment_of({{"DIJI_HOST_ID", "here"}}))->host == "here");
}

// One side of PMI-1 for one rank: says what it is given, in order, whatever is asked.
struct Scripted {
  Sockets sockets;
  std::thread thread;
  std::string heard;
  explicit Scripted(std::vector<std::string> answers) {
    thread = std::thread([this, answers = std::move(answers)] {
      for (const std::string& answer : answers) {
        std::array<char, 4096> request;
        const ssize_t count = recv(sockets.ends[1], request.data(), request.size(), 0);
        if (count <= 0) return;
        heard.append(request.data(), static_cast<std::size_t>(count));
        if (send(sockets.ends[1], answer.data(), answer.size(), MSG_NOSIGNAL) < 0) return;
      }
      shutdown(sockets.ends[1], SHUT_RDWR);
    });
  }
  ~Scripted() { thread.join(); }
  Scripted(const Scripted&) = delete;
  Scripted& operator=(const Scripted&) = delete;
};

const std::vector<std::string> kBegin = {"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
                                         "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n",
                                         "cmd=my_kvsname kvsname=kvs_1\n"};

std::vector<std::string> after_begin(std::vector<std::string> more) {
  more.insert(more.begin(), kBegin.begin(), kBegin.end());
  return more;
}

TEST_CASE("a rank that is not the first finds address and token at the launcher, once a process") {
  std::string heard;
  {
    Scripted server(after_begin({"cmd=barrier_out\n",
                                 "cmd=get_result rc=0 msg=success value=diji1,10.0.0.1:4000,abc123\n",
                                 "cmd=finalize_ack\n"}));
    const Environment environment = environment_of(server.sockets.variables(7, 9));
    Identity identity = identity_from(environment, 5'000'000).value();
    EXPECT(std::tuple(identity.rank, identity.world, identity.address, identity.token, identity.source) ==
           std::tuple(7, 9, "10.0.0.1:4000", "abc123", "pmi"));
    identity.session.reset();  // says goodbye
    const Identity again = identity_from(environment, 5'000'000).value();
    EXPECT(again.address == identity.address);
    EXPECT(again.session == nullptr);
    server.thread.join();
    heard = server.heard;
    server.thread = std::thread([] {});
  }
  EXPECT(heard ==
         "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=get_my_kvsname\ncmd=barrier_in\n"
         "cmd=get kvsname=kvs_1 key=diji-rendezvous\ncmd=finalize\n");
}

TEST_CASE("rank 0 leaves an address that is reserved for it, and a random token") {
  Scripted server(
      after_begin({"cmd=put_result rc=0 msg=success\n", "cmd=barrier_out\n", "cmd=finalize_ack\n"}));
  const Variables variables = server.sockets.variables(0, 2) + Variables{{"DIJI_SOCKET_IFNAME", "lo"}};
  Identity identity = identity_from(environment_of(variables), 5'000'000).value();
  EXPECT(identity.address.starts_with("127.0.0.1:"));
  EXPECT(identity.token.size() == 32);
  EXPECT(identity.port != nullptr);
  identity.session.reset();
  server.thread.join();
  EXPECT(server.heard.contains(fmt::format("cmd=put kvsname=kvs_1 key=diji-rendezvous value=diji1,{},{}\n",
                                           identity.address, identity.token)));
  server.thread = std::thread([] {});
}

TEST_CASE("a world of one does not talk to its launcher") {
  const Sockets sockets;
  const Identity identity = identity_from(environment_of(sockets.variables(0, 1))).value();
  EXPECT(identity.world == 1);
  std::array<char, 8> request;
  EXPECT(recv(sockets.ends[1], request.data(), request.size(), MSG_DONTWAIT) == -1);
}

struct Bad {
  const char* name;
  std::vector<std::string> answers;
  ErrorCode code;
  const char* says;
};

TEST_CASE("a launcher that says something else is an error, soon, and never more") {
  const std::string long_line(100'000, 'x');
  const std::vector<Bad> all = {
      {"hangs up", {}, ErrorCode::peer_lost, "hung up at 'cmd=init"},
      {"another protocol", {"HTTP/1.1 400 Bad Request\r\n"}, ErrorCode::corrupted, "is no key=value"},
      {"bytes", {std::string("\x01\xff\x00=\n", 5)}, ErrorCode::corrupted, "is no key=value"},
      {"no end of line", {long_line}, ErrorCode::corrupted, "more than one line"},
      {"two lines", {kBegin[0] + kBegin[1]}, ErrorCode::corrupted, "more than one line"},
      {"an answer to something else", {kBegin[1]}, ErrorCode::corrupted, "is answered with 'cmd=maxes"},
      {"empty", {"\n"}, ErrorCode::corrupted, "is answered with ''"},
      {"refuses", {"cmd=response_to_init rc=1\n"}, ErrorCode::io, "the launcher refuses 'cmd=init"},
      {"too narrow",
       {kBegin[0], "cmd=maxes keylen_max=8 vallen_max=1024\n"},
       ErrorCode::corrupted,
       "keylen_max of 8"},
      {"no sizes", {kBegin[0], "cmd=maxes keylen_max=64\n"}, ErrorCode::corrupted, "vallen_max of 0"},
      {"no number",
       {kBegin[0], "cmd=maxes keylen_max=many vallen_max=1024\n"},
       ErrorCode::corrupted,
       "keylen_max"},
      {"no space", {kBegin[0], kBegin[1], "cmd=my_kvsname\n"}, ErrorCode::corrupted, "has no name"},
      {"dies in the barrier", kBegin, ErrorCode::peer_lost, "hung up at 'cmd=barrier_in'"},
      {"knows no line", after_begin({"cmd=barrier_out\n", "cmd=get_result rc=-1 msg=not_found\n"}),
       ErrorCode::io, "refuses 'cmd=get"},
      {"has another line", after_begin({"cmd=barrier_out\n", "cmd=get_result rc=0 value=diji9,a:1,b\n"}),
       ErrorCode::corrupted, "no address of this version"},
      {"has half a line", after_begin({"cmd=barrier_out\n", "cmd=get_result rc=0 value=diji1,a:1\n"}),
       ErrorCode::corrupted, "no address of this version"},
      {"has a line without a token",
       after_begin({"cmd=barrier_out\n", "cmd=get_result rc=0 value=diji1,a:1,-\n"}), ErrorCode::usage,
       "rank 0 has a DIJI_TOKEN_FILE"},
  };
  for (const Bad& bad : all) {
    CAPTURE(std::string(bad.name));
    Scripted server(bad.answers);
    const auto identity = identity_from(environment_of(server.sockets.variables(1, 2)), 5'000'000);
    shutdown(server.sockets.ends[0], SHUT_RDWR);
    REQUIRE(!identity.has_value());
    EXPECT(identity.error().code == bad.code);
    EXPECT(identity.error().message.contains(bad.says));
  }
}

TEST_CASE("a launcher that is silent or slow is waited for until the deadline") {
  const Sockets silent;
  const auto never = identity_from(environment_of(silent.variables(1, 2)), 100'000);
  REQUIRE(!never.has_value());
  EXPECT(never.error().code == ErrorCode::deadline);
  const Sockets dripping;
  std::atomic<bool> over = false;
  std::thread server([&] {  // a byte now and then never makes a line
    while (!over && send(dripping.ends[1], "x", 1, MSG_NOSIGNAL) == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  const auto slow = identity_from(environment_of(dripping.variables(1, 2)), 200'000);
  over = true;
  server.join();
  REQUIRE(!slow.has_value());
  EXPECT(slow.error().code == ErrorCode::deadline);
  const Sockets waiting;  // the others do not come
  std::thread launcher([&] {
    std::array<char, 4096> request;
    for (const std::string& answer : kBegin) {
      if (recv(waiting.ends[1], request.data(), request.size(), 0) <= 0) return;
      send(waiting.ends[1], answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  });
  const auto barrier = identity_from(environment_of(waiting.variables(1, 2)), 200'000);
  launcher.join();
  REQUIRE(!barrier.has_value());
  EXPECT(barrier.error().code == ErrorCode::deadline);
  EXPECT(barrier.error().message.contains("rank 1 of 2: not all ranks came"));
}

}  // namespace
}  // namespace diji::collective
