// Steps shared by formulas.
#include "ops/formula.h"

#include <limits>

namespace diji {

std::optional<double> constant_number(Builder& b, ValueId id) {
  if (!b.ok() || b.graph().value(id).constant == nullptr || b.graph().value(id).constant->count() != 1)
    return std::nullopt;
  return b.graph().value(id).constant->as_double(0);
}

ValueId size_scalar(Builder& b, const Dim& size, DType dtype) {
  return b.convert(b.reshape(b.dims({size}), {}), dtype);
}

ValueId lowest(Builder& b, DType dtype) {
  return visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      return b.constant(HostTensor::of<T>({}, {std::numeric_limits<T>::min()}));
    } else {
      return b.scalar(dtype, -std::numeric_limits<double>::infinity());
    }
  });
}

ValueId minus_size(Builder& b, ValueId x, const Dim& size) {
  return size.is(0) ? x : b.subtract(x, size_scalar(b, size));
}

ValueId times(Builder& b, ValueId x, std::int64_t factor) {
  return factor == 1 ? x : b.multiply(x, size_scalar(b, factor));
}

ValueId clamp(Builder& b, ValueId x, ValueId low, ValueId high) { return b.minimum(b.maximum(x, low), high); }

ValueId in_range(Builder& b, ValueId x, Dim size) {
  return b.logical_and(b.less(size_scalar(b, -1), x), b.less(x, size_scalar(b, size)));
}

ValueId floor_mod(Builder& b, ValueId x, Dim size) {
  const ValueId period = size_scalar(b, size);
  const ValueId rest = b.map(Primitive::remainder, {x, period});
  return b.select(b.less(rest, size_scalar(b, 0)), b.add(rest, period), rest);
}

ValueId slice_axis(Builder& b, ValueId x, std::int64_t axis, Dim start, Dim size) {
  if (!b.ok()) return ValueId::none;
  Shape begin(b.shape(x).size(), Dim(0)), to = b.shape(x);
  begin[static_cast<std::size_t>(axis)] = start;
  to[static_cast<std::size_t>(axis)] = size;
  const Ints steps(to.size(), 1);
  return b.slice(x, std::move(begin), std::move(to), steps);
}

ValueId coordinates(Builder& b, std::int64_t rank, std::int64_t axis, const Dim& size, DType dtype) {
  Shape shape(static_cast<std::size_t>(rank), Dim(1));
  shape[static_cast<std::size_t>(axis)] = size;
  return b.iota(std::move(shape), axis, dtype);
}

std::optional<Shape> known_list(Builder& b, ValueId id, std::string_view name) {
  auto contents = b.contents(id);
  if (!contents && b.ok()) b.undecided("'{}' must be known, or be integers that can be read as sizes", name);
  return b.ok() ? contents : std::nullopt;
}

std::optional<Ints> known_numbers(Builder& b, ValueId id, std::string_view name) {
  auto values = b.constant_ints(id);
  if (!values && b.ok()) {
    b.undecided("'{}' decides ranks or axes, and is not known when the model is loaded", name);
  }
  return b.ok() ? values : std::nullopt;
}

std::optional<Dim> known_size(Builder& b, ValueId id, std::string_view name) {
  const auto list = known_list(b, id, name);
  if (!list) return std::nullopt;
  if (list->size() == 1) return (*list)[0];
  b.fail(ErrorCode::mismatch, "'{}' has {} elements, it must have one", name, list->size());
  return std::nullopt;
}

}  // namespace diji
