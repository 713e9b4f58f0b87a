// Reductions: vectors along the innermost axis, whether it is folded or kept. The order of every sum is fixed
// by the shape alone.
#include "base/check.h"
#include "codegen/fold_loops.h"

#include <limits>

namespace diji {
namespace {

struct ReduceLowering : FoldLoops {
  ReduceLowering(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits, std::string entry)
      : FoldLoops(body, kernel, traits, std::move(entry)),
        reduction(*parse_reduction(kernel.root_node->attributes.get_or("kind", std::string{}))),
        dtype(body.type(kernel.root_node->outputs[0]).dtype),
        lanes(lanes_for(traits, dtype)) {}

  // Sums and products of floats run in f64: one rounding at the end instead of one a term. A variance
  // computed as E[x²] - E[x]² lives or dies by this, and the additions hide behind the loads.
  bool wide() const {
    return (reduction == Reduction::sum || reduction == Reduction::product) && is_floating(dtype);
  }
  DType sum_dtype() const { return wide() ? DType::f64 : register_dtype(dtype); }

  Reg neutral(int width) {
    const LaneType type{sum_dtype(), width};
    if (reduction == Reduction::sum) return b.number(0, type);
    if (reduction == Reduction::product) return b.number(1, type);
    const bool max = reduction == Reduction::max;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (is_floating(type.dtype)) return b.real(max ? -kInfinity : kInfinity, type);
    return visit_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_integral_v<T>) {
        const T end = max ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
        return b.integer(static_cast<std::int64_t>(end), type.dtype, width);
      }
      return Reg::none;
    });
  }

  struct Ops {
    NestOp step, fold;
  };
  Ops ops() const {
    switch (reduction) {
      case Reduction::sum: return {NestOp::add, NestOp::fold_add};
      case Reduction::product: return {NestOp::multiply, NestOp::fold_multiply};
      case Reduction::min: return {NestOp::minimum, NestOp::fold_minimum};
      case Reduction::max: return {NestOp::maximum, NestOp::fold_maximum};
    }
    check_failed("reduction", "a Reduction outside its enumeration");
  }

  Reg combine(Reg sum, Reg value) { return b.binary(ops().step, sum, b.convert(value, sum_dtype())); }

  void finish_element(Reg sum, std::optional<std::size_t> vector_axis, int width, Reg mask) {
    store_result(b.convert(sum, register_dtype(dtype)), vector_axis, width, mask);
  }

  // Innermost axis kept: each lane is an element of the result.
  void lane_by_lane() {
    const std::size_t inner = kept.back();
    across_lanes(lanes, [&](Reg mask) {
      for (const std::size_t axis : folded) at[axis] = Reg::none;
      const Reg first = at[inner];
      const auto sum = fold(0, folded.size(), {neutral(lanes)}, [&](std::span<const Reg> partial) {
        return std::vector<Reg>{combine(partial[0], evaluate(b, program, {at, inner, lanes, mask}))};
      });
      at[inner] = first;
      finish_element(sum[0], inner, lanes, mask);
    });
  }

  // Innermost axis folded (or nothing left): lanes hold partial results, folded as a tree of halves at the
  // end.
  void along_lanes() {
    place_grid(kept_sizes(kept.size()));
    if (folded.empty()) {
      finish_element(combine(neutral(1), evaluate(b, program, {at, std::nullopt, 1})), std::nullopt, 1,
                     Reg::none);
      return;
    }
    const std::size_t inner = folded.back();
    const Reg zero = b.integer(0), end = b.dim(axes.sizes[inner]);
    const auto partial = fold(0, folded.size() - 1, {neutral(lanes)}, [&](std::span<const Reg> outer) {
      at[inner] = Reg::none;
      const Prepared prepared = prepare(b, program, at);
      return vector_loop(b, zero, end, lanes, {outer.begin(), outer.end()},
                         [&](Reg first, Reg mask, std::span<const Reg> carried) -> std::vector<Reg> {
                           at[inner] = first;
                           const Reg value =
                               evaluate(b, program, {at, inner, lanes, mask}, Reg::none, prepared);
                           const Reg sum = combine(carried[0], value);
                           return {mask == Reg::none ? sum : b.select(mask, sum, carried[0])};
                         });
    });
    finish_element(b.fold(ops().fold, partial[0]), std::nullopt, 1, Reg::none);
  }

  // Innermost axis folded, on a SIMT device: the lanes of a group take turns along it.
  void by_lanes_of_a_group() {
    LaneGroup group = place_groups();
    const std::size_t inner = folded.back();
    const auto partial = fold(0, folded.size() - 1, {neutral(1)}, [&](std::span<const Reg> outer) {
      return b.loop(group.lane(), b.dim(axes.sizes[inner]), b.integer(LaneGroup::kLanes),
                    {outer.begin(), outer.end()}, [&](Reg k, std::span<const Reg> carried) {
                      at[inner] = k;
                      const Reg value = evaluate(b, program, {at, std::nullopt, 1});
                      return std::vector<Reg>{combine(carried[0], value)};
                    });
    });
    const auto sum = group.fold(partial, [&](std::span<const Reg> low, std::span<const Reg> high) {
      return std::vector<Reg>{b.binary(ops().step, low[0], high[0])};
    });
    b.when(b.equal(group.lane(), b.integer(0)), [&] { finish_element(sum[0], std::nullopt, 1, Reg::none); });
  }

  Reduction reduction;
  DType dtype;
  int lanes;
};

}  // namespace

Result<Kernel> lower_reduce(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                            std::string entry) {
  ReduceLowering lowering(body, kernel, traits, std::move(entry));
  if (lowering.innermost_kept()) {
    lowering.lane_by_lane();
  } else if (lowering.by_group(traits)) {
    lowering.by_lanes_of_a_group();
  } else {
    lowering.along_lanes();
  }
  return finish(std::move(lowering.nest), traits);
}

}  // namespace diji
