// Walks a graph node by node.
#include "graph/interpreter.h"

#include "base/check.h"
#include "base/checked.h"
#include "graph/bind.h"
#include "graph/builder.h"
#include "graph/collective.h"
#include "graph/custom_op.h"
#include "graph/error_bound.h"
#include "graph/reference.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <thread>

namespace diji {
namespace {

enum class Mode : std::uint8_t { oracle, typed, bounded };

struct Cell {
  Array array;
  std::vector<double> bound;  // in bounded mode, else empty
};

// What stacked results may have at most, in elements: a loop must not take the host's memory with it.
constexpr std::int64_t kStackedMax = std::int64_t{1} << 31;

// Element `at` of axis 0.
Cell slice_of(const Cell& cell, std::int64_t at) {
  Cell slice{.array = {.dtype = cell.array.dtype,
                       .shape = StaticShape(cell.array.shape.begin() + 1, cell.array.shape.end())}};
  const std::int64_t count = *checked_product(slice.array.shape);
  const auto part = [&](const auto& elements) {
    return std::decay_t<decltype(elements)>(elements.begin() + at * count,
                                            elements.begin() + (at + 1) * count);
  };
  std::visit([&](const auto& elements) { slice.array.elements = part(elements); }, cell.array.elements);
  if (!cell.bound.empty()) slice.bound = part(cell.bound);
  return slice;
}

// The stacked result of a loop: slices behind each other.
void append(Cell& stack, const Cell& slice) {
  std::visit(
      [&](auto& elements) {
        const auto& more = std::get<std::decay_t<decltype(elements)>>(slice.array.elements);
        elements.insert(elements.end(), more.begin(), more.end());
      },
      stack.array.elements);
  stack.bound.insert(stack.bound.end(), slice.bound.begin(), slice.bound.end());
  ++stack.array.shape[0];
}

std::int64_t integer_at(const Array& array, std::size_t i) {
  return std::visit([i](const auto& elements) { return static_cast<std::int64_t>(elements[i]); },
                    array.elements);
}

// Which rank an interpreter is, and where it meets the others; alone without a meeting.
struct Seat {
  RankMeeting* meeting = nullptr;
  std::size_t rank = 0;
};

class Interpreter {
 public:
  Interpreter(const Graph& graph, Bindings bindings, Mode mode, Seat seat)
      : graph_(graph),
        bindings_(std::move(bindings)),
        mode_(mode),
        seat_(seat),
        cells_(graph.values().size()) {}

  Result<std::vector<Cell>> run(std::span<const HostTensor> inputs) {
    std::vector<Cell> cells;
    for (const HostTensor& input : inputs) cells.push_back(exact(input));
    return run(std::move(cells));
  }

  Result<std::vector<Cell>> run(std::vector<Cell> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) cell(graph_.inputs()[i].value) = std::move(inputs[i]);
    for (std::size_t i = 0; i < graph_.values().size(); ++i) {
      if (const auto& constant = graph_.values()[i].constant) cells_[i] = exact(*constant);
    }
    for (const Node& node : graph_.nodes()) {
      auto done = this->node(node);
      if (!done)
        return in_context(node.name.empty() ? node.op->name : std::string_view(node.name),
                          std::move(done).error());
    }
    std::vector<Cell> outputs;
    for (const Port& port : graph_.outputs()) outputs.push_back(*cell(port.value));
    return outputs;
  }

  /// Also what observed data told.
  const Bindings& bindings() const { return bindings_; }

  Cell exact(const HostTensor& tensor) const {
    const std::int64_t bounds = mode_ == Mode::bounded ? tensor.count() : 0;
    return {array_of(tensor), std::vector<double>(static_cast<std::size_t>(bounds), 0.0)};
  }

 private:
  std::optional<Cell>& cell(ValueId id) { return cells_[static_cast<std::size_t>(id)]; }

  Result<void> node(const Node& node) {
    const auto primitive = primitive_of(node.op);
    if (node.op->custom != nullptr) return custom(node);
    if (!primitive) return composed(node);
    switch (*primitive) {
      case Primitive::fusion: return body(node, *node.bodies[0]);
      case Primitive::observe: return observe(node);
      case Primitive::conditional: return conditional(node);
      case Primitive::loop: return loop(node);
      case Primitive::compact: TRY(count(node)); break;
      default: break;
    }
    return computed(node, *primitive);
  }

  Result<void> computed(const Node& node, Primitive primitive) {
    const Type& type = graph_.type(node.outputs[0]);
    const StaticShape shape = TRY(evaluate(type.shape, bindings_));
    std::vector<const Array*> inputs;
    std::vector<const std::vector<double>*> bounds;
    for (const ValueId id : node.inputs) {
      inputs.push_back(&cell(id)->array);
      bounds.push_back(&cell(id)->bound);
    }
    const ReferenceCall call{primitive, inputs, node.attributes, type.dtype, shape, bindings_};
    if (is_collective(primitive)) return exchanged(node, call);
    Cell result{TRY(reference(call)), {}};
    if (mode_ == Mode::typed) round_to_dtype(result.array);
    if (mode_ == Mode::bounded) result.bound = TRY(error_bound(call, bounds, result.array));
    cell(node.outputs[0]) = std::move(result);
    return {};
  }

  // A rank alone has what it gives.
  Result<void> exchanged(const Node& node, const ReferenceCall& call) {
    Cell result = *cell(node.inputs[0]);
    if (seat_.meeting != nullptr) {
      Exchanged given = TRY(seat_.meeting->meet(seat_.rank, node, call, result.bound));
      result = {std::move(given.array), std::move(given.bound)};
    }
    if (mode_ == Mode::typed) round_to_dtype(result.array);
    cell(node.outputs[0]) = std::move(result);
    return {};
  }

  Result<void> body(const Node& node, const Graph& body) {
    Interpreter inner(body, bindings_, mode_, seat_);
    return finish(node, TRY(inner.run(values_of(node.inputs))));
  }

  std::vector<Cell> values_of(std::span<const ValueId> ids) {
    std::vector<Cell> values;
    for (const ValueId id : ids) values.push_back(*cell(id));
    return values;
  }

  // Results get their names, and the sizes that only they tell are known from here on.
  Result<void> finish(const Node& node, std::vector<Cell> results) {
    std::vector<StaticShape> shapes;
    for (const Cell& result : results) shapes.push_back(result.array.shape);
    TRY(bind_results(graph_, node, shapes, bindings_));
    for (std::size_t i = 0; i < results.size(); ++i) cell(node.outputs[i]) = std::move(results[i]);
    return {};
  }

  // Where rounding may decide, there is no one truth.
  Result<void> require_exact(const Cell& value, std::string_view what) const {
    for (const double bound : value.bound) {
      if (bound != 0) return fail(ErrorCode::unsupported, "the {} depends on rounding", what);
    }
    return {};
  }

  Result<void> observe(const Node& node) {
    Cell value = *cell(node.inputs[0]);
    TRY(require_exact(value, "size"));
    std::vector<std::int64_t> elements;
    for (std::size_t i = 0; i < static_cast<std::size_t>(value.array.count()); ++i)
      elements.push_back(integer_at(value.array, i));
    TRY(bind_observed(graph_, node, elements, bindings_));
    cell(node.outputs[0]) = std::move(value);
    return {};
  }

  // How many elements a compact will have.
  Result<void> count(const Node& node) {
    const Cell& mask = *cell(node.inputs[0]);
    TRY(require_exact(mask, "number of elements"));
    std::int64_t count = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(mask.array.count()); ++i)
      count += integer_at(mask.array, i) != 0 ? 1 : 0;
    return bind_results(graph_, node, std::vector<StaticShape>{{count}}, bindings_);
  }

  // The operator's own function. What its result has to do with errors of its operands, nobody knows.
  Result<void> custom(const Node& node) {
    std::vector<HostTensor> tensors;
    std::vector<OperandView> operands;
    bool exact_operands = true;
    for (const ValueId id : node.inputs) {
      if (id == ValueId::none) {
        operands.emplace_back();
        continue;
      }
      tensors.push_back(TRY(tensor_of(cell(id)->array)));  // its bytes stay where they are
      operands.push_back(OperandView::of(tensors.back()));
      exact_operands &= std::ranges::all_of(cell(id)->bound, [](double bound) { return bound == 0; });
    }
    std::vector<Cell> results;
    for (const HostTensor& tensor : TRY(node.op->custom->call(operands, node.attributes))) {
      results.push_back(exact(tensor));
      if (exact_operands && !is_floating(tensor.dtype())) continue;
      const double share =
          node.op->custom->tolerance_ulp() * std::ldexp(1.0, -info(tensor.dtype()).mantissa_bits);
      std::vector<double>& bound = results.back().bound;
      for (std::size_t i = 0; i < bound.size(); ++i)
        bound[i] =
            exact_operands ? share * std::fabs(tensor.as_double(static_cast<std::int64_t>(i))) : HUGE_VAL;
    }
    return finish(node, std::move(results));
  }

  Result<std::vector<Cell>> run_body(const Graph& body, std::vector<Cell> inputs) {
    std::vector<StaticShape> shapes;
    for (const Cell& input : inputs) shapes.push_back(input.array.shape);
    Interpreter inner(body, TRY(bind_symbols(body, shapes, bindings_)), mode_, seat_);
    return inner.run(std::move(inputs));
  }

  Result<bool> condition_of(const Cell& value, std::string_view what) const {
    TRY(require_exact(value, what));
    return integer_at(value.array, 0) != 0;
  }

  Result<void> conditional(const Node& node) {
    const bool condition = TRY(condition_of(*cell(node.inputs[0]), "branch"));
    auto results =
        TRY(run_body(*node.bodies[condition ? 0 : 1], values_of(std::span(node.inputs).subspan(1))));
    return finish(node, std::move(results));
  }

  Result<std::int64_t> trips_at_most(const Node& node, const LoopForm& form) {
    std::int64_t trips = std::numeric_limits<std::int64_t>::max();
    if (node.inputs[0] != ValueId::none) {
      TRY(require_exact(*cell(node.inputs[0]), "number of iterations"));
      trips = std::max<std::int64_t>(integer_at(cell(node.inputs[0])->array, 0), 0);
    }
    for (std::size_t i = 0; i < form.scanned; ++i)
      trips = std::min(trips, cell(node.inputs[form.first_scanned() + i])->array.shape[0]);
    return trips;
  }

  // The stacked results before the first iteration: sizes that only iterations tell are 0.
  std::vector<Cell> empty_stacks(const Node& node, const LoopForm& form) {
    std::vector<Cell> stacks;
    for (std::size_t i = 0; i < form.stacked; ++i) {
      const Type& type = graph_.type(node.outputs[form.carried + i]);
      StaticShape shape = {0};
      for (std::size_t axis = 1; axis < type.shape.size(); ++axis)
        shape.push_back(type.shape[axis].evaluate(bindings_).value_or(0));
      stacks.push_back(exact(HostTensor::allocate(type.dtype, std::move(shape)).value()));
    }
    return stacks;
  }

  Result<void> stack(const Node& node, std::vector<Cell>& stacks, std::span<const Cell> slices) {
    for (std::size_t i = 0; i < stacks.size(); ++i) {
      Array& whole = stacks[i].array;
      const StaticShape& slice = slices[i].array.shape;
      if (whole.shape[0] == 0) whole.shape.assign(1, 0);
      if (whole.shape.size() == 1) whole.shape.insert(whole.shape.end(), slice.begin(), slice.end());
      if (!std::equal(slice.begin(), slice.end(), whole.shape.begin() + 1, whole.shape.end())) {
        return fail(ErrorCode::mismatch, "{}: stacked result {} is {} in iteration {} and {} before",
                    node.op->name, i, text_of(slice), whole.shape[0],
                    text_of(std::span(whole.shape).subspan(1)));
      }
      if (whole.count() + slices[i].array.count() > kStackedMax)
        return fail(ErrorCode::out_of_memory, "{}: stacked result {} has too many elements", node.op->name,
                    i);
      append(stacks[i], slices[i]);
    }
    return {};
  }

  Result<void> loop(const Node& node) {
    const LoopForm form = loop_form(node);
    const std::int64_t trips = TRY(trips_at_most(node, form));
    bool go_on = node.inputs[1] == ValueId::none || TRY(condition_of(*cell(node.inputs[1]), "loop's end"));
    const std::span<const ValueId> inputs(node.inputs);
    std::vector<Cell> carried = values_of(inputs.subspan(form.first_carried(), form.carried));
    std::vector<Cell> stacks = empty_stacks(node, form);
    for (std::int64_t t = 0; t < trips && go_on; ++t) {
      std::vector<Cell> given = {exact(HostTensor::of<std::int64_t>({}, {t}))};
      std::ranges::move(carried, std::back_inserter(given));
      for (const ValueId id : inputs.subspan(form.first_scanned(), form.scanned))
        given.push_back(slice_of(*cell(id), t));
      std::ranges::move(values_of(inputs.subspan(form.first_capture())), std::back_inserter(given));
      std::vector<Cell> results = TRY(run_body(*node.bodies[0], std::move(given)));
      if (form.conditional) go_on = TRY(condition_of(results[0], "loop's end"));
      const auto first = results.begin() + static_cast<std::ptrdiff_t>(form.first_result());
      const auto end = first + static_cast<std::ptrdiff_t>(form.carried);
      TRY(stack(node, stacks, std::span(end, results.end())));
      carried.assign(std::make_move_iterator(first), std::make_move_iterator(end));
    }
    std::ranges::move(stacks, std::back_inserter(carried));
    return finish(node, std::move(carried));
  }

  // The decomposition, with constants kept as constants so that shapes and axes stay known.
  Result<void> composed(const Node& node) {
    Graph expanded = graph_.scratch();
    Values inputs;
    std::vector<Cell> cells;
    for (const ValueId id : node.inputs) {
      if (id == ValueId::none) {
        inputs.push_back(id);
        continue;
      }
      const Value& value = graph_.value(id);
      if (value.constant != nullptr) {
        inputs.push_back(expanded.add_constant(value.constant));
      } else if (value.contents && !contents_are_symbolic(*value.contents)) {
        inputs.push_back(expanded.add_constant(TRY(tensor_of(cell(id)->array))));
      } else {
        inputs.push_back(expanded.add_input(fmt::format("{}", cells.size()), value.type));
        expanded.set_contents(inputs.back(), value.contents);
        cells.push_back(*cell(id));
      }
    }
    Builder builder(expanded);
    const Values outputs = node.op->decompose(builder, {node.op, inputs, node.attributes});
    TRY(builder.status());
    TRY(check_constraints(expanded, bindings_));
    for (const ValueId id : outputs) expanded.add_output(fmt::format("{}", expanded.outputs().size()), id);
    Interpreter inner(expanded, bindings_, mode_, seat_);
    auto results = TRY(inner.run(std::move(cells)));
    for (const Dim& symbol : symbols_bound_by(node)) {
      const auto known = inner.bindings().find(*symbol.symbol_name());
      if (known != inner.bindings().end()) bindings_.insert(*known);
    }
    return finish(node, std::move(results));
  }

  static bool contents_are_symbolic(const Shape& contents) {
    for (const Dim& element : contents) {
      if (!element.constant()) return true;
    }
    return false;
  }

  const Graph& graph_;
  Bindings bindings_;
  Mode mode_;
  Seat seat_;
  std::vector<std::optional<Cell>> cells_;
};

// How many ranks each group has: those of the mesh, or one where there is none.
Result<void> bind_groups(const Graph& graph, std::span<const MeshAxis> mesh, bool alone, Bindings& known) {
  for (const auto& [name, ranks] : TRY(groups_of(graph))) {
    const auto axis = std::ranges::find(mesh, name, &MeshAxis::name);
    if (axis == mesh.end() && !alone)
      return fail(ErrorCode::usage, "graph '{}': group '{}' is no axis of the mesh", graph.name, name);
    const std::int64_t size = axis == mesh.end() ? 1 : axis->size;
    if (const auto symbol = ranks.symbol_name()) {
      known.emplace(*symbol, size);
    } else if (!ranks.is(size)) {
      return fail(ErrorCode::usage, "graph '{}': group '{}' is of {} ranks and {} here{}", graph.name, name,
                  ranks.text(), size, alone ? ": interpret_ranks() runs several" : "");
    }
  }
  return {};
}

Result<std::vector<Cell>> run(const Graph& graph, std::span<const HostTensor> inputs, Mode mode,
                              Bindings known = {}, Seat seat = {}, std::span<const MeshAxis> mesh = {}) {
  CHECK(inputs.size() == graph.inputs().size(), "an input for every port");
  std::vector<StaticShape> shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TRY(check_dtype(graph.inputs()[i], graph.type(graph.inputs()[i].value).dtype, inputs[i].dtype()));
    shapes.push_back(inputs[i].shape());
  }
  TRY(bind_groups(graph, mesh, seat.meeting == nullptr, known));
  const Bindings bindings = TRY(bind_symbols(graph, shapes, std::move(known)));
  return Interpreter(graph, bindings, mode, seat).run(inputs);
}

// Floats leave as double.
Result<HostTensor> widened(Array array) {
  if (is_floating(array.dtype)) array.dtype = DType::f64;
  return tensor_of(array);
}

Result<std::vector<HostTensor>> outputs_of(std::vector<Cell> cells, Arithmetic arithmetic) {
  std::vector<HostTensor> outputs;
  for (Cell& cell : cells) {
    outputs.push_back(
        TRY(arithmetic == Arithmetic::typed ? tensor_of(cell.array) : widened(std::move(cell.array))));
  }
  return outputs;
}

Result<std::vector<BoundedTensor>> bounded_outputs_of(std::vector<Cell> cells) {
  std::vector<BoundedTensor> outputs;
  for (Cell& cell : cells) {
    Array bound{.dtype = DType::f64, .shape = cell.array.shape, .elements = std::move(cell.bound)};
    outputs.push_back({TRY(widened(std::move(cell.array))), TRY(tensor_of(bound))});
  }
  return outputs;
}

// A thread for each rank.
Result<std::vector<std::vector<Cell>>> run_ranks(std::span<const Graph* const> graphs,
                                                 std::span<const MeshAxis> mesh,
                                                 std::span<const std::vector<HostTensor>> inputs, Mode mode) {
  RankMeeting meeting(mesh);
  CHECK(inputs.size() == meeting.ranks() && (graphs.size() == 1 || graphs.size() == inputs.size()),
        "inputs for every rank, and one graph or one each");
  std::vector<Result<std::vector<Cell>>> results(inputs.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const Graph& graph = *graphs[graphs.size() == 1 ? 0 : rank];
      results[rank] = run(graph, inputs[rank], mode, {}, {&meeting, rank}, mesh);
      meeting.leave(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A rank's own failure rather than what follows from it for the others.
  const auto failed = [](const auto& result) { return !result; };
  const auto own = [&](const auto& result) {
    return failed(result) && result.error().code != ErrorCode::call_mismatch;
  };
  auto worst = std::ranges::find_if(results, own);
  if (worst == results.end()) worst = std::ranges::find_if(results, failed);
  if (worst != results.end())
    return in_context(fmt::format("rank {}", worst - results.begin()), std::move(*worst).error());
  std::vector<std::vector<Cell>> cells;
  for (auto& result : results) cells.push_back(std::move(*result));
  return cells;
}

Mode mode_of(Arithmetic arithmetic) { return arithmetic == Arithmetic::typed ? Mode::typed : Mode::oracle; }

}  // namespace

Result<std::vector<HostTensor>> interpret(const Graph& graph, std::span<const HostTensor> inputs,
                                          Arithmetic arithmetic) {
  return outputs_of(TRY(run(graph, inputs, mode_of(arithmetic))), arithmetic);
}

Result<std::vector<std::vector<HostTensor>>> interpret_ranks(std::span<const Graph* const> graphs,
                                                             std::span<const MeshAxis> mesh,
                                                             std::span<const std::vector<HostTensor>> inputs,
                                                             Arithmetic arithmetic) {
  std::vector<std::vector<HostTensor>> outputs;
  for (auto& cells : TRY(run_ranks(graphs, mesh, inputs, mode_of(arithmetic))))
    outputs.push_back(TRY(outputs_of(std::move(cells), arithmetic)));
  return outputs;
}

Result<std::vector<std::vector<BoundedTensor>>> interpret_ranks_with_bounds(
    std::span<const Graph* const> graphs, std::span<const MeshAxis> mesh,
    std::span<const std::vector<HostTensor>> inputs) {
  std::vector<std::vector<BoundedTensor>> outputs;
  for (auto& cells : TRY(run_ranks(graphs, mesh, inputs, Mode::bounded)))
    outputs.push_back(TRY(bounded_outputs_of(std::move(cells))));
  return outputs;
}

Result<std::vector<BoundedTensor>> interpret_with_bounds(const Graph& graph,
                                                         std::span<const HostTensor> inputs,
                                                         const Bindings& known) {
  return bounded_outputs_of(TRY(run(graph, inputs, Mode::bounded, known)));
}

}  // namespace diji
