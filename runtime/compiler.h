// Graph to Executable: passes, lowering, the compile cache, the device's compiler.
#pragma once

#include "passes/passes.h"
#include "runtime/compile_cache.h"
#include "runtime/executable.h"

#include <map>
#include <memory>

namespace diji {

/// Errors: operators without a kernel on this device (unsupported), the device's compiler (device).
Result<std::shared_ptr<const Executable>> compile(Graph graph, Device& device, CompileCache& cache,
                                                  const PassOptions& options);

/// Kernels for one device, by text: from the cache, else compiled (in parallel) and stored there.
class KernelBuilder {
 public:
  KernelBuilder(Device& device, CompileCache& cache);
  /// The number of the module that will hold this kernel; equal texts share one.
  std::size_t add(const Kernel& kernel);
  Result<std::vector<Module>> build();
  int compiled() const { return compiled_; }

 private:
  struct Wanted {
    std::string entry, text, key;
  };
  Result<Module> cached(const Wanted& wanted);
  Device& device_;
  CompileCache& cache_;
  std::string compiler_;  // what the cache's keys depend on besides the text
  std::vector<Wanted> wanted_;
  int compiled_ = 0;
};

/// What programs of one executable share while it is compiled.
struct CompiledBodies {
  std::map<const Graph*, std::size_t> programs;
  std::map<const HostTensor*, diji_place> constants;
};
/// The number of the program for a graph after the passes; bodies in it are compiled too. The first one is
/// the model.
Result<std::size_t> compile_body(Executable& executable, KernelBuilder& kernels, CompiledBodies& bodies,
                                 const std::shared_ptr<const Graph>& graph);

DeviceTraits traits_of(const Device& device);

}  // namespace diji
