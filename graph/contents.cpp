// What primitives do to contents that are known as expressions: shapes, axes and pads stay exact.
#include "graph/primitives.h"

#include "base/check.h"

#include <algorithm>
#include <limits>

namespace diji {
namespace {

constexpr std::int64_t kListMax = 256;  // shapes have a few dozen elements; anything larger is data

// 1 or 0 where the bounds decide.
std::optional<Dim> compared(Primitive primitive, const Dim& a, const Dim& b) {
  const Bounds difference = (a - b).bounds();
  if (primitive == Primitive::less) {
    if (difference.max < 0) return 1;
    return difference.min >= 0 ? std::optional<Dim>(0) : std::nullopt;
  }
  if (a == b) return 1;
  return difference.min > 0 || difference.max < 0 ? std::optional<Dim>(0) : std::nullopt;
}

template <typename Function>
std::optional<Dim> both_known(const Dim& a, const Dim& b, Function function) {
  if (!a.constant() || !b.constant()) return std::nullopt;
  return Dim(function(*a.constant(), *b.constant()));
}

std::optional<Dim> fold(Primitive primitive, const Dim& a, const Dim& b) {
  switch (primitive) {
    case Primitive::add: return a + b;
    case Primitive::subtract: return a - b;
    case Primitive::multiply: return a * b;
    case Primitive::minimum: return min(a, b);
    case Primitive::maximum: return max(a, b);
    case Primitive::equal:
    case Primitive::less: return compared(primitive, a, b);
    case Primitive::bit_and: return both_known(a, b, [](auto x, auto y) { return x & y; });
    case Primitive::bit_or: return both_known(a, b, [](auto x, auto y) { return x | y; });
    case Primitive::remainder:
      if (a.bounds().min >= 0 && b.bounds().min > 0) return mod(a, b);
      return std::nullopt;
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

// The elements that a slice or transpose of known sizes takes, in row-major order of the result.
std::optional<Shape> view_contents(Primitive primitive, const Type& from, const Shape& x,
                                   const Attributes& attributes, const Type& result) {
  const auto known = [](const Shape& shape) {
    return std::ranges::all_of(shape, [](const Dim& d) { return d.constant().has_value(); });
  };
  const Shape start = attributes.get_or("start", Shape{});
  if (!known(from.shape) || !known(result.shape) || !known(start)) return std::nullopt;
  const auto step = attributes.get_or("step", Ints{}), permutation = attributes.get_or("permutation", Ints{});
  Ints from_strides(from.shape.size(), 1);
  for (std::size_t i = from.shape.size(); i-- > 1;)
    from_strides[i - 1] = from_strides[i] * *from.shape[i].constant();
  const auto count = element_count(result.shape).constant();
  if (!count || *count > kListMax) return std::nullopt;
  Shape elements;
  for (std::int64_t element = 0; element < *count; ++element) {
    std::int64_t rest = element, at = 0;
    for (std::size_t i = result.shape.size(); i-- > 0;) {
      const std::int64_t coordinate = rest % *result.shape[i].constant();
      rest /= *result.shape[i].constant();
      at += primitive == Primitive::transpose
                ? coordinate * from_strides[static_cast<std::size_t>(permutation[i])]
                : (*start[i].constant() + coordinate * step[i]) * from_strides[i];
    }
    if (at < 0 || at >= std::ssize(x)) return std::nullopt;
    elements.push_back(x[static_cast<std::size_t>(at)]);
  }
  return elements;
}

// The coordinates of a short list of known length.
std::optional<Shape> iota_contents(const Type& result) {
  const auto count = element_count(result.shape).constant();
  if (result.shape.size() != 1 || !count || *count > kListMax) return std::nullopt;
  Shape elements;
  for (std::int64_t i = 0; i < *count; ++i) elements.emplace_back(i);
  return elements;
}

// Elements of a list at known positions.
std::optional<Shape> gather_contents(const Type& x_type, const std::vector<Shape>& operands) {
  if (x_type.shape.size() != 1) return std::nullopt;
  const Shape& x = operands[0];
  Shape elements;
  for (const Dim& index : operands[1]) {
    const auto at = index.constant();
    if (!at || *at < 0 || *at >= std::ssize(x)) return std::nullopt;
    elements.push_back(x[static_cast<std::size_t>(*at)]);
  }
  return elements;
}

std::optional<Shape> select_contents(const std::vector<Shape>& operands) {
  Shape elements;
  for (std::size_t i = 0; i < operands[0].size(); ++i) {
    const auto condition = operands[0][i].constant();
    const Dim &then = operands[1][i], &otherwise = operands[2][i];
    if (!condition && !(then == otherwise)) return std::nullopt;
    elements.push_back(condition.value_or(1) != 0 ? then : otherwise);
  }
  return elements;
}

std::optional<Shape> reduce_contents(const Type& x_type, const Shape& x, const Attributes& attributes) {
  if (x_type.shape.size() != 1 || x.empty()) return std::nullopt;
  const Primitive step = step_of(*parse_reduction(attributes.get_or("kind", std::string{"sum"})));
  Dim result = x[0];
  for (std::size_t i = 1; i < x.size(); ++i) {
    const auto next = fold(step, result, x[i]);
    if (!next) return std::nullopt;
    result = *next;
  }
  return Shape{result};
}

// Elements that could leave the dtype would wrap at run time.
bool fits(const Shape& elements, DType dtype) {
  if (dtype == DType::boolean) return true;
  return std::ranges::all_of(elements, [&](const Dim& element) {
    return element.is_valid() && element.bounds().max <= largest(dtype) &&
           element.bounds().min >= smallest(dtype);
  });
}

std::optional<Shape> only_fitting(std::optional<Shape> elements, DType dtype) {
  return elements && fits(*elements, dtype) ? std::move(elements) : std::nullopt;
}

}  // namespace

std::optional<Shape> propagate_contents(Graph& graph, Primitive primitive, const Values& inputs,
                                        const Attributes& attributes, const Type& result) {
  if (is_floating(result.dtype)) return std::nullopt;
  if (primitive == Primitive::observe) return attributes.get_or("symbols", Shape{});
  if (primitive == Primitive::iota) return iota_contents(result);
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
      return is_floating(graph.type(inputs[0]).dtype) ? std::nullopt
                                                      : convert_contents(graph, x, result.dtype);
    case Primitive::gather: return gather_contents(graph.type(inputs[0]), operands);
    case Primitive::select: return select_contents(operands);
    case Primitive::reduce:
      return only_fitting(reduce_contents(graph.type(inputs[0]), x, attributes), result.dtype);
    case Primitive::slice:
    case Primitive::transpose: return view_contents(primitive, graph.type(inputs[0]), x, attributes, result);
    case Primitive::broadcast: {
      const auto count = element_count(result.shape).constant();
      if (x.size() != 1 || !count || *count > kListMax) return std::nullopt;
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
  if (!is_map(primitive) || operands.size() != 2 || operands[0].size() != operands[1].size())
    return std::nullopt;
  Shape folded;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto element = fold(primitive, x[i], operands[1][i]);
    if (!element || !element->is_valid()) return std::nullopt;
    folded.push_back(std::move(*element));
  }
  return only_fitting(std::move(folded), result.dtype);
}

}  // namespace diji
