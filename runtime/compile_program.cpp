// One graph to a program: where values live, what is launched, where the host has to look.
#include "runtime/compiler.h"

#include "graph/collective.h"
#include "graph/custom_op.h"
#include "runtime/schedule.h"

#include <algorithm>

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

// The compact whose kernel this body is.
const Node* compact_in(const Graph& body) {
  const auto found = std::ranges::find_if(
      body.nodes(), [](const Node& node) { return primitive_of(node.op) == Primitive::compact; });
  return found == body.nodes().end() ? nullptr : &*found;
}

// Sizes change from iteration to iteration where the body has symbols of its own.
bool varies(const Graph& outer, const Node& node, const LoopForm& form) {
  const Graph& body = *node.bodies[0];
  if (std::ranges::any_of(body.nodes(), [](const Node& inner) { return !symbols_bound_by(inner).empty(); }))
    return true;
  for (std::size_t i = 0; i < form.carried; ++i) {
    const Shape& inside = body.type(body.inputs()[1 + i].value).shape;
    if (inside != outer.type(node.inputs[form.first_carried() + i]).shape) return true;
  }
  return false;
}

class ProgramCompiler {
 public:
  ProgramCompiler(Executable& executable, KernelSource& kernels, CompiledBodies& bodies,
                  std::shared_ptr<const Graph> graph)
      : executable_(executable), kernels_(kernels), bodies_(bodies), graph_(*graph) {
    program_.graph = std::move(graph);
  }

  Result<Program> run(bool is_body) {
    program_.storage_of.assign(graph_.values().size(), kNowhere);
    program_.segments.resize(1);
    for (const Port& port : graph_.inputs()) {
      TRY(fresh_storage(port.value, is_body ? Storage::Home::input : Storage::Home::arena, -1));
    }
    for (std::size_t i = 0; i < graph_.values().size(); ++i) {
      if (graph_.values()[i].constant != nullptr) TRY(constant_storage(static_cast<ValueId>(i)));
    }
    for (const Action& action : schedule(graph_, [this](const Node& node) { return cuts(node); })) {
      const Node& node = graph_.node(action.node);
      TRY(action.kind == Action::Kind::join ? join(node) : this->node(node));
    }
    for (const Port& port : graph_.outputs()) {
      use(storage(port.value));
      if (is_body) escape(storage(port.value));
    }
    for (std::size_t i = 0; i < program_.storages.size(); ++i) {
      const Storage& s = program_.storages[i];
      Segment& segment = program_.segments[static_cast<std::size_t>(s.segment)];
      if (s.home == Storage::Home::arena) segment.arena.push_back(i);
      if (s.home == Storage::Home::kept) segment.kept.push_back(i);
      if (s.home == Storage::Home::sizes) segment.sizes.push_back(i);
    }
    return std::move(program_);
  }

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  std::vector<Step>& steps() { return program_.segments.back().steps; }
  int segment() const { return static_cast<int>(program_.segments.size()) - 1; }
  std::size_t& storage(ValueId id) { return program_.storage_of[static_cast<std::size_t>(id)]; }

  // Read (or written) by the step to come, or at the end of this segment.
  void use(std::size_t index) {
    Storage& s = program_.storages[index];
    s.read = true;
    s.last_step = std::max(s.last_step, step_);
    if (s.segment != segment()) escape(index);
  }
  void use(ValueId id) {
    if (id != ValueId::none) use(storage(id));
  }
  // The arena is everybody's: what outlives the segment has a place of its own.
  void escape(std::size_t index) {
    Storage& s = program_.storages[index];
    s.read = true;
    if (s.home == Storage::Home::arena) s.home = Storage::Home::kept;
  }

  Result<void> fresh_storage(ValueId id, Storage::Home home, int step) {
    const Type& type = graph_.type(id);
    const Dim bytes = element_count(type.shape) * Dim(bytes_of(type.dtype));
    if (!bytes.is_valid()) {
      return fail(ErrorCode::mismatch, "a value of type {} has more bytes than 64 bits can count",
                  text_of(type));
    }
    storage(id) = add_storage(bytes, home, step);
    return {};
  }
  std::size_t add_storage(Dim bytes, Storage::Home home, int step) {
    program_.storages.push_back({.bytes = std::move(bytes),
                                 .segment = segment(),
                                 .first_step = step,
                                 .last_step = step,
                                 .home = home});
    return program_.storages.size() - 1;
  }

  Result<void> constant_storage(ValueId id) {
    const auto& constant = graph_.value(id).constant;
    auto known = bodies_.constants.find(constant.get());
    if (known == bodies_.constants.end()) {
      executable_.constants.push_back(TRY(executable_.device->import_constant(*constant)));
      known = bodies_.constants.emplace(constant.get(), executable_.constants.back().place()).first;
    }
    storage(id) = add_storage(0, Storage::Home::constant, -1);
    program_.storages.back().constant = known->second;
    return {};
  }

  Result<void> node(const Node& node) {
    if (node.op->custom != nullptr) return custom(node);
    switch (*primitive_of(node.op)) {
      case Primitive::reshape: storage(node.outputs[0]) = storage(node.inputs[0]); return {};
      case Primitive::dims: return write_sizes(node);
      case Primitive::fusion: return launches(node);
      case Primitive::observe:
        use(node.inputs[0]);
        storage(node.outputs[0]) = storage(node.inputs[0]);
        end_segment({.kind = Control::Kind::observe, .node = id_of(node)});
        return {};
      case Primitive::conditional:
      case Primitive::loop: return structured(node);
      case Primitive::all_reduce:
      case Primitive::all_gather:
      case Primitive::reduce_scatter:
      case Primitive::all_to_all:
      case Primitive::collective_broadcast: return exchange(node);
      default: return fail(ErrorCode::unsupported, "{} was not fused into a kernel", node.op->name);
    }
  }

  // Whether a segment ends with the node.
  bool cuts(const Node& node) const {
    if (node.op->custom != nullptr)
      return kernel_of(graph_, node, executable_.device->info().dialect) == nullptr;
    const Primitive primitive = *primitive_of(node.op);
    return primitive == Primitive::observe || primitive == Primitive::conditional ||
           primitive == Primitive::loop ||
           (primitive == Primitive::fusion && compact_in(*node.bodies[0]) != nullptr);
  }

  std::size_t group_of(const Node& node) {
    const GroupChannel channel = channel_of(node.attributes);
    auto& groups = executable_.groups;
    const auto known = std::ranges::find(groups, channel.group, &RankGroup::name);
    if (known == groups.end()) groups.push_back({channel.group, channel.ranks});
    return static_cast<std::size_t>(std::ranges::find(groups, channel.group, &RankGroup::name) -
                                    groups.begin());
  }

  // Its memory is borrowed until the join.
  Result<void> exchange(const Node& node) {
    TRY(fresh_storage(node.outputs[0], Storage::Home::arena, step_));
    const auto primitive = *primitive_of(node.op);
    const Type& given = graph_.type(node.inputs[0]);
    Dim count = element_count(graph_.type(node.outputs[0]).shape);
    if (primitive == Primitive::all_gather) count = element_count(given.shape);
    if (primitive == Primitive::all_to_all) count = floor_div(count, channel_of(node.attributes).ranks);
    Step step{.kind = Step::Kind::exchange,
              .group = group_of(node),
              .storages = {storage(node.inputs[0]), storage(node.outputs[0])},
              .sizes = {count, program_.storages[storage(node.outputs[0])].bytes},
              .value = node.outputs[0],
              .operators = title_of_collective(node)};
    for (const std::size_t index : step.storages) use(index);
    open_.push_back(&node);
    add_step(std::move(step));
    return {};
  }

  Result<void> join(const Node& node) {
    const std::size_t group = group_of(node);
    const auto last = std::ranges::find(open_, &node);
    for (auto it = open_.begin(); it != open_.end() && it <= last; ++it) {
      if (*it == nullptr || group_of(**it) != group) continue;
      use((*it)->inputs[0]);
      use((*it)->outputs[0]);
      *it = nullptr;
    }
    std::erase(open_, nullptr);
    add_step({.kind = Step::Kind::join, .group = group, .value = node.outputs[0], .operators = "join"});
    return {};
  }

  NodeId id_of(const Node& node) const { return static_cast<NodeId>(&node - graph_.nodes().data()); }

  void end_segment(Control control) {
    program_.segments.back().end = std::move(control);
    program_.segments.emplace_back();
  }

  void add_step(Step step) {
    step.number = std::ssize(executable_.operators);
    executable_.operators.push_back(step.operators);
    steps().push_back(std::move(step));
    ++step_;
  }

  Result<void> write_sizes(const Node& node) {
    TRY(fresh_storage(node.outputs[0], Storage::Home::sizes, step_));
    add_step({.kind = Step::Kind::sizes,
              .storages = {storage(node.outputs[0])},
              .value = node.outputs[0],
              .elements = node.attributes.get_or("elements", Shape{}),
              .elements_dtype = graph_.type(node.outputs[0]).dtype,
              .operators = "sizes"});
    return {};
  }

  Result<void> launches(const Node& node) {
    const Graph& body = *node.bodies[0];
    auto kernels = kernels_.of_body(body);
    if (!kernels) return in_context(operators_of(body), std::move(kernels).error());
    const Node* compact = compact_in(body);
    std::size_t count = kNowhere;
    if (compact == nullptr) {
      auto stored = fresh_storage(node.outputs[0], Storage::Home::arena, step_);
      if (!stored) return in_context(operators_of(body), std::move(stored).error());
    } else {
      // Room for all elements of the mask; how many there are is told by the kernel.
      const Dim positions = element_count(body.type(compact->inputs[0]).shape);
      storage(node.outputs[0]) =
          add_storage(positions * Dim(bytes_of(DType::i64)), Storage::Home::arena, step_);
      count = add_storage(bytes_of(DType::i64), Storage::Home::arena, step_);
    }
    for (KernelUse& kernel : *kernels) {
      Step step{.entry = std::move(kernel.entry), .module = kernel.module, .value = node.outputs[0]};
      for (const ValueId id : node.inputs) step.storages.push_back(storage(id));
      step.storages.push_back(storage(node.outputs[0]));
      if (compact != nullptr) step.storages.push_back(count);
      for (const std::size_t index : step.storages) use(index);
      step.sizes = std::move(kernel.sizes);
      step.grid = std::move(kernel.grid);
      step.local_bytes = std::move(kernel.local_bytes);
      step.flops = std::move(kernel.flops);
      step.bytes = std::move(kernel.bytes);
      step.operators = operators_of(body);
      add_step(std::move(step));
    }
    if (compact == nullptr) return {};
    use(count);
    use(node.outputs[0]);
    end_segment({.kind = Control::Kind::count, .node = id_of(node), .count = count});
    return {};
  }

  // One launch of the user's kernel text where there is one for this device and all sizes are known before
  // it, else the host's function between two segments.
  Result<void> custom(const Node& node) {
    const diji_op_kernel* text = kernel_of(graph_, node, executable_.device->info().dialect);
    for (const ValueId id : node.inputs) use(id);
    if (text == nullptr) {
      for (const ValueId id : node.outputs) TRY(fresh_storage(id, Storage::Home::result, step_));
      end_segment({.kind = Control::Kind::custom, .node = id_of(node)});
      return {};
    }
    KernelUse kernel = TRY(kernels_.of_text(*text));
    Step step{.entry = std::move(kernel.entry),
              .module = kernel.module,
              .value = node.outputs[0],
              .runs_as = RunsAs::native};
    for (const ValueId id : node.outputs) TRY(fresh_storage(id, Storage::Home::arena, step_));
    for (const Values* operands : {&node.inputs, &node.outputs}) {
      for (const ValueId id : *operands) {
        step.storages.push_back(storage(id));
        const Shape& shape = graph_.type(id).shape;
        step.sizes.insert(step.sizes.end(), shape.begin(), shape.end());
      }
    }
    const Dim count = element_count(graph_.type(node.outputs[0]).shape);
    step.grid = floor_div(count + Dim(text->elements - 1), Dim(text->elements));
    step.operators = std::string(node.op->name);
    add_step(std::move(step));
    return {};
  }

  Result<void> structured(const Node& node) {
    const bool is_loop = primitive_of(node.op) == Primitive::loop;
    Control control{.kind = is_loop ? Control::Kind::loop : Control::Kind::conditional, .node = id_of(node)};
    if (is_loop) {
      control.form = loop_form(node);
      control.varies = varies(graph_, node, control.form);
    }
    for (const auto& body : node.bodies)
      control.bodies.push_back(TRY(compile_body(executable_, kernels_, bodies_, body)));
    const std::size_t read_by_host = is_loop ? 2 : 1;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      use(node.inputs[i]);
      if (i >= read_by_host) escape(storage(node.inputs[i]));
    }
    for (const ValueId id : node.outputs) TRY(fresh_storage(id, Storage::Home::result, step_));
    end_segment(std::move(control));
    return {};
  }

  Executable& executable_;
  KernelSource& kernels_;
  CompiledBodies& bodies_;
  const Graph& graph_;
  Program program_;
  std::vector<const Node*> open_;  // collectives that were not joined
  int step_ = 0;                   // of the whole program
};

}  // namespace

const diji_op_kernel* kernel_of(const Graph& graph, const Node& node, std::string_view dialect) {
  if (node.op->custom == nullptr || !symbols_bound_by(node).empty()) return nullptr;
  std::vector<DType> dtypes;
  for (const ValueId id : node.inputs) dtypes.push_back(graph.type(id).dtype);
  return node.op->custom->kernel(dialect, dtypes);
}

Result<std::size_t> compile_body(Executable& executable, KernelSource& kernels, CompiledBodies& bodies,
                                 const std::shared_ptr<const Graph>& graph) {
  const auto [known, first] = bodies.programs.emplace(graph.get(), executable.programs.size());
  const std::size_t index = known->second;
  if (!first) return index;
  executable.programs.emplace_back();  // bodies inside come behind
  executable.programs[index] = TRY(ProgramCompiler(executable, kernels, bodies, graph).run(index > 0));
  return index;
}

}  // namespace diji
