// Child processes that speak lines of JSON over a socket, and the taking of turns.
#include "tools/bench_peers.h"

#include "tools/skeletons.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

namespace diji::tools {
namespace {

constexpr int kAnswerSeconds = 600;  // for an engine to load a model, or to run a block
constexpr double kBlockSeconds = 0.1;
constexpr int kBlockRunsMax = 1000;
// Threads of engines spin for a while after a run, and would be in the next one's way.
constexpr auto kPause = std::chrono::milliseconds(100);

double median(const std::vector<double>& values) { return measured(values).median; }

}  // namespace

std::string find_python(const std::string& given) {
  if (!given.empty()) return given;
  const std::string own = ".venv/bin/python";
  std::error_code ignored;
  return std::filesystem::exists(own, ignored) ? own : "python3";
}

Peer::Peer(const std::string& python, std::vector<std::string> words) : name_(words[0]) {
  start(python, std::move(words));
}

void Peer::start(const std::string& python, std::vector<std::string> words) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return give_up(fmt::format("a socket: {}", std::strerror(errno)));
  socket_ = ends[0];
  words.insert(words.begin(), {python, "-c", std::string(peer_script()[0].text)});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const int problem = ::posix_spawnp(&pid_, python.c_str(), &actions, nullptr, arguments.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (problem != 0) {
    pid_ = -1;
    return give_up(fmt::format("{}: {}", python, std::strerror(problem)));
  }
  const Json first = receive();
  if (first.contains("absent"))
    return give_up(fmt::format("{} ({})", first["absent"].get<std::string>(), python));
  if (first.contains("version")) version_ = first["version"];
}

Peer::~Peer() { give_up(""); }

// What is asked of it later has no answer.
void Peer::give_up(std::string why) {
  if (absent_.empty()) absent_ = std::move(why);
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

// One line; an empty object where it gave up.
Json Peer::receive() {
  for (;;) {
    const std::size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      Json answer = Json::parse(unread_.substr(0, end), nullptr, false);
      unread_.erase(0, end + 1);
      if (answer.is_object()) return answer;
      give_up("an answer that is no JSON");
      return Json::object();
    }
    pollfd waiting = {socket_, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, kAnswerSeconds * 1000);
    if (ready < 0 && errno == EINTR) continue;
    std::array<char, 65536> bytes{};
    const ssize_t count = ready > 0 ? ::read(socket_, bytes.data(), bytes.size()) : 0;
    if (count <= 0) {
      give_up(ready == 0 ? fmt::format("no answer within {} s", kAnswerSeconds) : "its process has ended");
      return Json::object();
    }
    unread_.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

std::vector<double> Peer::block(int runs) {
  if (!absent_.empty()) return {};
  const std::string line = fmt::format("{}\n", runs);
  if (::send(socket_, line.data(), line.size(), MSG_NOSIGNAL) < 0) {
    give_up("its process has ended");
    return {};
  }
  const Json answer = receive();
  if (answer.contains("error")) give_up(answer["error"]);
  if (!answer.contains("seconds")) return {};
  return answer["seconds"].get<std::vector<double>>();
}

Result<Turns> take_turns(const BenchBlock& diji, const std::vector<std::unique_ptr<Peer>>& peers,
                         int rounds) {
  const auto runs_for = [](double seconds) {
    return static_cast<int>(std::clamp(kBlockSeconds / std::max(seconds, 1e-9), 1.0, 1.0 * kBlockRunsMax));
  };
  std::vector<int> runs(peers.size() + 1, 1);
  Turns turns;
  turns.peers.resize(peers.size());
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t i = 0; i <= peers.size(); ++i) {
      if (!peers.empty()) std::this_thread::sleep_for(kPause);
      const std::vector<double> seconds = i == 0 ? TRY(diji(runs[0])) : peers[i - 1]->block(runs[i]);
      if (seconds.empty()) continue;
      const double middle = median(seconds);
      if (round == 0) {
        runs[i] = runs_for(middle);
      } else {
        (i == 0 ? turns.seconds : turns.peers[i - 1]).push_back(middle);
      }
    }
  }
  return turns;
}

void fill(BenchRow& row, const Turns& turns, const std::vector<std::unique_ptr<Peer>>& peers,
          const std::function<double(double)>& to_value) {
  const Measured own = measured(turns.seconds);
  row.value = to_value(own.median);
  row.spread = own.spread;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    PeerRow peer{.name = peers[i]->name(), .version = peers[i]->version(), .absent = peers[i]->absent()};
    const std::vector<double>& seconds = turns.peers[i];
    if (peer.absent.empty() && seconds.size() == turns.seconds.size()) {
      std::vector<double> ratios;
      for (std::size_t round = 0; round < seconds.size(); ++round)
        ratios.push_back(seconds[round] / turns.seconds[round]);
      peer.value = to_value(median(seconds));
      std::ranges::sort(ratios);
      peer.times_as_fast = median(ratios);
      peer.low = ratios[ratios.size() / 4];
      peer.high = ratios[ratios.size() - 1 - ratios.size() / 4];
    } else if (peer.absent.empty()) {
      peer.absent = "it answered in some rounds only";
    }
    row.peers.push_back(std::move(peer));
  }
}

}  // namespace diji::tools
