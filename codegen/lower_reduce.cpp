// Reductions: vectors along the innermost axis, whether it is folded or kept. The order of every sum is fixed
// by the shape alone.
#include "codegen/loops.h"

#include <limits>

namespace diji {
namespace {

enum Group : int { kKept, kFolded };

struct ReduceLowering {
  ReduceLowering(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits, std::string entry)
      : traits(traits),
        reduction(*parse_reduction(kernel.root_node->attributes.get_or("kind", std::string{}))),
        program(kernel.programs[0]),
        epilogue(kernel.epilogue),
        dtype(body.type(kernel.root_node->outputs[0]).dtype),
        nest(new_nest(body, std::move(entry))),
        b(nest) {
    axes.sizes = kernel.space;
    Shape kept;
    for (std::size_t axis = 0; axis < kernel.space.size(); ++axis) {
      axes.groups.push_back(kernel.reduced[axis] ? kFolded : kKept);
      if (!kernel.reduced[axis]) kept.push_back(kernel.space[axis]);
    }
    output.strides = strides_of(kept);
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
    kept_axes = axes.of_group(kKept);
  }

  // Sums of floats run in f64: one rounding at the end instead of one a term. A variance computed as E[x²] -
  // E[x]² lives or dies by this, and the additions hide behind the loads.
  bool wide() const { return reduction == Reduction::sum && is_floating(dtype); }
  DType sum_dtype() const { return wide() ? DType::f64 : register_dtype(dtype); }

  Reg neutral(int lanes) {
    const LaneType type{sum_dtype(), lanes};
    if (reduction == Reduction::sum) return b.number(0, type);
    if (is_floating(type.dtype)) return b.real(-std::numeric_limits<double>::infinity(), type);
    return visit_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_integral_v<T>) {
        return b.integer(static_cast<std::int64_t>(std::numeric_limits<T>::min()), type.dtype, lanes);
      }
      return Reg::none;
    });
  }

  Reg combine(Reg sum, Reg value) {
    return b.binary(reduction == Reduction::sum ? NestOp::add : NestOp::maximum, sum,
                    b.convert(value, sum_dtype()));
  }

  // Loops over the folded axes from `depth` on, calling `inside` for the innermost.
  Reg fold_loops(std::size_t depth, std::size_t count, Reg sum, const std::function<Reg(Reg)>& inside) {
    if (depth == count) return inside(sum);
    const std::size_t axis = folded[depth];
    return b.loop(b.integer(0), b.dim(axes.sizes[axis]), b.integer(1), {sum},
                  [&](Reg i, std::span<const Reg> carried) -> std::vector<Reg> {
                    at[axis] = i;
                    return {fold_loops(depth + 1, count, carried[0], inside)};
                  })[0];
  }

  void finish_element(Reg sum, std::optional<std::size_t> vector_axis, int lanes, Reg mask) {
    for (const std::size_t axis : folded) at[axis] = b.integer(0);
    const Reg value =
        evaluate(b, epilogue, {at, vector_axis, lanes, mask}, b.convert(sum, register_dtype(dtype)));
    const int out = static_cast<int>(nest.places.size()) - 1;
    store_element(b, {.place = out, .index = element_index(b, output, at), .mask = mask}, value);
  }

  std::vector<Dim> kept_sizes(std::size_t count) const {
    std::vector<Dim> sizes;
    for (std::size_t i = 0; i < count; ++i) sizes.push_back(axes.sizes[kept_axes[i]]);
    return sizes;
  }

  // Innermost axis kept: each lane is an element of the result.
  void across_lanes() {
    const std::size_t inner = kept_axes.back();
    const int lanes = lanes_for(traits, dtype);
    const Dim chunk(4 * lanes);
    std::vector<Dim> grid = kept_sizes(kept_axes.size() - 1);
    grid.push_back(ceil_div(axes.sizes[inner], chunk));
    nest.grid = element_count(grid);
    const auto coordinates = split_index(b, b.grid_index(), grid);
    for (std::size_t i = 0; i < kept_axes.size(); ++i) at[kept_axes[i]] = coordinates[i];
    const Reg start = b.multiply(at[inner], b.dim(chunk));
    const Reg end = b.minimum(b.add(start, b.dim(chunk)), b.dim(axes.sizes[inner]));
    vector_loop(b, start, end, lanes, {}, [&](Reg first, Reg mask, std::span<const Reg>) -> std::vector<Reg> {
      at[inner] = first;
      const Reg sum = fold_loops(0, folded.size(), neutral(lanes), [&](Reg partial) {
        return combine(partial, evaluate(b, program, {at, inner, lanes, mask}));
      });
      at[inner] = first;
      finish_element(sum, inner, lanes, mask);
      return {};
    });
  }

  // Innermost axis folded (or nothing left): lanes hold partial results, folded as a tree of halves at the
  // end.
  void along_lanes() {
    const std::vector<Dim> grid = kept_sizes(kept_axes.size());
    nest.grid = element_count(grid);
    const auto coordinates = split_index(b, b.grid_index(), grid);
    for (std::size_t i = 0; i < kept_axes.size(); ++i) at[kept_axes[i]] = coordinates[i];
    if (folded.empty()) {
      finish_element(combine(neutral(1), evaluate(b, program, {at, std::nullopt, 1})), std::nullopt, 1,
                     Reg::none);
      return;
    }
    const std::size_t inner = folded.back();
    const int lanes = lanes_for(traits, dtype);
    const Reg zero = b.integer(0), end = b.dim(axes.sizes[inner]);
    const Reg partial = fold_loops(0, folded.size() - 1, neutral(lanes), [&](Reg sum) {
      return vector_loop(b, zero, end, lanes, {sum},
                         [&](Reg first, Reg mask, std::span<const Reg> carried) -> std::vector<Reg> {
                           at[inner] = first;
                           const Reg value = evaluate(b, program, {at, inner, lanes, mask});
                           const Reg sum = combine(carried[0], value);
                           return {mask == Reg::none ? sum : b.select(mask, sum, carried[0])};
                         })[0];
    });
    const Reg sum = b.fold(reduction == Reduction::sum ? NestOp::fold_add : NestOp::fold_maximum, partial);
    finish_element(sum, std::nullopt, 1, Reg::none);
  }

  const DeviceTraits& traits;
  Reduction reduction;
  ScalarProgram program, epilogue;
  DType dtype;
  Access output{0, {}};
  LoopAxes axes{};
  std::vector<std::size_t> folded{}, kept_axes{};
  std::vector<Reg> at{};
  LoopNest nest;
  NestBuilder b;
};

}  // namespace

Result<Kernel> lower_reduce(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                            std::string entry) {
  ReduceLowering lowering(body, kernel, traits, std::move(entry));
  const bool innermost_kept = !lowering.axes.groups.empty() && lowering.axes.groups.back() == kKept;
  if (innermost_kept) {
    lowering.across_lanes();
  } else {
    lowering.along_lanes();
  }
  return finish(std::move(lowering.nest), traits);
}

}  // namespace diji
