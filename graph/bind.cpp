// Binding of symbols to sizes.
#include "graph/bind.h"

#include "base/check.h"

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
                                      known->second, origins.find(*symbol)->second));
    }
  }
  return {};
}

}  // namespace

Result<Bindings> bind_symbols(const Graph& graph, std::span<const StaticShape> shapes) {
  CHECK(shapes.size() == graph.inputs().size(), "a shape for every input");
  Bindings bindings;
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

Result<void> check_constraints(const Graph& graph, const Bindings& bindings) {
  for (const Constraint& c : graph.constraints()) {
    const std::int64_t left = TRY(c.left.evaluate(bindings)), right = TRY(c.right.evaluate(bindings));
    if (c.kind == Constraint::Kind::equal ? left == right : left <= right) continue;
    return fail(ErrorCode::mismatch, "these sizes do not fit the model: {}: {} = {} must be {} {} = {}",
                c.why, c.left.text(), left, c.kind == Constraint::Kind::equal ? "equal to" : "at most",
                c.right.text(), right);
  }
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
