// Fusion: every node that computes becomes part of one group, every group one kernel. codegen's flatten() is
// the judge of what one kernel is, so that this pass and lowering cannot disagree.
#include "base/log.h"
#include "codegen/kernel_body.h"
#include "graph/primitives.h"
#include "passes/coordinates.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

#include <algorithm>
#include <set>

namespace diji {
namespace {

struct Group {
  std::set<std::size_t> nodes;  // positions in the graph
  std::size_t output = 0;       // the node whose value leaves
  std::optional<std::size_t> root;
};

// The group as a body graph of its own; `captures` are the values it reads from outside.
struct Extracted {
  Graph body;
  Values captures;
};

class Fuser {
 public:
  Fuser(const Graph& graph, const PassOptions& options)
      : graph_(graph),
        options_(options),
        coordinates_(made_of_coordinates(graph)),
        member_of_(graph.nodes().size()) {}

  Result<Graph> run() {
    collect_readers();
    for (std::size_t i = graph_.nodes().size(); i-- > 0;) assign(i);
    std::vector<const Group*> by_output(graph_.nodes().size(), nullptr);
    for (const Group& group : groups_) by_output[group.output] = &group;
    const auto position = [&](const Node& node) {
      return static_cast<std::size_t>(&node - graph_.nodes().data());
    };
    // Captures are values of the old graph, so the map of the walk is kept here as well.
    ValueMap map(graph_.values().size());
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i)
      map.set(graph_.inputs()[i].value, static_cast<ValueId>(i));
    return rewrite(
        graph_,
        [&](Builder& builder, const Node& node, Values& inputs) -> std::optional<Values> {
          const Group* group = by_output[position(node)];
          Values results;
          if (group == nullptr) {
            results = copy_node(builder, graph_, node, inputs);
          } else {
            results = {emit(builder, *group, map)};
          }
          for (std::size_t i = 0; i < results.size(); ++i) map.set(node.outputs[i], results[i]);
          return results;
        },
        [&](const Node& node) {
          return by_output[position(node)] != nullptr || stands_alone_[position(node)];
        });
  }

 private:
  const Node& node(std::size_t i) const { return graph_.nodes()[i]; }
  Primitive primitive(std::size_t i) const { return *primitive_of(node(i).op); }

  void collect_readers() {
    readers_.resize(graph_.nodes().size());
    leaves_.assign(graph_.nodes().size(), false);
    stands_alone_.assign(graph_.nodes().size(), false);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      for (const ValueId id : node(i).inputs) {
        if (id == ValueId::none) continue;
        const NodeId producer = graph_.value(id).producer;
        if (producer != NodeId::none) readers_[static_cast<std::size_t>(producer)].insert(i);
      }
    }
    for (const Port& port : graph_.outputs()) {
      const NodeId producer = graph_.value(port.value).producer;
      if (producer != NodeId::none) leaves_[static_cast<std::size_t>(producer)] = true;
    }
  }

  // Where node i is computed: in the groups of its readers where that is allowed, else in a group of its own.
  void assign(std::size_t i) {
    const auto which = primitive_of(node(i).op);
    if (!which || diji::stands_alone(*which)) {
      stands_alone_[i] = true;
      return;
    }
    const Primitive kind = *which;
    std::set<std::size_t> groups;
    bool needs_memory = leaves_[i];
    for (const std::size_t reader : readers_[i]) {
      if (stands_alone_[reader]) needs_memory = true;
      groups.insert(member_of_[reader].begin(), member_of_[reader].end());
    }
    if (is_view(kind) || coordinates_[i]) {
      // A view costs nothing to repeat, and so does a coordinate: each reader takes it in where it can.
      for (const std::size_t group : groups) needs_memory |= !try_join(i, group);
    } else {
      const bool joined =
          !needs_memory && groups.size() == 1 && is_not_repeated(i) && try_join(i, *groups.begin());
      needs_memory = !joined;
    }
    if (!needs_memory) return;
    if (kind == Primitive::reshape) {
      stands_alone_[i] = true;  // the same memory under another shape: no kernel at all
      return;
    }
    Group group{.nodes = {i}, .output = i};
    if (is_root(kind)) group.root = i;
    member_of_[i].insert(groups_.size());
    groups_.push_back(std::move(group));
  }

  // Work that a broadcast would repeat for every copy is computed once, in memory; conversions are cheaper
  // than memory, and so is the arithmetic of indices, which is done once a vector.
  bool is_not_repeated(std::size_t i) const {
    const DType dtype = graph_.type(node(i).outputs[0]).dtype;
    const bool index = contains(kIndex, dtype) || dtype == DType::boolean;
    if (primitive(i) == Primitive::convert || (index && is_map(primitive(i)) && is_cheap(primitive(i))))
      return true;
    std::vector<std::size_t> pending(readers_[i].begin(), readers_[i].end());
    while (!pending.empty()) {
      const std::size_t reader = pending.back();
      pending.pop_back();
      if (!primitive_of(node(reader).op)) continue;  // an operator of the user's, which reads memory
      if (primitive(reader) == Primitive::broadcast) return false;
      if (is_view(primitive(reader)))
        pending.insert(pending.end(), readers_[reader].begin(), readers_[reader].end());
    }
    return true;
  }

  // Whether every rule that this join needs may apply once more.
  bool allowed(const Join& join) const {
    return std::ranges::all_of(rules(), [&](const PassRule& rule) {
      return rule.allows == nullptr || !rule.allows(join) || may_apply(options_, rule.name);
    });
  }

  void count(const Join& join, std::size_t i, const Group& group) const {
    if (options_.uses == nullptr) return;
    for (const PassRule& rule : rules()) {
      if (rule.allows == nullptr || !rule.allows(join)) continue;
      options_.uses->applied(rule.name, {title_of(node(i)), title_of(node(group.output))});
    }
  }

  // Whether so many nodes more may be looked at.
  bool takes_steps(std::size_t nodes) {
    const bool first = steps_ <= options_.fusion_steps_max;
    steps_ += static_cast<std::int64_t>(nodes);
    if (steps_ <= options_.fusion_steps_max) return true;
    if (first) {
      warn("{}: fusion ends after {} steps; what is left of {} nodes becomes kernels of one node each",
           graph_.name, options_.fusion_steps_max, graph_.nodes().size());
    }
    return false;
  }

  bool try_join(std::size_t i, std::size_t index) {
    Group& group = groups_[index];
    const bool root = is_root(primitive(i));
    if (group.nodes.size() >= kKernelNodesMax || (root && group.root)) return false;
    const Join join{primitive(i), root, group.root.has_value(), coordinates_[i]};
    if (!allowed(join) || !takes_steps(group.nodes.size() + 1)) return false;
    Group wider = group;
    wider.nodes.insert(i);
    if (root) wider.root = i;
    const Extracted extracted = extract(wider);
    if (extracted.captures.size() > kKernelInputsMax || !flatten(extracted.body)) return false;
    count(join, i, group);
    group = std::move(wider);
    member_of_[i].insert(index);
    return true;
  }

  Extracted extract(const Group& group) const {
    Extracted result;
    Values sizes;
    ValueMap map(graph_.values().size());
    const auto take_in = [&](ValueId id, bool from_memory) {
      const Value& value = graph_.value(id);
      const bool inside =
          value.producer != NodeId::none && group.nodes.contains(static_cast<std::size_t>(value.producer));
      if (inside || map[id] != ValueId::none) return;
      if (value.constant != nullptr && value.constant->count() == 1 && !from_memory) {
        map.set(id, result.body.add_constant(value.constant));
      } else if (value.contents && value.contents->size() == 1 && contains(kIndex, value.type.dtype) &&
                 !from_memory) {
        sizes.push_back(id);  // kernels are given sizes as they are
      } else {
        map.set(id, result.body.add_input(fmt::format("{}", result.captures.size()), value.type));
        result.captures.push_back(id);
      }
    };
    // Inputs first, so that a body's ports come before its nodes in the text form. What a gather reads lies
    // in memory, even where it is one number.
    for (const std::size_t i : group.nodes) {
      if (primitive(i) == Primitive::gather) take_in(node(i).inputs[0], true);
    }
    for (const std::size_t i : group.nodes) {
      for (const ValueId id : node(i).inputs) take_in(id, false);
    }
    for (const ValueId id : sizes) {
      if (map[id] == ValueId::none) map.set(id, size(result.body, graph_.value(id)));
    }
    for (const std::size_t i : group.nodes) {
      const Node& member = node(i);
      const Node& copy = result.body.add_node({.op = member.op,
                                               .inputs = map.of(member.inputs),
                                               .attributes = member.attributes,
                                               .name = member.name},
                                              {graph_.type(member.outputs[0])});
      map.set(member.outputs[0], copy.outputs[0]);
    }
    result.body.add_output("y", map[node(group.output).outputs[0]]);
    return result;
  }

  static ValueId size(Graph& body, const Value& value) {
    Builder builder(body);
    return builder.reshape(builder.dims(*value.contents, value.type.dtype), value.type.shape);
  }

  ValueId emit(Builder& builder, const Group& group, ValueMap& map) const {
    Extracted extracted = extract(group);
    Values captures;
    for (const ValueId id : extracted.captures) {
      if (map[id] == ValueId::none) map.set(id, builder.graph().add_constant(graph_.value(id).constant));
      captures.push_back(map[id]);
    }
    extracted.body.name = "body";
    return builder.fusion(std::move(extracted.body), std::move(captures));
  }

  const Graph& graph_;
  const PassOptions& options_;
  std::vector<bool> coordinates_;  // by node: made of coordinates
  std::vector<std::set<std::size_t>> readers_;
  std::vector<bool> leaves_;        // is a graph output
  std::vector<bool> stands_alone_;  // stays outside of kernels
  std::vector<std::set<std::size_t>> member_of_;
  std::vector<Group> groups_;
  std::int64_t steps_ = 0;
};

}  // namespace

Result<Graph> fuse(const Graph& graph, const PassOptions& options) {
  // Constants that went into bodies have no reader outside any more.
  return remove_dead(TRY(Fuser(graph, options).run()), options);
}

}  // namespace diji
