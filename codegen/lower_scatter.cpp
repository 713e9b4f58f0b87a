// Scatters: one kernel copies x, the next applies the updates. Along axes of the updates that are a
// coordinate of x as they stand no two updates meet, so these go over the grid and into vectors; the others
// run in order.
#include "base/check.h"
#include "codegen/loops.h"

namespace diji {
namespace {

enum Group : int { kApart, kOrdered };

// Updates along the innermost axis that one grid index applies, where that axis goes over the grid.
constexpr std::int64_t kChunk = 1024;

struct ScatterLowering {
  ScatterLowering(const Graph& body, const KernelBody& kernel, const DeviceTraits& device, std::string entry)
      : traits(device),
        update(*parse_update(kernel.root_node->attributes.get_or("kind", std::string{}))),
        updates(kernel.programs[1]),
        cells(kernel.programs[2]),
        dtype(body.type(kernel.root_node->outputs[0]).dtype),
        nest(new_nest(body, std::move(entry))),
        b(nest) {
    axes.sizes = body.type(kernel.root_node->inputs[1]).shape;
    for (const bool apart : kernel.apart) axes.groups.push_back(apart ? kApart : kOrdered);
    collect_accesses(updates, axes.accesses);
    collect_accesses(cells, axes.accesses);
    axes.collapse();
    at.assign(axes.sizes.size(), Reg::none);
  }

  void run() {
    const auto grid_axes = axes.of_group(kApart), ordered = axes.of_group(kOrdered);
    const bool vectors = !grid_axes.empty() && grid_axes.back() + 1 == axes.sizes.size();
    const std::int64_t chunk = traits.simt ? 1 : kChunk;
    std::vector<Dim> grid;
    for (const std::size_t axis : grid_axes) grid.push_back(axes.sizes[axis]);
    if (vectors) grid.back() = ceil_div(grid.back(), chunk);
    nest.grid = element_count(grid);
    const auto coordinates = split_index(b, b.grid_index(), grid);
    for (std::size_t i = 0; i < grid_axes.size(); ++i) at[grid_axes[i]] = coordinates[i];
    if (!vectors) return in_order(ordered, 0, [&] { apply(std::nullopt, 1, Reg::none); });
    const std::size_t inner = grid_axes.back();
    const Reg start = b.multiply(at[inner], b.integer(chunk));
    const Reg end = b.minimum(b.add(start, b.integer(chunk)), b.dim(axes.sizes[inner]));
    const int lanes = lanes_for(traits, DType::f32);
    in_order(ordered, 0, [&] {
      vector_loop(b, start, end, lanes, {},
                  [&](Reg first, Reg mask, std::span<const Reg>) -> std::vector<Reg> {
                    at[inner] = first;
                    apply(inner, lanes, mask);
                    return {};
                  });
    });
  }

  void in_order(const std::vector<std::size_t>& ordered, std::size_t depth,
                const std::function<void()>& inside) {
    if (depth == ordered.size()) return inside();
    const std::size_t axis = ordered[depth];
    b.loop(b.integer(0), b.dim(axes.sizes[axis]), b.integer(1), {},
           [&](Reg i, std::span<const Reg>) -> std::vector<Reg> {
             at[axis] = i;
             in_order(ordered, depth + 1, inside);
             return {};
           });
  }

  // One update, or one vector of them, which all go to different cells.
  void apply(std::optional<std::size_t> vector_axis, int lanes, Reg mask) {
    const LanePosition position{at, vector_axis, lanes, mask};
    const Reg value = evaluate(b, updates, position);
    ElementAddress cell = evaluate_address(b, cells, position);
    CHECK(cell.lanes == lanes, "different cells in different lanes");
    cell.address.place = static_cast<int>(nest.places.size()) - 1;
    const Reg before = update == Update::set ? Reg::none : load_element(b, cell.address, dtype, lanes);
    store_element(b, cell.address, updated(before, value));
  }

  Reg updated(Reg cell, Reg value) {
    switch (update) {
      case Update::set: return value;
      case Update::add: return b.add(cell, value);
      case Update::multiply: return b.binary(NestOp::multiply, cell, value);
      case Update::minimum: return b.minimum(cell, value);
      case Update::maximum: return b.maximum(cell, value);
    }
    check_failed("update", "an Update outside its enumeration");
  }

  const DeviceTraits& traits;
  Update update;
  ScalarProgram updates, cells;
  DType dtype;
  LoopAxes axes{};
  std::vector<Reg> at{};
  LoopNest nest;
  NestBuilder b;
};

}  // namespace

Result<Kernel> lower_scatter(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                             std::string entry) {
  ScatterLowering lowering(body, kernel, traits, std::move(entry));
  lowering.run();
  return finish(std::move(lowering.nest), traits);
}

}  // namespace diji
