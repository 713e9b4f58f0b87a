// Graph to Executable: passes, lowering, the compile cache, the device's compiler.
#pragma once

#include "diji/custom_op.h"
#include "passes/passes.h"
#include "runtime/compile_cache.h"
#include "runtime/executable.h"

#include <map>
#include <memory>
#include <optional>

namespace diji {

/// A module before the device's compiler.
struct ModuleText {
  std::string entry;  ///< of the first kernel: what messages call it by
  std::string text;
};

/// What a compilation made besides the executable: with its graph, all that another process needs to run it.
struct CompiledParts {
  std::vector<std::vector<KernelUse>> launches;  ///< of each fusion, in the order of compilation
  std::vector<std::vector<std::byte>> blobs;     ///< of each module
  std::vector<ModuleText> texts;                 ///< of each module
};

/// Errors: operators without a kernel on this device (unsupported), the device's compiler (device).
Result<std::shared_ptr<const Executable>> compile(Graph graph, Device& device, CompileCache& cache,
                                                  const PassOptions& options, CompiledParts* parts = nullptr);

/// The executable of an earlier compilation for an equal device: `graph` is what the passes left of the
/// model. Modules are loaded from their blobs; where there are none, built from their texts as compile()
/// does. Errors: parts that do not fit the graph (malformed), blobs that do not load, texts that do not
/// compile (device).
Result<std::shared_ptr<const Executable>> restore(const std::shared_ptr<const Graph>& graph, Device& device,
                                                  CompileCache& cache, const CompiledParts& parts);

/// The same for graphs that are small and many: their kernels are compiled about fifty a module, which costs
/// a device's compiler one start instead of fifty. Each graph succeeds or fails alone.
std::vector<Result<std::shared_ptr<const Executable>>> compile_together(std::span<const Graph> graphs,
                                                                        Device& device, CompileCache& cache,
                                                                        const PassOptions& options);

/// Collects kernels of one device, by text, into modules.
class KernelBuilder {
 public:
  explicit KernelBuilder(std::size_t kernels_per_module = 1) : kernels_per_module_(kernels_per_module) {}

  struct Place {
    std::size_t module;  ///< index in modules()
    std::string entry;   ///< the kernel's name there
  };
  /// Equal texts share one place.
  Place add(const Kernel& kernel);
  /// What add() collected, ready for build_modules().
  std::vector<ModuleText> modules() const;

 private:
  std::size_t kernels_per_module_;
  std::vector<Kernel> kernels_;
};

struct BuiltModules {
  std::shared_ptr<const std::vector<Module>> modules;
  std::vector<std::vector<std::byte>> blobs;  ///< what they were loaded from
  int compiled = 0;                           ///< how many were not in the cache
};
/// From the cache, else compiled (in parallel) and stored there.
Result<BuiltModules> build_modules(std::span<const ModuleText> texts, Device& device, CompileCache& cache);

/// Where a compilation of programs has its kernels from.
class KernelSource {
 public:
  virtual ~KernelSource() = default;
  /// The launches that compute a fusion's body.
  virtual Result<std::vector<KernelUse>> of_body(const Graph& body) = 0;
  /// Entry and module of a custom operator's kernel text.
  virtual Result<KernelUse> of_text(const diji_op_kernel& text) = 0;
};

/// What programs of one executable share while it is compiled.
struct CompiledBodies {
  std::map<const Graph*, std::size_t> programs;
  std::map<const HostTensor*, diji_place> constants;
};
/// The number of the program for a graph after the passes; bodies in it are compiled too. The first one is
/// the model.
Result<std::size_t> compile_body(Executable& executable, KernelSource& kernels, CompiledBodies& bodies,
                                 const std::shared_ptr<const Graph>& graph);

DeviceTraits traits_of(const DeviceInfo& info);
inline DeviceTraits traits_of(const Device& device) { return traits_of(device.info()); }

/// The kernel text that a custom operator's node runs as on devices of this dialect; null: the host's
/// function.
const diji_op_kernel* kernel_of(const Graph& graph, const Node& node, std::string_view dialect);

}  // namespace diji
