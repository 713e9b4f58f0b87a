// Passes rebuild: a Rewriter walks an old graph in order and says what each node becomes in the new one.
#pragma once

#include "graph/builder.h"

#include <functional>
#include <optional>
#include <vector>

namespace diji {

/// Values of the old graph in terms of the new one.
class ValueMap {
 public:
  explicit ValueMap(std::size_t count) : ids_(count, ValueId::none) {}
  ValueId operator[](ValueId old) const {
    return old == ValueId::none ? ValueId::none : ids_[static_cast<std::size_t>(old)];
  }
  void set(ValueId old, ValueId fresh) { ids_[static_cast<std::size_t>(old)] = fresh; }
  Values of(const Values& old) const;

 private:
  std::vector<ValueId> ids_;
};

/// The node as it is, with other inputs: types, contents, name and body are kept.
Values copy_node(Builder& builder, const Graph& graph, const Node& node, const Values& inputs);

/// What a node becomes: its outputs' values in the new graph, or nothing when it is copied as it is. `inputs`
/// are already mapped, and a rule may change them before the copy.
using NodeRule = std::function<std::optional<Values>(Builder& builder, const Node& node, Values& inputs)>;

/// Whether the runtime runs the node's bodies: a conditional or a loop.
bool has_bodies(const Node& node);

/// The graph with every body of its conditionals and loops replaced; equal bodies stay one.
Result<Graph> rewrite_bodies(const Graph& graph, const std::function<Result<Graph>(const Graph&)>& change);

/// The body with constants in place of some of its inputs (null: it stays one).
Graph with_constants(const Graph& body, const std::vector<std::shared_ptr<const HostTensor>>& inputs);

/// The nodes of `body` behind those of the builder's graph, with `inputs` for its inputs. Returns its
/// outputs.
Values inline_body(Builder& builder, const Graph& body, const Values& inputs);

/// A new graph with the same ports, assumptions and name, every node through `rule` except those that
/// `wanted` leaves out. Constants are taken over when read.
Result<Graph> rewrite(const Graph& graph, const NodeRule& rule,
                      const std::function<bool(const Node&)>& wanted = {});

}  // namespace diji
