// One run: bind sizes, plan, copy in, launch, copy out, ask the error word.
#include "base/check.h"
#include "codegen/scalar.h"
#include "graph/bind.h"
#include "runtime/executable.h"

#include <chrono>
#include <cstring>

namespace diji {

Result<std::unique_ptr<ExecutionContext>> ExecutionContext::create(
    std::shared_ptr<const Executable> executable, MemoryPool& pool) {
  Stream stream = TRY(executable->device->new_stream());
  std::unique_ptr<ExecutionContext> context(
      new ExecutionContext(std::move(executable), pool, std::move(stream)));
  context->error_word_ = TRY(pool.allocate(sizeof(std::uint64_t)));
  return context;
}

diji_place ExecutionContext::place_of(std::size_t storage) const {
  const Storage& s = executable_->storages[storage];
  return s.constant ? s.constant->place() : arena_.place(plan_.offsets[storage]);
}

Result<void> ExecutionContext::prepare(const Bindings& bindings) {
  if (arena_.bytes() > 0 && bindings == planned_for_) return {};
  MemoryPlan plan = TRY(plan_memory(*executable_, bindings, executable_->device->info().alignment));
  if (plan.bytes > arena_.bytes()) {
    arena_ = Buffer();  // back to the pool first, so that one arena at a time is held
    arena_ = TRY(pool_.allocate(plan.bytes));
  }
  plan_ = std::move(plan);
  planned_for_ = bindings;
  return {};
}

Result<void> ExecutionContext::run_step(const Step& step, std::size_t number, const Bindings& bindings) {
  if (step.entry.empty()) {
    // Sizes become data: one small integer tensor, through the typed conversion of the dtype.
    const auto values = TRY(evaluate(step.elements, bindings));
    HostTensor tensor = TRY(HostTensor::allocate(step.elements_dtype, {std::ssize(values)}));
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(tensor.mutable_bytes().data() + i * static_cast<std::size_t>(bytes_of(step.elements_dtype)),
                  &values[i], static_cast<std::size_t>(bytes_of(step.elements_dtype)));
    }
    if (values.empty()) return {};
    TRY(stream_.copy_to_device(place_of(step.storages[0]), tensor.bytes()));
    return stream_.sync();
  }
  std::vector<diji_place> places;
  for (const std::size_t storage : step.storages) places.push_back(place_of(storage));
  std::vector<std::int64_t> sizes = TRY(evaluate(step.sizes, bindings));
  sizes.push_back(static_cast<std::int64_t>(number));
  const std::int64_t grid = TRY(step.grid.evaluate(bindings));
  if (grid == 0) return {};
  diji_launch launch{};
  launch.struct_size = sizeof(launch);
  launch.entry = step.entry.c_str();
  launch.grid = grid;
  launch.places = places.data();
  launch.place_count = static_cast<std::uint32_t>(places.size());
  launch.size_count = static_cast<std::uint32_t>(sizes.size());
  launch.sizes = sizes.data();
  launch.error_word = error_word_.place();
  launch.local_bytes = static_cast<std::uint64_t>(TRY(step.local_bytes.evaluate(bindings)));
  return executable_->modules[step.module].launch(stream_, launch);
}

Result<void> ExecutionContext::check_error_word() {
  std::uint64_t word = 0;
  TRY(stream_.copy_to_host(std::as_writable_bytes(std::span(&word, 1)), error_word_.place()));
  TRY(stream_.sync());
  if (word == 0) return {};
  const auto number = static_cast<std::size_t>((word >> 8) & 0xffffff);
  std::size_t first = 0;
  std::string where = "unknown step";
  for (const Segment& segment : executable_->segments) {
    if (number >= first && number - first < segment.steps.size())
      where = segment.steps[number - first].operators;
    first += segment.steps.size();
  }
  auto error =
      fail(ErrorCode::data, "{}: {}", where, sentence_of_error(static_cast<std::int64_t>(word & 0xff)));
  error.error().op = where;
  return error;
}

Result<HostTensor> ExecutionContext::read(ValueId value, const Bindings& bindings) {
  const Type& type = executable_->graph.type(value);
  HostTensor tensor = TRY(HostTensor::allocate(type.dtype, TRY(evaluate(type.shape, bindings))));
  const auto storage = executable_->storage_of[static_cast<std::size_t>(value)];
  if (tensor.count() > 0) TRY(stream_.copy_to_host(tensor.mutable_bytes(), place_of(storage)));
  return tensor;
}

Result<void> ExecutionContext::run_steps(const Bindings& bindings, const RunOptions& options) {
  std::size_t number = 0;
  for (const Segment& segment : executable_->segments) {
    for (const Step& step : segment.steps) {
      const auto start = std::chrono::steady_clock::now();
      TRY(run_step(step, number++, bindings));
      if (options.timed && !step.entry.empty()) {
        TRY(stream_.sync());
        const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
        stats_.kernels.push_back({step.entry, elapsed.count()});
      }
      if (options.observer) {
        HostTensor seen = TRY(read(step.value, bindings));
        TRY(stream_.sync());
        options.observer(step.value, std::move(seen));
      }
    }
  }
  return {};
}

Result<std::vector<HostTensor>> ExecutionContext::run(std::span<const HostTensor> inputs,
                                                      const RunOptions& options) {
  const Graph& graph = executable_->graph;
  CHECK(inputs.size() == graph.inputs().size(), "an input for every port");
  std::vector<StaticShape> shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TRY(check_dtype(graph.inputs()[i], graph.type(graph.inputs()[i].value).dtype, inputs[i].dtype()));
    shapes.push_back(inputs[i].shape());
  }
  const Bindings bindings = TRY(bind_symbols(graph, shapes));
  TRY(prepare(bindings));
  stats_ = {.peak_bytes = plan_.bytes};
  std::vector<HostTensor> outputs;
  auto done = run_on_stream(inputs, outputs, bindings, options);
  if (done) return outputs;
  (void)stream_.sync();  // copies may still be queued that read `inputs` or write `outputs`
  return std::unexpected(std::move(done).error());
}

Result<void> ExecutionContext::run_on_stream(std::span<const HostTensor> inputs,
                                             std::vector<HostTensor>& outputs, const Bindings& bindings,
                                             const RunOptions& options) {
  const Graph& graph = executable_->graph;
  TRY(stream_.copy_to_device(error_word_.place(), std::as_bytes(std::span(&no_error_, 1))));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto storage = executable_->storage_of[static_cast<std::size_t>(graph.inputs()[i].value)];
    if (inputs[i].count() > 0) TRY(stream_.copy_to_device(place_of(storage), inputs[i].bytes()));
  }
  TRY(run_steps(bindings, options));
  for (const Port& port : graph.outputs()) outputs.push_back(TRY(read(port.value, bindings)));
  return check_error_word();
}

}  // namespace diji
