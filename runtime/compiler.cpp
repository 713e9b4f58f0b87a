// Compilation of a graph for one device.
#include "runtime/compiler.h"

#include "base/log.h"
#include "graph/primitives.h"

#include <algorithm>
#include <optional>

namespace diji {
namespace {

// "add, multiply, tanh": what a message calls a kernel by.
std::string operators_of(const Graph& body) {
  std::vector<std::string_view> names;
  for (const Node& node : body.nodes()) {
    const auto name = node.op->name.substr(node.op->name.find('.') + 1);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

class Compilation {
 public:
  Compilation(Executable& executable, KernelBuilder& kernels)
      : executable_(executable), kernels_(kernels), graph_(executable.graph) {}

  Result<void> run() {
    executable_.storage_of.assign(graph_.values().size(), kNowhere);
    for (const Port& port : graph_.inputs()) fresh_storage(port.value, -1);
    for (std::size_t i = 0; i < graph_.values().size(); ++i) {
      if (graph_.values()[i].constant != nullptr) TRY(constant_storage(static_cast<ValueId>(i)));
    }
    executable_.segments.resize(1);
    for (const Node& node : graph_.nodes()) TRY(this->node(node));
    const int end = static_cast<int>(steps().size());
    for (const Port& port : graph_.outputs()) extend(storage(port.value), end);
    return {};
  }

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  std::vector<Step>& steps() { return executable_.segments.back().steps; }
  std::size_t& storage(ValueId id) { return executable_.storage_of[static_cast<std::size_t>(id)]; }
  void extend(std::size_t index, int step) {
    executable_.storages[index].last_step = std::max(executable_.storages[index].last_step, step);
  }

  void fresh_storage(ValueId id, int step) {
    const Type& type = graph_.type(id);
    storage(id) = executable_.storages.size();
    executable_.storages.push_back({.bytes = element_count(type.shape) * Dim(bytes_of(type.dtype)),
                                    .first_step = step,
                                    .last_step = step});
  }

  Result<void> constant_storage(ValueId id) {
    const HostTensor& constant = *graph_.value(id).constant;
    storage(id) = executable_.storages.size();
    executable_.storages.push_back({.constant = TRY(executable_.device->import_constant(constant))});
    return {};
  }

  Result<void> node(const Node& node) {
    switch (*primitive_of(node.op)) {
      case Primitive::reshape: storage(node.outputs[0]) = storage(node.inputs[0]); return {};
      case Primitive::dims: return write_sizes(node);
      case Primitive::fusion: return launches(node);
      default: return fail(ErrorCode::unsupported, "{} was not fused into a kernel", node.op->name);
    }
  }

  Result<void> write_sizes(const Node& node) {
    fresh_storage(node.outputs[0], static_cast<int>(steps().size()));
    steps().push_back({.storages = {storage(node.outputs[0])},
                       .value = node.outputs[0],
                       .elements = node.attributes.get_or("elements", Shape{}),
                       .elements_dtype = graph_.type(node.outputs[0]).dtype,
                       .operators = "sizes"});
    return {};
  }

  Result<void> launches(const Node& node) {
    auto kernels = lower(*node.bodies[0], traits_of(*executable_.device));
    if (!kernels) return in_context(operators_of(*node.bodies[0]), std::move(kernels).error());
    fresh_storage(node.outputs[0], static_cast<int>(steps().size()));
    if (!executable_.storages.back().bytes.is_valid()) {
      return fail(ErrorCode::mismatch, "{}: a result of type {} has more bytes than 64 bits can count",
                  operators_of(*node.bodies[0]), text_of(graph_.type(node.outputs[0])));
    }
    for (Kernel& kernel : *kernels) {
      Step step{.entry = kernel.entry, .module = kernels_.add(kernel), .value = node.outputs[0]};
      for (const ValueId id : node.inputs) step.storages.push_back(storage(id));
      step.storages.push_back(storage(node.outputs[0]));
      for (const std::size_t index : step.storages) extend(index, static_cast<int>(steps().size()));
      step.sizes = std::move(kernel.sizes);
      step.grid = std::move(kernel.grid);
      step.local_bytes = std::move(kernel.local_bytes);
      step.operators = operators_of(*node.bodies[0]);
      steps().push_back(std::move(step));
    }
    return {};
  }

  Executable& executable_;
  KernelBuilder& kernels_;
  const Graph& graph_;
};

}  // namespace

DeviceTraits traits_of(const Device& device) {
  const DeviceInfo& info = device.info();
  return {.dialect = info.dialect,
          .vector_bytes = static_cast<int>(info.vector_bytes),
          .vector_registers = static_cast<int>(info.vector_registers)};
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
  executable->graph = TRY(run_pipeline(std::move(graph), options));
  executable->device = &device;
  KernelBuilder kernels(device, cache);
  TRY(Compilation(*executable, kernels).run());
  executable->modules = TRY(kernels.build());
  executable->compiled_kernels = kernels.compiled();
  return executable;
}

}  // namespace diji
