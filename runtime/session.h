// Session: a model file, loaded, compiled for a device, and run by name.
#pragma once

#include "graph/interpreter.h"
#include "runtime/compiler.h"
#include "runtime/coverage.h"
#include "runtime/peak_plan.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace diji {

struct SessionOptions {
  std::string name;                                ///< what messages call the model; "": its file or graph
  std::string device;                              ///< "": DIJI_DEVICE, else "cpu"
  std::uint64_t memory_limit_bytes = 0;            ///< of the model's own pool
  std::uint64_t seed = 0;                          ///< of the numbers that the model draws
  std::map<std::string, std::int64_t> fixed_dims;  ///< symbol to size: baked in
  std::map<std::string, HostTensor> constants;     ///< inputs that become part of the model
  std::map<std::string, HostTensor> overrides;     ///< in place of defaults; other names are left alone
  std::map<std::string, HostTensor> known;         ///< values of an ONNX model, given instead of computed
  std::vector<std::string> only;                   ///< values of an ONNX model in the place of its outputs
  std::vector<const OpDef*> custom_ops;            ///< of OpLibraries, which outlive the session
  PassOptions passes;
};

/// Thread-safe: each run takes an ExecutionContext of its own from the session's.
///
/// Where ranks or axes follow from values that an ONNX model computes (or is given as inputs), the session is
/// staged: one part computes those values, and the rest is compiled for each list of contents that comes up,
/// which is told once; the last 16 are kept. What the sizes alone decide is compiled once for all.
class Session {
 public:
  ~Session();
  /// A file that diji reads (.onnx, or .txt with the graph's text form). Errors: not_found, malformed,
  /// unsupported, no_device, out_of_memory.
  static Result<std::unique_ptr<Session>> open(DeviceList& devices, const std::filesystem::path& path,
                                               const SessionOptions& options);
  /// A graph made by a program.
  static Result<std::unique_ptr<Session>> of(DeviceList& devices, Graph graph, const SessionOptions& options);

  /// Compiled; ports and types are the model's. Of a staged session: the part that runs first, whose inputs
  /// are the model's.
  const Graph& graph() const { return executable().graph(); }
  const Executable& executable() const { return *main_.executable; }
  /// The model's. A key of random numbers is none of them, though a run takes it under its name (kRandomKey).
  std::span<const Port> inputs() const;
  /// The model's; of a staged session they have names only.
  const std::vector<Port>& outputs() const { return outputs_; }
  /// Of what is compiled by now, as are the next two.
  Coverage coverage() const;
  int compiled_kernels() const;
  std::size_t module_count() const;
  /// Why the compile cache did not have the model, passes and all; empty when it did.
  const std::string& cache_miss() const { return cache_miss_; }
  Device& device() const { return *executable().device; }
  MemoryPool& pool() { return *pool_; }

  /// Outputs in the order of the ports. Errors: missing, unknown (nearest name) or unfit inputs, data,
  /// memory. The first run in which a size of 1 meets another that it was taken to equal compiles the model
  /// once more, in the form that stretches such sizes (Graph::stretches); only such runs use that form.
  /// Random numbers follow from the session's seed and the number of the run: the n-th run of any session of
  /// one seed draws the same, and each run others.
  Result<std::vector<HostTensor>> run(const std::map<std::string, HostTensor>& inputs,
                                      RunStats* stats = nullptr, const RunOptions& options = {});
  /// What a first run on these inputs will hold of device memory, from their sizes alone.
  Result<PeakPlan> planned_peak(const std::map<std::string, HostTensor>& inputs) const;

 private:
  struct Form {
    std::shared_ptr<const Executable> executable;
    std::vector<std::unique_ptr<ExecutionContext>> idle;
  };
  struct Staged;
  Session();
  static std::unique_ptr<Session> with(std::shared_ptr<const Executable> executable, Coverage coverage,
                                       const SessionOptions& options, std::shared_ptr<MemoryPool> pool);
  static Result<std::unique_ptr<Session>> open_in(DeviceList& devices, const std::filesystem::path& path,
                                                  const SessionOptions& options,
                                                  std::shared_ptr<MemoryPool> pool);
  static Result<std::unique_ptr<Session>> open_staged(DeviceList& devices, const std::filesystem::path& path,
                                                      const SessionOptions& options, const Error& undecided);
  Result<std::vector<HostTensor>> run_staged(const std::map<std::string, HostTensor>& inputs, RunStats* stats,
                                             const RunOptions& options);
  Result<std::vector<HostTensor>> run_whole(const std::map<std::string, HostTensor>& inputs, RunStats* stats,
                                            const RunOptions& options);
  Result<std::unique_ptr<ExecutionContext>> take_context(Form& form);
  Result<std::vector<HostTensor>> run_form(Form& form, std::span<const HostTensor> inputs, RunStats* stats,
                                           const RunOptions& options);
  Result<Form*> stretching_form();
  void release_idle();
  std::shared_ptr<MemoryPool> pool_;
  std::unique_ptr<Staged> staged_;  ///< null: it is one piece
  Coverage coverage_;
  std::vector<Port> outputs_;
  Form main_;
  std::mutex mutex_;  ///< of the idle contexts
  std::mutex stretching_mutex_;
  /// Null where there is none, or when it was compiled.
  std::function<Result<std::shared_ptr<const Executable>>()> open_stretching_;
  std::optional<Form> stretching_;
  std::string cache_miss_ = "made by a program";
  std::uint64_t seed_ = 0;
  std::atomic<std::uint64_t> runs_ = 0;
};

/// The graph in a file that diji reads, as Session::open sees it. Errors: not_found, malformed, unsupported.
Result<Graph> read_model(const std::filesystem::path& path, const SessionOptions& options);

/// What the first run of a Session gives, by the interpreter: every operator by its decomposition in double,
/// no pass, no kernel, no device. Outputs have the declared dtypes. Slow. Errors: as run, and those of
/// interpret().
Result<std::vector<HostTensor>> interpret_by_name(const Graph& graph, Arithmetic arithmetic,
                                                  const std::map<std::string, HostTensor>& inputs);

/// Whether the graph has an input for the key of random numbers.
bool draws(const Graph& graph);
/// The inputs and the key of this run, where none is given.
std::map<std::string, HostTensor> with_key(std::map<std::string, HostTensor> inputs, std::uint64_t seed,
                                           std::uint64_t run);

/// The name in DIJI_DEVICE, else "cpu".
std::string default_device();
/// The plugins that are linked into diji.
std::span<const diji_device_plugin_table* const> built_in_plugins();

}  // namespace diji
