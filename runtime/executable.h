// What a graph is compiled to, and one run of it.
#pragma once

#include "runtime/program.h"

#include <functional>
#include <map>

namespace diji {

class DeviceGroup;

/// Ranks that the collectives of a model name.
struct RankGroup {
  std::string name;
  Dim ranks;  ///< a number, or a symbol that a run's communicator tells
};

/// Immutable after compile(), shared by threads; what changes in a run lives in an ExecutionContext.
struct Executable {
  Device* device = nullptr;
  std::vector<Program> programs;  ///< the model's first, then the bodies of its conditionals and loops
  std::vector<Constant> constants;
  std::shared_ptr<const std::vector<Module>> modules;  ///< shared by all programs
  std::vector<std::string> operators;                  ///< by Step::number
  std::vector<RankGroup> groups;                       ///< by Step::group
  int compiled_kernels = 0;                            ///< how many were not in the cache

  const Graph& graph() const { return *programs[0].graph; }
};

/// What one run used.
struct RunStats {
  std::uint64_t peak_bytes = 0;  ///< most memory that the context held during the run
  struct KernelTime {
    std::string entry;
    double milliseconds = 0;
    RunsAs runs_as = RunsAs::generated;  ///< host: a custom operator, whose name is the entry
  };
  std::vector<KernelTime> kernels;  ///< by launch, when asked for
};

/// What an observer sees right after a step.
struct Observation {
  std::size_t program = 0;  ///< of the executable
  const Graph& graph;       ///< of that program: what the values belong to
  const Step& step;
  bool complete = true;  ///< false: further steps write the same value
  const Bindings& bindings;
  /// The tensor of any value that the step reads or writes.
  std::function<Result<HostTensor>(ValueId value)> read;
};

struct RunOptions {
  /// By the names of the model's groups of ranks, on the model's device; a group that is missing has this
  /// rank alone. All ranks of a group run the same model on inputs of the same sizes. A group serves one run
  /// at a time, and a run that fails before its end aborts it, so that the other ranks end too.
  std::map<std::string, DeviceGroup*, std::less<>> groups;
  /// Whether collectives go on beside kernels that do not need them. The same bits either way. Steps that are
  /// timed or observed come one after the other.
  bool overlap = true;
  bool timed = false;  ///< each launch is waited for and its time kept
  /// Called for every step of the run, in every iteration of every loop. An error ends the run.
  std::function<Result<void>(const Observation&)> observer;
};

class Runner;

/// Everything that one concurrent run needs for itself: stream, memory, error word. Reused from run to run;
/// one thread at a time.
class ExecutionContext {
 public:
  static Result<std::unique_ptr<ExecutionContext>> create(std::shared_ptr<const Executable> executable,
                                                          MemoryPool& pool);
  ~ExecutionContext();
  ExecutionContext(const ExecutionContext&) = delete;
  ExecutionContext& operator=(const ExecutionContext&) = delete;

  /// Inputs and outputs in the order of the graph's ports. Errors: names, dtypes, ranks, sizes (mismatch),
  /// out_of_memory (the context stays usable), data errors that kernels reported or sizes that data told,
  /// device failures.
  Result<std::vector<HostTensor>> run(std::span<const HostTensor> inputs, const RunOptions& options = {});
  const RunStats& stats() const;

 private:
  explicit ExecutionContext(std::unique_ptr<Runner> runner);
  std::unique_ptr<Runner> runner_;
};

}  // namespace diji
