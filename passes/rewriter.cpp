// The walk that every rebuilding pass shares.
#include "passes/rewriter.h"

#include "graph/primitives.h"

#include <algorithm>
#include <map>
#include <memory>

namespace diji {

Values ValueMap::of(const Values& old) const {
  Values result;
  for (const ValueId id : old) result.push_back((*this)[id]);
  return result;
}

Values copy_node(Builder& builder, const Graph& graph, const Node& node, const Values& inputs) {
  std::vector<Type> types;
  std::vector<std::optional<Shape>> contents;
  for (const ValueId id : node.outputs) {
    types.push_back(graph.type(id));
    contents.push_back(graph.value(id).contents);
  }
  Node copy = node;
  copy.inputs = inputs;
  return builder.graph().add_node(std::move(copy), std::move(types), std::move(contents)).outputs;
}

bool has_bodies(const Node& node) {
  const auto primitive = primitive_of(node.op);
  return primitive == Primitive::conditional || primitive == Primitive::loop;
}

Result<Graph> rewrite_bodies(const Graph& graph, const std::function<Result<Graph>(const Graph&)>& change) {
  if (std::ranges::none_of(graph.nodes(), has_bodies)) return graph;
  std::map<const Graph*, std::shared_ptr<const Graph>> changed;
  for (const Node& node : graph.nodes()) {
    if (!has_bodies(node)) continue;
    for (const auto& body : node.bodies) {
      if (changed.contains(body.get())) continue;
      auto fresh = change(*body);
      if (!fresh) {
        return in_context(node.name.empty() ? node.op->name : std::string_view(node.name),
                          std::move(fresh).error());
      }
      changed.emplace(body.get(), std::make_shared<const Graph>(std::move(*fresh)));
    }
  }
  return rewrite(graph, [&](Builder& builder, const Node& node, Values& inputs) -> std::optional<Values> {
    if (!has_bodies(node)) return std::nullopt;
    Node copy = node;
    for (auto& body : copy.bodies) body = changed.at(body.get());
    return copy_node(builder, graph, copy, inputs);
  });
}

Graph with_constants(const Graph& body, const std::vector<std::shared_ptr<const HostTensor>>& inputs) {
  Graph result = body.successor();
  Values given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Port& port = body.inputs()[i];
    given.push_back(inputs[i] != nullptr ? result.add_constant(inputs[i])
                                         : result.add_input(port.name, body.type(port.value)));
    if (inputs[i] == nullptr) result.set_contents(given.back(), body.value(port.value).contents);
  }
  Builder builder(result);
  const Values outputs = inline_body(builder, body, given);
  for (std::size_t i = 0; i < outputs.size(); ++i) result.add_output(body.outputs()[i].name, outputs[i]);
  return result;
}

Values inline_body(Builder& builder, const Graph& body, const Values& inputs) {
  ValueMap map(body.values().size());
  for (std::size_t i = 0; i < inputs.size(); ++i) map.set(body.inputs()[i].value, inputs[i]);
  for (std::size_t i = 0; i < body.values().size(); ++i) {
    if (const auto& constant = body.values()[i].constant)
      map.set(static_cast<ValueId>(i), builder.graph().add_constant(constant));
  }
  for (const Constraint& constraint : body.constraints()) builder.graph().require(constraint);
  for (const Node& node : body.nodes()) {
    const Values results = copy_node(builder, body, node, map.of(node.inputs));
    for (std::size_t i = 0; i < results.size(); ++i) map.set(node.outputs[i], results[i]);
  }
  Values outputs;
  for (const Port& port : body.outputs()) outputs.push_back(map[port.value]);
  return outputs;
}

Result<Graph> rewrite(const Graph& graph, const NodeRule& rule,
                      const std::function<bool(const Node&)>& wanted) {
  Graph result = graph.successor();
  ValueMap map(graph.values().size());
  for (const Port& port : graph.inputs()) {
    map.set(port.value, result.add_input(port.name, graph.type(port.value)));
    result.set_contents(map[port.value], graph.value(port.value).contents);
  }
  for (const Constraint& constraint : graph.constraints()) result.require(constraint);
  const auto take_constant = [&](ValueId id) {
    if (id != ValueId::none && map[id] == ValueId::none && graph.value(id).constant != nullptr) {
      map.set(id, result.add_constant(graph.value(id).constant));
    }
  };
  Builder builder(result);
  for (const Node& node : graph.nodes()) {
    if (wanted && !wanted(node)) continue;
    for (const ValueId id : node.inputs) take_constant(id);
    Values inputs = map.of(node.inputs);
    const std::size_t first_new = result.nodes().size();
    std::optional<Values> outputs = rule(builder, node, inputs);
    if (auto status = builder.status(); !status) {
      return in_context(node.name.empty() ? node.op->name : std::string_view(node.name),
                        std::move(status).error());
    }
    if (!outputs) outputs = copy_node(builder, graph, node, inputs);
    if (!node.name.empty()) result.name_nodes(first_new, node.name);
    for (std::size_t i = 0; i < outputs->size(); ++i) map.set(node.outputs[i], (*outputs)[i]);
  }
  for (const Port& port : graph.outputs()) {
    take_constant(port.value);
    result.add_output(port.name, map[port.value]);
  }
  return result;
}

}  // namespace diji
