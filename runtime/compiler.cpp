// Compilation of a graph for one device.
#include "runtime/compiler.h"

#include "base/log.h"

#include <algorithm>
#include <optional>

namespace diji {

DeviceTraits traits_of(const Device& device) {
  const DeviceInfo& info = device.info();
  return {.dialect = info.dialect,
          .vector_bytes = static_cast<int>(info.vector_bytes),
          .vector_registers = static_cast<int>(info.vector_registers),
          .lanes_max = static_cast<int>(info.lanes_max),
          .without_f64 = info.without_f64,
          .simt = info.simt};
}

KernelBuilder::KernelBuilder(Device& device, CompileCache& cache)
    : device_(device),
      cache_(cache),
      compiler_(fmt::format("{} {}\n{}", device.plugin().name(), device.plugin().build_id(),
                            device.info().fingerprint)) {}

std::size_t KernelBuilder::add(const Kernel& kernel) {
  std::string key = CompileCache::key_of(kernel.text, compiler_);
  const auto found = std::ranges::find(wanted_, key, &Wanted::key);
  if (found != wanted_.end()) return static_cast<std::size_t>(found - wanted_.begin());
  wanted_.push_back({kernel.entry, kernel.text, std::move(key)});
  return wanted_.size() - 1;
}

Result<Module> KernelBuilder::cached(const Wanted& wanted) {
  const auto blob = cache_.find(wanted.key, device_.info().fingerprint);
  if (!blob) return fail(ErrorCode::not_found, "not in the cache");
  auto loaded = device_.load(*blob);
  if (!loaded)
    warn("kernel {}: the cached one does not load ({}) and is compiled again", wanted.entry,
         loaded.error().message);
  return loaded;
}

Result<std::vector<Module>> KernelBuilder::build() {
  const std::string& fingerprint = device_.info().fingerprint;
  std::vector<std::optional<Module>> modules(wanted_.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    if (auto loaded = cached(wanted_[i])) {
      modules[i] = std::move(*loaded);
    } else {
      missing.push_back(i);
    }
  }
  std::vector<Result<std::vector<std::byte>>> blobs(missing.size());
  device_.threads().parallel_for(std::ssize(missing), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      blobs[static_cast<std::size_t>(i)] =
          device_.compile(wanted_[missing[static_cast<std::size_t>(i)]].text);
    }
  });
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const Wanted& wanted = wanted_[missing[i]];
    if (!blobs[i]) return in_context(wanted.entry, std::move(blobs[i]).error());
    modules[missing[i]] = TRY(device_.load(*blobs[i]));
    cache_.store(wanted.key, wanted.entry, fingerprint, *blobs[i]);
    ++compiled_;
  }
  if (!missing.empty()) cache_.keep_within_limit();
  std::vector<Module> result;
  for (auto& module : modules) result.push_back(std::move(*module));
  return result;
}

Result<std::shared_ptr<const Executable>> compile(Graph graph, Device& device, CompileCache& cache,
                                                  const PassOptions& options) {
  if (device.info().dialect.empty()) {
    return fail(
        ErrorCode::device,
        "{} is a tier-0 device: it has memory but compiles no kernels; its plugin needs compile, load and "
        "launch (tier 1), or use --device cpu",
        device.name());
  }
  auto executable = std::make_shared<Executable>();
  executable->device = &device;
  KernelBuilder kernels(device, cache);
  CompiledBodies bodies;
  auto optimised = std::make_shared<const Graph>(TRY(run_pipeline(std::move(graph), options)));
  TRY(compile_body(*executable, kernels, bodies, optimised));
  executable->modules = TRY(kernels.build());
  executable->compiled_kernels = kernels.compiled();
  return executable;
}

}  // namespace diji
