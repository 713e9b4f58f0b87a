// Scalar steps over affine accesses, from the output back to the loads.
#include "codegen/flattener.h"

#include "base/check.h"

#include <algorithm>
#include <span>

namespace diji {
namespace {

Coordinate constant_coordinate(const Dim& offset, std::size_t axes) {
  return {offset, std::vector<Dim>(axes, Dim(0)), {}};
}

Coordinate scaled(const Coordinate& c, const Dim& start, const Dim& step) {
  Coordinate result{start + c.offset * step, {}, {}};
  for (const Dim& factor : c.factors) result.factors.push_back(factor * step);
  for (const IndexTerm& term : c.terms) result.terms.push_back({term.step, term.stride * step});
  return result;
}

Coordinate sum(const Coordinate& a, const Coordinate& b) {
  Coordinate result = a;
  result.offset = a.offset + b.offset;
  for (std::size_t i = 0; i < a.factors.size(); ++i) result.factors[i] = a.factors[i] + b.factors[i];
  result.terms.insert(result.terms.end(), b.terms.begin(), b.terms.end());
  return result;
}

bool is_constant(const Coordinate& c) {
  return c.terms.empty() && std::ranges::all_of(c.factors, [](const Dim& factor) { return factor.is(0); });
}

bool is_valid(const Coordinate& c) {
  return c.offset.is_valid() && std::ranges::all_of(c.factors, &Dim::is_valid);
}

class Flattener {
 public:
  Flattener(const Graph& body, ValueId root, const Shape& space)
      : body_(body), root_(root), space_(space), axes_(space.size()) {}

  Result<int> value(ValueId id, const Coordinates& at) {
    for (const auto& [known_id, known_at, step] : done_) {
      if (known_id == id && known_at == at) return step;
    }
    const int step = TRY(fresh(id, at));
    done_.emplace_back(id, at, step);
    return step;
  }
  ScalarProgram take() { return std::move(program_); }

  // The cells of a scatter as a load that nobody makes, and along which axes no two are the same.
  Result<Cells> cells(const Node& scatter) {
    const Shape& shape = body_.type(scatter.inputs[0]).shape;
    std::vector<IndexCheck> checks;
    const auto where = TRY(indexed(std::span(scatter.inputs).subspan(2), shape, identity(axes_), checks));
    Cells result;
    for (std::size_t axis = 0; axis < axes_; ++axis) {
      // Some coordinate is the place along this axis itself, moved perhaps.
      result.apart.push_back(std::ranges::any_of(where, [&](const Coordinate& c) {
        Coordinate place = constant_coordinate(c.offset, axes_);
        place.factors[axis] = 1;
        return c == place;
      }));
    }
    add(element(-1, body_.type(scatter.inputs[0]), where));
    program_.steps.back().checks = std::move(checks);
    result.program = take();
    return result;
  }

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
    if (const auto number = coordinate(id, at)) return add_coordinate(step.dtype, *number);
    return node(body_.node(value.producer), at);
  }

  int add_coordinate(DType dtype, const Coordinate& number) {
    return add({.kind = ScalarStep::Kind::coordinate,
                .dtype = dtype,
                .access = {number.offset, number.factors},
                .terms = number.terms});
  }

  // The value as a function of the coordinates, where it is one: 64-bit integers made of coordinates, sizes
  // and constants by additions and by products with what does not vary.
  std::optional<Coordinate> coordinate(ValueId id, const Coordinates& at) {
    if (body_.type(id).dtype != DType::i64 || id == root_) return std::nullopt;
    for (const auto& [known_id, known_at, result] : coordinates_) {
      if (known_id == id && known_at == at) return result;
    }
    std::optional<Coordinate> result = fresh_coordinate(id, at);
    if (result && !is_valid(*result)) result.reset();
    coordinates_.emplace_back(id, at, result);
    return result;
  }

  std::optional<Coordinate> fresh_coordinate(ValueId id, const Coordinates& at) {
    const Value& value = body_.value(id);
    if (value.constant != nullptr && value.constant->count() == 1)
      return constant_coordinate(Dim(value.constant->as_int64()[0]), axes_);
    if (value.producer == NodeId::none) return std::nullopt;
    const Node& node = body_.node(value.producer);
    const Primitive primitive = *primitive_of(node.op);
    switch (primitive) {
      case Primitive::iota: return iota_coordinate(node, at);
      case Primitive::dims: return dims_coordinate(node);
      case Primitive::add:
      case Primitive::subtract:
      case Primitive::multiply: break;
      default:
        if (!is_view(primitive)) return std::nullopt;
        const auto through = through_view(primitive, node, at);
        return through ? coordinate(node.inputs[0], *through) : std::nullopt;
    }
    const auto a = coordinate(node.inputs[0], at), b = coordinate(node.inputs[1], at);
    if (!a || !b) return std::nullopt;
    if (primitive == Primitive::add) return sum(*a, *b);
    if (primitive == Primitive::subtract) return sum(*a, scaled(*b, 0, -1));
    if (is_constant(*b)) return scaled(*a, 0, b->offset);
    if (is_constant(*a)) return scaled(*b, 0, a->offset);
    return std::nullopt;
  }

  static Coordinate iota_coordinate(const Node& node, const Coordinates& at) {
    return at[static_cast<std::size_t>(node.attributes.get_or<std::int64_t>("axis", 0))];
  }
  std::optional<Coordinate> dims_coordinate(const Node& node) const {
    const Shape elements = node.attributes.get_or("elements", Shape{});
    return elements.size() == 1 ? std::optional(constant_coordinate(elements[0], axes_)) : std::nullopt;
  }

  int load(ValueId id, const Coordinates& at) {
    const auto position = std::ranges::find(body_.inputs(), id, &Port::value) - body_.inputs().begin();
    return add(element(static_cast<int>(position), body_.type(id), at));
  }

  ScalarStep element(int input, const Type& type, const Coordinates& at) const {
    ScalarStep step{.kind = ScalarStep::Kind::load, .dtype = type.dtype, .input = input};
    const auto strides = strides_of(type.shape);
    step.access.strides.assign(axes_, Dim(0));
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      const Coordinate part = scaled(at[axis], 0, strides[axis]);
      step.access.offset = step.access.offset + part.offset;
      for (std::size_t i = 0; i < axes_; ++i)
        step.access.strides[i] = step.access.strides[i] + part.factors[i];
      for (const IndexTerm& term : part.terms) {
        if (!term.stride.is(0)) step.terms.push_back(term);
      }
    }
    return step;
  }

  Result<int> node(const Node& node, const Coordinates& at) {
    const Primitive primitive = *primitive_of(node.op);
    const DType dtype = body_.type(node.outputs[0]).dtype;
    if (is_map(primitive)) {
      ScalarStep step{.dtype = dtype, .primitive = primitive};
      for (const ValueId input : node.inputs) step.operands.push_back(TRY(value(input, at)));
      return add(std::move(step));
    }
    if (primitive == Primitive::iota) return add_coordinate(dtype, iota_coordinate(node, at));
    if (primitive == Primitive::gather) return gather(node, at);
    if (primitive == Primitive::dims) {
      if (const auto number = dims_coordinate(node)) return add_coordinate(dtype, *number);
    }
    if (!is_view(primitive)) return not_one_kernel(fmt::format("{} inside", node.op->name));
    return value(node.inputs[0], TRY(through_view(primitive, node, at)));
  }

  // Coordinates by index tensors, each with a check unless it is known to lie inside of `shape`.
  Result<Coordinates> indexed(std::span<const ValueId> indices, const Shape& shape, const Coordinates& at,
                              std::vector<IndexCheck>& checks) {
    Coordinates where;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      auto affine = coordinate(indices[axis], at);
      if (!affine) {
        affine = constant_coordinate(0, axes_);
        affine->terms.push_back({TRY(value(indices[axis], at)), 1});
      }
      if (!surely_inside(*affine, shape[axis]))
        checks.push_back({{affine->offset, affine->factors}, affine->terms, shape[axis]});
      where.push_back(std::move(*affine));
    }
    return where;
  }

  // A load of the body's input at other coordinates.
  Result<int> gather(const Node& node, const Coordinates& at) {
    std::vector<IndexCheck> checks;
    const auto indices = std::span(node.inputs).subspan(1);
    Coordinates where = TRY(indexed(indices, body_.type(node.inputs[0]).shape, at, checks));
    ValueId source = node.inputs[0];
    while (!body_.is_input(source)) {
      const NodeId producer = body_.value(source).producer;
      if (producer == NodeId::none || !is_view(*primitive_of(body_.node(producer).op)))
        return not_one_kernel("a gather of something computed here");
      const Node& view = body_.node(producer);
      where = TRY(through_view(*primitive_of(view.op), view, where));
      source = view.inputs[0];
    }
    const int step = load(source, where);
    program_.steps.back().checks = std::move(checks);
    program_.steps.back().outside_is_zero = node.attributes.get_or("outside", std::string{}) == "zero";
    return step;
  }

  // Whether 0 <= index < size at all coordinates of the loops, for every size that symbols may have.
  bool surely_inside(const Coordinate& index, const Dim& size) const {
    if (!index.terms.empty()) return false;
    Dim lowest = index.offset, highest = index.offset;
    for (std::size_t i = 0; i < axes_; ++i) {
      const Dim& factor = index.factors[i];
      if (factor.is(0)) continue;
      const Dim reach = factor * (space_[i] - 1);
      if (factor.bounds().min >= 0) {
        highest = highest + reach;
      } else if (factor.bounds().max <= 0) {
        lowest = lowest + reach;
      } else {
        return false;
      }
    }
    const Dim room = size - 1 - highest;
    return lowest.is_valid() && room.is_valid() && lowest.bounds().min >= 0 && room.bounds().min >= 0;
  }

  Result<Coordinates> through_view(Primitive primitive, const Node& node, const Coordinates& at) const {
    const Shape& from = body_.type(node.inputs[0]).shape;
    const Shape& to = body_.type(node.outputs[0]).shape;
    Coordinates result(from.size(), constant_coordinate(0, axes_));
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
        for (std::size_t i = 0; i < from.size(); ++i) result[i] = scaled(at[i], start[i], Dim(step[i]));
        return result;
      }
      default:
        if (!same_but_for_ones(from, to)) return not_one_kernel("a reshape that merges or splits axes");
        return across_ones(from, to, at, axes_);
    }
  }

  const Graph& body_;
  ValueId root_;
  const Shape& space_;
  std::size_t axes_;
  ScalarProgram program_;
  std::vector<std::tuple<ValueId, Coordinates, int>> done_;
  std::vector<std::tuple<ValueId, Coordinates, std::optional<Coordinate>>> coordinates_;
};

}  // namespace

Coordinates identity(std::size_t axes) {
  Coordinates result;
  for (std::size_t i = 0; i < axes; ++i) {
    result.push_back(constant_coordinate(0, axes));
    result.back().factors[i] = 1;
  }
  return result;
}

Coordinates across_ones(const Shape& from, const Shape& to, const Coordinates& at, std::size_t axes) {
  Coordinates result;
  std::size_t j = 0;
  for (const Dim& size : from) {
    if (size.is(1)) {
      result.push_back(constant_coordinate(0, axes));
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

Result<ScalarProgram> program_of(const Graph& body, ValueId id, const Coordinates& at, ValueId root,
                                 const Shape& space) {
  Flattener flattener(body, root, space);
  const int last = TRY(flattener.value(id, at));
  ScalarProgram result = flattener.take();
  // The value is the last step by contract; a value that was computed on the way to another is moved there.
  if (last + 1 != static_cast<int>(result.steps.size())) return not_one_kernel("the output is used inside");
  return result;
}

Result<Cells> cells_of(const Graph& body, const Node& scatter) {
  const Shape& space = body.type(scatter.inputs[1]).shape;
  return Flattener(body, ValueId::none, space).cells(scatter);
}

}  // namespace diji
