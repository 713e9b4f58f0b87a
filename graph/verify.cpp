// The rules of a graph.
#include "graph/verify.h"

#include "graph/builder.h"
#include "graph/collective.h"
#include "graph/primitives.h"

#include <set>

namespace diji {
namespace {

std::unexpected<Error> broken(const Graph& graph, std::size_t node, std::string_view sentence) {
  const Node& n = graph.nodes()[node];
  auto error = fail(ErrorCode::malformed, "graph '{}': node {} ({}{}{}): {}", graph.name, node,
                    n.op == nullptr ? "?" : n.op->name, n.name.empty() ? "" : ", ", n.name, sentence);
  error.error().op = n.op == nullptr ? "" : std::string(n.op->name);
  return error;
}

Result<void> verify_body(const Graph& graph, std::size_t index) {
  const Node& node = graph.nodes()[index];
  if (node.bodies.size() != 1 || node.bodies[0] == nullptr)
    return broken(graph, index, "a fusion without a body");
  const Graph& body = *node.bodies[0];
  if (has_collective(node)) return broken(graph, index, "a collective inside of a kernel");
  TRY(verify(body));
  if (body.inputs().size() != node.inputs.size() || body.outputs().size() != node.outputs.size()) {
    return broken(graph, index, "its body has other ports");
  }
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == ValueId::none) return broken(graph, index, fmt::format("input {} is missing", i));
    if (graph.type(node.inputs[i]) != body.type(body.inputs()[i].value)) {
      return broken(graph, index, fmt::format("input {} has another type in the body", i));
    }
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (graph.type(node.outputs[i]) != body.type(body.outputs()[i].value)) {
      return broken(graph, index, fmt::format("output {} has another type in the body", i));
    }
  }
  return {};
}

// `scratch` is a copy of the graph: inference may add assumptions.
Result<void> verify_types(const Graph& graph, Graph& scratch, std::size_t index) {
  const Node& node = graph.nodes()[index];
  std::vector<Type> inferred;
  const auto primitive = primitive_of(node.op);
  if (primitive == Primitive::conditional || primitive == Primitive::loop) {
    Node copy = node;
    auto types = infer_structured(scratch, copy);
    if (!types) return broken(graph, index, types.error().message);
    inferred = std::move(*types);
    for (const auto& body : node.bodies) TRY(verify(*body));
  } else if (primitive) {
    auto types = infer_primitive(scratch, *primitive, node.inputs, node.attributes);
    if (!types) return broken(graph, index, types.error().message);
    inferred = std::move(*types);
  } else {
    auto values = infer_call(graph, {node.op, node.inputs, node.attributes});
    if (!values) return broken(graph, index, values.error().message);
    for (Value& value : *values) inferred.push_back(std::move(value.type));
  }
  if (inferred.size() != node.outputs.size()) return broken(graph, index, "another number of results");
  for (std::size_t i = 0; i < inferred.size(); ++i) {
    if (inferred[i] != graph.type(node.outputs[i])) {
      return broken(graph, index,
                    fmt::format("result {} is {}, inferred {}", i, text_of(graph.type(node.outputs[i])),
                                text_of(inferred[i])));
    }
  }
  return {};
}

Result<void> verify_node(const Graph& graph, Graph& scratch, std::size_t index) {
  const Node& node = graph.nodes()[index];
  if (node.op == nullptr) return broken(graph, index, "no operator");
  for (const ValueId id : node.inputs) {
    if (id == ValueId::none) continue;
    if (static_cast<std::size_t>(id) >= graph.values().size())
      return broken(graph, index, "an input that does not exist");
    const NodeId producer = graph.value(id).producer;
    if (producer != NodeId::none && static_cast<std::size_t>(producer) >= index) {
      return broken(graph, index, "an input that is made later");
    }
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& value = graph.value(node.outputs[i]);
    if (static_cast<std::size_t>(value.producer) != index || value.output != i) {
      return broken(graph, index, "an output that belongs to another node");
    }
  }
  if (auto checked = check_call(graph, {node.op, node.inputs, node.attributes}); !checked) {
    return broken(graph, index, checked.error().message);
  }
  return primitive_of(node.op) == Primitive::fusion ? verify_body(graph, index)
                                                    : verify_types(graph, scratch, index);
}

}  // namespace

Result<void> verify(const Graph& graph) {
  Graph scratch = graph;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) TRY(verify_node(graph, scratch, i));
  TRY(groups_of(graph));
  for (const Value& value : graph.values()) {
    for (const Dim& dim : value.type.shape) {
      if (!dim.is_valid())
        return fail(ErrorCode::malformed, "graph '{}': a size that is not an integer of 64 bits", graph.name);
    }
  }
  std::set<std::string_view> names;
  for (const Port& port : graph.inputs()) {
    if (!graph.is_input(port.value) || !names.insert(port.name).second) {
      return fail(ErrorCode::malformed, "graph '{}': input '{}' stands twice or is no input", graph.name,
                  port.name);
    }
  }
  names.clear();
  for (const Port& port : graph.outputs()) {
    if (static_cast<std::size_t>(port.value) >= graph.values().size() || !names.insert(port.name).second) {
      return fail(ErrorCode::malformed, "graph '{}': output '{}' stands twice or has no value", graph.name,
                  port.name);
    }
  }
  return {};
}

}  // namespace diji
