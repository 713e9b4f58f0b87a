// Work as expressions of sizes.
#include "codegen/work.h"

#include "graph/primitives.h"

namespace diji {
namespace {

Dim flops_of_node(const Graph& body, const Node& node) {
  const auto primitive = primitive_of(node.op);
  const auto shape = [&](std::size_t i) -> const Shape& { return body.type(node.inputs[i]).shape; };
  const Dim results = element_count(body.type(node.outputs[0]).shape);
  if (!primitive || is_view(*primitive)) return 0;
  if (*primitive == Primitive::dot_general) {
    Dim depth = 1;
    for (const std::int64_t axis : dot_dims(node.attributes).lhs_contracting)
      depth = depth * shape(0)[static_cast<std::size_t>(axis)];
    return results * depth * Dim(2);
  }
  if (*primitive == Primitive::convolution) {
    Dim depth = 1;
    for (std::size_t axis = 1; axis < shape(1).size(); ++axis) depth = depth * shape(1)[axis];
    return results * depth * Dim(2);
  }
  const bool folds = *primitive == Primitive::reduce || *primitive == Primitive::arg_reduce;
  if (folds || *primitive == Primitive::prefix_scan) return element_count(shape(0));
  return is_map(*primitive) ? results : Dim(0);
}

Dim bytes_of_value(const Graph& body, ValueId id) {
  const Type& type = body.type(id);
  return element_count(type.shape) * Dim(static_cast<std::int64_t>(bytes_of(type.dtype)));
}

}  // namespace

Dim flops_of(const Graph& body) {
  Dim total = 0;
  for (const Node& node : body.nodes()) total = total + flops_of_node(body, node);
  return total;
}

Dim bytes_of_places(const Graph& body) {
  Dim total = 0;
  for (const Port& port : body.inputs()) total = total + bytes_of_value(body, port.value);
  for (const Port& port : body.outputs()) total = total + bytes_of_value(body, port.value);
  return total;
}

}  // namespace diji
