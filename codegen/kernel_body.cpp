// Flattening a fusion's body to scalar steps over affine accesses.
#include "codegen/kernel_body.h"

#include "base/check.h"

#include <algorithm>
#include <map>

namespace diji {
namespace {

// A tensor's coordinate as an affine function of the loop coordinates.
struct Coordinate {
  Dim offset;
  std::vector<Dim> factors;  // one a loop axis
  bool operator==(const Coordinate&) const = default;
};
using Coordinates = std::vector<Coordinate>;

Coordinates identity(std::size_t axes) {
  Coordinates result;
  for (std::size_t i = 0; i < axes; ++i) {
    Coordinate coordinate{0, std::vector<Dim>(axes, Dim(0))};
    coordinate.factors[i] = 1;
    result.push_back(std::move(coordinate));
  }
  return result;
}

Coordinate zero(std::size_t axes) { return {0, std::vector<Dim>(axes, Dim(0))}; }

Coordinate scaled(const Coordinate& c, const Dim& start, std::int64_t step) {
  Coordinate result{start + c.offset * Dim(step), {}};
  for (const Dim& factor : c.factors) result.factors.push_back(factor * Dim(step));
  return result;
}

// Coordinates of `from` given those of `to`, where both have the same axes but for ones.
Coordinates across_ones(const Shape& from, const Shape& to, const Coordinates& at, std::size_t axes) {
  Coordinates result;
  std::size_t j = 0;
  for (const Dim& size : from) {
    if (size.is(1)) {
      result.push_back(zero(axes));
      continue;
    }
    while (to[j].is(1)) ++j;
    result.push_back(at[j++]);
  }
  return result;
}

std::unexpected<Error> not_one_kernel(std::string_view why) {
  return fail(ErrorCode::unsupported, "not one kernel: {}", why);
}

class Flattener {
 public:
  // `root` is the value that stands for the finished root (none for a map); there are `axes` loop axes.
  Flattener(const Graph& body, ValueId root, std::size_t axes) : body_(body), root_(root), axes_(axes) {}

  Result<int> value(ValueId id, const Coordinates& at) {
    for (const auto& [known_id, known_at, step] : done_) {
      if (known_id == id && known_at == at) return step;
    }
    const int step = TRY(fresh(id, at));
    done_.emplace_back(id, at, step);
    return step;
  }
  ScalarProgram take() { return std::move(program_); }

 private:
  // Along an axis of size 1 every coordinate is 0.
  bool at_own_coordinates(const Coordinates& at) const {
    const Coordinates own = identity(axes_);
    const Shape& shape = body_.type(root_).shape;
    for (std::size_t axis = 0; axis < axes_; ++axis) {
      if (at[axis] != own[axis] && !shape[axis].is(1)) return false;
    }
    return true;
  }

  int add(ScalarStep step) {
    program_.steps.push_back(std::move(step));
    return static_cast<int>(program_.steps.size() - 1);
  }

  Result<int> fresh(ValueId id, const Coordinates& at) {
    const Value& value = body_.value(id);
    ScalarStep step{.dtype = value.type.dtype};
    if (id == root_) {
      if (!at_own_coordinates(at))
        return not_one_kernel("the root is read at other coordinates than its own");
      step.kind = ScalarStep::Kind::result;
      return add(std::move(step));
    }
    if (value.constant != nullptr) {
      CHECK(value.constant->count() == 1, "a body's constants have one element");
      step.kind = ScalarStep::Kind::constant;
      step.constant = *value.constant;
      return add(std::move(step));
    }
    if (value.producer == NodeId::none) return load(id, at);
    return node(body_.node(value.producer), at);
  }

  int load(ValueId id, const Coordinates& at) {
    ScalarStep step{.kind = ScalarStep::Kind::load, .dtype = body_.type(id).dtype};
    step.input =
        static_cast<int>(std::ranges::find(body_.inputs(), id, &Port::value) - body_.inputs().begin());
    const auto strides = strides_of(body_.type(id).shape);
    step.access.strides.assign(axes_, Dim(0));
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      step.access.offset = step.access.offset + at[axis].offset * strides[axis];
      for (std::size_t i = 0; i < axes_; ++i) {
        step.access.strides[i] = step.access.strides[i] + at[axis].factors[i] * strides[axis];
      }
    }
    return add(std::move(step));
  }

  Result<int> node(const Node& node, const Coordinates& at) {
    const Primitive primitive = *primitive_of(node.op);
    if (is_map(primitive)) {
      ScalarStep step{.dtype = body_.type(node.outputs[0]).dtype, .primitive = primitive};
      for (const ValueId input : node.inputs) step.operands.push_back(TRY(value(input, at)));
      return add(std::move(step));
    }
    if (!is_view(primitive)) return not_one_kernel(fmt::format("{} inside", node.op->name));
    return value(node.inputs[0], TRY(through_view(primitive, node, at)));
  }

  Result<Coordinates> through_view(Primitive primitive, const Node& node, const Coordinates& at) const {
    const Shape& from = body_.type(node.inputs[0]).shape;
    const Shape& to = body_.type(node.outputs[0]).shape;
    Coordinates result(from.size(), zero(axes_));
    switch (primitive) {
      case Primitive::transpose: {
        const auto permutation = node.attributes.get_or("permutation", Ints{});
        for (std::size_t i = 0; i < permutation.size(); ++i)
          result[static_cast<std::size_t>(permutation[i])] = at[i];
        return result;
      }
      case Primitive::broadcast:
        for (std::size_t i = 0; i < from.size(); ++i) {
          if (!from[i].is(1)) result[i] = at[i];
        }
        return result;
      case Primitive::slice: {
        const auto start = node.attributes.get_or("start", Shape{});
        const auto step = node.attributes.get_or("step", Ints{});
        for (std::size_t i = 0; i < from.size(); ++i) result[i] = scaled(at[i], start[i], step[i]);
        return result;
      }
      default:
        if (!same_but_for_ones(from, to)) return not_one_kernel("a reshape that merges or splits axes");
        return across_ones(from, to, at, axes_);
    }
  }

  const Graph& body_;
  ValueId root_;
  std::size_t axes_;
  ScalarProgram program_;
  std::vector<std::tuple<ValueId, Coordinates, int>> done_;
};

std::optional<KernelBody::Root> root_kind(const Node& node) {
  switch (*primitive_of(node.op)) {
    case Primitive::reduce: return KernelBody::Root::reduce;
    case Primitive::dot_general: return KernelBody::Root::dot;
    case Primitive::convolution: return KernelBody::Root::convolution;
    case Primitive::concatenate: return KernelBody::Root::concatenate;
    default: return std::nullopt;
  }
}

Result<ScalarProgram> program(const Graph& body, ValueId id, const Coordinates& at, ValueId root,
                              std::size_t axes) {
  Flattener flattener(body, root, axes);
  const int last = TRY(flattener.value(id, at));
  ScalarProgram result = flattener.take();
  // The value is the last step by contract; a value that was computed on the way to another is moved there.
  if (last + 1 != static_cast<int>(result.steps.size())) return not_one_kernel("the output is used inside");
  return result;
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
    result.programs.push_back(
        TRY(program(body, output, identity(shape.size()), ValueId::none, shape.size())));
    return result;
  }
  const Node& root = *result.root_node;
  if (result.root == KernelBody::Root::concatenate) {
    if (root.outputs[0] != output) return not_one_kernel("work behind a concatenation");
    for (const ValueId part : root.inputs) {
      const std::size_t axes = body.type(part).shape.size();
      result.programs.push_back(TRY(program(body, part, identity(axes), ValueId::none, axes)));
    }
    result.space = shape;
    return result;
  }
  const Shape& root_shape = body.type(root.outputs[0]).shape;
  if (!same_but_for_ones(shape, root_shape))
    return not_one_kernel("the output has other sizes than the root");
  const auto at = across_ones(shape, root_shape, identity(root_shape.size()), root_shape.size());
  result.epilogue = TRY(program(body, output, at, root.outputs[0], root_shape.size()));
  result.space = root_shape;
  if (result.root != KernelBody::Root::reduce) {
    TRY(read_directly(body, root));
    if (result.root == KernelBody::Root::dot) TRY(check_dot(body, root));
    return result;
  }
  const Shape& folded = body.type(root.inputs[0]).shape;
  result.space = folded;
  result.reduced.assign(folded.size(), false);
  for (const std::int64_t axis : root.attributes.get_or("axes", Ints{}))
    result.reduced[static_cast<std::size_t>(axis)] = true;
  result.programs.push_back(
      TRY(program(body, root.inputs[0], identity(folded.size()), ValueId::none, folded.size())));
  return result;
}

}  // namespace diji
