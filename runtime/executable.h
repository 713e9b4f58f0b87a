// What a graph is compiled to: launches over one arena, for every size at once.
#pragma once

#include "codegen/lower.h"
#include "device/device.h"
#include "graph/graph.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace diji {

/// A piece of memory that values live in; a reshape shares its operand's.
struct Storage {
  Dim bytes;           ///< in the arena, as an expression of the sizes
  int first_step = 0;  ///< lifetime in steps, inclusive; inputs begin at -1
  int last_step = 0;
  std::optional<Constant> constant;  ///< in memory of its own, outside the arena
};

/// One kernel launch or one write of sizes.
struct Step {
  std::string entry;
  std::size_t module = 0;             ///< index into Executable::modules
  std::vector<std::size_t> storages;  ///< places: inputs, then the output
  std::vector<Dim> sizes;
  Dim grid, local_bytes;
  ValueId value = ValueId::none;  ///< what it writes
  Shape elements;                 ///< for a write of sizes: the numbers; entry is empty then
  DType elements_dtype = DType::i64;
  std::string operators;  ///< for messages: which operators of the model this computes
};

/// Steps that are planned together: everything inside is known before the first one runs. Segments are cut
/// where a size becomes known from data; a graph without such sizes is one segment.
struct Segment {
  std::vector<Step> steps;
};

/// Immutable after compile(), shared by threads; what changes in a run lives in an ExecutionContext.
struct Executable {
  Graph graph;  ///< after the passes: ports, types and assumptions
  Device* device = nullptr;
  std::vector<Segment> segments;
  std::vector<Storage> storages;
  std::vector<std::size_t> storage_of;  ///< by ValueId
  std::vector<Module> modules;
  int compiled_kernels = 0;  ///< how many were not in the cache
};

/// Offsets of all arena storages for one set of sizes.
struct MemoryPlan {
  std::vector<std::uint64_t> offsets;  ///< by storage; unused for constants
  std::uint64_t bytes = 0;             ///< the peak, known before the run
};
/// Best fit by lifetime: the largest first, at the lowest offset free during its whole life (Pisarchyk and
/// Lee, 2020, greedy by size). Errors: a size that overflows.
Result<MemoryPlan> plan_memory(const Executable& executable, const Bindings& bindings,
                               std::uint64_t alignment);

/// What one run used.
struct RunStats {
  std::uint64_t peak_bytes = 0;  ///< arena of the run
  struct KernelTime {
    std::string entry;
    double milliseconds = 0;
  };
  std::vector<KernelTime> kernels;  ///< by step, when asked for
};

struct RunOptions {
  bool timed = false;  ///< each launch is waited for and its time kept
  /// Sees each value right after the step that wrote it (the last call counts where several steps write one
  /// value).
  std::function<void(ValueId value, HostTensor tensor)> observer;
};

/// Everything that one concurrent run needs for itself: stream, arena, error word. Reused from run to run;
/// one thread at a time.
class ExecutionContext {
 public:
  static Result<std::unique_ptr<ExecutionContext>> create(std::shared_ptr<const Executable> executable,
                                                          MemoryPool& pool);

  /// Inputs and outputs in the order of the graph's ports. Errors: names, dtypes, ranks, sizes (mismatch),
  /// out_of_memory (the context stays usable), data errors that kernels reported, device failures.
  Result<std::vector<HostTensor>> run(std::span<const HostTensor> inputs, const RunOptions& options = {});
  const RunStats& stats() const { return stats_; }

 private:
  ExecutionContext(std::shared_ptr<const Executable> executable, MemoryPool& pool, Stream stream)
      : executable_(std::move(executable)), pool_(pool), stream_(std::move(stream)) {}
  Result<void> prepare(const Bindings& bindings);
  Result<void> run_step(const Step& step, std::size_t number, const Bindings& bindings);
  Result<void> run_steps(const Bindings& bindings, const RunOptions& options);
  Result<HostTensor> read(ValueId value, const Bindings& bindings);
  Result<void> check_error_word();
  diji_place place_of(std::size_t storage) const;

  Result<void> run_on_stream(std::span<const HostTensor> inputs, std::vector<HostTensor>& outputs,
                             const Bindings& bindings, const RunOptions& options);
  std::shared_ptr<const Executable> executable_;
  MemoryPool& pool_;
  Buffer arena_, error_word_;
  Stream stream_;               // after what its work uses, so that it is waited for first
  std::uint64_t no_error_ = 0;  // what the error word is cleared with; outlives the copy
  Bindings planned_for_;
  MemoryPlan plan_;
  RunStats stats_;
};

}  // namespace diji
