// Products of quantised tensors in 8-bit integers: what a dot product or convolution of x = (q - zero) ·
// scale sums is Σ (p - zero p)(q - zero q), exact in i32, and scales and zero points need not be applied to
// every element. Sums of at most kDepthMax products; the result differs from that of floats by less than the
// rounding of their sums.
#include "graph/primitives.h"
#include "ops/formula.h"
#include "ops/numerics.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

#include <algorithm>

namespace diji {
namespace {

constexpr std::int64_t kDepthMax = 32768;  // · 255² < 2^31

// (codes - zero) · scale. Zero (i32) and scale (f32) have the rank of the codes, with size 1 where they
// stretch.
struct Quantised {
  ValueId codes = ValueId::none, zero = ValueId::none, scale = ValueId::none;
};

class IntegerProducts {
 public:
  explicit IntegerProducts(Builder& builder) : b(builder) {}

  std::optional<ValueId> product(Primitive primitive, const Node& node, const Values& inputs) {
    const DType dtype = b.dtype(inputs[0]);
    if (dtype != DType::f32 && dtype != DType::i32) return std::nullopt;
    const auto x = quantised(inputs[0]), y = x ? quantised(inputs[1]) : std::nullopt;
    if (!y || (x->scale == ValueId::none) != (dtype == DType::i32) ||
        (y->scale == ValueId::none) != (dtype == DType::i32)) {
      return std::nullopt;
    }
    return primitive == Primitive::dot_general ? dot(dot_dims(node.attributes), *x, *y)
                                               : convolution(convolution_dims(node.attributes), *x, *y);
  }

 private:
  const Node* producer(ValueId id, Primitive wanted) const {
    const NodeId node = b.graph().value(id).producer;
    if (node == NodeId::none) return nullptr;
    const Node& result = b.graph().node(node);
    return primitive_of(result.op) == wanted ? &result : nullptr;
  }

  // What an operand is stretched from.
  ValueId unstretched(ValueId id) const {
    const Node* node = producer(id, Primitive::broadcast);
    return node == nullptr ? id : node->inputs[0];
  }

  std::optional<Quantised> quantised(ValueId id) {
    if (const Node* node = producer(id, Primitive::transpose)) {
      const Ints permutation = node->attributes.get_or("permutation", Ints{});
      return changed(node->inputs[0], [&](ValueId part) { return b.transpose(part, permutation); });
    }
    if (const Node* node = producer(id, Primitive::reshape)) {
      const Shape shape = node->attributes.get_or("shape", Shape{});
      const ValueId source = node->inputs[0];
      const auto inner = quantised(source);
      if (!inner || !is_one(inner->zero) || !is_one(inner->scale)) return std::nullopt;
      return changed(source, [&](ValueId part) {
        const bool whole = b.shape(part) == b.shape(source);
        return b.reshape(part, whole ? shape : Shape(shape.size(), Dim(1)));
      });
    }
    if (const Node* node = producer(id, Primitive::multiply)) {
      const Values operands = node->inputs;
      for (const std::size_t i : {0U, 1U}) {
        auto side = b.dtype(id) == DType::f32 ? as_floats(operands[i]) : std::nullopt;
        if (!side) continue;
        side->scale = unstretched(operands[1 - i]);
        return side;
      }
      return std::nullopt;
    }
    return b.dtype(id) == DType::i32 ? shifted(id) : std::nullopt;
  }

  std::optional<Quantised> changed(ValueId source, const std::function<ValueId(ValueId)>& change) {
    auto side = quantised(source);
    if (!side) return std::nullopt;
    for (ValueId* part : {&side->codes, &side->zero, &side->scale}) {
      if (*part != ValueId::none) *part = change(*part);
    }
    return side;
  }

  std::optional<Quantised> as_floats(ValueId id) const {
    const Node* node = producer(id, Primitive::convert);
    return node == nullptr || b.dtype(node->inputs[0]) != DType::i32 ? std::nullopt
                                                                     : shifted(node->inputs[0]);
  }

  std::optional<Quantised> shifted(ValueId id) const {
    if (const Node* node = producer(id, Primitive::subtract)) {
      const ValueId codes = bytes(node->inputs[0]);
      if (codes == ValueId::none) return std::nullopt;
      return Quantised{.codes = codes, .zero = unstretched(node->inputs[1])};
    }
    const ValueId codes = bytes(id);
    return codes == ValueId::none ? std::nullopt : std::optional(Quantised{.codes = codes});
  }

  // The 8-bit integers that were converted to this.
  ValueId bytes(ValueId id) const {
    const Node* node = producer(id, Primitive::convert);
    if (node == nullptr) return ValueId::none;
    const DType dtype = b.dtype(node->inputs[0]);
    return dtype == DType::i8 || dtype == DType::u8 ? node->inputs[0] : ValueId::none;
  }

  bool is_one(ValueId id) const { return id == ValueId::none || element_count(b.shape(id)).is(1); }
  bool is_one_along(ValueId id, const Ints& axes) const {
    return id == ValueId::none || std::ranges::all_of(axes, [&](std::int64_t axis) {
             return b.shape(id)[static_cast<std::size_t>(axis)].is(1);
           });
  }

  // ---- dot products

  std::optional<ValueId> dot(const DotDims& dims, const Quantised& x, const Quantised& y) {
    if (!is_one_along(x.zero, dims.lhs_contracting) || !is_one_along(x.scale, dims.lhs_contracting) ||
        !is_one_along(y.zero, dims.rhs_contracting) || !is_one_along(y.scale, dims.rhs_contracting)) {
      return std::nullopt;
    }
    Dim depth = 1;
    for (const std::int64_t axis : dims.lhs_contracting)
      depth = depth * b.shape(x.codes)[static_cast<std::size_t>(axis)];
    // Sums of integers wrap as they are meant to.
    if (x.scale != ValueId::none && depth.bounds().max > kDepthMax) return std::nullopt;
    const Placing left(dims, b.rank(x.codes), b.rank(y.codes), true),
        right(dims, b.rank(y.codes), b.rank(x.codes), false);
    ValueId sums = b.dot_general(x.codes, y.codes, dims, DType::i32);
    const ValueId p = placed(left, x.zero), q = placed(right, y.zero);
    if (p != ValueId::none) sums = b.subtract(sums, b.multiply(p, sums_of(right, y.codes)));
    if (q != ValueId::none) sums = b.subtract(sums, b.multiply(q, sums_of(left, x.codes)));
    if (p != ValueId::none && q != ValueId::none)
      sums = b.add(sums, b.multiply(b.multiply(p, q), size_scalar(b, depth, DType::i32)));
    if (x.scale == ValueId::none) return sums;
    return scaled(sums, b.multiply(placed(left, x.scale), placed(right, y.scale)));
  }

  // Where the axes of one side are in the result.
  struct Placing {
    Placing(const DotDims& dims, std::int64_t rank, std::int64_t other_rank, bool left)
        : is_left(left),
          batch(left ? dims.lhs_batch : dims.rhs_batch),
          free(left ? dims.lhs_free(rank) : dims.rhs_free(rank)),
          contracting(left ? dims.lhs_contracting : dims.rhs_contracting),
          others(static_cast<std::size_t>(other_rank) - batch.size() - contracting.size()) {}
    bool is_left;
    Ints batch, free, contracting;
    std::size_t others;  // free axes of the other side
  };

  // A tensor of size 1 along the contracted axes, in the axes of the result.
  ValueId placed(const Placing& side, ValueId id) {
    if (id == ValueId::none) return id;
    Ints order = side.batch;
    order.insert(order.end(), side.free.begin(), side.free.end());
    Shape target;
    for (const std::int64_t axis : order) target.push_back(b.shape(id)[static_cast<std::size_t>(axis)]);
    order.insert(order.end(), side.contracting.begin(), side.contracting.end());
    const Shape ones(side.others, Dim(1));
    const auto between = target.begin() + std::ssize(side.batch);
    target.insert(side.is_left ? target.end() : between, ones.begin(), ones.end());
    return b.reshape(b.transpose(id, order), target);
  }

  ValueId sums_of(const Placing& side, ValueId codes) {
    const ValueId wider = b.convert(codes, DType::i32);
    return placed(side, b.reduce_keeping(wider, Reduction::sum, side.contracting));
  }

  ValueId scaled(ValueId sums, ValueId scale) { return b.multiply(b.convert(sums, DType::f32), scale); }

  // ---- convolutions

  // Outside of x is 0 behind the zero point, so the codes are padded with it.
  std::optional<ValueId> convolution(ConvolutionDims dims, const Quantised& x, const Quantised& w) {
    Ints inner;  // all axes of a filter
    Dim depth = 1;
    for (std::int64_t axis = 1; axis < b.rank(w.codes); ++axis) {
      inner.push_back(axis);
      depth = depth * b.shape(w.codes)[static_cast<std::size_t>(axis)];
    }
    const HostTensor* given = x.zero == ValueId::none ? nullptr : repeated_constant(b.graph(), x.zero);
    const std::int64_t zero = given == nullptr ? 0 : given->as_int64()[0];
    const bool known = x.zero == ValueId::none || (given != nullptr && given->count() == 1);
    const bool fits = known && is_one(x.scale) && w.zero == ValueId::none && is_one_along(w.scale, inner);
    if (!fits || (x.scale != ValueId::none && depth.bounds().max > kDepthMax)) return std::nullopt;
    dims.padding_value = zero;
    ValueId sums = b.convolution(x.codes, w.codes, dims, DType::i32);
    const auto of_filters = [&](ValueId id) {  // [O, 1...] or all ones
      Shape shape(static_cast<std::size_t>(b.rank(sums)), Dim(1));
      shape[1] = b.shape(id)[0];
      return b.reshape(id, shape);
    };
    if (zero != 0) {
      const ValueId filters = b.reduce_keeping(b.convert(w.codes, DType::i32), Reduction::sum, inner);
      sums =
          b.subtract(sums, b.multiply(of_filters(filters), b.scalar(DType::i32, static_cast<double>(zero))));
    }
    if (x.scale == ValueId::none) return sums;
    return scaled(sums, b.multiply(of_filters(x.scale), of_filters(w.scale)));
  }

  Builder& b;
};

}  // namespace

Result<Graph> integer_products(const Graph& graph, const PassOptions& options) {
  bool any = false;
  Graph result =
      TRY(rewrite(graph, [&](Builder& builder, const Node& node, Values& inputs) -> std::optional<Values> {
        const auto primitive = primitive_of(node.op);
        if (primitive != Primitive::dot_general && primitive != Primitive::convolution) return std::nullopt;
        if (!may_apply(options, "integer_products")) return std::nullopt;
        const auto product = IntegerProducts(builder).product(*primitive, node, inputs);
        if (!product) return std::nullopt;
        count_application(options, "integer_products", node);
        any = true;
        return Values{*product};
      }));
  if (!any) return result;
  // Weights as floats, which nobody reads any more and which the next pass would compute.
  return remove_dead(result, options);
}

}  // namespace diji
