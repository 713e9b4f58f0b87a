// Ranks as child processes: started together, watched, ended together.
#pragma once

#include "base/error.h"
#include "collective/inspect.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace diji::tools {

struct LaunchOptions {
  int ranks = 1;
  std::optional<double> timeout_s;  ///< nothing: as the environment says
  bool tag = false;                 ///< "[3] " before each line of a rank
  bool capture = false;             ///< keep rank 0's stdout for output(), drop the others'
  bool bind = true;                 ///< each rank to its share of the cores, where there are as many as ranks
  std::vector<std::vector<int>> bindings;  ///< by rank: hardware threads; empty: as bindings_of says
  std::vector<std::string> command;
};

/// One job on this machine. Its ranks die with this process, and what they leave is cleaned here.
class LaunchedRanks {
 public:
  /// Errors: not_found (no such command), io.
  static Result<std::unique_ptr<LaunchedRanks>> start(const LaunchOptions& options);
  ~LaunchedRanks();
  LaunchedRanks(const LaunchedRanks&) = delete;
  LaunchedRanks& operator=(const LaunchedRanks&) = delete;

  /// Until all have ended: passes their lines on, hands signals on to them, and ends those who are still
  /// there some time after another was killed. The exit code of the contract.
  int wait();
  /// One line a rank: how it ended, and what it was doing; for people, after a loss.
  std::vector<std::string> report() const;
  bool lost_a_rank() const { return lost_; }
  /// Of rank 0, with capture.
  const std::string& output() const { return output_; }

 private:
  struct Rank {
    int pid = -1;
    int watch = -1;    ///< pidfd
    int output = -1;   ///< of --tag
    std::string line;  ///< not ended yet
    bool ended = false;
    int status = 0;    ///< of waitpid
    std::string last;  ///< what it was doing when somebody was lost
  };
  LaunchedRanks() = default;
  Result<void> spawn(const LaunchOptions& options, int rank);
  void reap(Rank& rank);
  void read_lines(Rank& rank, std::size_t number, bool to_the_end);
  void look_inside();
  void hold_segment();
  void kill_all(int signal);

  std::vector<Rank> ranks_;
  std::vector<std::vector<int>> bindings_;            ///< by rank; empty: nobody is bound
  int token_ = -1;                                    ///< descriptor
  std::shared_ptr<collective::HostSegment> segment_;  ///< of the ranks' first communicator
  int port_ = -1;                                     ///< descriptor that reserves the port of address_
  std::string address_;
  int signals_ = -1;
  int interrupted_ = 0;
  bool lost_ = false;
  bool capture_ = false;
  std::string output_;
  std::chrono::steady_clock::time_point end_all_at_ = std::chrono::steady_clock::time_point::max();
};

}  // namespace diji::tools
