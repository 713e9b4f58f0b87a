// One run of the model: bind sizes, copy in, run the model's frame, copy out, ask the error word.
#include "base/check.h"
#include "base/host_memory.h"
#include "codegen/scalar.h"
#include "graph/bind.h"
#include "runtime/frame.h"

namespace diji {

Result<std::unique_ptr<ExecutionContext>> ExecutionContext::create(
    std::shared_ptr<const Executable> executable, MemoryPool& pool) {
  return with_host_memory([&]() -> Result<std::unique_ptr<ExecutionContext>> {
    Stream stream = TRY(executable->device->new_stream());
    auto runner = std::make_unique<Runner>(std::move(executable), pool, std::move(stream));
    TRY(runner->create_error_word());
    return std::unique_ptr<ExecutionContext>(new ExecutionContext(std::move(runner)));
  });
}

ExecutionContext::ExecutionContext(std::unique_ptr<Runner> runner) : runner_(std::move(runner)) {}
ExecutionContext::~ExecutionContext() = default;

Result<std::vector<HostTensor>> ExecutionContext::run(std::span<const HostTensor> inputs,
                                                      const RunOptions& options) {
  return with_host_memory([&] { return runner_->run(inputs, options); });
}

const RunStats& ExecutionContext::stats() const { return runner_->stats(); }

Result<void> Runner::create_error_word() {
  error_word_ = TRY(pool_.allocate(sizeof(std::uint64_t)));
  return {};
}

Result<void> Runner::check_error_word(std::uint64_t word) const {
  if (word == 0) return {};
  const auto number = static_cast<std::size_t>((word >> 8) & 0xffffff);
  const std::string where =
      number < executable_->operators.size() ? executable_->operators[number] : "unknown step";
  const auto code = static_cast<std::int64_t>(word & 0xff);
  std::string what(sentence_of_error(code));
  // The upper half is the low half of the value that is wrong.
  if (code == kErrorIndexOutOfRange)
    what = fmt::format("index {} is out of range", static_cast<std::int32_t>(word >> 32));
  auto error = fail(ErrorCode::data, "{}: {}", where, what);
  error.error().op = where;
  return error;
}

Result<std::vector<HostTensor>> Runner::run(std::span<const HostTensor> inputs, const RunOptions& options) {
  const Graph& graph = executable_->graph();
  CHECK(inputs.size() == graph.inputs().size(), "an input for every port");
  std::vector<StaticShape> shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TRY(check_dtype(graph.inputs()[i], graph.type(graph.inputs()[i].value).dtype, inputs[i].dtype()));
    shapes.push_back(inputs[i].shape());
  }
  if (model_ == nullptr) model_ = std::make_unique<Frame>(*executable_, 0);
  options_ = &options;
  frames_done_ = false;
  model_->bind(TRY(bind_symbols(graph, shapes, TRY(bind_groups()))));
  stats_ = {.peak_bytes = held_bytes_};
  std::vector<HostTensor> outputs;
  outputs.reserve(graph.outputs().size());
  auto done = with_host_memory([&] { return run_model(*model_, inputs, outputs); });
  options_ = nullptr;
  if (done) return outputs;
  end_exchanges(done.error());
  {
    const WaitsForStream queued(stream_);
  }  // copies that read `inputs` or write `outputs`
  if (done.error().code != ErrorCode::data && done.error().code != ErrorCode::mismatch) {
    // Whatever sizes led here, and whatever was lost, the next run begins with nothing.
    model_.reset();
    arena_ = Buffer();
    held_bytes_ = 0;
  }
  return std::unexpected(std::move(done).error());
}

Result<void> Runner::run_model(Frame& frame, std::span<const HostTensor> inputs,
                               std::vector<HostTensor>& outputs) {
  const Graph& graph = executable_->graph();
  TRY(stream_.copy_to_device(error_word_.place(), std::as_bytes(std::span(&no_error_, 1))));
  TRY(prepare(frame, 0));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].count() > 0)
      TRY(stream_.copy_to_device(frame.place(graph.inputs()[i].value), inputs[i].bytes()));
  }
  TRY(run_frame(frame));
  frames_done_ = true;
  for (const Port& port : graph.outputs()) outputs.push_back(TRY(read(frame, port.value)));
  std::uint64_t word = 0;
  TRY(stream_.copy_to_host(std::as_writable_bytes(std::span(&word, 1)), error_word_.place()));
  TRY(stream_.sync());
  return check_error_word(word);
}

}  // namespace diji
