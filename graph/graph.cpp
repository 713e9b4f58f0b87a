// Storage of the IR.
#include "graph/graph.h"

#include "graph/primitives.h"

#include <algorithm>

namespace diji {
namespace {

// Shapes have at most a few dozen elements; anything larger is data, not a shape.
constexpr std::int64_t kContentsMax = 256;

bool proved(const Constraint& c) {
  if (c.kind == Constraint::Kind::equal) return c.left == c.right;
  return c.left == c.right || (c.right - c.left).bounds().min >= 0;
}

}  // namespace

std::string text_of(const Type& type) {
  return fmt::format("{}{}", name_of(type.dtype), text_of(type.shape));
}

Dim Graph::fresh_symbol(Bounds bounds) {
  return Dim::symbol(fmt::format("{}{}", fresh_prefix_, fresh_++), bounds);
}

Graph Graph::child() {
  Graph result;
  result.stretches = stretches;
  result.fresh_prefix_ = fmt::format("{}{}.", fresh_prefix_, fresh_++);
  return result;
}

Graph Graph::successor() const {
  Graph result;
  result.name = name;
  result.stretches = stretches;
  result.fresh_prefix_ = fresh_prefix_;
  result.fresh_ = fresh_;
  return result;
}

Graph Graph::scratch() const {
  Graph result = successor();
  return result.child();
}

Shape symbols_bound_by(const Node& node) {
  Shape symbols = node.attributes.get_or("symbols", Shape{});
  if (primitive_of(node.op) != Primitive::fusion) return symbols;
  for (const Node& inner : node.bodies[0]->nodes()) {
    for (Dim& symbol : symbols_bound_by(inner)) symbols.push_back(std::move(symbol));
  }
  return symbols;
}

std::map<std::string, Bounds, std::less<>> Graph::symbols() const {
  std::map<std::string, Bounds, std::less<>> result;
  for (const Port& port : inputs_) {
    for (const Dim& dim : type(port.value).shape) result.merge(dim.symbols());
  }
  for (const Node& node : nodes_) {
    for (const Dim& dim : symbols_bound_by(node)) result.merge(dim.symbols());
    const auto primitive = primitive_of(node.op);
    if (primitive && is_collective(*primitive)) result.merge(channel_of(node.attributes).ranks.symbols());
  }
  return result;
}

bool Graph::is_input(ValueId id) const {
  return value(id).producer == NodeId::none && value(id).constant == nullptr;
}

ValueId Graph::add_input(std::string port, Type type) {
  const auto id = static_cast<ValueId>(values_.size());
  values_.push_back(Value{.type = std::move(type)});
  inputs_.push_back({std::move(port), id});
  return id;
}

ValueId Graph::add_constant(HostTensor tensor) {
  return add_constant(std::make_shared<const HostTensor>(std::move(tensor)));
}

ValueId Graph::add_constant(std::shared_ptr<const HostTensor> tensor) {
  const auto id = static_cast<ValueId>(values_.size());
  Value value;
  value.type.dtype = tensor->dtype();
  value.type.shape.assign(tensor->shape().begin(), tensor->shape().end());
  value.constant = std::move(tensor);
  values_.push_back(std::move(value));
  return id;
}

const Node& Graph::add_node(Node node, std::vector<Type> types, std::vector<std::optional<Shape>> contents) {
  const auto id = static_cast<NodeId>(nodes_.size());
  contents.resize(types.size());
  node.outputs.clear();
  for (std::size_t i = 0; i < types.size(); ++i) {
    node.outputs.push_back(static_cast<ValueId>(values_.size()));
    values_.push_back(Value{.type = std::move(types[i]),
                            .producer = id,
                            .output = static_cast<std::uint32_t>(i),
                            .contents = std::move(contents[i])});
  }
  nodes_.push_back(std::move(node));
  return nodes_.back();
}

void Graph::name_nodes(std::size_t first, const std::string& origin) {
  for (std::size_t i = first; i < nodes_.size(); ++i) {
    if (nodes_[i].name.empty()) nodes_[i].name = origin;
  }
}

void Graph::require(Constraint constraint) {
  if (proved(constraint)) return;
  const auto same = [&](const Constraint& other) {
    return other.kind == constraint.kind && other.left == constraint.left && other.right == constraint.right;
  };
  if (std::ranges::none_of(constraints_, same)) constraints_.push_back(std::move(constraint));
}

std::optional<Shape> contents_of(const Graph& graph, ValueId id) {
  if (id == ValueId::none) return std::nullopt;
  const Value& value = graph.value(id);
  if (value.contents) return value.contents;
  if (value.constant == nullptr || is_floating(value.constant->dtype()) ||
      value.constant->count() > kContentsMax) {
    return std::nullopt;
  }
  const Ints elements = value.constant->as_int64();
  // An unsigned number that is no int64 is no size either.
  if (value.constant->dtype() == DType::u64 &&
      std::ranges::any_of(elements, [](std::int64_t e) { return e < 0; }))
    return std::nullopt;
  return Shape(elements.begin(), elements.end());
}

}  // namespace diji
