// Which root a body has, and the scalar programs before and behind it.
#include "codegen/kernel_body.h"

#include "codegen/flattener.h"

#include <algorithm>

namespace diji {
namespace {

std::optional<KernelBody::Root> root_kind(const Node& node) {
  switch (*primitive_of(node.op)) {
    case Primitive::reduce: return KernelBody::Root::reduce;
    case Primitive::dot_general: return KernelBody::Root::dot;
    case Primitive::convolution: return KernelBody::Root::convolution;
    case Primitive::concatenate: return KernelBody::Root::concatenate;
    case Primitive::scatter: return KernelBody::Root::scatter;
    case Primitive::arg_reduce: return KernelBody::Root::arg_reduce;
    case Primitive::prefix_scan: return KernelBody::Root::prefix_scan;
    case Primitive::sort_indices: return KernelBody::Root::sort_indices;
    case Primitive::compact: return KernelBody::Root::compact;
    default: return std::nullopt;
  }
}

Result<void> read_directly(const Graph& body, const Node& root) {
  for (const ValueId id : root.inputs) {
    if (!body.is_input(id))
      return not_one_kernel(fmt::format("{} of something computed here", root.op->name));
  }
  return {};
}

// The tiled loop has one axis of columns and one to contract (axes of size 1 do not count).
Result<void> check_dot(const Graph& body, const Node& dot) {
  const DotDims dims = dot_dims(dot.attributes);
  const Shape& b = body.type(dot.inputs[1]).shape;
  const auto long_axes = [&](const Ints& axes) {
    return std::ranges::count_if(axes,
                                 [&](std::int64_t axis) { return !b[static_cast<std::size_t>(axis)].is(1); });
  };
  if (long_axes(dims.rhs_contracting) > 1 || long_axes(dims.rhs_free(std::ssize(b))) > 1) {
    return not_one_kernel("dot_general over several contracted or right-hand axes");
  }
  return {};
}

}  // namespace

bool same_but_for_ones(const Shape& a, const Shape& b) {
  const auto without_ones = [](const Shape& shape) {
    Shape result;
    std::ranges::copy_if(shape, std::back_inserter(result), [](const Dim& d) { return !d.is(1); });
    return result;
  };
  return without_ones(a) == without_ones(b);
}

std::vector<Dim> strides_of(const Shape& shape) {
  std::vector<Dim> strides(shape.size(), Dim(1));
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

namespace {

// What every loop over a value's own coordinates computes.
Result<ScalarProgram> own_program(const Graph& body, ValueId id) {
  const Shape& shape = body.type(id).shape;
  return program_of(body, id, identity(shape.size()), ValueId::none, shape);
}

// One program an operand, each over the operand's own axes; nothing may follow.
Result<void> flatten_operands(const Graph& body, ValueId output, KernelBody& kernel) {
  const Node& root = *kernel.root_node;
  if (root.outputs[0] != output) {
    return not_one_kernel(kernel.root == KernelBody::Root::concatenate
                              ? "work behind a concatenation"
                              : fmt::format("work behind {}", root.op->name));
  }
  if (kernel.root == KernelBody::Root::scatter) {
    for (const ValueId operand : {root.inputs[0], root.inputs[1]})
      kernel.programs.push_back(TRY(own_program(body, operand)));
    Cells cells = TRY(cells_of(body, root));
    kernel.programs.push_back(std::move(cells.program));
    kernel.apart = std::move(cells.apart);
  } else {
    for (const ValueId operand : root.inputs) kernel.programs.push_back(TRY(own_program(body, operand)));
  }
  kernel.space = body.type(kernel.root == KernelBody::Root::concatenate ? output : root.inputs[0]).shape;
  return {};
}

// The axes that go away.
std::vector<bool> folded_axes(const Node& root, std::size_t rank) {
  std::vector<bool> result(rank, false);
  Ints axes = root.attributes.get_or("axes", Ints{});
  if (primitive_of(root.op) == Primitive::arg_reduce)
    axes = {root.attributes.get_or<std::int64_t>("axis", 0)};
  for (const std::int64_t axis : axes) result[static_cast<std::size_t>(axis)] = true;
  return result;
}

}  // namespace

Result<KernelBody> flatten(const Graph& body) {
  KernelBody result;
  for (const Node& node : body.nodes()) {
    const auto kind = root_kind(node);
    if (!kind) continue;
    if (result.root_node != nullptr) return not_one_kernel("two roots");
    result.root = *kind;
    result.root_node = &node;
  }
  const ValueId output = body.outputs()[0].value;
  const Shape& shape = body.type(output).shape;
  if (result.root_node == nullptr) {
    result.space = shape;
    result.programs.push_back(TRY(own_program(body, output)));
    return result;
  }
  using Root = KernelBody::Root;
  const Node& root = *result.root_node;
  if (result.root == Root::concatenate || result.root == Root::scatter || result.root == Root::sort_indices ||
      result.root == Root::compact) {
    TRY(flatten_operands(body, output, result));
    return result;
  }
  const Shape& root_shape = body.type(root.outputs[0]).shape;
  if (!same_but_for_ones(shape, root_shape))
    return not_one_kernel("the output has other sizes than the root");
  const auto at = across_ones(shape, root_shape, identity(root_shape.size()), root_shape.size());
  result.epilogue = TRY(program_of(body, output, at, root.outputs[0], root_shape));
  result.space = root_shape;
  if (result.root == Root::dot || result.root == Root::convolution) {
    TRY(read_directly(body, root));
    if (result.root == Root::dot) TRY(check_dot(body, root));
    return result;
  }
  result.space = body.type(root.inputs[0]).shape;
  if (result.root != Root::prefix_scan) result.reduced = folded_axes(root, result.space.size());
  result.programs.push_back(TRY(own_program(body, root.inputs[0])));
  return result;
}

}  // namespace diji
