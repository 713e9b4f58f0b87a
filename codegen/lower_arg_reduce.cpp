// The coordinate of the largest or smallest element along an axis. Compared are integer keys, so that the
// result does not depend on the order of comparisons: of equal keys the smallest (or largest) coordinate
// wins.
#include "codegen/fold_loops.h"
#include "codegen/sort_key.h"

#include <limits>

namespace diji {
namespace {

struct ArgReduceLowering : FoldLoops {
  ArgReduceLowering(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                    std::string entry)
      : FoldLoops(body, kernel, traits, std::move(entry)),
        smallest_wins(kernel.root_node->attributes.get_or("kind", std::string{}) == "min"),
        last(kernel.root_node->attributes.get_or<std::int64_t>("last", 0) != 0),
        dtype(body.type(kernel.root_node->inputs[0]).dtype),
        lanes(lanes_for(traits, dtype == DType::boolean ? DType::i32 : dtype)) {
    lanes = std::min(lanes, lanes_for(traits, DType::f32));
    if (folded.empty()) {  // one element: its coordinate is 0
      folded = {axes.sizes.size()};
      axes.sizes.emplace_back(1);
      axes.groups.push_back(kFolded);
      for (Access* access : axes.accesses) access->strides.emplace_back(0);
      at.push_back(Reg::none);
    }
  }

  Reg key(Reg value) {
    const Reg key = order_key(b, value, dtype, smallest_wins);
    return smallest_wins ? reversed_key(b, key) : key;
  }
  std::vector<Reg> start(int width, Reg coordinates) {
    return {smallest_key(b, {key_dtype(dtype), width}), coordinates};
  }
  // {best key, its coordinate} after one more element.
  std::vector<Reg> better(std::span<const Reg> best, Reg next, Reg coordinate, Reg mask) {
    Reg wins = last ? b.less_equal(best[0], next) : b.less(best[0], next);
    if (mask != Reg::none) wins = b.binary(NestOp::bit_and, wins, mask);
    return {b.select(wins, next, best[0]), b.select(wins, coordinate, best[1])};
  }

  // Innermost axis kept: each lane is an element of the result. A first element with the smallest key of all
  // is the best one without ever winning, at coordinate 0.
  void lane_by_lane() {
    const std::size_t inner = kept.back();
    across_lanes(lanes, [&](Reg mask) {
      const Reg first = at[inner];
      const auto best =
          fold(0, 1, start(lanes, b.integer(0, DType::i64, lanes)), [&](std::span<const Reg> carried) {
            const Reg next = key(evaluate(b, program, {at, inner, lanes, mask}));
            return better(carried, next, b.splat(at[folded[0]], lanes), Reg::none);
          });
      at[inner] = first;
      store_result(best[1], inner, lanes, mask);
    });
  }

  // Innermost axis folded: each lane holds the best of its own elements, the first of which is number `lane`.
  void along_lanes() {
    place_grid(kept_sizes(kept.size()));
    const std::size_t inner = folded[0];
    at[inner] = Reg::none;
    const Prepared prepared = prepare(b, program, at);
    const Reg none = last ? b.integer(-1, DType::i64, lanes) : numbers_from(b.integer(0));
    const auto best = vector_loop(
        b, b.integer(0), b.dim(axes.sizes[inner]), lanes, start(lanes, none),
        [&](Reg first, Reg mask, std::span<const Reg> carried) {
          at[inner] = first;
          const Reg next = key(evaluate(b, program, {at, inner, lanes, mask}, Reg::none, prepared));
          return better(carried, next, numbers_from(first), mask);
        });
    store_result(lanes == 1 ? best[1] : winner(best[0], best[1]), std::nullopt, 1, Reg::none);
  }
  // The same by the lanes of a SIMT group in turn. A lane without elements has the smallest key, and a
  // coordinate behind all others.
  void by_lanes_of_a_group() {
    LaneGroup group = place_groups();
    const std::size_t inner = folded[0];
    const Reg none = last ? b.integer(-1) : group.lane();
    const auto own = b.loop(group.lane(), b.dim(axes.sizes[inner]), b.integer(LaneGroup::kLanes),
                            start(1, none), [&](Reg k, std::span<const Reg> carried) {
                              at[inner] = k;
                              const Reg next = key(evaluate(b, program, {at, std::nullopt, 1}));
                              return better(carried, next, k, Reg::none);
                            });
    const auto best = group.fold(own, [&](std::span<const Reg> x, std::span<const Reg> y) {
      const Reg ahead = last ? b.less(x[1], y[1]) : b.less(y[1], x[1]);
      const Reg ties = b.binary(NestOp::bit_and, b.equal(x[0], y[0]), ahead);
      const Reg wins = b.binary(NestOp::bit_or, b.less(x[0], y[0]), ties);
      return std::vector<Reg>{b.select(wins, y[0], x[0]), b.select(wins, y[1], x[1])};
    });
    b.when(b.equal(group.lane(), b.integer(0)), [&] { store_result(best[1], std::nullopt, 1, Reg::none); });
  }
  Reg numbers_from(Reg first) {
    return lanes == 1 ? first : b.add(b.splat(first, lanes), b.lane_numbers({DType::i64, lanes}));
  }

  Reg winner(Reg keys, Reg coordinates) {
    const Reg top = b.splat(b.fold(NestOp::fold_maximum, keys), lanes);
    constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
    const Reg loser = b.integer(last ? -1 : kLargest, DType::i64, lanes);
    return b.fold(last ? NestOp::fold_maximum : NestOp::fold_minimum,
                  b.select(b.equal(keys, top), coordinates, loser));
  }

  bool smallest_wins, last;
  DType dtype;
  int lanes;
};

}  // namespace

Result<Kernel> lower_arg_reduce(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                                std::string entry) {
  ArgReduceLowering lowering(body, kernel, traits, std::move(entry));
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
