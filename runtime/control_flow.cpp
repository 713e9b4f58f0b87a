// Where the host decides: sizes from data, branches and loops. What it reads is read only after everything
// before it has run without an error, so that garbage of a failed kernel never steers.
#include "runtime/frame.h"

#include "base/checked.h"
#include "graph/bind.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace diji {
namespace {

// So many iterations of a loop go by between two waits, where the loop itself never waits for data.
constexpr std::int64_t kStretch = 1024;

std::unexpected<Error> about(const Node& node, ErrorCode code, std::string sentence) {
  const std::string_view name = node.name.empty() ? node.op->name : std::string_view(node.name);
  auto error = fail(code, "{}: {}", name, sentence);
  error.error().op = std::string(node.op->name);
  return error;
}

Result<std::uint64_t> bytes_for(const StaticShape& shape, DType dtype) {
  const auto count = checked_product(shape);
  const auto bytes = count ? checked_mul<std::int64_t>(*count, bytes_of(dtype)) : std::nullopt;
  if (!bytes) return fail(ErrorCode::mismatch, "{} has more bytes than 64 bits can count", text_of(shape));
  return static_cast<std::uint64_t>(*bytes);
}

const Node& node_of(const Frame& frame, const Control& control) {
  return frame.program.graph->node(control.node);
}

}  // namespace

Result<void> Runner::read_bytes(std::span<std::byte> bytes, diji_place place) {
  std::uint64_t word = 0;
  WaitsForStream wait(stream_);
  if (!bytes.empty()) TRY(stream_.copy_to_host(bytes, place));
  TRY(stream_.copy_to_host(std::as_writable_bytes(std::span(&word, 1)), error_word_.place()));
  wait.done();
  TRY(stream_.sync());
  return check_error_word(word);
}

Result<std::vector<std::int64_t>> Runner::read_integers(Frame& frame, ValueId value) {
  const Graph& graph = *frame.program.graph;
  if (const auto& constant = graph.value(value).constant) return constant->as_int64();
  const Type& type = graph.type(value);
  HostTensor tensor = TRY(HostTensor::allocate(type.dtype, TRY(evaluate(type.shape, frame.bindings))));
  TRY(read_bytes(tensor.mutable_bytes(), frame.place(value)));
  return tensor.as_int64();
}

Result<std::int64_t> Runner::read_one(Frame& frame, ValueId value) {
  if (const auto contents = contents_of(*frame.program.graph, value))
    return (*contents)[0].evaluate(frame.bindings);
  return TRY(read_integers(frame, value))[0];
}

Result<Frame*> Runner::body_frame(ControlFrame& state, const Control& control, std::size_t body) {
  state.bodies.resize(control.bodies.size());
  auto& frame = state.bodies[body];
  if (frame == nullptr) frame = std::make_unique<Frame>(*executable_, control.bodies[body]);
  return frame.get();
}

Result<void> Runner::run_control(Frame& frame, std::size_t segment) {
  const Control& control = *frame.program.segments[segment].end;
  switch (control.kind) {
    case Control::Kind::observe: return run_observe(frame, control);
    case Control::Kind::count: return run_count(frame, control);
    case Control::Kind::conditional: return run_conditional(frame, control, frame.controls[segment]);
    case Control::Kind::loop: return run_loop(frame, control, frame.controls[segment]);
    case Control::Kind::custom: return run_custom(frame, control, frame.controls[segment]);
  }
  return {};
}

Result<void> Runner::run_observe(Frame& frame, const Control& control) {
  const Node& node = node_of(frame, control);
  const auto elements = TRY(read_integers(frame, node.inputs[0]));
  ++frame.version;
  return bind_observed(*frame.program.graph, node, elements, frame.bindings);
}

Result<void> Runner::run_count(Frame& frame, const Control& control) {
  const Node& node = node_of(frame, control);
  std::int64_t count = 0;
  TRY(read_bytes(std::as_writable_bytes(std::span(&count, 1)), frame.places[control.count]));
  const std::int64_t room =
      TRY(frame.program.storages[frame.program.storage(node.outputs[0])].bytes.evaluate(frame.bindings)) /
      bytes_of(DType::i64);
  if (count < 0 || count > room)
    return about(node, ErrorCode::device, fmt::format("the kernel counted {} of {} elements", count, room));
  ++frame.version;
  return bind_results(*frame.program.graph, node, std::vector<StaticShape>{{count}}, frame.bindings);
}

Result<void> Runner::run_conditional(Frame& frame, const Control& control, ControlFrame& state) {
  const Node& node = node_of(frame, control);
  const bool condition = TRY(read_one(frame, node.inputs[0])) != 0;
  Frame& body = *TRY(body_frame(state, control, condition ? 0 : 1));
  const Graph& graph = *body.program.graph;
  // Captures have their sizes from outside, so the body has no symbols of its own before it runs.
  TRY(check_constraints(graph, frame.bindings));
  body.bind(frame.bindings);
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    body.place(graph.inputs()[i].value) = frame.place(node.inputs[i + 1]);
  TRY(run_frame(body));
  std::vector<StaticShape> shapes;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId output = graph.outputs()[i].value;
    frame.place(node.outputs[i]) = body.place(output);
    shapes.push_back(TRY(evaluate(graph.type(output).shape, body.bindings)));
  }
  ++frame.version;
  return bind_results(*frame.program.graph, node, shapes, frame.bindings);
}

// One run of a loop.
struct Runner::Loop {
  Frame& outer;
  const Control& control;
  const Node& node;
  LoopFrame& state;
  Frame& body;
  const Graph& graph;  // the body's
  const LoopForm& form;
  std::int64_t trips_max = 0;
  std::int64_t iteration = 0;
  bool go_on = true;
  bool trips_known = false;
  std::vector<diji_place> carried;  // before the iteration
  std::vector<StaticShape> carried_shapes;
  std::vector<std::uint64_t> scanned_bytes;  // of one slice
  std::vector<StaticShape> slices;           // of the stacked results
  std::vector<std::uint64_t> slice_bytes;

  ValueId input(std::size_t i) const { return node.inputs[i]; }
  ValueId body_input(std::size_t i) const { return graph.inputs()[i].value; }
  ValueId body_output(std::size_t i) const { return graph.outputs()[i].value; }
};

Result<void> Runner::run_loop(Frame& frame, const Control& control, ControlFrame& state) {
  Frame& body = *TRY(body_frame(state, control, 0));
  Loop loop{.outer = frame,
            .control = control,
            .node = node_of(frame, control),
            .state = state.loop,
            .body = body,
            .graph = *body.program.graph,
            .form = control.form};
  TRY(start_loop(loop));
  for (; loop.iteration < loop.trips_max && loop.go_on; ++loop.iteration) {
    // A stream holds what is queued: a loop that never waits must not fill the host's memory with it.
    if (loop.iteration % kStretch == kStretch - 1) TRY(stream_.sync());
    TRY(start_iteration(loop));
    TRY(run_frame(body));
    TRY(finish_iteration(loop));
  }
  return finish_loop(loop);
}

Result<void> Runner::start_loop(Loop& loop) {
  Frame& outer = loop.outer;
  const Graph& graph = *outer.program.graph;
  loop.trips_max = std::numeric_limits<std::int64_t>::max();
  if (loop.input(0) != ValueId::none)
    loop.trips_max = std::max<std::int64_t>(TRY(read_one(outer, loop.input(0))), 0);
  if (loop.input(1) != ValueId::none) loop.go_on = TRY(read_one(outer, loop.input(1))) != 0;
  const auto shape_of = [&](ValueId id) { return evaluate(graph.type(id).shape, outer.bindings); };
  for (std::size_t i = 0; i < loop.form.scanned; ++i) {
    const ValueId id = loop.input(loop.form.first_scanned() + i);
    StaticShape shape = TRY(shape_of(id));
    loop.trips_max = std::min(loop.trips_max, shape[0]);
    shape.erase(shape.begin());
    loop.scanned_bytes.push_back(TRY(bytes_for(shape, graph.type(id).dtype)));
  }
  for (std::size_t i = 0; i < loop.form.carried; ++i) {
    const ValueId id = loop.input(loop.form.first_carried() + i);
    loop.carried.push_back(outer.place(id));
    loop.carried_shapes.push_back(TRY(shape_of(id)));
  }
  for (std::size_t i = 0; i < loop.form.captures; ++i) {
    loop.body.place(loop.body_input(1 + loop.form.carried + loop.form.scanned + i)) =
        outer.place(loop.input(loop.form.first_capture() + i));
  }
  loop.trips_known = !loop.form.conditional;
  loop.slices.resize(loop.form.stacked);
  loop.slice_bytes.resize(loop.form.stacked);
  loop.state.stacks.resize(loop.form.stacked);
  for (auto& bank : loop.state.copies) bank.resize(loop.form.carried);
  return {};
}

// The numbers lie on the device in stretches, so that few iterations wait for the host.
Result<diji_place> Runner::iteration_number(LoopFrame& state, std::int64_t iteration) {
  const std::int64_t first = iteration / kStretch * kStretch;
  if (state.first_number != first) {
    TRY(stream_.sync());  // the last copy of these bytes
    state.number_values.resize(kStretch);
    for (std::int64_t i = 0; i < kStretch; ++i) state.number_values[static_cast<std::size_t>(i)] = first + i;
    state.first_number = -1;
    TRY(ensure(state.numbers, kStretch * sizeof(std::int64_t)));
    TRY(stream_.copy_to_device(state.numbers.place(), std::as_bytes(std::span(state.number_values))));
    state.first_number = first;
  }
  return state.numbers.place(static_cast<std::uint64_t>(iteration - first) * sizeof(std::int64_t));
}

Result<void> Runner::start_iteration(Loop& loop) {
  Frame& body = loop.body;
  body.bank = static_cast<std::size_t>(loop.iteration % 2);
  const std::size_t number = body.program.storage(loop.body_input(0));
  if (body.program.storages[number].read)
    body.places[number] = TRY(iteration_number(loop.state, loop.iteration));
  for (std::size_t i = 0; i < loop.form.carried; ++i) body.place(loop.body_input(1 + i)) = loop.carried[i];
  for (std::size_t i = 0; i < loop.form.scanned; ++i) {
    diji_place slice = loop.outer.place(loop.input(loop.form.first_scanned() + i));
    slice.offset += static_cast<std::uint64_t>(loop.iteration) * loop.scanned_bytes[i];
    body.place(loop.body_input(1 + loop.form.carried + i)) = slice;
  }
  if (loop.iteration > 0 && !loop.control.varies) return {};
  std::vector<StaticShape> shapes = {{}};
  shapes.insert(shapes.end(), loop.carried_shapes.begin(), loop.carried_shapes.end());
  const Graph& graph = *loop.outer.program.graph;
  for (std::size_t i = loop.form.first_scanned(); i < loop.node.inputs.size(); ++i) {
    shapes.push_back(TRY(evaluate(graph.type(loop.input(i)).shape, loop.outer.bindings)));
    if (i < loop.form.first_capture()) shapes.back().erase(shapes.back().begin());
  }
  body.bind(TRY(bind_symbols(loop.graph, shapes, loop.outer.bindings)));
  return {};
}

Result<void> Runner::finish_iteration(Loop& loop) {
  if (loop.form.conditional) loop.go_on = TRY(read_one(loop.body, loop.body_output(0))) != 0;
  // Stacked results first: they may be the carried values that come in.
  for (std::size_t i = 0; i < loop.form.stacked; ++i) TRY(stack(loop, i));
  return keep_carried(loop);
}

// What the body computed lies in its own memory of this bank; what it only passes on is copied there, because
// the memory it came from is written in the next iteration.
Result<void> Runner::keep_carried(Loop& loop) {
  Frame& body = loop.body;
  for (std::size_t i = 0; i < loop.form.carried; ++i) {
    const ValueId output = loop.body_output(loop.form.first_result() + i);
    const Type& type = loop.graph.type(output);
    if (loop.control.varies) loop.carried_shapes[i] = TRY(evaluate(type.shape, body.bindings));
    loop.carried[i] = body.place(output);
    const Storage::Home home = body.program.storages[body.program.storage(output)].home;
    if (home == Storage::Home::kept || home == Storage::Home::constant) continue;
    const std::uint64_t bytes = TRY(bytes_for(loop.carried_shapes[i], type.dtype));
    Buffer& copy = loop.state.copies[body.bank][i];
    TRY(ensure(copy, bytes));
    if (bytes > 0) TRY(stream_.copy_on_device(copy.place(), loop.carried[i], bytes));
    loop.carried[i] = copy.place();
  }
  return {};
}

Result<void> Runner::stack(Loop& loop, std::size_t result) {
  Frame& body = loop.body;
  const ValueId output = loop.body_output(loop.form.first_result() + loop.form.carried + result);
  const Type& type = loop.graph.type(output);
  StaticShape& slice = loop.slices[result];
  std::uint64_t& bytes = loop.slice_bytes[result];
  if (loop.iteration == 0) {
    slice = TRY(evaluate(type.shape, body.bindings));
    bytes = TRY(bytes_for(slice, type.dtype));
  } else if (loop.control.varies) {
    const StaticShape now = TRY(evaluate(type.shape, body.bindings));
    if (now != slice) {
      return about(loop.node, ErrorCode::mismatch,
                   fmt::format("stacked result {} is {} in iteration {} and {} before", result, text_of(now),
                               loop.iteration, text_of(slice)));
    }
  }
  Buffer& whole = loop.state.stacks[result];
  const auto done = static_cast<std::uint64_t>(loop.iteration);
  const std::uint64_t trips = loop.trips_known ? static_cast<std::uint64_t>(loop.trips_max) : done + 1;
  if (bytes > 0 && trips > std::numeric_limits<std::uint64_t>::max() / 2 / bytes)
    return about(loop.node, ErrorCode::mismatch, "a stacked result has more bytes than 64 bits can count");
  if (loop.iteration == 0) {
    TRY(ensure(whole, trips * bytes));
  } else if (whole.bytes() < trips * bytes) {
    // Twice as much, so that every slice is moved a bounded number of times on average.
    Buffer wider = TRY(allocate(trips * bytes, 2 * whole.bytes()));
    const auto copied = stream_.copy_on_device(wider.place(), whole.place(), done * bytes);
    const auto moved = stream_.sync();
    release(whole);
    whole = std::move(wider);
    TRY(copied);
    TRY(moved);
  }
  if (bytes == 0) return {};
  return stream_.copy_on_device(whole.place(done * bytes), body.place(output), bytes);
}

Result<void> Runner::finish_loop(Loop& loop) {
  Frame& outer = loop.outer;
  const Graph& graph = *outer.program.graph;
  std::vector<StaticShape> shapes = loop.carried_shapes;
  for (std::size_t i = 0; i < loop.form.carried; ++i) outer.place(loop.node.outputs[i]) = loop.carried[i];
  for (std::size_t i = 0; i < loop.form.stacked; ++i) {
    const ValueId id = loop.node.outputs[loop.form.carried + i];
    StaticShape shape = {loop.iteration};
    if (loop.iteration > 0) {
      shape.insert(shape.end(), loop.slices[i].begin(), loop.slices[i].end());
    } else {
      // Sizes that only iterations tell are 0.
      const Shape& declared = graph.type(id).shape;
      for (std::size_t axis = 1; axis < declared.size(); ++axis)
        shape.push_back(declared[axis].evaluate(outer.bindings).value_or(0));
      TRY(ensure(loop.state.stacks[i], 1));  // kernels get a place even where nothing is
    }
    outer.place(id) = loop.state.stacks[i].place();
    shapes.push_back(std::move(shape));
  }
  ++outer.version;
  return bind_results(graph, loop.node, shapes, outer.bindings);
}

}  // namespace diji
