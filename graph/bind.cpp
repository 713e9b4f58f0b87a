// Binding of symbols to sizes.
#include "graph/bind.h"

#include "base/check.h"

#include <algorithm>

namespace diji {
namespace {

std::unexpected<Error> does_not_fit(const Port& port, const Type& type, const StaticShape& given,
                                    std::string_view sentence) {
  auto error = fail(ErrorCode::mismatch, "input '{}': {} (given {}, declared {})", port.name, sentence,
                    text_of(given), text_of(type));
  error.error().shape = text_of(given);
  return error;
}

std::string allowed(const Dim& dim) {
  const Bounds bounds = dim.bounds();
  return fmt::format("{} … {}", bounds.min, bounds.max);
}

// Sizes that are one bare symbol bind it; the first input to name a symbol decides, the others must agree.
Result<void> bind_input(const Port& port, const Type& type, const StaticShape& given, Bindings& bindings,
                        std::map<std::string, std::string, std::less<>>& origins) {
  if (given.size() != type.shape.size()) {
    return does_not_fit(port, type, given,
                        fmt::format("rank {} where {} is wanted", given.size(), type.shape.size()));
  }
  const auto origin = [&](std::string_view symbol) -> std::string_view {
    const auto found = origins.find(symbol);
    return found == origins.end() ? "outside of this body" : std::string_view(found->second);
  };
  for (std::size_t axis = 0; axis < given.size(); ++axis) {
    const Dim& dim = type.shape[axis];
    if (const auto constant = dim.constant(); constant && *constant != given[axis]) {
      return does_not_fit(port, type, given,
                          fmt::format("axis {} is {}, it must be {}", axis, given[axis], *constant));
    }
    const auto symbol = dim.symbol_name();
    if (!symbol) continue;
    if (given[axis] < dim.bounds().min || given[axis] > dim.bounds().max) {
      return does_not_fit(
          port, type, given,
          fmt::format("axis {} ({}) is {}, it may be {}", axis, *symbol, given[axis], allowed(dim)));
    }
    const auto [known, first] = bindings.emplace(*symbol, given[axis]);
    if (first) {
      origins.emplace(*symbol, fmt::format("axis {} of '{}'", axis, port.name));
    } else if (known->second != given[axis]) {
      return does_not_fit(port, type, given,
                          fmt::format("axis {} is {}, but {} is already {} ({})", axis, given[axis], *symbol,
                                      known->second, origin(*symbol)));
    }
  }
  return {};
}

bool is_known(const Dim& dim, const Bindings& bindings) {
  return std::ranges::all_of(dim.symbols(), [&](const auto& item) { return bindings.contains(item.first); });
}

Result<void> check_constraint(const Constraint& c, const Bindings& bindings) {
  const auto left = c.left.evaluate(bindings), right = c.right.evaluate(bindings);
  if (!left || !right) {
    // Asked only here, because it costs more than the numbers do.
    if (!is_known(c.left, bindings) || !is_known(c.right, bindings)) return {};
    return std::unexpected(left ? right.error() : left.error());
  }
  if (c.kind == Constraint::Kind::equal ? *left == *right : *left <= *right) return {};
  auto error = fail(ErrorCode::mismatch, "these sizes do not fit the model: {}: {} = {} must be {} {} = {}",
                    c.why, c.left.text(), *left, c.kind == Constraint::Kind::equal ? "equal to" : "at most",
                    c.right.text(), *right);
  error.error().stretchable = c.kind == Constraint::Kind::equal && (*left == 1 || *right == 1);
  return error;
}

std::string_view name_of(const Node& node) { return node.name.empty() ? node.op->name : node.name; }

std::unexpected<Error> about_node(const Node& node, ErrorCode code, std::string sentence) {
  auto error = fail(code, "{}: {}", name_of(node), sentence);
  error.error().op = std::string(node.op->name);
  return error;
}

// One symbol that only the run tells.
Result<void> bind_one(const Node& node, std::string_view what, ErrorCode code, const Dim& symbol,
                      std::int64_t value, Bindings& bindings) {
  if (value < symbol.bounds().min || value > symbol.bounds().max) {
    return about_node(node, code, fmt::format("{} is {}, it may be {}", what, value, allowed(symbol)));
  }
  const auto [known, first] = bindings.emplace(*symbol.symbol_name(), value);
  if (first || known->second == value) return {};
  return about_node(node, code,
                    fmt::format("{} is {}, but {} is already {}", what, value, symbol.text(), known->second));
}

// Assumptions that mention a symbol of the node: the others were checked before.
Result<void> check_new(const Graph& graph, const Shape& symbols, const Bindings& bindings) {
  if (symbols.empty()) return {};
  for (const Constraint& c : graph.constraints()) {
    const auto left = c.left.symbols(), right = c.right.symbols();
    const bool is_new = std::ranges::any_of(symbols, [&](const Dim& symbol) {
      return left.contains(*symbol.symbol_name()) || right.contains(*symbol.symbol_name());
    });
    if (is_new) TRY(check_constraint(c, bindings));
  }
  return {};
}

}  // namespace

Result<Bindings> bind_symbols(const Graph& graph, std::span<const StaticShape> shapes, Bindings known) {
  CHECK(shapes.size() == graph.inputs().size(), "a shape for every input");
  Bindings bindings = std::move(known);
  std::map<std::string, std::string, std::less<>> origins;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Port& port = graph.inputs()[i];
    TRY(bind_input(port, graph.type(port.value), shapes[i], bindings, origins));
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Port& port = graph.inputs()[i];
    const Type& type = graph.type(port.value);
    for (std::size_t axis = 0; axis < type.shape.size(); ++axis) {
      const std::int64_t wanted = TRY(type.shape[axis].evaluate(bindings));
      if (wanted != shapes[i][axis]) {
        return does_not_fit(
            port, type, shapes[i],
            fmt::format("axis {} is {}, {} is {}", axis, shapes[i][axis], type.shape[axis].text(), wanted));
      }
    }
  }
  TRY(check_constraints(graph, bindings));
  return bindings;
}

Result<void> bind_results(const Graph& graph, const Node& node, std::span<const StaticShape> shapes,
                          Bindings& bindings) {
  CHECK(shapes.size() == node.outputs.size(), "a shape for every result");
  const Shape symbols = symbols_bound_by(node);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Shape& declared = graph.type(node.outputs[i]).shape;
    CHECK(declared.size() == shapes[i].size(), "results have their rank");
    for (std::size_t axis = 0; axis < declared.size(); ++axis) {
      if (std::ranges::find(symbols, declared[axis]) == symbols.end()) continue;
      TRY(bind_one(node, fmt::format("axis {} of result {}", axis, i), ErrorCode::mismatch, declared[axis],
                   shapes[i][axis], bindings));
    }
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Type& type = graph.type(node.outputs[i]);
    if (TRY(evaluate(type.shape, bindings)) == shapes[i]) continue;
    return about_node(node, ErrorCode::mismatch,
                      fmt::format("result {} is {}, declared {}", i, text_of(shapes[i]), text_of(type)));
  }
  return check_new(graph, symbols, bindings);
}

Result<void> bind_observed(const Graph& graph, const Node& node, std::span<const std::int64_t> elements,
                           Bindings& bindings) {
  const Shape symbols = symbols_bound_by(node);
  CHECK(symbols.size() == elements.size(), "a symbol for every element");
  for (std::size_t i = 0; i < elements.size(); ++i) {
    TRY(bind_one(node, fmt::format("element {} of a size that is computed from data", i), ErrorCode::data,
                 symbols[i], elements[i], bindings));
  }
  return check_new(graph, symbols, bindings);
}

Result<void> check_constraints(const Graph& graph, const Bindings& bindings) {
  for (const Constraint& c : graph.constraints()) TRY(check_constraint(c, bindings));
  return {};
}

Result<void> check_dtype(const Port& port, DType declared, DType given) {
  if (declared == given) return {};
  auto error = fail(ErrorCode::mismatch, "input '{}': dtype {} where {} is wanted", port.name, name_of(given),
                    name_of(declared));
  error.error().dtype = std::string(name_of(given));
  return error;
}

}  // namespace diji
