// Axis merging, grid splitting, vector loops.
#include "codegen/loops.h"

#include "base/check.h"

#include <algorithm>

namespace diji {

void LoopAxes::collapse() {
  const auto erase = [&](std::size_t axis) {
    const auto at = static_cast<std::ptrdiff_t>(axis);
    sizes.erase(sizes.begin() + at);
    groups.erase(groups.begin() + at);
    for (Access* access : accesses) access->strides.erase(access->strides.begin() + at);
  };
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    if (sizes[axis].is(1)) erase(axis);
  }
  for (std::size_t axis = sizes.size(); axis-- > 1;) {
    const std::size_t outer = axis - 1;
    const bool walked_as_one = std::ranges::all_of(accesses, [&](const Access* access) {
      return access->strides[outer] == access->strides[axis] * sizes[axis];
    });
    if (!walked_as_one || groups[outer] != groups[axis]) continue;
    sizes[axis] = sizes[outer] * sizes[axis];
    erase(outer);
  }
}

std::vector<std::size_t> LoopAxes::of_group(int group) const {
  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < groups.size(); ++axis) {
    if (groups[axis] == group) axes.push_back(axis);
  }
  return axes;
}

void collect_accesses(ScalarProgram& program, std::vector<Access*>& accesses) {
  for (ScalarStep& step : program.steps) {
    const bool walks = step.kind == ScalarStep::Kind::load || step.kind == ScalarStep::Kind::coordinate;
    if (walks) accesses.push_back(&step.access);
    for (IndexCheck& check : step.checks) accesses.push_back(&check.index);
  }
}

Dim ceil_div(const Dim& a, const Dim& b) { return floor_div(a + b - 1, b); }

std::vector<Reg> split_index(NestBuilder& b, Reg index, const std::vector<Dim>& sizes) {
  std::vector<Reg> coordinates(sizes.size(), Reg::none);
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (i == 0) {
      coordinates[i] = index;  // what is left
    } else if (sizes[i].is(1)) {
      coordinates[i] = b.integer(0);
    } else {
      const Reg size = b.dim(sizes[i]);
      coordinates[i] = b.remainder(index, size);
      index = b.divide(index, size);
    }
  }
  return coordinates;
}

std::vector<Reg> vector_loop(NestBuilder& b, Reg start, Reg end, int lanes, std::vector<Reg> carried,
                             const std::function<std::vector<Reg>(Reg, Reg, std::span<const Reg>)>& body) {
  const Reg step = b.integer(lanes);
  const Reg whole = b.multiply(b.divide(b.subtract(end, start), step), step);
  const Reg tail = b.add(start, whole);
  const auto full = [&](Reg first, std::span<const Reg> values) { return body(first, Reg::none, values); };
  carried = b.loop(start, tail, step, std::move(carried), full);
  if (lanes == 1) return carried;
  const auto masked = [&](Reg first, std::span<const Reg> values) {
    return body(first, lane_mask(b, first, end, lanes), values);
  };
  return b.loop(tail, end, step, std::move(carried), masked);
}

int lanes_for(const DeviceTraits& traits, DType dtype) {
  if (traits.simt) return 1;
  const int lanes = std::max(1, traits.vector_bytes / static_cast<int>(bytes_of(register_dtype(dtype))));
  return traits.lanes_max == 0 ? lanes : std::min(lanes, traits.lanes_max);
}

Reg multiply_add(NestBuilder& b, Reg a, Reg x, Reg c) {
  if (is_floating(b.type(a).dtype)) return b.multiply_add(a, x, c);
  return b.binary(NestOp::add, b.binary(NestOp::multiply, a, x), c);
}

LoopNest new_nest(const Graph& body, std::string entry) {
  LoopNest nest{.entry = std::move(entry)};
  for (const Port& port : body.inputs()) nest.places.push_back(body.type(port.value).dtype);
  nest.places.push_back(body.type(body.outputs()[0].value).dtype);
  return nest;
}

Result<Kernel> finish(LoopNest nest, const DeviceTraits& traits) {
  KernelText text = TRY(print_nest(nest, traits.dialect));
  return Kernel{.entry = std::move(nest.entry),
                .text = std::move(text),
                .sizes = std::move(nest.sizes),
                .grid = std::move(nest.grid),
                .local_bytes = std::move(nest.local_bytes)};
}

int place_of(const Graph& body, ValueId id) {
  return static_cast<int>(std::ranges::find(body.inputs(), id, &Port::value) - body.inputs().begin());
}

}  // namespace diji
