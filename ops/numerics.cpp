// The shared pieces of formulas.
#include "ops/numerics.h"

#include "ops/catalog.h"

#include <algorithm>

namespace diji {

ValueId along_axis(Builder& b, ValueId vector, std::int64_t axis, std::int64_t rank) {
  if (!b.ok()) return ValueId::none;
  if (b.rank(vector) != 1) return b.fail(ErrorCode::mismatch, "{} is no vector", text_of(b.type(vector)));
  Shape shape(static_cast<std::size_t>(rank), Dim(1));
  shape[static_cast<std::size_t>(axis)] = b.shape(vector)[0];
  return b.reshape(vector, std::move(shape));
}

Ints axes_from(std::int64_t first, std::int64_t rank) {
  Ints axes;
  for (std::int64_t axis = first; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

ValueId mean_keeping(Builder& b, ValueId x, const Ints& axes) {
  if (!b.ok()) return ValueId::none;
  Dim count = 1;
  for (const std::int64_t axis : axes) count = count * b.shape(x)[static_cast<std::size_t>(axis)];
  return b.divide(b.reduce_keeping(x, Reduction::sum, axes), size_scalar(b, count, b.dtype(x)));
}

Moments moments(Builder& b, ValueId x, const Ints& axes) {
  Moments result{};
  result.mean = mean_keeping(b, x, axes);
  result.centred = b.subtract(x, result.mean);
  result.variance = mean_keeping(b, b.multiply(result.centred, result.centred), axes);
  return result;
}

ValueId softmax(Builder& b, ValueId x, const Ints& axes) {
  const DType dtype = b.dtype(x);
  const ValueId wider = b.convert(x, wide(dtype));
  const ValueId powers = b.exp(b.subtract(wider, b.reduce_keeping(wider, Reduction::max, axes)));
  return b.convert(b.divide(powers, b.reduce_keeping(powers, Reduction::sum, axes)), dtype);
}

ValueId apply(Builder& b, std::string_view op, ValueId x, const Attributes& attributes) {
  if (!b.ok()) return ValueId::none;
  const OpDef* record = find_op(op);
  CHECK(record != nullptr, "the operator is in the catalogue");
  return record->decompose(b, {record, {x}, attributes})[0];
}

const HostTensor* repeated_constant(const Graph& graph, ValueId id) {
  while (graph.value(id).constant == nullptr) {
    const NodeId producer = graph.value(id).producer;
    if (producer == NodeId::none) return nullptr;
    const Node& node = graph.node(producer);
    const auto primitive = primitive_of(node.op);
    if (primitive != Primitive::reshape && primitive != Primitive::broadcast &&
        primitive != Primitive::convert)
      return nullptr;
    id = node.inputs[0];
  }
  const HostTensor* constant = graph.value(id).constant.get();
  return is_floating(constant->dtype()) ? nullptr : constant;
}

bool is_zero_constant(Builder& b, ValueId id) {
  if (!b.ok() || id == ValueId::none) return false;
  const HostTensor* constant = repeated_constant(b.graph(), id);
  return constant != nullptr &&
         std::ranges::all_of(constant->bytes(), [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace diji
