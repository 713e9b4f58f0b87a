// Compilation of a graph for one device.
#include "runtime/compiler.h"

#include "base/log.h"

#include <algorithm>
#include <optional>

namespace diji {

DeviceTraits traits_of(const DeviceInfo& info) {
  return {.dialect = info.dialect,
          .vector_bytes = static_cast<int>(info.vector_bytes),
          .vector_registers = static_cast<int>(info.vector_registers),
          .lanes_max = static_cast<int>(info.lanes_max),
          .without_f64 = info.without_f64,
          .simt = info.simt};
}

KernelBuilder::KernelBuilder(Device& device, CompileCache& cache, std::size_t kernels_per_module)
    : device_(device),
      cache_(cache),
      compiler_(fmt::format("{} {}\n{}", device.plugin().name(), device.plugin().build_id(),
                            device.info().fingerprint)),
      kernels_per_module_(kernels_per_module) {}

KernelBuilder::Place KernelBuilder::add(const Kernel& kernel) {
  const auto same = [&](const Kernel& other) { return other.text.function == kernel.text.function; };
  const auto number = static_cast<std::size_t>(std::ranges::find_if(kernels_, same) - kernels_.begin());
  if (number == kernels_.size()) kernels_.push_back(kernel);
  const std::size_t module = number / kernels_per_module_, inside = number % kernels_per_module_;
  return {module, kernels_per_module_ == 1 ? kernel.entry : fmt::format("{}_{}", kernel.entry, inside)};
}

std::vector<KernelBuilder::Wanted> KernelBuilder::wanted_modules() const {
  std::vector<Wanted> modules;
  for (std::size_t first = 0; first < kernels_.size(); first += kernels_per_module_) {
    std::vector<KernelText> texts;
    for (std::size_t i = first; i < std::min(first + kernels_per_module_, kernels_.size()); ++i) {
      texts.push_back(kernels_[i].text);
      if (kernels_per_module_ == 1) continue;
      std::string& text = texts.back().function;  // in which the name stands once
      text.insert(text.find(kernels_[i].entry + "(") + kernels_[i].entry.size(),
                  fmt::format("_{}", i - first));
    }
    std::string text = module_text(texts), key = CompileCache::key_of(text, compiler_);
    modules.push_back({kernels_[first].entry, std::move(text), std::move(key)});
  }
  return modules;
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

Result<std::shared_ptr<const std::vector<Module>>> KernelBuilder::build() {
  const std::string& fingerprint = device_.info().fingerprint;
  const std::vector<Wanted> wanted_modules = this->wanted_modules();
  std::vector<std::optional<Module>> modules(wanted_modules.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < wanted_modules.size(); ++i) {
    if (auto loaded = cached(wanted_modules[i])) {
      modules[i] = std::move(*loaded);
    } else {
      missing.push_back(i);
    }
  }
  std::vector<Result<std::vector<std::byte>>> blobs(missing.size());
  device_.threads().parallel_for(std::ssize(missing), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      blobs[static_cast<std::size_t>(i)] =
          device_.compile(wanted_modules[missing[static_cast<std::size_t>(i)]].text);
    }
  });
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const Wanted& wanted = wanted_modules[missing[i]];
    if (!blobs[i]) return in_context(wanted.entry, std::move(blobs[i]).error());
    modules[missing[i]] = TRY(device_.load(*blobs[i]));
    cache_.store(wanted.key, wanted.entry, fingerprint, *blobs[i]);
    ++compiled_;
  }
  if (!missing.empty()) cache_.keep_within_limit();
  auto result = std::make_shared<std::vector<Module>>();
  for (auto& module : modules) result->push_back(std::move(*module));
  return result;
}

namespace {

// Everything but the modules.
Result<std::shared_ptr<Executable>> planned(Graph graph, Device& device, KernelBuilder& kernels,
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
  CompiledBodies bodies;
  auto optimised = std::make_shared<const Graph>(TRY(run_pipeline(std::move(graph), options)));
  TRY(compile_body(*executable, kernels, bodies, optimised));
  return executable;
}

}  // namespace

Result<std::shared_ptr<const Executable>> compile(Graph graph, Device& device, CompileCache& cache,
                                                  const PassOptions& options) {
  KernelBuilder kernels(device, cache);
  const auto executable = TRY(planned(std::move(graph), device, kernels, options));
  executable->modules = TRY(kernels.build());
  executable->compiled_kernels = kernels.compiled();
  return executable;
}

std::vector<Result<std::shared_ptr<const Executable>>> compile_together(std::span<const Graph> graphs,
                                                                        Device& device, CompileCache& cache,
                                                                        const PassOptions& options) {
  constexpr std::size_t kKernelsPerModule = 50;
  KernelBuilder kernels(device, cache, kKernelsPerModule);
  std::vector<Result<std::shared_ptr<Executable>>> executables;
  for (const Graph& graph : graphs) executables.push_back(planned(graph, device, kernels, options));
  const auto modules = kernels.build();
  std::vector<Result<std::shared_ptr<const Executable>>> results;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    if (!executables[i]) {
      results.push_back(std::unexpected(std::move(executables[i]).error()));
    } else if (!modules) {  // the device's compiler refused one of many: alone, each graph has its own answer
      results.push_back(compile(graphs[i], device, cache, options));
    } else {
      (*executables[i])->modules = *modules;
      results.push_back(*std::move(executables[i]));
    }
  }
  return results;
}

}  // namespace diji
