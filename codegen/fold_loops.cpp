// Loops of reductions.
#include "codegen/fold_loops.h"

namespace diji {

FoldLoops::FoldLoops(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                     std::string entry)
    : vectors_a_chunk(traits.simt ? 1 : 4),
      program(kernel.programs[0]),
      epilogue(kernel.epilogue),
      nest(new_nest(body, std::move(entry))),
      b(nest) {
  axes.sizes = kernel.space;
  Shape kept_shape;
  for (std::size_t axis = 0; axis < kernel.space.size(); ++axis) {
    axes.groups.push_back(kernel.reduced[axis] ? kFolded : kKept);
    if (!kernel.reduced[axis]) kept_shape.push_back(kernel.space[axis]);
  }
  output.strides = strides_of(kept_shape);
  collect_accesses(epilogue, axes.accesses);
  axes.accesses.push_back(&output);
  // Over all axes, standing still on the folded ones.
  for (Access* access : axes.accesses) {
    for (std::size_t axis = 0; axis < kernel.space.size(); ++axis) {
      if (kernel.reduced[axis])
        access->strides.insert(access->strides.begin() + static_cast<std::ptrdiff_t>(axis), Dim(0));
    }
  }
  collect_accesses(program, axes.accesses);
  axes.collapse();
  at.assign(axes.sizes.size(), Reg::none);
  folded = axes.of_group(kFolded);
  kept = axes.of_group(kKept);
}

std::vector<Dim> FoldLoops::kept_sizes(std::size_t count) const {
  std::vector<Dim> sizes;
  for (std::size_t i = 0; i < count; ++i) sizes.push_back(axes.sizes[kept[i]]);
  return sizes;
}

void FoldLoops::place_grid(const std::vector<Dim>& grid) {
  nest.grid = element_count(grid);
  const auto coordinates = split_index(b, b.grid_index(), grid);
  for (std::size_t i = 0; i < kept.size(); ++i) at[kept[i]] = coordinates[i];
}

bool FoldLoops::by_group(const DeviceTraits& traits) const {
  constexpr std::int64_t kFewMax = 32;
  if (!traits.simt || innermost_kept() || folded.empty()) return false;
  return axes.sizes[folded.back()].constant().value_or(kFewMax + 1) > kFewMax;
}

LaneGroup FoldLoops::place_groups() {
  std::vector<Dim> grid = kept_sizes(kept.size());
  grid.emplace_back(LaneGroup::kLanes);
  nest.grid = element_count(grid);
  const auto coordinates = split_index(b, b.grid_index(), grid);
  for (std::size_t i = 0; i < kept.size(); ++i) at[kept[i]] = coordinates[i];
  return {b, coordinates.back()};
}

void FoldLoops::across_lanes(int lanes, const std::function<void(Reg mask)>& inside) {
  const std::size_t inner = kept.back();
  const Dim chunk(vectors_a_chunk * lanes);
  std::vector<Dim> grid = kept_sizes(kept.size() - 1);
  grid.push_back(ceil_div(axes.sizes[inner], chunk));
  place_grid(grid);
  const Reg start = b.multiply(at[inner], b.dim(chunk));
  const Reg end = b.minimum(b.add(start, b.dim(chunk)), b.dim(axes.sizes[inner]));
  vector_loop(b, start, end, lanes, {}, [&](Reg first, Reg mask, std::span<const Reg>) -> std::vector<Reg> {
    at[inner] = first;
    inside(mask);
    return {};
  });
}

std::vector<Reg> FoldLoops::fold(std::size_t depth, std::size_t count, std::vector<Reg> carried,
                                 const std::function<std::vector<Reg>(std::span<const Reg>)>& inside) {
  if (depth == count) return inside(carried);
  const std::size_t axis = folded[depth];
  return b.loop(b.integer(0), b.dim(axes.sizes[axis]), b.integer(1), std::move(carried),
                [&](Reg i, std::span<const Reg> values) {
                  at[axis] = i;
                  return fold(depth + 1, count, {values.begin(), values.end()}, inside);
                });
}

void FoldLoops::store_result(Reg value, std::optional<std::size_t> vector_axis, int lanes, Reg mask) {
  for (const std::size_t axis : folded) at[axis] = b.integer(0);
  const Reg result = evaluate(b, epilogue, {at, vector_axis, lanes, mask}, value);
  const int out = static_cast<int>(nest.places.size()) - 1;
  store_element(b, {.place = out, .index = element_index(b, output, at), .mask = mask}, result);
}

}  // namespace diji
