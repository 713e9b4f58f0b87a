// Decomposition, constant folding, merging of equal nodes, removal of dead ones.
#include "base/checked.h"
#include "graph/collective.h"
#include "graph/interpreter.h"
#include "graph/primitives.h"
#include "passes/coordinates.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

namespace diji {
namespace {

// A folded constant may have at most this many bytes: a broadcast must not turn a scalar into megabytes of
// model.
constexpr std::int64_t kFoldedBytesMax = 1 << 20;
// Unless it is a weight of at least a quarter of that size: 8-bit weights become 32-bit floats.
constexpr std::int64_t kWeightGrowthMax = 4;
// Scales stretched to the size of their weights while these are folded, all together.
constexpr std::int64_t kStretchedBytesMax = 1 << 28;

// Operators may decompose to operators; a record that decomposes to itself is a mistake that must end.
constexpr int kDecomposeRoundsMax = 16;

bool is_composed(const Node& node) { return !primitive_of(node.op) && node.op->custom == nullptr; }

bool has_composed(const Graph& graph) { return std::ranges::any_of(graph.nodes(), is_composed); }

Result<Graph> decompose_once(const Graph& graph) {
  return rewrite(graph, [&](Builder& builder, const Node& node, Values& inputs) -> std::optional<Values> {
    if (!is_composed(node)) return std::nullopt;
    if (node.op->decompose == nullptr) {
      builder.fail(ErrorCode::unsupported,
                   "operator '{}' has no decomposition: structured operators are not built yet",
                   node.op->name);
      return Values{};
    }
    return node.op->decompose(builder, {node.op, inputs, node.attributes});
  });
}

std::optional<std::int64_t> bytes_of(const Type& type) {
  const auto count = element_count(type.shape).constant();
  if (!count) return std::nullopt;
  return checked_mul(*count, static_cast<std::int64_t>(bytes_of(type.dtype)));
}

// Constants of a new graph, and what values made of coordinates would be as constants.
class Known {
 public:
  explicit Known(const Graph& graph) : graph_(graph) {}
  void set(ValueId id, HostTensor tensor) {
    values_[id] = std::make_shared<const HostTensor>(std::move(tensor));
  }
  std::shared_ptr<const HostTensor> operator[](ValueId id) const {
    const auto found = values_.find(id);
    return found == values_.end() ? graph_.value(id).constant : found->second;
  }
  void forget(ValueId id) { values_.erase(id); }
  /// Whether another stretched value has room. What was forgotten counts too: whether a value folds must not
  /// depend on the order of the nodes.
  bool takes(const Type& type) {
    const auto bytes = bytes_of(type);
    if (!bytes || *bytes > kStretchedBytesMax - stretched_bytes_) return false;
    stretched_bytes_ += *bytes;
    return true;
  }
  bool all(const Values& ids) const {
    return std::ranges::all_of(ids,
                               [&](ValueId id) { return id == ValueId::none || (*this)[id] != nullptr; });
  }

 private:
  const Graph& graph_;
  std::unordered_map<ValueId, std::shared_ptr<const HostTensor>> values_;
  std::int64_t stretched_bytes_ = 0;
};

bool fits_budget(const Type& type) {
  const auto bytes = bytes_of(type);
  return bytes && *bytes <= kFoldedBytesMax;
}

// Work on a weight, such as its dequantisation, may be done once: the result is not much larger than what
// the model file holds.
bool fits_weight(const Graph& graph, const Type& type, const Values& inputs) {
  const auto bytes = bytes_of(type);
  if (!bytes) return false;
  return std::ranges::any_of(inputs, [&](ValueId id) {
    const auto* const weight = id == ValueId::none ? nullptr : graph.value(id).constant.get();
    return weight != nullptr && std::ssize(weight->bytes()) >= *bytes / kWeightGrowthMax;
  });
}

// One node on its own, run by the typed interpreter.
Result<HostTensor> fold(const Known& known, const Node& node, const Values& inputs) {
  Graph alone;
  Values taken;
  for (const ValueId id : inputs) taken.push_back(alone.add_constant(known[id]));
  Builder builder(alone);
  const ValueId result = builder.primitive(*primitive_of(node.op), std::move(taken), node.attributes);
  TRY(builder.status());
  alone.add_output("y", result);
  auto outputs = TRY(interpret(alone, {}, Arithmetic::typed));
  return std::move(outputs[0]);
}

// The branch that is known to be taken, in place of its conditional. Not where sizes of results are symbols
// of the conditional, and no body that binds symbols: it may stand in several places.
std::optional<Values> taken_branch(const Graph& graph, Builder& builder, const Node& node,
                                   const Values& inputs) {
  auto condition = contents_of(graph, node.inputs[0]);
  if (!condition) condition = contents_of(builder.graph(), inputs[0]);  // folded just before
  if (!condition || !(*condition)[0].constant() || !symbols_bound_by(node).empty()) return std::nullopt;
  const Graph& body = *node.bodies[(*condition)[0].is(0) ? 1 : 0];
  const auto binds = [](const Node& inner) { return has_bodies(inner) || !symbols_bound_by(inner).empty(); };
  if (std::ranges::any_of(body.nodes(), binds)) return std::nullopt;
  return inline_body(builder, body, Values(inputs.begin() + 1, inputs.end()));
}

// Captured constants become the bodies' own, so that what is made of them folds inside too.
std::optional<Values> take_constants_in(const Graph& graph, Builder& builder, const Node& node,
                                        const Values& inputs) {
  const bool is_loop = primitive_of(node.op) == Primitive::loop;
  const std::size_t first = is_loop ? loop_form(node).first_capture() : 1;
  const std::size_t before = is_loop ? 2 : 1;  // inputs that no body sees; a loop's body sees the iteration
  const auto constant = [&](std::size_t i) { return builder.graph().value(inputs[i]).constant; };
  Node copy = node;
  Values kept(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(first));
  std::vector<std::shared_ptr<const HostTensor>> known(first - before + (is_loop ? 1 : 0));
  for (std::size_t i = first; i < inputs.size(); ++i) {
    known.push_back(constant(i));
    if (known.back() == nullptr) kept.push_back(inputs[i]);
  }
  if (kept.size() == inputs.size()) return std::nullopt;
  for (auto& body : copy.bodies) body = std::make_shared<const Graph>(with_constants(*body, known));
  return copy_node(builder, graph, copy, kept);
}

// What becomes a constant or sizes nowhere: it has several results, a run tells its sizes, or other ranks
// wait for it.
bool never_folds(Primitive primitive) {
  return primitive == Primitive::fusion || primitive == Primitive::conditional ||
         primitive == Primitive::loop || primitive == Primitive::observe || primitive == Primitive::compact ||
         is_collective(primitive);
}

bool all_known(const Shape& contents) {
  return std::ranges::all_of(contents, [](const Dim& element) { return element.constant().has_value(); });
}

}  // namespace

Result<Graph> decompose(const Graph& graph, const PassOptions&) {
  Graph result = graph;
  for (int round = 0; has_composed(result); ++round) {
    if (round == kDecomposeRoundsMax)
      return fail(ErrorCode::unsupported, "operators decompose into each other without end");
    result = TRY(decompose_once(result));
  }
  return result;
}

namespace {

// A constant with these elements, which may be sizes of the model.
std::optional<Values> fold_contents(Builder& builder, Primitive primitive, const Value& value) {
  if (!all_known(*value.contents)) {
    const bool writable =
        value.type.shape == Shape{Dim(std::ssize(*value.contents))} && contains(kIndex, value.type.dtype);
    if (primitive == Primitive::dims || !writable) return std::nullopt;
    return Values{builder.dims(*value.contents, value.type.dtype)};
  }
  Graph alone;
  Builder b(alone);
  const ValueId elements = b.convert(b.dims(*value.contents), value.type.dtype);
  const ValueId shaped = b.reshape(elements, value.type.shape);
  if (!b.ok()) return std::nullopt;
  alone.add_output("y", shaped);
  auto folded = interpret(alone, {}, Arithmetic::typed);
  return folded ? std::optional(Values{builder.constant(std::move((*folded)[0]))}) : std::nullopt;
}

// Folds nodes of a graph in their order, and gives back what folding alone has read: a weight is worked on in
// several steps, of which each is as large as the weight or larger.
class Folder {
 public:
  Folder(const Graph& graph, const PassOptions& options)
      : graph_(graph), options_(options), coordinates_(made_of_coordinates(graph)) {
    for (const Node& node : graph.nodes()) {
      for (const ValueId id : node.inputs) ++readers_[id];
    }
    for (const Port& port : graph.outputs()) ++readers_[port.value];
  }

  /// A NodeRule that leaves `inputs` as they are.
  std::optional<Values> operator()(Builder& builder, const Node& node, const Values& inputs) {
    if (!known_) known_.emplace(builder.graph());
    const auto outputs = folded(builder, node, inputs);
    // Else the node, or what stands for it, reads them.
    const bool read_by_folding = !stays_;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool last = --readers_[node.inputs[i]] == 0;
      if (!read_by_folding) made_.erase(inputs[i]);
      if (!last || made_.erase(inputs[i]) == 0) continue;
      known_->forget(inputs[i]);
      if (builder.graph().value(inputs[i]).constant != nullptr) builder.graph().forget_constant(inputs[i]);
    }
    return outputs;
  }

 private:
  std::optional<Values> folded(Builder& builder, const Node& node, const Values& inputs) {
    stays_ = true;
    const auto primitive = primitive_of(node.op);
    if (primitive == Primitive::conditional && may_apply(options_, "take_branches")) {
      auto taken = made_by("take_branches", node, taken_branch(graph_, builder, node, inputs));
      if (taken) return taken;
    }
    if (has_bodies(node)) {
      if (!may_apply(options_, "constants_into_bodies")) return std::nullopt;
      return made_by("constants_into_bodies", node, take_constants_in(graph_, builder, node, inputs));
    }
    if (!primitive || never_folds(*primitive)) return std::nullopt;
    const Value& value = graph_.value(node.outputs[0]);
    const bool all_constant = known_->all(inputs);
    // Stays what it is, but what is made of it may be a constant.
    if (coordinates_[static_cast<std::size_t>(&node - graph_.nodes().data())])
      return staying(builder, node, inputs, all_constant && fits_budget(value.type));
    if (value.contents && (!all_constant || !all_known(*value.contents))) {
      const bool small = !all_known(*value.contents) || fits_budget(value.type);
      if (!small || !may_apply(options_, "fold_sizes")) return std::nullopt;
      return made_by("fold_sizes", node, fold_contents(builder, *primitive, value));
    }
    if (!all_constant || !may_apply(options_, "fold_constants")) return std::nullopt;
    const bool elementwise = is_map(*primitive) || is_view(*primitive);
    const bool weight = elementwise && fits_weight(builder.graph(), value.type, inputs);
    if (!fits_budget(value.type) && !weight) {
      if (primitive != Primitive::broadcast || !known_->takes(value.type)) return std::nullopt;
      return staying(builder, node, inputs, true);
    }
    auto constant = fold(*known_, node, inputs);
    if (!constant) return std::nullopt;  // a zero divisor stays in the graph and is reported when it runs
    stays_ = false;
    const ValueId result = builder.constant(std::move(*constant));
    made_.insert(result);
    return made_by("fold_constants", node, Values{result});
  }

  // The node as it is; where `folds`, with the constant that it would be.
  Values staying(Builder& builder, const Node& node, const Values& inputs, bool folds) {
    Values same = copy_node(builder, graph_, node, inputs);
    auto constant = folds ? fold(*known_, node, inputs) : Result<HostTensor>(HostTensor());
    if (!folds || !constant) return same;
    known_->set(same[0], std::move(*constant));
    made_.insert(same[0]);
    return same;
  }

  // What a rule made of a node, counted.
  std::optional<Values> made_by(std::string_view rule, const Node& node, std::optional<Values> made) {
    if (made) count_application(options_, rule, node);
    return made;
  }

  const Graph& graph_;
  const PassOptions& options_;
  std::vector<bool> coordinates_;
  std::unordered_map<ValueId, std::size_t> readers_;  // of the old graph's values, those still to come
  std::unordered_set<ValueId> made_;                  // of the new graph's, those that only folding has read
  std::optional<Known> known_;
  bool stays_ = true;  // the last node is in the new graph
};

}  // namespace

Result<Graph> fold_constants(const Graph& graph, const PassOptions& options) {
  Folder folder(graph, options);
  return rewrite(graph, [&](Builder& builder, const Node& node, Values& inputs) {
    return folder(builder, node, inputs);
  });
}

Result<Graph> merge_common(const Graph& graph, const PassOptions& options) {
  constexpr std::string_view kMergeCommon = "merge_common";
  std::unordered_multimap<std::uint64_t, ValueId> constants;
  std::unordered_multimap<std::uint64_t, NodeId> nodes;
  // Equal constants (type, shape, bytes) are one, under whatever names the file had them.
  const auto representative = [&](const Graph& fresh, const Node& node, ValueId id) {
    if (id == ValueId::none || fresh.value(id).constant == nullptr) return id;
    const HostTensor& constant = *fresh.value(id).constant;
    const auto bytes = constant.bytes();
    const auto key = std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 4096)});
    const auto [first, last] = constants.equal_range(key);
    for (auto it = first; it != last; ++it) {
      if (it->second == id) return id;
      if (!fresh.value(it->second).constant->same_bits(constant)) continue;
      if (!may_apply(options, kMergeCommon)) return id;
      count_application(options, kMergeCommon, node);
      return it->second;
    }
    constants.emplace(key, id);
    return id;
  };
  return rewrite(graph, [&](Builder& builder, const Node& node, Values& inputs) -> std::optional<Values> {
    std::uint64_t key = std::hash<const void*>{}(node.op);
    for (ValueId& id : inputs) {
      id = representative(builder.graph(), node, id);
      key = key * 1099511628211U + static_cast<std::uint64_t>(id);
    }
    const auto [first, last] = nodes.equal_range(key);
    for (auto it = first; it != last; ++it) {
      const Node& other = builder.graph().node(it->second);
      const bool same = other.op == node.op && other.inputs == inputs &&
                        other.attributes == node.attributes && other.bodies == node.bodies;
      if (!same || has_collective(node) || other.outputs.size() != node.outputs.size() ||
          !may_apply(options, kMergeCommon))
        continue;
      count_application(options, kMergeCommon, node);
      return other.outputs;
    }
    nodes.emplace(key, static_cast<NodeId>(builder.graph().nodes().size()));
    return std::nullopt;
  });
}

namespace {

// Names of symbols that something mentions.
class Mentions {
 public:
  void shape(const Shape& shape) {
    for (const Dim& dim : shape) {
      if (!dim.constant()) names_.merge(dim.symbols());
    }
  }
  void node(const Graph& graph, const Node& node) {
    const auto& items = node.attributes.items();
    for (const auto& [name, attribute] : items) {
      if (const Shape* dims = std::get_if<Shape>(&attribute); dims != nullptr && name != "symbols")
        shape(*dims);
    }
    for (const ValueId id : node.outputs) shape(graph.type(id).shape);
    for (const auto& body : node.bodies) whole(*body);
  }
  void constraints(const Graph& graph) {
    for (const Constraint& c : graph.constraints()) shape({c.left, c.right});
  }
  bool any(const Shape& symbols) const {
    return std::ranges::any_of(symbols, [&](const Dim& s) { return names_.contains(*s.symbol_name()); });
  }

 private:
  void whole(const Graph& body) {
    for (const Value& value : body.values()) shape(value.type.shape);
    for (const Node& inner : body.nodes()) node(body, inner);
    constraints(body);
  }
  std::map<std::string, Bounds, std::less<>> names_;
};

}  // namespace

Result<Graph> remove_dead(const Graph& graph, const PassOptions&) {
  std::vector<bool> live(graph.values().size(), false), kept(graph.nodes().size(), false);
  const auto mark = [&](ValueId id) {
    if (id != ValueId::none) live[static_cast<std::size_t>(id)] = true;
  };
  const bool told_by_run =
      std::ranges::any_of(graph.nodes(), [](const Node& node) { return !symbols_bound_by(node).empty(); });
  Mentions mentions;
  mentions.constraints(graph);
  for (const Port& port : graph.outputs()) mark(port.value);
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    kept[i] =
        has_collective(node) ||
        std::ranges::any_of(node.outputs, [&](ValueId id) { return live[static_cast<std::size_t>(id)]; }) ||
        (told_by_run && mentions.any(symbols_bound_by(node)));
    if (!kept[i]) continue;
    std::ranges::for_each(node.inputs, mark);
    if (told_by_run) mentions.node(graph, node);
  }
  const auto copy = [](Builder&, const Node&, Values&) -> std::optional<Values> { return std::nullopt; };
  return rewrite(graph, copy, [&](const Node& node) {
    return static_cast<bool>(kept[static_cast<std::size_t>(&node - graph.nodes().data())]);
  });
}

}  // namespace diji
