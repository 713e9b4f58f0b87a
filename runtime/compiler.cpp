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

KernelBuilder::Place KernelBuilder::add(const Kernel& kernel) {
  const auto same = [&](const Kernel& other) { return other.text.function == kernel.text.function; };
  const auto number = static_cast<std::size_t>(std::ranges::find_if(kernels_, same) - kernels_.begin());
  if (number == kernels_.size()) kernels_.push_back(kernel);
  const std::size_t module = number / kernels_per_module_, inside = number % kernels_per_module_;
  return {module, kernels_per_module_ == 1 ? kernel.entry : fmt::format("{}_{}", kernel.entry, inside)};
}

std::vector<ModuleText> KernelBuilder::modules() const {
  std::vector<ModuleText> modules;
  for (std::size_t first = 0; first < kernels_.size(); first += kernels_per_module_) {
    std::vector<KernelText> texts;
    for (std::size_t i = first; i < std::min(first + kernels_per_module_, kernels_.size()); ++i) {
      texts.push_back(kernels_[i].text);
      if (kernels_per_module_ == 1) continue;
      std::string& text = texts.back().function;  // in which the name stands once
      text.insert(text.find(kernels_[i].entry + "(") + kernels_[i].entry.size(),
                  fmt::format("_{}", i - first));
    }
    modules.push_back({kernels_[first].entry, module_text(texts)});
  }
  return modules;
}

namespace {

struct Built {
  std::optional<Module> module;
  std::vector<std::byte> blob;
};

// Errors: out_of_memory, in which compiling would end too.
Result<Built> cached(const std::string& entry, const std::string& key, Device& device, CompileCache& cache) {
  auto blob = cache.find(key, device.info().fingerprint);
  if (!blob) return Built{};
  auto loaded = device.load(*blob);
  if (loaded) return Built{.module = *std::move(loaded), .blob = *std::move(blob)};
  if (loaded.error().code == ErrorCode::out_of_memory) return std::unexpected(std::move(loaded).error());
  warn("kernel {}: the cached one does not load ({}) and is compiled again", entry, loaded.error().message);
  return Built{};
}

}  // namespace

Result<BuiltModules> build_modules(std::span<const ModuleText> texts, Device& device, CompileCache& cache) {
  const std::string& fingerprint = device.info().fingerprint;
  const std::string compiler =  // what keys depend on besides the text
      fmt::format("{} {}\n{}", device.plugin().name(), device.plugin().build_id(), fingerprint);
  std::vector<std::string> keys;
  std::vector<Built> built;
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    keys.push_back(CompileCache::key_of(texts[i].text, compiler));
    built.push_back(TRY(cached(texts[i].entry, keys[i], device, cache)));
    if (!built[i].module) missing.push_back(i);
  }
  std::vector<Result<std::vector<std::byte>>> blobs(missing.size());
  device.threads().parallel_for(std::ssize(missing), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      blobs[i] = device.compile(texts[missing[i]].text);
  });
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const std::string& entry = texts[missing[i]].entry;
    if (!blobs[i]) return in_context(entry, std::move(blobs[i]).error());
    built[missing[i]].module = TRY(device.load(*blobs[i]));
    cache.store(keys[missing[i]], entry, fingerprint, *blobs[i]);
    built[missing[i]].blob = *std::move(blobs[i]);
  }
  if (!missing.empty()) cache.files().keep_within_limit();
  auto modules = std::make_shared<std::vector<Module>>();
  BuiltModules result{.modules = nullptr, .blobs = {}, .compiled = static_cast<int>(missing.size())};
  for (Built& one : built) {
    modules->push_back(std::move(*one.module));
    result.blobs.push_back(std::move(one.blob));
  }
  result.modules = std::move(modules);
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
  explicit StoredKernels(const CompiledParts& parts)
      : parts_(parts), modules_(std::max(parts.blobs.size(), parts.texts.size())) {}

  Result<std::vector<KernelUse>> of_body(const Graph&) override {
    if (next_ == parts_.launches.size())
      return fail(ErrorCode::malformed, "the model has more fusions than were compiled");
    const std::vector<KernelUse>& uses = parts_.launches[next_++];
    for (const KernelUse& use : uses) {
      if (use.module >= modules_)
        return fail(ErrorCode::malformed, "kernel {} is in module {} of {}", use.entry, use.module, modules_);
    }
    return uses;
  }
  Result<KernelUse> of_text(const diji_op_kernel& text) override {
    return fail(ErrorCode::malformed, "kernel {} is a custom operator's", text.entry);
  }
  bool all_used() const { return next_ == parts_.launches.size(); }

 private:
  const CompiledParts& parts_;
  std::size_t modules_;
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
  KernelBuilder builder;
  LoweredKernels kernels(traits_of(device), builder);
  const auto executable = TRY(planned(std::move(graph), device, kernels, options));
  std::vector<ModuleText> texts = builder.modules();
  BuiltModules built = TRY(build_modules(texts, device, cache));
  executable->modules = std::move(built.modules);
  executable->compiled_kernels = built.compiled;
  if (parts != nullptr)
    *parts = {
        .launches = kernels.take_launches(), .blobs = std::move(built.blobs), .texts = std::move(texts)};
  return executable;
}

Result<std::shared_ptr<const Executable>> restore(const std::shared_ptr<const Graph>& graph, Device& device,
                                                  CompileCache& cache, const CompiledParts& parts) {
  StoredKernels kernels(parts);
  auto executable = std::make_shared<Executable>();
  executable->device = &device;
  CompiledBodies bodies;
  TRY(compile_body(*executable, kernels, bodies, graph));
  if (!kernels.all_used())
    return fail(ErrorCode::malformed, "the model has fewer fusions than were compiled");
  if (parts.blobs.empty()) {
    BuiltModules built = TRY(build_modules(parts.texts, device, cache));
    executable->modules = std::move(built.modules);
    executable->compiled_kernels = built.compiled;
    return executable;
  }
  auto modules = std::make_shared<std::vector<Module>>();
  for (const auto& blob : parts.blobs) modules->push_back(TRY(device.load(blob)));
  executable->modules = std::move(modules);
  return executable;
}

std::vector<Result<std::shared_ptr<const Executable>>> compile_together(std::span<const Graph> graphs,
                                                                        Device& device, CompileCache& cache,
                                                                        const PassOptions& options) {
  constexpr std::size_t kKernelsPerModule = 50;
  KernelBuilder builder(kKernelsPerModule);
  LoweredKernels kernels(traits_of(device), builder);
  std::vector<Result<std::shared_ptr<Executable>>> executables;
  for (const Graph& graph : graphs) executables.push_back(planned(graph, device, kernels, options));
  const auto built = build_modules(builder.modules(), device, cache);
  std::vector<Result<std::shared_ptr<const Executable>>> results;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    if (!executables[i]) {
      results.push_back(std::unexpected(std::move(executables[i]).error()));
    } else if (!built) {  // the device's compiler refused one of many: alone, each graph has its own answer
      results.push_back(compile(graphs[i], device, cache, options));
    } else {
      (*executables[i])->modules = built->modules;
      results.push_back(*std::move(executables[i]));
    }
  }
  return results;
}

}  // namespace diji
