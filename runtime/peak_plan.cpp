// The walk of runtime/frame.cpp and runtime/control_flow.cpp over sizes alone; each rule here has its twin
// there.
#include "runtime/peak_plan.h"

#include "base/checked.h"
#include "graph/bind.h"

#include <algorithm>
#include <array>

namespace diji {
namespace {

std::string name_of(const Node& node) {
  return fmt::format("'{}'", node.name.empty() ? node.op->name : std::string_view(node.name));
}

struct PlannedFrame {
  explicit PlannedFrame(const Program& of) : program(of), segments(of.segments.size()) {}

  /// What SegmentFrame and ControlFrame hold, by size.
  struct Held {
    std::array<std::uint64_t, 2> kept{};
    std::uint64_t sizes = 0, numbers = 0;
    std::array<std::vector<std::uint64_t>, 2> copies;
    std::vector<std::uint64_t> stacks, results;
    std::vector<std::unique_ptr<PlannedFrame>> bodies;
  };
  const Program& program;
  Bindings bindings;
  std::vector<Held> segments;
  std::size_t bank = 0;
};

class PeakPlanner {
 public:
  explicit PeakPlanner(const Executable& executable)
      : executable_(executable), alignment_(executable.device->info().alignment) {}

  Result<PeakPlan> run(std::span<const StaticShape> shapes) {
    for (const Constant& constant : executable_.constants)
      plan_.weights_bytes += constant.copied_bytes() == 0 ? 0 : rounded(constant.copied_bytes());
    hold(sizeof(std::uint64_t));  // the error word
    PlannedFrame frame(executable_.programs[0]);
    Bindings known;
    for (const RankGroup& group : executable_.groups) {
      if (const auto symbol = group.ranks.symbol_name()) {
        known[std::string(*symbol)] = 1;
        take_for_granted(fmt::format("group '{}' has one rank", group.name));
      }
    }
    frame.bindings = TRY(bind_symbols(executable_.graph(), shapes, std::move(known)));
    TRY(walk(frame));
    return std::move(plan_);
  }

 private:
  std::uint64_t rounded(std::uint64_t bytes) const {
    return std::max((bytes + alignment_ - 1) / alignment_ * alignment_, alignment_);
  }
  void hold(std::uint64_t bytes) {
    held_ += rounded(bytes);
    plan_.bytes = std::max(plan_.bytes, held_);
  }
  void ensure(std::uint64_t& had, std::uint64_t bytes) {
    if (had >= bytes && had > 0) return;
    if (had > 0) held_ -= rounded(had);
    had = std::max<std::uint64_t>({bytes, 1, had + had / 2});
    hold(had);
  }
  bool stop(const Node& node, std::string_view why) {
    plan_.open = fmt::format("{} {}", name_of(node), why);
    return false;
  }
  void take_for_granted(std::string what) {
    if (std::ranges::find(plan_.as_if, what) == plan_.as_if.end()) plan_.as_if.push_back(std::move(what));
  }

  /// False: the plan ends here (plan_.open says why).
  Result<bool> walk(PlannedFrame& frame) {
    for (std::size_t i = 0; i < frame.segments.size(); ++i) {
      const Segment& segment = frame.program.segments[i];
      PlannedFrame::Held& held = frame.segments[i];
      const auto bytes_of_plan = [&](const std::vector<std::size_t>& which) -> Result<std::uint64_t> {
        return TRY(plan_memory(frame.program.storages, which, frame.bindings, alignment_)).bytes;
      };
      if (!segment.sizes.empty()) ensure(held.sizes, TRY(bytes_of_plan(segment.sizes)));
      if (!segment.arena.empty()) ensure(arena_, TRY(bytes_of_plan(segment.arena)));
      if (!segment.kept.empty()) ensure(held.kept[frame.bank], TRY(bytes_of_plan(segment.kept)));
      if (segment.end && !TRY(control(frame, *segment.end, held))) return false;
    }
    return true;
  }

  Result<bool> control(PlannedFrame& frame, const Control& control, PlannedFrame::Held& held) {
    const Node& node = frame.program.graph->node(control.node);
    switch (control.kind) {
      case Control::Kind::observe: return stop(node, "reads sizes from data");
      case Control::Kind::count: return count(frame, node);
      case Control::Kind::conditional: return conditional(frame, control, node, held);
      case Control::Kind::loop: return loop(frame, control, node, held);
      case Control::Kind::custom: return custom(frame, node, held);
    }
    return true;
  }

  Result<bool> count(PlannedFrame& frame, const Node& node) {
    const Storage& storage = frame.program.storages[frame.program.storage(node.outputs[0])];
    const std::int64_t room = TRY(storage.bytes.evaluate(frame.bindings)) / bytes_of(DType::i64);
    take_for_granted(fmt::format("{} picks all it can", name_of(node)));
    TRY(bind_results(*frame.program.graph, node, std::vector<StaticShape>{{room}}, frame.bindings));
    return true;
  }

  Result<bool> custom(PlannedFrame& frame, const Node& node, PlannedFrame::Held& held) {
    if (!symbols_bound_by(node).empty()) return stop(node, "tells its sizes when it runs");
    held.results.resize(node.outputs.size());
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Type& type = frame.program.graph->type(node.outputs[i]);
      ensure(held.results[i], TRY(bytes_for(TRY(evaluate(type.shape, frame.bindings)), type.dtype)));
    }
    return true;
  }

  PlannedFrame& body_of(PlannedFrame::Held& held, const Control& control, std::size_t body) {
    held.bodies.resize(control.bodies.size());
    if (held.bodies[body] == nullptr)
      held.bodies[body] = std::make_unique<PlannedFrame>(executable_.programs[control.bodies[body]]);
    return *held.bodies[body];
  }

  Result<bool> conditional(PlannedFrame& frame, const Control& control, const Node& node,
                           PlannedFrame::Held& held) {
    const Graph& graph = *frame.program.graph;
    const auto condition = contents_of(graph, node.inputs[0]);
    std::vector<std::size_t> taken = {0, 1};
    if (condition) {
      taken = {TRY((*condition)[0].evaluate(frame.bindings)) != 0 ? std::size_t{0} : std::size_t{1}};
    } else {
      take_for_granted(fmt::format("both branches of {} are run", name_of(node)));
    }
    std::vector<StaticShape> shapes(node.outputs.size());
    for (const std::size_t branch : taken) {
      PlannedFrame& body = body_of(held, control, branch);
      body.bindings = frame.bindings;
      if (!TRY(walk(body))) return false;
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        const Graph& inside = *body.program.graph;
        const auto shape = TRY(evaluate(inside.type(inside.outputs()[i].value).shape, body.bindings));
        shapes[i].resize(shape.size());
        std::ranges::transform(shape, shapes[i], shapes[i].begin(),
                               [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
      }
    }
    TRY(bind_results(graph, node, shapes, frame.bindings));
    return true;
  }

  static Result<std::uint64_t> bytes_for(const StaticShape& shape, DType dtype) {
    const auto count = checked_product(shape);
    const auto bytes = count ? checked_mul<std::int64_t>(*count, bytes_of(dtype)) : std::nullopt;
    if (!bytes) return fail(ErrorCode::mismatch, "{} has more bytes than 64 bits can count", text_of(shape));
    return static_cast<std::uint64_t>(*bytes);
  }

  /// How often the loop's body runs, at most; none: only data tell.
  Result<std::optional<std::int64_t>> trips_of(const PlannedFrame& frame, const Node& node,
                                               const LoopForm& form) {
    const Graph& graph = *frame.program.graph;
    std::optional<std::int64_t> trips;
    bool certain = !form.conditional;
    if (node.inputs[0] != ValueId::none) {
      const auto told = contents_of(graph, node.inputs[0]);
      if (told) trips = std::max<std::int64_t>(TRY((*told)[0].evaluate(frame.bindings)), 0);
      certain = certain && told;
    }
    for (std::size_t i = 0; i < form.scanned; ++i) {
      const Shape& shape = graph.type(node.inputs[form.first_scanned() + i]).shape;
      const std::int64_t slices = TRY(shape[0].evaluate(frame.bindings));
      trips = std::min(trips.value_or(slices), slices);
    }
    if (node.inputs[1] != ValueId::none) {
      const auto told = contents_of(graph, node.inputs[1]);
      if (told && TRY((*told)[0].evaluate(frame.bindings)) == 0) return 0;
      certain = certain && told;
    }
    if (trips && *trips > 0 && !certain)
      take_for_granted(fmt::format("all {} iterations of {} are run", *trips, name_of(node)));
    return trips;
  }

  Result<bool> loop(PlannedFrame& frame, const Control& control, const Node& node, PlannedFrame::Held& held) {
    const LoopForm& form = control.form;
    const Graph& graph = *frame.program.graph;
    const auto trips = TRY(trips_of(frame, node, form));
    if (!trips) return stop(node, "is run as often as data say");
    if (control.varies && *trips > 0) return stop(node, "has other sizes in each iteration");
    PlannedFrame& body = body_of(held, control, 0);
    held.stacks.resize(form.stacked);
    for (auto& bank : held.copies) bank.resize(form.carried);
    std::vector<StaticShape> shapes = {{}};  // of the body's inputs
    for (std::size_t i = form.first_carried(); i < node.inputs.size(); ++i) {
      shapes.push_back(TRY(evaluate(graph.type(node.inputs[i]).shape, frame.bindings)));
      if (i >= form.first_scanned() && i < form.first_capture()) shapes.back().erase(shapes.back().begin());
    }
    std::vector<StaticShape> results(shapes.begin() + 1,
                                     shapes.begin() + 1 + static_cast<std::ptrdiff_t>(form.carried));
    if (*trips > 0) body.bindings = TRY(bind_symbols(*body.program.graph, shapes, frame.bindings));
    // Both banks: what comes after is like one of them, but for stacks that grow.
    for (std::int64_t iteration = 0; iteration < std::min<std::int64_t>(*trips, 2); ++iteration) {
      body.bank = static_cast<std::size_t>(iteration % 2);
      if (!TRY(this->iteration(body, form, iteration, *trips, held))) return false;
    }
    for (std::int64_t done = 2; form.conditional && done < *trips; done *= 2)
      TRY(stack(body, form, done, *trips, held));
    for (std::size_t i = 0; i < form.stacked; ++i) {
      const Shape& declared = graph.type(node.outputs[form.carried + i]).shape;
      StaticShape shape = {*trips};
      if (*trips > 0) {
        const auto slice = TRY(evaluate(stacked(body, form, i).shape, body.bindings));
        shape.insert(shape.end(), slice.begin(), slice.end());
      } else {
        for (std::size_t axis = 1; axis < declared.size(); ++axis)
          shape.push_back(declared[axis].evaluate(frame.bindings).value_or(0));
        ensure(held.stacks[i], 1);
      }
      results.push_back(std::move(shape));
    }
    TRY(bind_results(graph, node, results, frame.bindings));
    return true;
  }

  static const Type& stacked(const PlannedFrame& body, const LoopForm& form, std::size_t i) {
    const Graph& graph = *body.program.graph;
    return graph.type(graph.outputs()[form.first_result() + form.carried + i].value);
  }

  Result<void> stack(const PlannedFrame& body, const LoopForm& form, std::int64_t done, std::int64_t trips,
                     PlannedFrame::Held& held) {
    for (std::size_t i = 0; i < form.stacked; ++i) {
      const Type& type = stacked(body, form, i);
      const std::uint64_t slice = TRY(bytes_for(TRY(evaluate(type.shape, body.bindings)), type.dtype));
      const std::uint64_t need = static_cast<std::uint64_t>(form.conditional ? done + 1 : trips) * slice;
      std::uint64_t& whole = held.stacks[i];
      if (done == 0) {
        ensure(whole, need);
      } else if (whole < need) {  // both are held while the slices move
        const std::uint64_t wider = std::max(need, 2 * whole);
        hold(wider);
        held_ -= rounded(whole);
        whole = wider;
      }
    }
    return {};
  }

  Result<bool> iteration(PlannedFrame& body, const LoopForm& form, std::int64_t iteration, std::int64_t trips,
                         PlannedFrame::Held& held) {
    constexpr std::uint64_t kNumbersBytes = 1024 * sizeof(std::int64_t);  // a stretch of control_flow.cpp
    const Graph& graph = *body.program.graph;
    const auto storage_of = [&](ValueId id) -> const Storage& {
      return body.program.storages[body.program.storage(id)];
    };
    if (storage_of(graph.inputs()[0].value).read) ensure(held.numbers, kNumbersBytes);
    if (!TRY(walk(body))) return false;
    TRY(stack(body, form, iteration, trips, held));
    for (std::size_t i = 0; i < form.carried; ++i) {
      const ValueId output = graph.outputs()[form.first_result() + i].value;
      const Storage::Home home = storage_of(output).home;
      if (home == Storage::Home::kept || home == Storage::Home::constant) continue;
      const Type& type = graph.type(output);
      ensure(held.copies[body.bank][i], TRY(bytes_for(TRY(evaluate(type.shape, body.bindings)), type.dtype)));
    }
    return true;
  }

  const Executable& executable_;
  const std::uint64_t alignment_;
  std::uint64_t arena_ = 0;
  std::uint64_t held_ = 0;
  PeakPlan plan_;
};

}  // namespace

Result<PeakPlan> plan_peak(const Executable& executable, std::span<const StaticShape> shapes) {
  return PeakPlanner(executable).run(shapes);
}

}  // namespace diji
