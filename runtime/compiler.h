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

/// What a compilation made besides the executable: with its graph, all that another process needs to run it.
struct CompiledParts {
  std::vector<std::vector<KernelUse>> launches;  ///< of each fusion, in the order of compilation
  std::vector<std::vector<std::byte>> blobs;     ///< of each module
};

/// Errors: operators without a kernel on this device (unsupported), the device's compiler (device).
Result<std::shared_ptr<const Executable>> compile(Graph graph, Device& device, CompileCache& cache,
                                                  const PassOptions& options, CompiledParts* parts = nullptr);

/// The executable of an earlier compilation for an equal device: `graph` is what the passes left of the
/// model. Errors: parts that do not fit the graph (malformed), blobs that do not load (device).
Result<std::shared_ptr<const Executable>> restore(const std::shared_ptr<const Graph>& graph, Device& device,
                                                  const CompiledParts& parts);

/// The same for graphs that are small and many: their kernels are compiled about fifty a module, which costs
/// a device's compiler one start instead of fifty. Each graph succeeds or fails alone.
std::vector<Result<std::shared_ptr<const Executable>>> compile_together(std::span<const Graph> graphs,
                                                                        Device& device, CompileCache& cache,
                                                                        const PassOptions& options);

/// Kernels for one device, by text: from the cache, else compiled (in parallel) and stored there.
class KernelBuilder {
 public:
  KernelBuilder(Device& device, CompileCache& cache, std::size_t kernels_per_module = 1);

  struct Place {
    std::size_t module;  ///< index in what build() returns
    std::string entry;   ///< the kernel's name there
  };
  /// Equal texts share one place.
  Place add(const Kernel& kernel);
  /// `blobs`: where to put what the modules were loaded from, or null.
  Result<std::shared_ptr<const std::vector<Module>>> build(
      std::vector<std::vector<std::byte>>* blobs = nullptr);
  int compiled() const { return compiled_; }

 private:
  struct Wanted {
    std::string entry;  ///< of the first kernel
    std::string text, key;
  };
  std::vector<Wanted> wanted_modules() const;
  struct Built {
    std::optional<Module> module;
    std::vector<std::byte> blob;
  };
  Built cached(const Wanted& wanted);
  Device& device_;
  CompileCache& cache_;
  std::string compiler_;  // what the cache's keys depend on besides the text
  std::size_t kernels_per_module_;
  std::vector<Kernel> kernels_;
  int compiled_ = 0;
};

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
