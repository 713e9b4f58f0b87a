// The order in which the host does what a graph says: collectives as early as they can be, what reads them as
// late.
#pragma once

#include "graph/graph.h"

#include <functional>
#include <vector>

namespace diji {

struct Action {
  enum class Kind : std::uint8_t {
    run,   ///< the node; a collective begins here and goes on beside what follows
    join,  ///< what follows comes after this collective, and after those before it in its group
  };
  Kind kind = Kind::run;
  NodeId node = NodeId::none;
  bool operator==(const Action&) const = default;
};

/// Every node once, operands first. `cuts` are the nodes behind which the host waits for the device: they
/// stay where they are, and every collective before one is joined before it, as before the end. Between two
/// of them nodes are ordered by how many collectives lie before them, else as in the graph; a collective
/// begins as soon as its operand is there and the one before it in its group has begun. Without collectives:
/// the graph's order.
std::vector<Action> schedule(const Graph& graph, const std::function<bool(const Node&)>& cuts);

}  // namespace diji
