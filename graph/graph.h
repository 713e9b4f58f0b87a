// The IR: a list of nodes in order, values in single assignment, named ports.
#pragma once

#include "base/dim.h"
#include "base/host_tensor.h"
#include "graph/op_def.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace diji {

enum class NodeId : std::uint32_t { none = 0xffffffff };

/// What is known of a tensor before it exists.
struct Type {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const Type&) const = default;
};
std::string text_of(const Type& type);  ///< "f32[N, 64]"

struct Value {
  Type type;
  NodeId producer = NodeId::none;  ///< none: a graph input or a constant
  std::uint32_t output = 0;        ///< which output of the producer
  std::shared_ptr<const HostTensor> constant;
  /// Elements of a small integer tensor as expressions, row-major: shapes, axes and pads stay exact under
  /// symbolic sizes.
  std::optional<Shape> contents;
};

struct Node {
  const OpDef* op = nullptr;
  Values inputs;
  Attributes attributes;
  Values outputs;
  std::string name;  ///< of the model file, for messages; may be empty
  /// Of a fusion: one, whose inputs are the node's. Of a conditional: then and else. Of a loop: one.
  std::vector<std::shared_ptr<const Graph>> bodies;
};

struct Port {
  std::string name;
  ValueId value;
};

/// An assumption under which shapes were inferred; checked at every run with the real sizes.
struct Constraint {
  enum class Kind : std::uint8_t { equal, less_equal };
  Kind kind = Kind::equal;
  Dim left, right;
  std::string why;  ///< "add: axis 0 of both inputs"
  bool operator==(const Constraint&) const = default;
};

/// Nodes stand in topological order: a node's inputs are inputs, constants or outputs of earlier nodes. Built
/// through Builder, rebuilt by passes; verify() proves the rules. Copies are cheap enough (constants are
/// shared).
class Graph {
 public:
  std::string name = "graph";
  /// Two sizes that may differ: taken as equal, which is what models mean and what kernels are fast for. With
  /// this, a size that turns out to be 1 in a run is stretched instead. Bodies and successors do as this one.
  bool stretches = false;

  const Value& value(ValueId id) const { return values_[index(id)]; }
  const Type& type(ValueId id) const { return value(id).type; }
  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  const std::vector<Constraint>& constraints() const { return constraints_; }
  /// A new symbol for a size that only a run tells.
  Dim fresh_symbol(Bounds bounds = {});
  /// An empty graph for a body: its fresh symbols are others than this graph's.
  Graph child();
  /// An empty graph of this name that takes this one's place: its fresh symbols go on where these ended.
  Graph successor() const;
  /// An empty graph to try something in: its fresh symbols are none of this graph's or of its children's.
  Graph scratch() const;
  /// Fresh symbols are numbered from `number` on: for who knows names that are taken.
  void number_symbols_from(int number) { fresh_ = std::max(fresh_, number); }
  /// All symbols of the inputs' shapes, those bound by nodes (see symbols_bound_by) and those of groups of
  /// ranks, with their bounds.
  std::map<std::string, Bounds, std::less<>> symbols() const;
  bool is_input(ValueId id) const;

  ValueId add_input(std::string port, Type type);
  ValueId add_constant(HostTensor tensor);
  ValueId add_constant(std::shared_ptr<const HostTensor> tensor);
  /// The bytes of a constant that nothing reads any more are given back; its type stays.
  void forget_constant(ValueId id) { values_[index(id)].constant = nullptr; }
  void add_output(std::string port, ValueId id) { outputs_.push_back({std::move(port), id}); }
  /// Appends the node; its outputs become values of these types.
  const Node& add_node(Node node, std::vector<Type> types, std::vector<std::optional<Shape>> contents = {});
  /// Gives nodes from number `first` on that have no name this one: of the model's node that they stand for.
  void name_nodes(std::size_t first, const std::string& origin);
  /// What the elements of an input are known to be.
  void set_contents(ValueId id, std::optional<Shape> contents) {
    values_[index(id)].contents = std::move(contents);
  }
  /// Kept once, and not at all when the bounds prove it.
  void require(Constraint constraint);
  /// Leaves none.
  std::vector<Constraint> take_constraints() { return std::exchange(constraints_, {}); }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::vector<Constraint> constraints_;
  std::string fresh_prefix_ = "#";
  int fresh_ = 0;
};

/// The symbols that a run of the node tells: its attribute "symbols", or that of the nodes in a fusion.
Shape symbols_bound_by(const Node& node);

/// Elements of `id` as expressions: of a small integer constant or of a value with symbolic contents.
std::optional<Shape> contents_of(const Graph& graph, ValueId id);

}  // namespace diji
