// Custom operators in a run: the host's function, on device memory where the host sees it, else on copies.
#include "base/checked.h"
#include "device/device.h"
#include "graph/bind.h"
#include "graph/custom_op.h"
#include "runtime/frame.h"

#include <chrono>

namespace diji {
namespace {

std::unexpected<Error> at_node(const Node& node, Error error) {
  if (node.name.empty()) return std::unexpected(std::move(error));
  return in_context(node.name, std::move(error));
}

}  // namespace

// A value as the host may read it; null where there is nothing to see but a copy.
Result<std::byte*> Runner::mapped(diji_place place) {
  if (!executable_->device->info().host_visible || place.buffer == nullptr) return nullptr;
  void* memory = nullptr;
  const diji_status status = executable_->device->plugin().table().map(place.buffer, &memory);
  if (status != DIJI_OK) {
    return fail(ErrorCode::device, "{}: map: {}", executable_->device->name(),
                executable_->device->plugin().last_error(status));
  }
  return static_cast<std::byte*>(memory) + place.offset;
}

// Operands, after everything before them has run without an error. Copies are kept in `copies`.
Result<std::vector<OperandView>> Runner::custom_operands(Frame& frame, const Node& node,
                                                         std::vector<HostTensor>& copies) {
  const Graph& graph = *frame.program.graph;
  std::vector<OperandView> operands;
  copies.reserve(node.inputs.size());
  for (const ValueId id : node.inputs) {
    operands.emplace_back();
    if (id == ValueId::none) continue;
    if (const auto& constant = graph.value(id).constant) {
      operands.back() = OperandView::of(*constant);
    } else if (std::byte* memory = TRY(mapped(frame.place(id))); memory != nullptr) {
      OperandView& view = operands.back();
      view = {.present = true, .dtype = graph.type(id).dtype, .data = memory};
      view.sizes = TRY(evaluate(graph.type(id).shape, frame.bindings));
      view.strides = contiguous_strides(view.sizes);
    } else {
      copies.push_back(TRY(read(frame, id)));
      operands.back() = OperandView::of(copies.back());
    }
  }
  TRY(read_bytes({}, {}));  // waits, and asks the error word
  return operands;
}

Result<void> Runner::run_custom(Frame& frame, const Control& control, ControlFrame& state) {
  const Graph& graph = *frame.program.graph;
  const Node& node = graph.node(control.node);
  const CustomOp& op = *node.op->custom;
  const auto start = std::chrono::steady_clock::now();
  std::vector<HostTensor> copies, results;
  const WaitsForStream wait(stream_);
  const auto operands = TRY(custom_operands(frame, node, copies));
  auto shapes = op.shapes(operands, node.attributes);
  if (!shapes) return at_node(node, std::move(shapes).error());
  state.results.resize(node.outputs.size());
  std::vector<std::byte*> memory;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    results.push_back(TRY(HostTensor::allocate(graph.type(node.outputs[i]).dtype, {0})));
    const DType dtype = results[i].dtype();
    const auto count = checked_product((*shapes)[i]);
    const auto bytes = count ? checked_mul<std::int64_t>(*count, bytes_of(dtype)) : std::nullopt;
    if (!bytes)
      return fail(ErrorCode::mismatch, "{}: {} has more bytes than 64 bits can count", op.record().name,
                  text_of((*shapes)[i]));
    TRY(ensure(state.results[i], static_cast<std::uint64_t>(*bytes)));
    frame.place(node.outputs[i]) = state.results[i].place();
    memory.push_back(TRY(mapped(state.results[i].place())));
    if (memory.back() != nullptr) continue;
    results[i] = TRY(HostTensor::allocate(dtype, (*shapes)[i]));
    memory.back() = results[i].mutable_bytes().data();
  }
  if (auto ran = op.run(operands, node.attributes, *shapes, memory); !ran)
    return at_node(node, std::move(ran).error());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].count() > 0) TRY(stream_.copy_to_device(state.results[i].place(), results[i].bytes()));
  }
  TRY(stream_.sync());
  if (options_->timed) {
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    stats_.kernels.push_back({std::string(node.op->name), elapsed.count(), RunsAs::host});
  }
  ++frame.version;
  return bind_results(graph, node, *shapes, frame.bindings);
}

}  // namespace diji
