// Shape and dtype rules of the primitives, and what they do to contents that are known as expressions.
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
    if (primitive == Primitive::equal) return Type{DType::boolean, first.shape};
    if (primitive == Primitive::convert) return Type{attributes.get_or("dtype", first.dtype), first.shape};
    return first;
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
      return wrong(primitive, "kind must be sum or max");
    }
    Shape shape;
    for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
      if (std::ranges::find(axes, static_cast<std::int64_t>(axis)) == axes.end())
        shape.push_back(x.shape[axis]);
    }
    return Type{x.dtype, shape};
  }

  Result<Type> dot_general() const {
    const Type a = in(0), b = in(1);
    const DotDims dims = dot_dims(attributes);
    if (a.dtype != b.dtype)
      return wrong(primitive, fmt::format("{} and {} differ in dtype", text_of(a), text_of(b)));
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
    return Type{a.dtype, shape};
  }

  Result<Type> convolution() const {
    const Type x = in(0), w = in(1);
    const ConvolutionDims dims = convolution_dims(attributes);
    const std::size_t spatial = dims.strides.size();
    if (x.dtype != w.dtype)
      return wrong(primitive, fmt::format("{} and {} differ in dtype", text_of(x), text_of(w)));
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
      const Dim padded = x.shape[i + 2] + Dim(dims.pads_low[i]) + Dim(dims.pads_high[i]);
      TRY(require_less_equal(graph, primitive, reach, padded,
                             fmt::format("kernel size of spatial axis {}", i)));
      shape.push_back(floor_div(padded - reach, Dim(dims.strides[i])) + 1);
    }
    TRY(check_sizes(primitive, shape));  // not negative, since the kernel fits
    return Type{x.dtype, shape};
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
      case Primitive::reshape: return inference.reshape();
      case Primitive::transpose: return inference.transpose();
      case Primitive::broadcast: return inference.broadcast();
      case Primitive::slice: return inference.slice();
      case Primitive::concatenate: return inference.concatenate();
      case Primitive::reduce: return inference.reduce();
      case Primitive::dot_general: return inference.dot_general();
      case Primitive::convolution: return inference.convolution();
      case Primitive::fusion: check_failed("fusion", "a fusion's types come from its body");
      default: return inference.map();
    }
  };
  return std::vector<Type>{TRY(one())};
}

namespace {

std::optional<Dim> fold(Primitive primitive, const Dim& a, const Dim& b) {
  switch (primitive) {
    case Primitive::add: return a + b;
    case Primitive::subtract: return a - b;
    case Primitive::multiply: return a * b;
    case Primitive::maximum: return max(a, b);
    case Primitive::divide:
      // Truncation and floor agree only where both sides are not negative.
      if (a.bounds().min >= 0 && b.bounds().min > 0) return floor_div(a, b);
      return std::nullopt;
    default: return std::nullopt;
  }
}

std::int64_t largest(DType dtype) {
  return visit_dtype(dtype, [](auto tag) -> std::int64_t {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      return sizeof(T) == 8 ? std::numeric_limits<std::int64_t>::max()
                            : static_cast<std::int64_t>(std::numeric_limits<T>::max());
    }
    return 0;
  });
}

std::int64_t smallest(DType dtype) { return is_signed_integer(dtype) ? -largest(dtype) - 1 : 0; }

// A size that does not fit the narrower integer would wrap; the contents hold while it fits, which every run
// checks.
std::optional<Shape> convert_contents(Graph& graph, const Shape& x, DType to) {
  if (!is_integer(to)) return std::nullopt;
  for (const Dim& element : x) {
    const Bounds bounds = element.bounds();
    if (bounds.min < smallest(to) || bounds.min > largest(to)) return std::nullopt;
    graph.require({Constraint::Kind::less_equal, element, Dim(largest(to)),
                   fmt::format("a size is converted to {}", name_of(to))});
  }
  return x;
}

std::optional<Shape> slice_contents(const Shape& x, const Attributes& attributes) {
  const auto start = attributes.get_or("start", Shape{});
  const auto size = attributes.get_or("size", Shape{});
  if (start.size() != 1 || !start[0].constant() || !size[0].constant()) return std::nullopt;
  Shape result;
  for (std::int64_t i = 0; i < *size[0].constant(); ++i) {
    const std::int64_t at = *start[0].constant() + i * attributes.get_or("step", Ints{1})[0];
    if (at < 0 || at >= std::ssize(x)) return std::nullopt;
    result.push_back(x[static_cast<std::size_t>(at)]);
  }
  return result;
}

}  // namespace

std::optional<Shape> propagate_contents(Graph& graph, Primitive primitive, const Values& inputs,
                                        const Attributes& attributes, const Type& result) {
  if (!is_integer(result.dtype)) return std::nullopt;
  if (primitive == Primitive::dims) return attributes.get_or("elements", Shape{});
  std::vector<Shape> operands;
  for (const ValueId id : inputs) {
    auto contents = contents_of(graph, id);
    if (!contents) return std::nullopt;
    operands.push_back(std::move(*contents));
  }
  const Shape& x = operands[0];
  switch (primitive) {
    case Primitive::reshape: return x;
    case Primitive::convert:
      return is_integer(graph.type(inputs[0]).dtype) ? convert_contents(graph, x, result.dtype)
                                                     : std::nullopt;
    case Primitive::slice: return slice_contents(x, attributes);
    case Primitive::transpose: return result.shape.size() <= 1 ? std::optional(x) : std::nullopt;
    case Primitive::broadcast: {
      const auto count = element_count(result.shape).constant();
      if (x.size() != 1 || !count || *count > 256) return std::nullopt;
      return Shape(static_cast<std::size_t>(*count), x[0]);
    }
    case Primitive::concatenate: {
      if (result.shape.size() != 1) return std::nullopt;
      Shape all;
      for (const Shape& part : operands) all.insert(all.end(), part.begin(), part.end());
      return all;
    }
    default: break;
  }
  if (operands.size() != 2 || operands[0].size() != operands[1].size()) return std::nullopt;
  Shape folded;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto element = fold(primitive, x[i], operands[1][i]);
    // Elements that could leave the dtype would wrap at run time.
    if (!element || !element->is_valid()) return std::nullopt;
    if (element->bounds().max > largest(result.dtype) || element->bounds().min < smallest(result.dtype))
      return std::nullopt;
    folded.push_back(std::move(*element));
  }
  return folded;
}

}  // namespace diji
