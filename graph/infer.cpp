// Shape and dtype rules of the primitives.
#include "graph/primitives.h"

#include "base/check.h"

#include <algorithm>
#include <limits>

namespace diji {
namespace {

std::unexpected<Error> wrong(Primitive primitive, std::string_view sentence) {
  auto error = fail(ErrorCode::mismatch, "{}: {}", op_of(primitive).name, sentence);
  error.error().op = std::string(op_of(primitive).name);
  return error;
}

// Equal now, or equal as far as one can know and checked at every run.
Result<void> require_equal(Graph& graph, Primitive primitive, const Dim& a, const Dim& b,
                           std::string_view what) {
  if (a == b) return {};
  const Bounds difference = (a - b).bounds();
  if (difference.min > 0 || difference.max < 0) {
    return wrong(primitive, fmt::format("{} differ: {} and {}", what, a.text(), b.text()));
  }
  graph.require({Constraint::Kind::equal, a, b, fmt::format("{}: {}", op_of(primitive).name, what)});
  return {};
}

Result<void> require_less_equal(Graph& graph, Primitive primitive, const Dim& a, const Dim& b,
                                std::string_view what) {
  if ((b - a).bounds().max < 0) {
    return wrong(primitive, fmt::format("{}: {} is more than {}", what, a.text(), b.text()));
  }
  graph.require({Constraint::Kind::less_equal, a, b, fmt::format("{}: {}", op_of(primitive).name, what)});
  return {};
}

Result<void> check_sizes(Primitive primitive, const Shape& shape) {
  for (const Dim& dim : shape) {
    if (!dim.is_valid() || dim.bounds().max < 0) {
      return wrong(primitive, fmt::format("{} is not a shape: sizes are 0 … 2^63-1", text_of(shape)));
    }
  }
  return {};
}

// Sizes that could be negative are checked at every run.
Result<void> check_shape(Graph& graph, Primitive primitive, const Shape& shape) {
  TRY(check_sizes(primitive, shape));
  for (const Dim& dim : shape) {
    graph.require({Constraint::Kind::less_equal, 0, dim,
                   fmt::format("{}: a size of {}", op_of(primitive).name, text_of(shape))});
  }
  return {};
}

// Axes are in range and none stands twice.
Result<void> check_axes(Primitive primitive, const Ints& axes, std::int64_t rank, std::string_view what) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= rank) {
      return wrong(primitive, fmt::format("{} {} is out of range for {} axes", what, axes[i], rank));
    }
    if (std::find(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(i), axes[i]) !=
        axes.begin() + static_cast<std::ptrdiff_t>(i)) {
      return wrong(primitive, fmt::format("{} {} stands twice", what, axes[i]));
    }
  }
  return {};
}

struct Inference {
  Graph& graph;
  Primitive primitive;
  const Values& inputs;
  const Attributes& attributes;

  // Copies: adding nodes to the graph moves its values.
  Type in(std::size_t i) const { return graph.type(inputs[i]); }

  Result<Type> map() const {
    if (primitive == Primitive::select) return select();
    const Type first = in(0);
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      const Type other = in(i);
      if (other.dtype != first.dtype || other.shape.size() != first.shape.size()) {
        return wrong(primitive, fmt::format("operands {} and {} differ", text_of(first), text_of(other)));
      }
      for (std::size_t axis = 0; axis < first.shape.size(); ++axis) {
        TRY(require_equal(graph, primitive, first.shape[axis], other.shape[axis],
                          fmt::format("sizes of axis {}", axis)));
      }
    }
    if (primitive == Primitive::equal || primitive == Primitive::less)
      return Type{DType::boolean, first.shape};
    if (primitive == Primitive::convert) return Type{attributes.get_or("dtype", first.dtype), first.shape};
    return first;
  }

  Result<Type> select() const {
    const Type then = in(1);
    for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
      const Type other = in(i);
      if ((i == 2 && other.dtype != then.dtype) || other.shape.size() != then.shape.size()) {
        return wrong(primitive, fmt::format("operands {} and {} differ", text_of(then), text_of(other)));
      }
      TRY(same_sizes(then.shape, other.shape));
    }
    return then;
  }

  Result<void> same_sizes(const Shape& a, const Shape& b) const {
    if (a.size() != b.size())
      return wrong(primitive, fmt::format("shapes {} and {} differ in rank", text_of(a), text_of(b)));
    for (std::size_t axis = 0; axis < a.size(); ++axis) {
      TRY(require_equal(graph, primitive, a[axis], b[axis], fmt::format("sizes of axis {}", axis)));
    }
    return {};
  }

  Result<std::size_t> one_axis(std::size_t rank) const {
    const auto axis = attributes.get_or<std::int64_t>("axis", -1);
    TRY(check_axes(primitive, {axis}, static_cast<std::int64_t>(rank), "axis"));
    return static_cast<std::size_t>(axis);
  }

  Result<Type> iota() const {
    const Shape shape = attributes.get_or("shape", Shape{});
    TRY(check_shape(graph, primitive, shape));
    TRY(one_axis(shape.size()));
    const auto dtype = attributes.get_or("dtype", DType::i64);
    if (dtype == DType::boolean) return wrong(primitive, "coordinates are not bool");
    return Type{dtype, shape};
  }

  // The index tensors from operand `first` on: one an axis of x, all of one shape.
  Result<Shape> index_shape(const Type& x, std::size_t first) const {
    if (x.shape.empty()) return wrong(primitive, "a scalar has no axis to index");
    if (inputs.size() - first != x.shape.size()) {
      return wrong(primitive, fmt::format("{} index tensors for {}", inputs.size() - first, text_of(x)));
    }
    Shape shape = in(first).shape;
    for (std::size_t i = first + 1; i < inputs.size(); ++i) TRY(same_sizes(shape, in(i).shape));
    return shape;
  }

  Result<Type> gather() const {
    const Type x = in(0);
    const auto outside = attributes.get_or("outside", std::string{});
    if (outside != "error" && outside != "zero") return wrong(primitive, "outside must be error or zero");
    return Type{x.dtype, TRY(index_shape(x, 1))};
  }

  Result<Type> scatter() const {
    const Type x = in(0), updates = in(1);
    if (!parse_update(attributes.get_or("kind", std::string{})))
      return wrong(primitive, "kind must be set, add, multiply, minimum or maximum");
    if (x.dtype == DType::boolean && attributes.get_or("kind", std::string{}) != "set")
      return wrong(primitive, "truth values can only be set");
    if (updates.dtype != x.dtype)
      return wrong(primitive, fmt::format("updates {} for {}", text_of(updates), text_of(x)));
    TRY(same_sizes(updates.shape, TRY(index_shape(x, 2))));
    return x;
  }

  Result<Type> arg_reduce() const {
    const Type x = in(0);
    const std::size_t axis = TRY(one_axis(x.shape.size()));
    const auto kind = attributes.get_or("kind", std::string{});
    if (kind != "min" && kind != "max") return wrong(primitive, "kind must be min or max");
    TRY(require_less_equal(graph, primitive, 1, x.shape[axis], fmt::format("size of axis {}", axis)));
    Shape shape = x.shape;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    return Type{DType::i64, shape};
  }

  Result<Type> prefix_scan() const {
    const Type x = in(0);
    TRY(one_axis(x.shape.size()));
    const auto kind = attributes.get_or("kind", std::string{});
    if (kind != "sum" && kind != "product") return wrong(primitive, "kind must be sum or product");
    return x;
  }

  Result<Type> sort_indices() const {
    const Type x = in(0);
    TRY(one_axis(x.shape.size()));
    return Type{DType::i64, x.shape};
  }

  // Bare symbols, as many as wanted.
  Result<Shape> symbols(std::int64_t count) const {
    const Shape symbols = attributes.get_or("symbols", Shape{});
    const bool bare = std::ranges::all_of(symbols, [](const Dim& d) { return d.symbol_name().has_value(); });
    if (std::ssize(symbols) != count || !bare)
      return wrong(primitive, fmt::format("symbols must be {} bare symbols", count));
    return symbols;
  }

  Result<Type> compact() const { return Type{DType::i64, TRY(symbols(1))}; }

  Result<Type> observe() const {
    const Type x = in(0);
    const auto count = element_count(x.shape).constant();
    if (x.shape.size() > 1 || !count)
      return wrong(primitive, fmt::format("{} is no list of known length", text_of(x)));
    TRY(symbols(*count));
    return x;
  }

  Result<Type> collective() const {
    Type type = in(0);
    TRY(check_channel());
    const Dim ranks = channel_of(attributes).ranks;
    if (primitive == Primitive::collective_broadcast) {
      const auto root = attributes.get_or<std::int64_t>("root", 0);
      if (root < 0) return wrong(primitive, fmt::format("root {} is no rank", root));
      TRY(require_less_equal(graph, primitive, root + 1, ranks, "ranks up to the root"));
    }
    const bool reduces = primitive == Primitive::all_reduce || primitive == Primitive::reduce_scatter;
    if (reduces && !parse_reduction(attributes.get_or("kind", std::string{})))
      return wrong(primitive, "kind must be sum, product, min or max");
    if (primitive == Primitive::all_reduce || primitive == Primitive::collective_broadcast) return type;
    if (type.shape.empty()) return wrong(primitive, "a scalar has no axis 0 along which ranks have blocks");
    Dim& size = type.shape[0];
    if (primitive == Primitive::all_gather) {
      size = ranks * size;
      TRY(check_sizes(primitive, type.shape));
      return type;
    }
    TRY(require_equal(graph, primitive, mod(size, ranks), 0, "size of axis 0 modulo ranks and 0"));
    if (primitive == Primitive::reduce_scatter) size = floor_div(size, ranks);
    return type;
  }

  Result<void> check_channel() const {
    const GroupChannel channel = channel_of(attributes);
    if (channel.group.empty()) return wrong(primitive, "its group has no name");
    if (channel.number < 0) return wrong(primitive, fmt::format("channel {} is below 0", channel.number));
    const bool one = attributes.get_or("ranks", Shape{}).size() == 1;
    const bool bare = channel.ranks.constant() || channel.ranks.symbol_name();
    if (!one || !bare || channel.ranks.bounds().min < 1)
      return wrong(primitive, "ranks must be one number or one symbol, at least 1");
    return {};
  }

  Result<Type> reshape() const {
    const Type x = in(0);
    const Shape shape = attributes.get_or("shape", Shape{});
    TRY(check_shape(graph, primitive, shape));
    TRY(require_equal(graph, primitive, element_count(x.shape), element_count(shape),
                      fmt::format("element counts of {} and {}", text_of(x.shape), text_of(shape))));
    return Type{x.dtype, shape};
  }

  Result<Type> transpose() const {
    const Type x = in(0);
    const Ints permutation = attributes.get_or("permutation", Ints{});
    if (permutation.size() != x.shape.size()) {
      return wrong(primitive,
                   fmt::format("{} axes permuted for a tensor of {}", permutation.size(), x.shape.size()));
    }
    TRY(check_axes(primitive, permutation, std::ssize(x.shape), "axis"));
    Shape shape;
    for (const std::int64_t axis : permutation) shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
    return Type{x.dtype, shape};
  }

  Result<Type> broadcast() const {
    const Type x = in(0);
    const Shape shape = attributes.get_or("shape", Shape{});
    TRY(check_shape(graph, primitive, shape));
    if (shape.size() != x.shape.size()) {
      return wrong(primitive, fmt::format("{} to {}: ranks differ", text_of(x.shape), text_of(shape)));
    }
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (x.shape[axis].is(1)) continue;
      TRY(require_equal(graph, primitive, x.shape[axis], shape[axis], fmt::format("sizes of axis {}", axis)));
    }
    return Type{x.dtype, shape};
  }

  Result<Type> slice() const {
    const Type x = in(0);
    const Shape start = attributes.get_or("start", Shape{});
    const Shape size = attributes.get_or("size", Shape{});
    const Ints step = attributes.get_or("step", Ints{});
    if (start.size() != x.shape.size() || size.size() != start.size() || step.size() != start.size()) {
      return wrong(primitive,
                   fmt::format("start, size and step need one entry for each of {} axes", x.shape.size()));
    }
    TRY(check_shape(graph, primitive, size));
    for (std::size_t axis = 0; axis < start.size(); ++axis) {
      if (step[axis] == 0) return wrong(primitive, "a step of 0");
      const Dim last = start[axis] + (size[axis] - 1) * Dim(step[axis]);
      const Dim& low = step[axis] > 0 ? start[axis] : last;
      const Dim& high = step[axis] > 0 ? last : start[axis];
      if (size[axis].is(0)) continue;
      TRY(require_less_equal(graph, primitive, 0, low, fmt::format("first element of axis {}", axis)));
      TRY(require_less_equal(graph, primitive, high + 1, x.shape[axis],
                             fmt::format("last element of axis {}", axis)));
    }
    return Type{x.dtype, size};
  }

  Result<Type> concatenate() const {
    Type result = in(0);
    const auto axis = attributes.get_or<std::int64_t>("axis", 0);
    TRY(check_axes(primitive, {axis}, std::ssize(result.shape), "axis"));
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      const Type part = in(i);
      if (part.dtype != result.dtype || part.shape.size() != result.shape.size()) {
        return wrong(primitive, fmt::format("parts {} and {} differ", text_of(result), text_of(part)));
      }
      for (std::size_t a = 0; a < part.shape.size(); ++a) {
        if (static_cast<std::int64_t>(a) == axis) continue;
        TRY(require_equal(graph, primitive, result.shape[a], part.shape[a],
                          fmt::format("sizes of axis {}", a)));
      }
      Dim& size = result.shape[static_cast<std::size_t>(axis)];
      size = size + part.shape[static_cast<std::size_t>(axis)];
    }
    TRY(check_shape(graph, primitive, result.shape));
    return result;
  }

  Result<Type> reduce() const {
    const Type x = in(0);
    const Ints axes = attributes.get_or("axes", Ints{});
    TRY(check_axes(primitive, axes, std::ssize(x.shape), "axis"));
    if (!parse_reduction(attributes.get_or("kind", std::string{}))) {
      return wrong(primitive, "kind must be sum, product, min or max");
    }
    Shape shape;
    for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
      if (std::ranges::find(axes, static_cast<std::int64_t>(axis)) == axes.end())
        shape.push_back(x.shape[axis]);
    }
    return Type{x.dtype, shape};
  }

  // Of products: that of both sides, or i32 of 8-bit integers.
  Result<DType> sum_dtype(const Type& a, const Type& b) const {
    const DType result = attributes.get_or("dtype", a.dtype);
    const auto is_byte = [](DType dtype) { return dtype == DType::i8 || dtype == DType::u8; };
    const bool bytes = result == DType::i32 && is_byte(a.dtype) && is_byte(b.dtype);
    if (bytes || (a.dtype == b.dtype && result == a.dtype)) return result;
    return wrong(primitive,
                 fmt::format("{} and {} do not sum into {}", text_of(a), text_of(b), name_of(result)));
  }

  Result<Type> dot_general() const {
    const Type a = in(0), b = in(1);
    const DotDims dims = dot_dims(attributes);
    const DType result = TRY(sum_dtype(a, b));
    if (dims.lhs_batch.size() != dims.rhs_batch.size() ||
        dims.lhs_contracting.size() != dims.rhs_contracting.size()) {
      return wrong(primitive, "both sides need equally many batch and contracting axes");
    }
    Ints lhs = dims.lhs_batch, rhs = dims.rhs_batch;
    lhs.insert(lhs.end(), dims.lhs_contracting.begin(), dims.lhs_contracting.end());
    rhs.insert(rhs.end(), dims.rhs_contracting.begin(), dims.rhs_contracting.end());
    TRY(check_axes(primitive, lhs, std::ssize(a.shape), "axis of the left side"));
    TRY(check_axes(primitive, rhs, std::ssize(b.shape), "axis of the right side"));
    Shape shape;
    for (std::size_t i = 0; i < lhs.size(); ++i) {
      const Dim& left = a.shape[static_cast<std::size_t>(lhs[i])];
      const Dim& right = b.shape[static_cast<std::size_t>(rhs[i])];
      TRY(require_equal(graph, primitive, left, right,
                        i < dims.lhs_batch.size() ? "batch sizes" : "contracted sizes"));
      if (i < dims.lhs_batch.size()) shape.push_back(left);
    }
    for (const std::int64_t axis : dims.lhs_free(std::ssize(a.shape)))
      shape.push_back(a.shape[static_cast<std::size_t>(axis)]);
    for (const std::int64_t axis : dims.rhs_free(std::ssize(b.shape)))
      shape.push_back(b.shape[static_cast<std::size_t>(axis)]);
    return Type{result, shape};
  }

  Result<Type> convolution() const {
    const Type x = in(0), w = in(1);
    const ConvolutionDims dims = convolution_dims(attributes);
    const std::size_t spatial = dims.strides.size();
    const DType result = TRY(sum_dtype(x, w));
    const std::int64_t padding = dims.padding_value, low = x.dtype == DType::i8 ? -128 : 0;
    const bool byte = bytes_of(x.dtype) == 1 && padding >= low && padding <= low + 255;
    if (padding != 0 && !byte)
      return wrong(primitive, fmt::format("padding_value {} is not of {}", padding, name_of(x.dtype)));
    if (spatial == 0 || x.shape.size() != spatial + 2 || w.shape.size() != spatial + 2 ||
        dims.dilations.size() != spatial || dims.pads_low.size() != spatial ||
        dims.pads_high.size() != spatial) {
      return wrong(primitive,
                   fmt::format("x {}, w {} and {} spatial axes do not fit", text_of(x), text_of(w), spatial));
    }
    if (dims.groups < 1) return wrong(primitive, "groups must be at least 1");
    TRY(require_equal(graph, primitive, x.shape[1], w.shape[1] * Dim(dims.groups),
                      "channels of x and of w · groups"));
    TRY(require_equal(graph, primitive, mod(w.shape[0], Dim(dims.groups)), 0, "filters modulo groups"));
    Shape shape = {x.shape[0], w.shape[0]};
    for (std::size_t i = 0; i < spatial; ++i) {
      if (dims.strides[i] < 1 || dims.dilations[i] < 1)
        return wrong(primitive, "strides and dilations are at least 1");
      const Dim reach = Dim(dims.dilations[i]) * (w.shape[i + 2] - 1) + 1;
      TRY(check_shape(graph, primitive, {dims.pads_low[i], dims.pads_high[i]}));
      const Dim padded = x.shape[i + 2] + dims.pads_low[i] + dims.pads_high[i];
      TRY(require_less_equal(graph, primitive, reach, padded,
                             fmt::format("kernel size of spatial axis {}", i)));
      shape.push_back(floor_div(padded - reach, Dim(dims.strides[i])) + 1);
    }
    TRY(check_sizes(primitive, shape));  // not negative, since the kernel fits
    return Type{result, shape};
  }

  Result<Type> dims() const {
    const auto elements = attributes.get_or("elements", Shape{});
    const auto dtype = attributes.get_or("dtype", DType::i64);
    if (!contains(kIndex, dtype))
      return wrong(primitive, fmt::format("dtype {} is neither i32 nor i64", name_of(dtype)));
    for (const Dim& element : elements) {
      if (!element.is_valid()) return wrong(primitive, "an element is not an integer of 64 bits");
    }
    return Type{dtype, {Dim(std::ssize(elements))}};
  }
};

}  // namespace

Result<std::vector<Type>> infer_primitive(Graph& graph, Primitive primitive, const Values& inputs,
                                          const Attributes& attributes) {
  const Inference inference{graph, primitive, inputs, attributes};
  const auto one = [&]() -> Result<Type> {
    switch (primitive) {
      case Primitive::dims: return inference.dims();
      case Primitive::iota: return inference.iota();
      case Primitive::reshape: return inference.reshape();
      case Primitive::transpose: return inference.transpose();
      case Primitive::broadcast: return inference.broadcast();
      case Primitive::slice: return inference.slice();
      case Primitive::gather: return inference.gather();
      case Primitive::concatenate: return inference.concatenate();
      case Primitive::scatter: return inference.scatter();
      case Primitive::reduce: return inference.reduce();
      case Primitive::arg_reduce: return inference.arg_reduce();
      case Primitive::prefix_scan: return inference.prefix_scan();
      case Primitive::sort_indices: return inference.sort_indices();
      case Primitive::compact: return inference.compact();
      case Primitive::dot_general: return inference.dot_general();
      case Primitive::convolution: return inference.convolution();
      case Primitive::observe: return inference.observe();
      case Primitive::all_reduce:
      case Primitive::all_gather:
      case Primitive::reduce_scatter:
      case Primitive::all_to_all:
      case Primitive::collective_broadcast: return inference.collective();
      case Primitive::conditional:
      case Primitive::loop:
      case Primitive::fusion: check_failed("body", "types of nodes with bodies come from them");
      default: return inference.map();
    }
  };
  return std::vector<Type>{TRY(one())};
}

}  // namespace diji
