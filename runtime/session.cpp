// Loading, coverage, and runs by name.
#include "runtime/session.h"

#include "base/files.h"
#include "base/log.h"
#include "base/nearest.h"
#include "graph/custom_op.h"
#include "graph/reference.h"
#include "graph/text.h"
#include "ops/catalog.h"
#include "ops/random_numbers.h"
#include "plugins/cpu/cpu_plugin.h"
#include "plugins/cuda_like/cuda_like_plugin.h"
#include "plugins/opencl/opencl_plugin.h"
#include "plugins/sim/sim_plugin.h"
#include "runtime/model_file.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace diji {
namespace {

bool is_graph_text(const std::filesystem::path& path) { return path.extension() == ".txt"; }

Result<Graph> read_graph_text(const std::filesystem::path& path, const SessionOptions& options) {
  const auto bytes = TRY(read_file(path));
  const auto find = [&](std::string_view name) {
    const OpDef* own = find_custom(options.custom_ops, name);
    return own != nullptr ? own : find_op(name);
  };
  auto parsed = parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, find);
  if (parsed) return parsed;
  parsed.error().file = path.string();
  return in_context(path.string(), std::move(parsed).error());
}

std::unexpected<Error> about_input(std::string sentence) { return fail(ErrorCode::mismatch, "{}", sentence); }

// The key comes last among the ports.
std::span<const Port> without_key(const Graph& graph) {
  return std::span(graph.inputs()).first(graph.inputs().size() - (draws(graph) ? 1 : 0));
}

std::vector<std::string> port_names(std::span<const Port> ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(port.name);
  return names;
}

// In the order of the ports, each once.
Result<std::vector<HostTensor>> in_order(const Graph& graph,
                                         const std::map<std::string, HostTensor>& inputs) {
  const std::vector<Port>& ports = graph.inputs();
  const std::vector<std::string> names = port_names(without_key(graph));
  for (const auto& [name, tensor] : inputs) {
    if (std::ranges::find(ports, name, &Port::name) != ports.end()) continue;
    const std::string nearest = nearest_name(name, names);
    return about_input(fmt::format("the model has no input '{}'; {}its inputs are: {}", name,
                                   nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest),
                                   fmt::join(names, ", ")));
  }
  std::vector<HostTensor> ordered;
  for (const Port& port : ports) {
    const auto found = inputs.find(port.name);
    if (found == inputs.end()) {
      return about_input(
          fmt::format("input '{}' ({}) is missing", port.name, text_of(graph.type(port.value))));
    }
    ordered.push_back(found->second);
  }
  return ordered;
}

// In order, with the key of a session's first run where one is needed.
Result<std::vector<HostTensor>> of_first_run(const Graph& graph,
                                             const std::map<std::string, HostTensor>& inputs) {
  return in_order(graph, draws(graph) ? with_key(inputs, 0, 0) : inputs);
}

}  // namespace

bool draws(const Graph& graph) { return !graph.inputs().empty() && graph.inputs().back().name == kRandomKey; }

// Tensors share their bytes: a copy of the map is cheap beside a run.
std::map<std::string, HostTensor> with_key(std::map<std::string, HostTensor> inputs, std::uint64_t seed,
                                           std::uint64_t run) {
  inputs.try_emplace(std::string(kRandomKey), random_key(seed, run));
  return inputs;
}

Result<Graph> read_model(const std::filesystem::path& path, const SessionOptions& options) {
  if (path.extension() == kModelFileSuffix) return read_model_file(path);
  if (is_graph_text(path)) return read_graph_text(path, options);
  ImportedModel model = TRY(import_model(path, options, false));
  return std::move(model.graph);
}

Result<std::vector<HostTensor>> interpret_by_name(const Graph& graph, Arithmetic arithmetic,
                                                  const std::map<std::string, HostTensor>& inputs) {
  const std::vector<HostTensor> ordered = TRY(of_first_run(graph, inputs));
  std::vector<HostTensor> outputs = TRY(interpret(graph, ordered, arithmetic));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Array exact = array_of(outputs[i]);
    exact.dtype = graph.type(graph.outputs()[i].value).dtype;
    outputs[i] = TRY(tensor_of(exact));
  }
  return outputs;
}

std::string default_device() {
  const char* name = std::getenv("DIJI_DEVICE");
  return name == nullptr || *name == '\0' ? "cpu" : name;
}

std::span<const diji_device_plugin_table* const> built_in_plugins() {
  static const std::array kTables = {diji_plugin_cpu(),
                                     diji_plugin_opencl(),
                                     diji_plugin_cuda(),
                                     diji_plugin_hip(),
                                     diji_plugin_musa(),
                                     diji_plugin_maca(),
                                     diji_plugin_sim(diji_plugin_cpu())};
  // The virtual accelerators come last and only where somebody has described one.
  const char* simulated = std::getenv("DIJI_SIM");
  const bool all = simulated != nullptr && *simulated != '\0';
  return std::span(kTables).first(kTables.size() - (all ? 0 : 1));
}

Result<std::unique_ptr<Session>> Session::open(DeviceList& devices, const std::filesystem::path& path,
                                               const SessionOptions& options) {
  SessionOptions named = options;
  if (named.name.empty()) named.name = path.filename().string();
  if (is_graph_text(path)) {
    if (!options.fixed_dims.empty() || !options.constants.empty())
      return fail(ErrorCode::usage, "{}: sizes and constants are given to ONNX models only", path.string());
    return of(devices, TRY(read_graph_text(path, options)), named);
  }
  if (path.extension() == kModelFileSuffix) {
    if (!options.fixed_dims.empty() || !options.constants.empty() || !options.passes.disabled_rules.empty())
      return fail(ErrorCode::usage, "{}: sizes, constants and rules were settled when it was compiled",
                  path.string());
    Device* device = TRY(devices.open(options.device.empty() ? default_device() : options.device));
    OpenedModel model = TRY(open_model_file(path, *device));
    auto session = with(std::move(model.executable), std::move(model.coverage), named, nullptr);
    session->cache_miss_ = {};
    return session;
  }
  return open_in(devices, path, named, nullptr);
}

Result<std::unique_ptr<Session>> Session::open_in(DeviceList& devices, const std::filesystem::path& path,
                                                  const SessionOptions& options,
                                                  std::shared_ptr<MemoryPool> pool) {
  const auto device = devices.open(options.device.empty() ? default_device() : options.device);
  if (!device) {
    TRY(import_model(path, options, false));  // what is wrong with the model is said first
    return std::unexpected(device.error());
  }
  auto model = open_model(path, options, **device, false);
  if (!model) {
    if (model.error().deciding_values.empty()) return std::unexpected(std::move(model).error());
    return open_staged(devices, path, options, model.error());
  }
  auto session = with(std::move(model->executable), std::move(model->coverage), options, std::move(pool));
  session->cache_miss_ = std::move(model->miss);
  session->open_stretching_ = [path, options, device = *device,
                               digest =
                                   std::move(model->digest)]() -> Result<std::shared_ptr<const Executable>> {
    OpenedModel again = TRY(open_model(path, options, *device, true));
    if (again.digest == digest) return std::move(again.executable);
    return fail(ErrorCode::mismatch, "{}: the file has changed since it was opened", path.string());
  };
  return session;
}

Result<std::unique_ptr<Session>> Session::of(DeviceList& devices, Graph graph,
                                             const SessionOptions& options) {
  Device* device = TRY(devices.open(options.device.empty() ? default_device() : options.device));
  SessionOptions named = options;
  if (named.name.empty()) named.name = graph.name;
  Coverage coverage = coverage_of(graph, device->info().dialect);
  CompileCache cache;
  return with(TRY(compile(std::move(graph), *device, cache, options.passes)), std::move(coverage), named,
              nullptr);
}

std::unique_ptr<Session> Session::with(std::shared_ptr<const Executable> executable, Coverage coverage,
                                       const SessionOptions& options, std::shared_ptr<MemoryPool> pool) {
  std::unique_ptr<Session> session(new Session());
  session->coverage_ = std::move(coverage);
  session->seed_ = options.seed;
  session->pool_ = pool != nullptr ? std::move(pool)
                                   : std::make_shared<MemoryPool>(*executable->device, options.name,
                                                                  options.memory_limit_bytes);
  session->main_.executable = std::move(executable);
  session->outputs_ = session->graph().outputs();
  return session;
}

Result<std::unique_ptr<ExecutionContext>> Session::take_context(Form& form) {
  {
    const std::scoped_lock lock(mutex_);
    if (!form.idle.empty()) {
      auto context = std::move(form.idle.back());
      form.idle.pop_back();
      return context;
    }
  }
  return ExecutionContext::create(form.executable, *pool_);
}

void Session::release_idle() {
  {
    const std::scoped_lock lock(mutex_);
    main_.idle.clear();
    if (stretching_) stretching_->idle.clear();
  }
  pool_->trim();
}

// Null where the model has no such form.
Result<Session::Form*> Session::stretching_form() {
  const std::scoped_lock lock(stretching_mutex_);
  if (open_stretching_) {
    const auto executable = open_stretching_();
    if (!executable && executable.error().code == ErrorCode::out_of_memory)
      return std::unexpected(executable.error());  // the next run tries again
    open_stretching_ = nullptr;
    if (!executable) {
      warn("no form of the model that stretches sizes of 1: {}", executable.error().message);
      return nullptr;
    }
    warn("a size of 1 is stretched in a run: the model was compiled in that form too, {} kernels new",
         (*executable)->compiled_kernels);
    const std::scoped_lock idle_lock(mutex_);
    stretching_ = Form{.executable = *executable, .idle = {}};
  }
  return stretching_ ? &*stretching_ : nullptr;
}

Result<std::vector<HostTensor>> Session::run_form(Form& form, std::span<const HostTensor> inputs,
                                                  RunStats* stats, const RunOptions& options) {
  auto context = TRY(take_context(form));
  auto outputs = context->run(inputs, options);
  if (!outputs && outputs.error().code == ErrorCode::out_of_memory) {
    release_idle();  // memory that earlier runs side by side left with contexts nobody uses now
    outputs = context->run(inputs, options);
  }
  if (stats != nullptr) *stats = context->stats();
  const std::scoped_lock lock(mutex_);
  form.idle.push_back(std::move(context));
  return outputs;
}

Result<std::vector<HostTensor>> Session::run(const std::map<std::string, HostTensor>& inputs, RunStats* stats,
                                             const RunOptions& options) {
  if (staged_ != nullptr) return run_staged(inputs, stats, options);
  if (!draws(graph()) || inputs.contains(std::string(kRandomKey))) return run_whole(inputs, stats, options);
  return run_whole(with_key(inputs, seed_, runs_++), stats, options);
}

std::span<const Port> Session::inputs() const { return without_key(graph()); }

Result<std::vector<HostTensor>> Session::run_whole(const std::map<std::string, HostTensor>& inputs,
                                                   RunStats* stats, const RunOptions& options) {
  const std::vector<HostTensor> ordered = TRY(in_order(graph(), inputs));
  auto outputs = run_form(main_, ordered, stats, options);
  if (outputs || !outputs.error().stretchable) return outputs;
  Form* form = TRY(stretching_form());
  if (form == nullptr) return outputs;
  auto stretched = run_form(*form, ordered, stats, options);
  // Sizes that fit neither form: the sentence about the model's own is the clearer one.
  return stretched || stretched.error().code != ErrorCode::mismatch ? std::move(stretched)
                                                                    : std::move(outputs);
}

Result<PeakPlan> Session::planned_peak(const std::map<std::string, HostTensor>& inputs) const {
  std::vector<StaticShape> shapes;
  for (const HostTensor& tensor : TRY(of_first_run(graph(), inputs))) shapes.push_back(tensor.shape());
  PeakPlan plan = TRY(plan_peak(executable(), shapes));
  // The rest of a staged model is compiled when the values that decide it are known.
  if (staged_ != nullptr) plan.open = "values decide ranks or axes";
  return plan;
}

}  // namespace diji
