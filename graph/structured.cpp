// Types of the nodes whose meaning is in bodies: conditional and loop.
#include "graph/primitives.h"

#include "base/check.h"

#include <algorithm>

namespace diji {
namespace {

std::unexpected<Error> wrong(const Node& node, std::string sentence) {
  auto error = fail(ErrorCode::mismatch, "{}: {}", node.op->name, sentence);
  error.error().op = std::string(node.op->name);
  return error;
}

// Hands out the node's symbols in order, new ones where it has no more.
class Fresh {
 public:
  Fresh(Graph& graph, Node& node) : graph_(graph), node_(node) {
    symbols_ = node.attributes.get_or("symbols", Shape{});
  }
  Dim next() {
    if (used_ == symbols_.size()) symbols_.push_back(graph_.fresh_symbol());
    return symbols_[used_++];
  }
  void finish() {
    symbols_.resize(used_);
    if (used_ == 0) {
      node_.attributes.erase("symbols");
    } else {
      node_.attributes.set("symbols", symbols_);
    }
  }

 private:
  Graph& graph_;
  Node& node_;
  Shape symbols_;
  std::size_t used_ = 0;
};

// Symbols that mean something only inside of the body: those bound by its inputs alone, or by its nodes.
std::map<std::string, Bounds, std::less<>> local_symbols(const Graph& outer, const Node& node,
                                                         const Graph& body) {
  auto local = body.symbols();
  std::map<std::string, Bounds, std::less<>> known = outer.symbols();
  for (const ValueId id : node.inputs) {
    if (id == ValueId::none) continue;
    for (const Dim& dim : outer.type(id).shape) known.merge(dim.symbols());
  }
  for (const auto& [name, bounds] : known) local.erase(name);
  return local;
}

bool mentions(const Dim& dim, const std::map<std::string, Bounds, std::less<>>& names) {
  return std::ranges::any_of(dim.symbols(), [&](const auto& item) { return names.contains(item.first); });
}

Result<void> check_bodies(const Graph& graph, const Node& node, std::size_t count) {
  if (node.bodies.size() != count) return wrong(node, fmt::format("it needs {} bodies", count));
  for (const auto& body : node.bodies) {
    if (body == nullptr) return wrong(node, "a body is missing");
  }
  for (const ValueId id : node.inputs) {
    if (id != ValueId::none && static_cast<std::size_t>(id) >= graph.values().size())
      return wrong(node, "an input that does not exist");
  }
  return {};
}

// A body's port has the type of the value that is given to it, but for sizes with a symbol of the body's own.
Result<void> check_port(const Graph& graph, const Node& node, const Graph& body, std::size_t port,
                        std::size_t input, bool own_symbols) {
  if (port >= body.inputs().size() || input >= node.inputs.size() || node.inputs[input] == ValueId::none)
    return wrong(node, "its body takes other inputs");
  const Type &inside = body.type(body.inputs()[port].value), &outside = graph.type(node.inputs[input]);
  bool fits = inside.dtype == outside.dtype && inside.shape.size() == outside.shape.size();
  for (std::size_t i = 0; fits && i < inside.shape.size(); ++i) {
    fits = inside.shape[i] == outside.shape[i] || (own_symbols && inside.shape[i].symbol_name().has_value());
  }
  if (fits) return {};
  return wrong(node,
               fmt::format("input {} is {}, the body takes {}", input, text_of(outside), text_of(inside)));
}

Result<void> check_one_element(const Graph& graph, const Node& node, ValueId id, std::string_view what) {
  if (id == ValueId::none) return {};
  const Dim count = element_count(graph.type(id).shape);
  if (count.is(1)) return {};
  if (count.constant()) return wrong(node, fmt::format("the {} has {} elements", what, count.text()));
  return wrong(node, fmt::format("the {} may have any number of elements", what));
}

Result<std::vector<Type>> conditional_types(Graph& graph, Node& node) {
  TRY(check_bodies(graph, node, 2));
  TRY(check_one_element(graph, node, node.inputs[0], "condition"));
  const Graph &then = *node.bodies[0], &otherwise = *node.bodies[1];
  for (const Graph* body : {&then, &otherwise}) {
    if (body->inputs().size() + 1 != node.inputs.size()) return wrong(node, "a body takes other captures");
    for (std::size_t i = 0; i < body->inputs().size(); ++i)
      TRY(check_port(graph, node, *body, i, i + 1, false));
  }
  if (then.outputs().size() != otherwise.outputs().size())
    return wrong(node, "its branches have different numbers of results");
  Fresh fresh(graph, node);
  std::vector<Type> types;
  for (std::size_t i = 0; i < then.outputs().size(); ++i) {
    const Type& a = then.type(then.outputs()[i].value);
    const Type& b = otherwise.type(otherwise.outputs()[i].value);
    if (a.dtype != b.dtype || a.shape.size() != b.shape.size()) {
      auto error =
          fail(a.dtype != b.dtype ? ErrorCode::mismatch : ErrorCode::unsupported,
               "result {} is {} in one branch and {} in the other; ranks that depend on data are not "
               "built yet",
               i, text_of(a), text_of(b));
      error.error().op = std::string(node.op->name);
      return error;
    }
    const auto local_a = local_symbols(graph, node, then), local_b = local_symbols(graph, node, otherwise);
    Type type{a.dtype, {}};
    for (std::size_t axis = 0; axis < a.shape.size(); ++axis) {
      const Dim& size = a.shape[axis];
      const bool known = size == b.shape[axis] && !mentions(size, local_a) && !mentions(size, local_b);
      type.shape.push_back(known ? size : fresh.next());
    }
    types.push_back(std::move(type));
  }
  fresh.finish();
  return types;
}

// How often the body runs, where the graph tells.
std::optional<Dim> trip_count(const Graph& graph, const Node& node, const LoopForm& form) {
  if (form.conditional || node.inputs[1] != ValueId::none) return std::nullopt;
  std::optional<Dim> count;
  if (node.inputs[0] != ValueId::none) {
    const auto limit = contents_of(graph, node.inputs[0]);
    if (!limit) return std::nullopt;
    count = max((*limit)[0], 0);
  }
  for (std::size_t i = 0; i < form.scanned; ++i) {
    const Dim& size = graph.type(node.inputs[form.first_scanned() + i]).shape[0];
    if (!count) {
      count = size;
    } else if (!(*count == size)) {
      count = min(*count, size);
    }
  }
  return count;
}

Result<void> check_loop_inputs(const Graph& graph, const Node& node, const LoopForm& form,
                               const Graph& body) {
  if (body.inputs().size() + 1 != node.inputs.size() ||
      body.type(body.inputs()[0].value) != Type{DType::i64, {}})
    return wrong(node, "its body takes other inputs: iteration i64[], carried, slices, captures");
  for (std::size_t i = 0; i < form.carried; ++i)
    TRY(check_port(graph, node, body, 1 + i, form.first_carried() + i, true));
  for (std::size_t i = 0; i < form.scanned; ++i) {
    Type slice = graph.type(node.inputs[form.first_scanned() + i]);
    if (slice.shape.empty()) return wrong(node, "a scalar cannot be scanned");
    slice.shape.erase(slice.shape.begin());
    const Type& inside = body.type(body.inputs()[1 + form.carried + i].value);
    if (inside != slice) {
      return wrong(node, fmt::format("a slice is {}, the body takes {}", text_of(slice), text_of(inside)));
    }
  }
  for (std::size_t i = 0; i < form.captures; ++i)
    TRY(check_port(graph, node, body, 1 + form.carried + form.scanned + i, form.first_capture() + i, false));
  return {};
}

// A carried value that keeps its type has it at the end too; sizes with a symbol of the body's own are known
// at the end of the run only.
Result<Type> carried_type(const Graph& graph, const Node& node, const LoopForm& form, const Graph& body,
                          std::size_t i, Fresh& fresh) {
  const Type& first = graph.type(node.inputs[form.first_carried() + i]);
  const Type& inside = body.type(body.inputs()[1 + i].value);
  const Type& next = body.type(body.outputs()[form.first_result() + i].value);
  if (next.dtype != inside.dtype || next.shape.size() != inside.shape.size()) {
    return wrong(node,
                 fmt::format("carried value {} is {} and becomes {}", i, text_of(inside), text_of(next)));
  }
  Type type{first.dtype, {}};
  for (std::size_t axis = 0; axis < first.shape.size(); ++axis) {
    const bool varies = !(inside.shape[axis] == first.shape[axis]);
    if (!varies && !(next.shape[axis] == inside.shape[axis])) {
      return wrong(node, fmt::format("carried value {} has {} on axis {} and becomes {}", i,
                                     inside.shape[axis].text(), axis, next.shape[axis].text()));
    }
    type.shape.push_back(varies ? fresh.next() : first.shape[axis]);
  }
  return type;
}

Result<std::vector<Type>> loop_types(Graph& graph, Node& node) {
  TRY(check_bodies(graph, node, 1));
  const Graph& body = *node.bodies[0];
  const LoopForm form = loop_form(node);
  if (node.inputs.size() < form.first_capture()) return wrong(node, "fewer inputs than carried and scanned");
  TRY(check_one_element(graph, node, node.inputs[0], "limit"));
  TRY(check_one_element(graph, node, node.inputs[1], "condition"));
  TRY(check_loop_inputs(graph, node, form, body));
  if (body.outputs().size() < form.first_result() + form.carried)
    return wrong(node, "its body has too few results");
  if (form.conditional) {
    const Type& go_on = body.type(body.outputs()[0].value);
    if (go_on.dtype != DType::boolean || !element_count(go_on.shape).is(1))
      return wrong(node, "its body's first result must be one bool");
  }
  const auto count = trip_count(graph, node, form);
  const bool ends = form.conditional || node.inputs[0] != ValueId::none || form.scanned > 0;
  if (!ends) return wrong(node, "nothing ends it: no limit, no condition, nothing scanned");
  const auto local = local_symbols(graph, node, body);
  Fresh fresh(graph, node);
  std::vector<Type> types;
  for (std::size_t i = 0; i < form.carried; ++i)
    types.push_back(TRY(carried_type(graph, node, form, body, i, fresh)));
  std::optional<Dim> trips = count;
  for (std::size_t i = 0; i < form.stacked; ++i) {
    const Type& one = body.type(body.outputs()[form.first_result() + form.carried + i].value);
    if (!trips) trips = fresh.next();
    Type type{one.dtype, {*trips}};
    for (const Dim& size : one.shape) type.shape.push_back(mentions(size, local) ? fresh.next() : size);
    types.push_back(std::move(type));
  }
  fresh.finish();
  return types;
}

}  // namespace

Result<std::vector<Type>> infer_structured(Graph& graph, Node& node) {
  return primitive_of(node.op) == Primitive::conditional ? conditional_types(graph, node)
                                                         : loop_types(graph, node);
}

}  // namespace diji
