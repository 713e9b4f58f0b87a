// Element-wise kernels: merged axes, rows spread over the grid, vectors along the innermost axis.
#include "codegen/loops.h"

namespace diji {
namespace {

// Elements of the innermost axis that one grid index computes: enough to hide the index arithmetic (some 50
// cycles against at least 256 vectors), little enough that a large tensor feeds every core.
constexpr std::int64_t kChunk = 4096;

Result<Kernel> lower_program(const Graph& body, ScalarProgram program, Shape space, Access output,
                             const DeviceTraits& traits, std::string entry) {
  LoopAxes axes{.sizes = std::move(space)};
  axes.groups.assign(axes.sizes.size(), 0);
  collect_accesses(program, axes.accesses);
  axes.accesses.push_back(&output);
  axes.collapse();
  if (axes.sizes.empty()) {
    axes.sizes.emplace_back(1);
    for (Access* access : axes.accesses) access->strides.emplace_back(0);
  }
  const std::size_t inner = axes.sizes.size() - 1;
  const std::int64_t chunk = traits.simt ? 1 : kChunk;
  std::vector<Dim> grid(axes.sizes.begin(), axes.sizes.end() - 1);
  grid.push_back(ceil_div(axes.sizes[inner], chunk));

  LoopNest nest = new_nest(body, std::move(entry));
  nest.grid = element_count(grid);
  NestBuilder b(nest);
  std::vector<Reg> at = split_index(b, b.grid_index(), grid);
  const Reg start = b.multiply(at[inner], b.integer(chunk));
  const Reg end = b.minimum(b.add(start, b.integer(chunk)), b.dim(axes.sizes[inner]));
  const int lanes = lanes_for(traits, DType::f32);
  const int out = static_cast<int>(nest.places.size()) - 1;
  at[inner] = Reg::none;
  const Prepared prepared = prepare(b, program, at);
  vector_loop(b, start, end, lanes, {}, [&](Reg first, Reg mask, std::span<const Reg>) -> std::vector<Reg> {
    at[inner] = first;
    const Reg value = evaluate(b, program, {at, inner, lanes, mask}, Reg::none, prepared);
    NestBuilder::Address address{.place = out, .index = element_index(b, output, at), .mask = mask};
    if (!output.strides[inner].is(1)) address.stride = b.dim(output.strides[inner]);
    store_element(b, address, value);
    return {};
  });
  return finish(std::move(nest), traits);
}

}  // namespace

Result<Kernel> lower_map(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                         std::string entry) {
  return lower_program(body, kernel.programs[0], kernel.space, {0, strides_of(kernel.space)}, traits,
                       std::move(entry));
}

Result<Kernel> lower_part(const Graph& body, const KernelBody& kernel, std::size_t part,
                          const DeviceTraits& traits, std::string entry) {
  const auto axis = static_cast<std::size_t>(kernel.root_node->attributes.get_or<std::int64_t>("axis", 0));
  Access output{0, strides_of(kernel.space)};
  // Parts of a concatenation lie behind each other.
  for (std::size_t i = 0; i < part; ++i) {
    output.offset = output.offset + body.type(kernel.root_node->inputs[i]).shape[axis] * output.strides[axis];
  }
  return lower_program(body, kernel.programs[part], body.type(kernel.root_node->inputs[part]).shape, output,
                       traits, std::move(entry));
}

}  // namespace diji
