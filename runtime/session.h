// Session: a model file, loaded, compiled for a device, and run by name.
#pragma once

#include "runtime/compiler.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace diji {

struct SessionOptions {
  std::string name;                                ///< what messages call the model; "": its file or graph
  std::string device;                              ///< "": DIJI_DEVICE, else "cpu"
  std::uint64_t memory_limit_bytes = 0;            ///< of the model's own pool
  std::map<std::string, std::int64_t> fixed_dims;  ///< symbol to size: baked in
  std::map<std::string, HostTensor> constants;     ///< inputs that become part of the model
  std::map<std::string, HostTensor> overrides;     ///< in place of defaults; other names are left alone
  PassOptions passes;
};

/// How one type of operator of the model runs.
struct CoverageRow {
  std::string op;   ///< the catalogue's name
  std::string how;  ///< native, generated, host or folded
  int count = 0;
  std::string reason;
};

/// Where the model's operators went. Operators whose results are known when the model is loaded (constants,
/// shapes) are folded; they count as generated work done ahead.
struct Coverage {
  int native = 0, generated = 0, host = 0, folded = 0;
  std::vector<CoverageRow> rows;
  std::string line() const;  ///< "95 operators: 66 generated, 29 folded, 0 native, 0 on the host"
};

/// Thread-safe: each run takes an ExecutionContext of its own from the session's.
class Session {
 public:
  /// A file that diji reads (.onnx, or .txt with the graph's text form). Errors: not_found, malformed,
  /// unsupported, no_device, out_of_memory.
  static Result<std::unique_ptr<Session>> open(DeviceList& devices, const std::filesystem::path& path,
                                               const SessionOptions& options);
  /// A graph made by a program.
  static Result<std::unique_ptr<Session>> of(DeviceList& devices, Graph graph, const SessionOptions& options);

  const Graph& graph() const { return executable_->graph(); }  ///< compiled; ports and types are the model's
  const Executable& executable() const { return *executable_; }
  const Coverage& coverage() const { return coverage_; }
  Device& device() const { return *executable_->device; }
  MemoryPool& pool() { return *pool_; }

  /// Outputs in the order of the ports. Errors: missing, unknown (nearest name) or unfit inputs, data,
  /// memory.
  Result<std::vector<HostTensor>> run(const std::map<std::string, HostTensor>& inputs,
                                      RunStats* stats = nullptr, const RunOptions& options = {});

 private:
  Session() = default;
  Result<std::unique_ptr<ExecutionContext>> take_context();
  void release_idle();
  std::unique_ptr<MemoryPool> pool_;
  std::shared_ptr<const Executable> executable_;
  Coverage coverage_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ExecutionContext>> idle_;
};

/// The name in DIJI_DEVICE, else "cpu".
std::string default_device();
/// The plugins that are linked into diji.
std::span<const diji_device_plugin_table* const> built_in_plugins();

}  // namespace diji
