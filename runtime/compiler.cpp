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

KernelBuilder::Built KernelBuilder::cached(const Wanted& wanted) {
  auto blob = cache_.find(wanted.key, device_.info().fingerprint);
  if (!blob) return {};
  auto loaded = device_.load(*blob);
  if (loaded) return {.module = *std::move(loaded), .blob = *std::move(blob)};
  warn("kernel {}: the cached one does not load ({}) and is compiled again", wanted.entry,
       loaded.error().message);
  return {};
}

Result<std::shared_ptr<const std::vector<Module>>> KernelBuilder::build(
    std::vector<std::vector<std::byte>>* kept) {
  const std::string& fingerprint = device_.info().fingerprint;
  const std::vector<Wanted> wanted_modules = this->wanted_modules();
  std::vector<Built> built;
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < wanted_modules.size(); ++i) {
    built.push_back(cached(wanted_modules[i]));
    if (!built[i].module) missing.push_back(i);
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
    cache_.store(wanted.key, wanted.entry, fingerprint, *blobs[i]);
    built[missing[i]] = {.module = TRY(device_.load(*blobs[i])), .blob = *std::move(blobs[i])};
    ++compiled_;
  }
  if (!missing.empty()) cache_.files().keep_within_limit();
  auto result = std::make_shared<std::vector<Module>>();
  for (Built& one : built) {
    result->push_back(std::move(*one.module));
    if (kept != nullptr) kept->push_back(std::move(one.blob));
  }
  return result;
}

namespace {

// Kernels made from the graph: lowered, printed, and collected for the device's compiler.
class LoweredKernels final : public KernelSource {
 public:
  LoweredKernels(DeviceTraits traits, KernelBuilder& builder)
      : traits_(std::move(traits)), builder_(builder) {}

  Result<std::vector<KernelUse>> of_body(const Graph& body) override {
    std::vector<KernelUse> uses;
    for (Kernel& kernel : TRY(lower(body, traits_))) {
      auto place = builder_.add(kernel);
      uses.push_back({.entry = std::move(place.entry),
                      .module = place.module,
                      .sizes = std::move(kernel.sizes),
                      .grid = std::move(kernel.grid),
                      .local_bytes = std::move(kernel.local_bytes),
                      .flops = std::move(kernel.flops),
                      .bytes = std::move(kernel.bytes)});
    }
    launches_.push_back(uses);
    return uses;
  }
  Result<KernelUse> of_text(const diji_op_kernel& text) override {
    auto place = builder_.add({.entry = text.entry, .text = {.declarations = {}, .function = text.text}});
    return KernelUse{.entry = std::move(place.entry), .module = place.module};
  }
  std::vector<std::vector<KernelUse>> take_launches() { return std::move(launches_); }

 private:
  DeviceTraits traits_;
  KernelBuilder& builder_;
  std::vector<std::vector<KernelUse>> launches_;
};

// Those of an earlier compilation, in its order.
class StoredKernels final : public KernelSource {
 public:
  explicit StoredKernels(const CompiledParts& parts) : parts_(parts) {}

  Result<std::vector<KernelUse>> of_body(const Graph&) override {
    if (next_ == parts_.launches.size())
      return fail(ErrorCode::malformed, "the model has more fusions than were compiled");
    const std::vector<KernelUse>& uses = parts_.launches[next_++];
    for (const KernelUse& use : uses) {
      if (use.module >= parts_.blobs.size())
        return fail(ErrorCode::malformed, "kernel {} is in module {} of {}", use.entry, use.module,
                    parts_.blobs.size());
    }
    return uses;
  }
  Result<KernelUse> of_text(const diji_op_kernel& text) override {
    return fail(ErrorCode::malformed, "kernel {} is a custom operator's", text.entry);
  }
  bool all_used() const { return next_ == parts_.launches.size(); }

 private:
  const CompiledParts& parts_;
  std::size_t next_ = 0;
};

// Everything but the modules.
Result<std::shared_ptr<Executable>> planned(Graph graph, Device& device, KernelSource& kernels,
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
                                                  const PassOptions& options, CompiledParts* parts) {
  KernelBuilder builder(device, cache);
  LoweredKernels kernels(traits_of(device), builder);
  const auto executable = TRY(planned(std::move(graph), device, kernels, options));
  executable->modules = TRY(builder.build(parts != nullptr ? &parts->blobs : nullptr));
  executable->compiled_kernels = builder.compiled();
  if (parts != nullptr) parts->launches = kernels.take_launches();
  return executable;
}

Result<std::shared_ptr<const Executable>> restore(const std::shared_ptr<const Graph>& graph, Device& device,
                                                  const CompiledParts& parts) {
  StoredKernels kernels(parts);
  auto executable = std::make_shared<Executable>();
  executable->device = &device;
  CompiledBodies bodies;
  TRY(compile_body(*executable, kernels, bodies, graph));
  if (!kernels.all_used())
    return fail(ErrorCode::malformed, "the model has fewer fusions than were compiled");
  auto modules = std::make_shared<std::vector<Module>>();
  for (const auto& blob : parts.blobs) modules->push_back(TRY(device.load(blob)));
  executable->modules = std::move(modules);
  return executable;
}

std::vector<Result<std::shared_ptr<const Executable>>> compile_together(std::span<const Graph> graphs,
                                                                        Device& device, CompileCache& cache,
                                                                        const PassOptions& options) {
  constexpr std::size_t kKernelsPerModule = 50;
  KernelBuilder builder(device, cache, kKernelsPerModule);
  LoweredKernels kernels(traits_of(device), builder);
  std::vector<Result<std::shared_ptr<Executable>>> executables;
  for (const Graph& graph : graphs) executables.push_back(planned(graph, device, kernels, options));
  const auto modules = builder.build();
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
