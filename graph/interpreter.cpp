// Walks a graph node by node.
#include "graph/interpreter.h"

#include "base/check.h"
#include "graph/bind.h"
#include "graph/builder.h"
#include "graph/error_bound.h"
#include "graph/reference.h"

#include <algorithm>
#include <optional>

namespace diji {
namespace {

enum class Mode : std::uint8_t { oracle, typed, bounded };

struct Cell {
  Array array;
  std::vector<double> bound;  // in bounded mode
};

class Interpreter {
 public:
  // Nodes may bind further symbols, for what comes behind them.
  Interpreter(const Graph& graph, Bindings bindings, Mode mode)
      : graph_(graph), bindings_(std::move(bindings)), mode_(mode), cells_(graph.values().size()) {}

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

  static Cell exact(const HostTensor& tensor) {
    return {array_of(tensor), std::vector<double>(static_cast<std::size_t>(tensor.count()), 0.0)};
  }

 private:
  std::optional<Cell>& cell(ValueId id) { return cells_[static_cast<std::size_t>(id)]; }

  Result<void> node(const Node& node) {
    const auto primitive = primitive_of(node.op);
    if (primitive == Primitive::fusion) return body(node, *node.bodies[0]);
    if (!primitive) return composed(node);
    if (primitive == Primitive::compact) bind_count(node);
    const Type& type = graph_.type(node.outputs[0]);
    const StaticShape shape = TRY(evaluate(type.shape, bindings_));
    std::vector<const Array*> inputs;
    std::vector<const std::vector<double>*> bounds;
    for (const ValueId id : node.inputs) {
      inputs.push_back(&cell(id)->array);
      bounds.push_back(&cell(id)->bound);
    }
    const ReferenceCall call{*primitive, inputs, node.attributes, type.dtype, shape, bindings_};
    Cell result{TRY(reference(call)), {}};
    if (mode_ == Mode::typed) round_to_dtype(result.array);
    if (mode_ == Mode::bounded) result.bound = TRY(error_bound(call, bounds, result.array));
    cell(node.outputs[0]) = std::move(result);
    return {};
  }

  // The size of a compact's result is how many elements of its mask are true.
  void bind_count(const Node& node) {
    const auto& mask = std::get<std::vector<std::uint8_t>>(cell(node.inputs[0])->array.elements);
    const Dim symbol = node.attributes.get_or("symbols", Shape{})[0];
    bindings_[std::string(*symbol.symbol_name())] =
        std::ranges::count_if(mask, [](std::uint8_t element) { return element != 0; });
  }

  Result<void> body(const Node& node, const Graph& body) {
    std::vector<Cell> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(*cell(id));
    auto outputs = TRY(Interpreter(body, bindings_, mode_).run(std::move(inputs)));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      // A compact in the body binds the size of its result.
      const Shape& shape = graph_.type(node.outputs[i]).shape;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (const auto symbol = shape[axis].symbol_name())
          bindings_.emplace(*symbol, outputs[i].array.shape[axis]);
      }
      cell(node.outputs[i]) = std::move(outputs[i]);
    }
    return {};
  }

  // The decomposition, with constants kept as constants so that shapes and axes stay known.
  Result<void> composed(const Node& node) {
    Graph expanded;
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
    auto results = TRY(Interpreter(expanded, bindings_, mode_).run(std::move(cells)));
    for (std::size_t i = 0; i < results.size(); ++i) cell(node.outputs[i]) = std::move(results[i]);
    return {};
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
  std::vector<std::optional<Cell>> cells_;
};

Result<std::vector<Cell>> run(const Graph& graph, std::span<const HostTensor> inputs, Mode mode) {
  CHECK(inputs.size() == graph.inputs().size(), "an input for every port");
  std::vector<StaticShape> shapes;
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TRY(check_dtype(graph.inputs()[i], graph.type(graph.inputs()[i].value).dtype, inputs[i].dtype()));
    shapes.push_back(inputs[i].shape());
    cells.push_back(Interpreter::exact(inputs[i]));
  }
  const Bindings bindings = TRY(bind_symbols(graph, shapes));
  return Interpreter(graph, bindings, mode).run(std::move(cells));
}

// Floats leave as double.
Result<HostTensor> widened(Array array) {
  if (is_floating(array.dtype)) array.dtype = DType::f64;
  return tensor_of(array);
}

}  // namespace

Result<std::vector<HostTensor>> interpret(const Graph& graph, std::span<const HostTensor> inputs,
                                          Arithmetic arithmetic) {
  const bool typed = arithmetic == Arithmetic::typed;
  auto cells = TRY(run(graph, inputs, typed ? Mode::typed : Mode::oracle));
  std::vector<HostTensor> outputs;
  for (Cell& cell : cells)
    outputs.push_back(TRY(typed ? tensor_of(cell.array) : widened(std::move(cell.array))));
  return outputs;
}

Result<std::vector<BoundedTensor>> interpret_with_bounds(const Graph& graph,
                                                         std::span<const HostTensor> inputs) {
  auto cells = TRY(run(graph, inputs, Mode::bounded));
  std::vector<BoundedTensor> outputs;
  for (Cell& cell : cells) {
    Array bound{.dtype = DType::f64, .shape = cell.array.shape, .elements = std::move(cell.bound)};
    outputs.push_back({TRY(widened(std::move(cell.array))), TRY(tensor_of(bound))});
  }
  return outputs;
}

}  // namespace diji
