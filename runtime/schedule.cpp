// Levels: how many collectives lie before a node.
#include "runtime/schedule.h"

#include "graph/collective.h"
#include "graph/primitives.h"

#include <algorithm>
#include <map>
#include <string>

namespace diji {
namespace {

bool is_exchange(const Node& node) {
  const auto primitive = primitive_of(node.op);
  return primitive && is_collective(*primitive);
}

template <typename Range, typename T>
bool holds(const Range& range, const T& item) {
  return std::ranges::find(range, item) != range.end();
}

class Scheduler {
 public:
  explicit Scheduler(const Graph& graph) : graph_(graph) {
    levels_.resize(graph.values().size(), 0);
    pending_.resize(graph.values().size(), NodeId::none);
    made_.resize(graph.values().size(), true);
    for (const Node& node : graph.nodes()) mark(node, false);
  }

  // Nodes [first, last); `cut`: the last one ends the stretch.
  void stretch(std::size_t first, std::size_t last, bool cut) {
    std::map<std::string, int> group_levels;
    std::vector<std::pair<int, std::size_t>> others;
    waiting_.clear();
    for (std::size_t i = first; i < last; ++i) {
      const Node& node = this->node(i);
      int level = 0;
      for (const ValueId id : node.inputs) {
        if (id != ValueId::none) level = std::max(level, levels_[at(id)]);
      }
      if (is_exchange(node)) {
        int& before = group_levels[channel_of(node.attributes).group];
        before = level = std::max(level, before);
        waiting_.push_back(i);
      } else if (!cut || i + 1 < last) {
        others.emplace_back(level, i);
      }
      for (const ValueId id : node.outputs) levels_[at(id)] = level + (is_exchange(node) ? 1 : 0);
    }
    std::ranges::sort(others);  // by level, then as in the graph
    begin_exchanges();
    for (const auto& [level, i] : others) {
      run(i);
      begin_exchanges();
    }
    while (!open_.empty()) join(open_.back());
    if (cut) run(last - 1);
    std::ranges::fill(levels_, 0);
  }

  std::vector<Action> take() { return std::move(actions_); }

 private:
  static std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }
  const Node& node(std::size_t i) const { return graph_.nodes()[i]; }
  std::string group_of(NodeId id) const { return channel_of(graph_.node(id).attributes).group; }
  void mark(const Node& node, bool made) {
    for (const ValueId id : node.outputs) made_[at(id)] = made;
  }

  // In the order of each group, those whose operand is there.
  void begin_exchanges() {
    std::vector<std::string> held;  // groups whose next collective cannot begin yet
    std::erase_if(waiting_, [&](std::size_t i) {
      const std::string group = channel_of(node(i).attributes).group;
      if (holds(held, group)) return false;
      if (!made_[at(node(i).inputs[0])]) {
        held.push_back(group);
        return false;
      }
      run(i);
      return true;
    });
  }

  void run(std::size_t i) {
    const Node& node = this->node(i);
    const auto id = static_cast<NodeId>(i);
    const bool exchange = is_exchange(node);
    const bool alias = primitive_of(node.op) == Primitive::reshape;
    for (const ValueId input : node.inputs) {
      if (input == ValueId::none || pending_[at(input)] == NodeId::none) continue;
      if (alias) {  // the same memory under another shape: nobody reads it here
        pending_[at(node.outputs[0])] = pending_[at(input)];
      } else if (!exchange || group_of(pending_[at(input)]) != group_of(id)) {
        join(pending_[at(input)]);
      }
    }
    actions_.push_back({Action::Kind::run, id});
    mark(node, true);
    if (!exchange) return;
    open_.push_back(id);
    pending_[at(node.outputs[0])] = id;
  }

  void join(NodeId id) {
    const std::string group = group_of(id);
    actions_.push_back({Action::Kind::join, id});
    const auto last = std::ranges::find(open_, id);
    std::vector<NodeId> joined;
    for (auto it = open_.begin(); it != open_.end() && it <= last; ++it) {
      if (group_of(*it) == group) joined.push_back(*it);
    }
    std::erase_if(open_, [&](NodeId other) { return holds(joined, other); });
    for (NodeId& pending : pending_) {
      if (holds(joined, pending)) pending = NodeId::none;
    }
  }

  const Graph& graph_;
  std::vector<int> levels_;           // by value
  std::vector<NodeId> pending_;       // by value: the collective that writes it and was not joined yet
  std::vector<bool> made_;            // by value
  std::vector<std::size_t> waiting_;  // collectives that have not begun
  std::vector<NodeId> open_;          // begun and not joined
  std::vector<Action> actions_;
};

}  // namespace

std::vector<Action> schedule(const Graph& graph, const std::function<bool(const Node&)>& cuts) {
  std::vector<Action> actions;
  if (std::ranges::none_of(graph.nodes(), is_exchange)) {
    for (std::size_t i = 0; i < graph.nodes().size(); ++i)
      actions.push_back({Action::Kind::run, static_cast<NodeId>(i)});
    return actions;
  }
  Scheduler scheduler(graph);
  std::size_t first = 0;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (!cuts(graph.nodes()[i])) continue;
    scheduler.stretch(first, i + 1, true);
    first = i + 1;
  }
  scheduler.stretch(first, graph.nodes().size(), false);
  return scheduler.take();
}

}  // namespace diji
