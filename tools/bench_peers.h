// Other engines on this machine, each in a process of its own, timed in turns with diji.
#pragma once

#include "base/error.h"
#include "tools/bench_rows.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace diji::tools {

/// Python with the engines in it: `given`, else .venv/bin/python where that is, else python3.
std::string find_python(const std::string& given);

/// A process of tools/peers/peer.py, ended with the object.
class Peer {
 public:
  /// `words`: the engine's name, threads, what to run. An engine that is not installed is a Peer that is
  /// absent. Errors: none; a process that does not start is absent too.
  Peer(const std::string& python, std::vector<std::string> words);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  const std::string& absent() const { return absent_; }
  /// Seconds of each of so many runs, after an untimed one. Where it fails the peer is absent from then on.
  std::vector<double> block(int runs);

 private:
  void start(const std::string& python, std::vector<std::string> words);
  Json receive();
  void give_up(std::string why);
  std::string name_, version_, absent_, unread_;
  int pid_ = -1, socket_ = -1;
};

/// Seconds of each of so many runs of diji, after an untimed one.
using BenchBlock = std::function<Result<std::vector<double>>(int runs)>;
struct Turns {
  std::vector<double> seconds;             ///< of diji: a median a round
  std::vector<std::vector<double>> peers;  ///< of each peer, round by round; empty: absent
};
/// diji and the peers in turns, in blocks of about 0.1 s, so that what disturbs the machine disturbs all;
/// the first round finds how many runs a block has and does not count.
Result<Turns> take_turns(const BenchBlock& diji, const std::vector<std::unique_ptr<Peer>>& peers, int rounds);

/// From seconds to a row's value and spread, with the peers' beside it. `to_value` is of a number of seconds.
void fill(BenchRow& row, const Turns& turns, const std::vector<std::unique_ptr<Peer>>& peers,
          const std::function<double(double)>& to_value);

}  // namespace diji::tools
