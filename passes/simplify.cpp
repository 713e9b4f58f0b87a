// The local rules of the table in rules.cpp: each rewrites one node where its pattern holds exactly, never
// beyond what IEEE arithmetic allows.
#include "graph/primitives.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

#include <algorithm>

namespace diji {
namespace {

const Node* producer(Builder& b, ValueId id, Primitive wanted) {
  const NodeId node = b.graph().value(id).producer;
  if (node == NodeId::none) return nullptr;
  const Node& result = b.graph().node(node);
  return primitive_of(result.op) == wanted ? &result : nullptr;
}

// One side of a product without the transpose in front of it: the axes are named as they lie in memory.
// Nothing where free axes would change places, since they give the result its order.
std::optional<Ints> untransposed(const Ints& axes, const Ints& permutation, bool keeps_order) {
  Ints result;
  for (const std::int64_t axis : axes) result.push_back(permutation[static_cast<std::size_t>(axis)]);
  if (keeps_order && !std::ranges::is_sorted(result)) return std::nullopt;
  return result;
}

}  // namespace

std::optional<ValueId> drop_identity(Builder& b, Primitive primitive, const Node& node,
                                     const Values& inputs) {
  switch (primitive) {
    case Primitive::reshape:
    case Primitive::broadcast:
      if (node.attributes.get_or("shape", Shape{}) == b.shape(inputs[0])) return inputs[0];
      return std::nullopt;
    case Primitive::transpose:
      if (std::ranges::is_sorted(node.attributes.get_or("permutation", Ints{}))) return inputs[0];
      return std::nullopt;
    case Primitive::slice: {
      const auto start = node.attributes.get_or("start", Shape{});
      const auto step = node.attributes.get_or("step", Ints{});
      const bool whole = node.attributes.get_or("size", Shape{}) == b.shape(inputs[0]) &&
                         std::ranges::all_of(start, [](const Dim& d) { return d.is(0); }) &&
                         std::ranges::all_of(step, [](std::int64_t s) { return s == 1; });
      return whole ? std::optional(inputs[0]) : std::nullopt;
    }
    case Primitive::convert:
      if (node.attributes.get_or("dtype", DType::f32) == b.dtype(inputs[0])) return inputs[0];
      return std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<ValueId> merge_reshapes(Builder& b, Primitive primitive, const Node& node,
                                      const Values& inputs) {
  if (primitive != Primitive::reshape) return std::nullopt;
  const Node* first = producer(b, inputs[0], Primitive::reshape);
  if (first == nullptr) return std::nullopt;
  return b.reshape(first->inputs[0], node.attributes.get_or("shape", Shape{}));
}

std::optional<ValueId> merge_broadcasts(Builder& b, Primitive primitive, const Node& node,
                                        const Values& inputs) {
  if (primitive != Primitive::broadcast) return std::nullopt;
  const Node* first = producer(b, inputs[0], Primitive::broadcast);
  if (first == nullptr) return std::nullopt;
  return b.broadcast(first->inputs[0], node.attributes.get_or("shape", Shape{}));
}

// dot_general(transpose(a), b) reads a where it lies.
std::optional<ValueId> dot_of_transposed(Builder& b, Primitive primitive, const Node& node,
                                         const Values& inputs) {
  if (primitive != Primitive::dot_general) return std::nullopt;
  DotDims dims = dot_dims(node.attributes);
  for (const bool left : {true, false}) {
    const ValueId side = inputs[left ? 0 : 1];
    const Node* transpose = producer(b, side, Primitive::transpose);
    if (transpose == nullptr) continue;
    const ValueId source = transpose->inputs[0];
    const Ints permutation = transpose->attributes.get_or("permutation", Ints{});
    const Ints free = left ? dims.lhs_free(b.rank(side)) : dims.rhs_free(b.rank(side));
    if (!untransposed(free, permutation, true)) continue;
    Ints& batch = left ? dims.lhs_batch : dims.rhs_batch;
    Ints& contracting = left ? dims.lhs_contracting : dims.rhs_contracting;
    const DType result = node.attributes.get_or("dtype", b.dtype(inputs[0]));
    batch = *untransposed(batch, permutation, false);
    contracting = *untransposed(contracting, permutation, false);
    return left ? b.dot_general(source, inputs[1], dims, result)
                : b.dot_general(inputs[0], source, dims, result);
  }
  return std::nullopt;
}

// map(broadcast(x), broadcast(y)) computes the same number many times; broadcast(map(x, y)) once.
std::optional<ValueId> sink_broadcast(Builder& b, Primitive primitive, const Node& node,
                                      const Values& inputs) {
  if (!is_map(primitive)) return std::nullopt;
  // Stretched over no element at all, an integer division never meets its zero divisor.
  const bool divides =
      primitive == Primitive::divide || primitive == Primitive::remainder || primitive == Primitive::power;
  if (divides && !is_floating(b.dtype(inputs[0]))) return std::nullopt;
  const Shape target = b.shape(inputs[0]);
  Values sources;
  Shape common(target.size(), Dim(1));
  for (const ValueId id : inputs) {
    const Node* broadcast = producer(b, id, Primitive::broadcast);
    const bool scalar = b.graph().value(id).constant != nullptr && b.graph().value(id).constant->count() == 1;
    if (broadcast == nullptr && !scalar) return std::nullopt;
    sources.push_back(broadcast == nullptr ? id : broadcast->inputs[0]);
    const Shape& shape = b.shape(sources.back());
    for (std::size_t axis = 0; axis < target.size(); ++axis) {
      if (!shape[axis].is(1)) common[axis] = shape[axis];
    }
  }
  if (common == target) return std::nullopt;
  for (ValueId& id : sources) id = b.broadcast(id, common);
  return b.broadcast(b.primitive(primitive, std::move(sources), node.attributes), target);
}

// A spatial axis of size 1 with kernel size 1 carries nothing: without it the innermost axis is the long one.
std::optional<ValueId> convolution_unit_axis(Builder& b, Primitive primitive, const Node& node,
                                             const Values& inputs) {
  if (primitive != Primitive::convolution) return std::nullopt;
  ConvolutionDims dims = convolution_dims(node.attributes);
  const Shape x = b.shape(inputs[0]), w = b.shape(inputs[1]);
  const auto drop = [](auto list, std::size_t i) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
    return list;
  };
  for (std::size_t i = 0; i < dims.strides.size() && dims.strides.size() > 1; ++i) {
    if (!x[i + 2].is(1) || !w[i + 2].is(1) || !dims.pads_low[i].is(0) || !dims.pads_high[i].is(0)) continue;
    const ValueId narrow_x = b.reshape(inputs[0], drop(x, i + 2)),
                  narrow_w = b.reshape(inputs[1], drop(w, i + 2));
    dims.strides = drop(dims.strides, i);
    dims.dilations = drop(dims.dilations, i);
    dims.pads_low = drop(dims.pads_low, i);
    dims.pads_high = drop(dims.pads_high, i);
    const DType sums = node.attributes.get_or("dtype", b.dtype(inputs[0]));
    const ValueId result = b.convolution(narrow_x, narrow_w, dims, sums);
    Shape out = b.shape(result);
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(i) + 2, Dim(1));
    return b.reshape(result, std::move(out));
  }
  return std::nullopt;
}

namespace {

// The first rule that holds.
std::optional<ValueId> rewritten(Builder& builder, Primitive primitive, const Node& node,
                                 const Values& inputs, const PassOptions& options) {
  for (const std::span<const PassRule> table : {rules(), std::span<const PassRule>(options.more_rules)}) {
    for (const PassRule& rule : table) {
      if (rule.rewrite == nullptr || !may_apply(options, rule.name)) continue;
      const auto replaced = rule.rewrite(builder, primitive, node, inputs);
      if (!replaced) continue;
      count_application(options, rule.name, node);
      return replaced;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<Graph> simplify(const Graph& graph, const PassOptions& options) {
  Graph result = graph;
  bool changed = true;
  for (int round = 0; changed && round < kSimplifyRoundsMax; ++round) {
    changed = false;
    result =
        TRY(rewrite(result, [&](Builder& builder, const Node& node, Values& inputs) -> std::optional<Values> {
          const auto primitive = primitive_of(node.op);
          if (!primitive || stands_alone(*primitive)) return std::nullopt;
          const auto replaced = rewritten(builder, *primitive, node, inputs, options);
          if (!replaced) return std::nullopt;
          changed = true;
          return Values{*replaced};
        }));
    result = TRY(remove_dead(result, options));
  }
  return result;
}

}  // namespace diji
