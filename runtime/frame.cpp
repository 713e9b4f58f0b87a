// Segments: plan them for sizes, give values their places, launch.
#include "runtime/frame.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace diji {

// Without Stream::sync(), whose error would take memory.
WaitsForStream::~WaitsForStream() {
  if (waits_) (void)stream_.device().plugin().table().stream_sync(stream_.handle());
}

Frame::Frame(const Executable& executable, std::size_t which)
    : index(which),
      program(executable.programs[which]),
      places(program.storages.size()),
      segments(program.segments.size()),
      controls(program.segments.size()) {
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = program.storages[i].constant;
}

void Frame::bind(Bindings fresh) {
  if (fresh == bindings) return;
  bindings = std::move(fresh);
  ++version;
}

void Runner::release(Buffer& buffer) {
  held_bytes_ -= buffer.bytes();
  buffer = Buffer();
}

Result<Buffer> Runner::allocate(std::uint64_t bytes, std::uint64_t rather) {
  auto buffer = pool_.allocate(std::max(bytes, rather));
  if (!buffer && rather > bytes) buffer = pool_.allocate(bytes);
  if (!buffer) return std::unexpected(std::move(buffer).error());
  held_bytes_ += buffer->bytes();
  stats_.peak_bytes = std::max(stats_.peak_bytes, held_bytes_);
  return std::move(*buffer);
}

Result<void> Runner::ensure(Buffer& buffer, std::uint64_t bytes) {
  const std::uint64_t had = buffer.bytes();
  if (had >= bytes && had > 0) return {};
  if (had > 0) {
    // The pool may lend it to another stream at once. It goes back first, so that both are never held.
    TRY(stream_.sync());
    release(buffer);
  }
  // What grew once grows again in a loop: half as much more, so that few steps are needed.
  buffer = TRY(allocate(std::max<std::uint64_t>(bytes, 1), had + had / 2));
  return {};
}

Result<void> Runner::plan(Frame& frame, std::size_t index) {
  const Segment& segment = frame.program.segments[index];
  SegmentFrame& state = frame.segments[index];
  state.planned = false;
  const std::uint64_t alignment = executable_->device->info().alignment;
  const auto& storages = frame.program.storages;
  state.arena = TRY(plan_memory(storages, segment.arena, frame.bindings, alignment));
  state.kept = TRY(plan_memory(storages, segment.kept, frame.bindings, alignment));
  state.launches.assign(segment.steps.size(), {});
  for (std::size_t i = 0; i < segment.steps.size(); ++i) {
    const Step& step = segment.steps[i];
    if (step.kind == Step::Kind::sizes) continue;
    ReadyLaunch& launch = state.launches[i];
    launch.sizes = TRY(evaluate(step.sizes, frame.bindings));
    if (step.kind != Step::Kind::launch) continue;
    launch.sizes.push_back(step.number);
    launch.grid = TRY(step.grid.evaluate(frame.bindings));
    launch.local_bytes = static_cast<std::uint64_t>(TRY(step.local_bytes.evaluate(frame.bindings)));
    // Sizes that only this launch tells leave it not known.
    launch.flops = static_cast<std::uint64_t>(step.flops.evaluate(frame.bindings).value_or(0));
    launch.bytes = static_cast<std::uint64_t>(step.bytes.evaluate(frame.bindings).value_or(0));
  }
  TRY(write_sizes(frame, index));
  state.planned_for = frame.bindings;
  state.planned = true;
  return {};
}

Result<void> Runner::write_sizes(Frame& frame, std::size_t index) {
  const Segment& segment = frame.program.segments[index];
  if (segment.sizes.empty()) return {};
  SegmentFrame& state = frame.segments[index];
  TRY(stream_.sync());  // the last copy of these bytes
  const std::uint64_t alignment = executable_->device->info().alignment;
  const MemoryPlan plan = TRY(plan_memory(frame.program.storages, segment.sizes, frame.bindings, alignment));
  state.sizes_offsets = plan.offsets;
  state.sizes_bytes.assign(plan.bytes, std::byte{0});
  for (const Step& step : segment.steps) {
    if (step.kind != Step::Kind::sizes) continue;
    const auto at = std::ranges::find(segment.sizes, step.storages[0]) - segment.sizes.begin();
    std::byte* to = state.sizes_bytes.data() + plan.offsets[static_cast<std::size_t>(at)];
    const auto element_bytes = static_cast<std::size_t>(bytes_of(step.elements_dtype));
    // The low bytes of an int64 are the narrower integer; that it fits was assumed and checked.
    for (const std::int64_t value : TRY(evaluate(step.elements, frame.bindings))) {
      std::memcpy(to, &value, element_bytes);
      to += element_bytes;
    }
  }
  TRY(ensure(state.sizes_memory, plan.bytes));
  return stream_.copy_to_device(state.sizes_memory.place(), state.sizes_bytes);
}

Result<void> Runner::place(Frame& frame, std::size_t index) {
  const Segment& segment = frame.program.segments[index];
  SegmentFrame& state = frame.segments[index];
  if (!segment.arena.empty()) TRY(ensure(arena_, state.arena.bytes));
  for (std::size_t i = 0; i < segment.arena.size(); ++i)
    frame.places[segment.arena[i]] = arena_.place(state.arena.offsets[i]);
  if (!segment.kept.empty()) TRY(ensure(state.kept_memory[frame.bank], state.kept.bytes));
  for (std::size_t i = 0; i < segment.kept.size(); ++i)
    frame.places[segment.kept[i]] = state.kept_memory[frame.bank].place(state.kept.offsets[i]);
  for (std::size_t i = 0; i < segment.sizes.size(); ++i)
    frame.places[segment.sizes[i]] = state.sizes_memory.place(state.sizes_offsets[i]);
  return {};
}

Result<void> Runner::prepare(Frame& frame, std::size_t index) {
  SegmentFrame& state = frame.segments[index];
  if (!state.planned || state.version != frame.version) {
    if (!state.planned || state.planned_for != frame.bindings) TRY(plan(frame, index));
    state.version = frame.version;
  }
  return place(frame, index);
}

Result<void> Runner::run_step(Frame& frame, const Step& step, const ReadyLaunch& ready) {
  switch (step.kind) {
    case Step::Kind::launch: return launch(frame, step, ready);
    case Step::Kind::sizes: return {};
    case Step::Kind::exchange: return start_exchange(frame, step, ready);
    case Step::Kind::join: return join_exchange(step);
  }
  return {};
}

Result<void> Runner::launch(Frame& frame, const Step& step, const ReadyLaunch& ready) {
  if (ready.grid == 0) return {};
  places_.clear();
  for (const std::size_t storage : step.storages) places_.push_back(frame.places[storage]);
  diji_launch launch{};
  launch.struct_size = sizeof(launch);
  launch.entry = step.entry.c_str();
  launch.grid = ready.grid;
  launch.places = places_.data();
  launch.place_count = static_cast<std::uint32_t>(places_.size());
  launch.size_count = static_cast<std::uint32_t>(ready.sizes.size());
  launch.sizes = ready.sizes.data();
  launch.error_word = error_word_.place();
  launch.local_bytes = ready.local_bytes;
  launch.flops = ready.flops;
  launch.bytes = ready.bytes;
  const auto start = std::chrono::steady_clock::now();
  TRY((*executable_->modules)[step.module].launch(stream_, launch));
  if (!options_->timed) return {};
  TRY(stream_.sync());
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  stats_.kernels.push_back({.entry = step.entry, .milliseconds = elapsed.count(), .runs_as = step.runs_as});
  return {};
}

Result<HostTensor> Runner::read(Frame& frame, ValueId value) {
  const Type& type = frame.program.graph->type(value);
  HostTensor tensor = TRY(HostTensor::allocate(type.dtype, TRY(evaluate(type.shape, frame.bindings))));
  if (tensor.count() > 0) TRY(stream_.copy_to_host(tensor.mutable_bytes(), frame.place(value)));
  return tensor;
}

Result<void> Runner::observe_step(Frame& frame, const Step& step, bool complete) {
  const auto read_now = [&](ValueId value) -> Result<HostTensor> {
    if (const auto& constant = frame.program.graph->value(value).constant) return *constant;
    HostTensor tensor = TRY(read(frame, value));
    TRY(stream_.sync());
    return tensor;
  };
  return options_->observer({.program = frame.index,
                             .graph = *frame.program.graph,
                             .step = step,
                             .complete = complete,
                             .bindings = frame.bindings,
                             .read = read_now});
}

Result<void> Runner::run_frame(Frame& frame) {
  for (std::size_t index = 0; index < frame.segments.size(); ++index) {
    const Segment& segment = frame.program.segments[index];
    TRY(prepare(frame, index));
    // How much a compact has is known only behind its last step.
    const bool counts = segment.end && segment.end->kind == Control::Kind::count;
    const ValueId counted = counts ? frame.program.graph->node(segment.end->node).outputs[0] : ValueId::none;
    for (std::size_t i = 0; i < segment.steps.size(); ++i) {
      const Step& step = segment.steps[i];
      TRY(run_step(frame, step, frame.segments[index].launches[i]));
      const Step* next = i + 1 == segment.steps.size() ? nullptr : &segment.steps[i + 1];
      const bool complete = next == nullptr || next->value != step.value || next->kind == Step::Kind::join;
      if (options_->observer && step.value != counted && step.kind != Step::Kind::join)
        TRY(observe_step(frame, step, complete));
    }
    if (segment.end) TRY(run_control(frame, index));
    if (options_->observer && counts) TRY(observe_step(frame, segment.steps.back(), true));
  }
  return {};
}

}  // namespace diji
