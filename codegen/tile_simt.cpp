// Products on devices that run grid indices in lockstep. A group brings tiles of both sides to the memory it
// shares, and each of its lanes does some sums of a tile; where there are but a few rows, an index does one
// column of them; a matrix unit's lanes do a tile together. Sums ascend in k in all of these.
#include "codegen/lane_group.h"
#include "codegen/matrix_unit.h"
#include "codegen/tile.h"

namespace diji {
namespace {

// Rows that share what an index reads of the right side.
constexpr int kRows = 4;

// What a group does in one go: its lanes stand 8 rows × 16 columns apart, each with 4 × 4 sums.
constexpr int kLaneRows = 8, kLaneColumns = 16, kSums = 4, kGroupDepth = 16;
constexpr int kGroupRows = kLaneRows * kSums, kGroupColumns = kLaneColumns * kSums;
static_assert(kLaneRows * kLaneColumns == LaneGroup::kLanes);

// What the lanes of a matrix unit do in one go, in elements: every piece of a side serves twice or more.
constexpr int kUnitRows = 32, kUnitColumns = 32;

class Simt {
 public:
  Simt(NestBuilder& builder, const DeviceTraits& traits, const TileProblem& problem,
       const std::function<void(Reg)>& enter)
      : b(builder), problem_(problem), enter_(enter), depth_(b.dim(problem.depth)) {
    const bool same = problem.lhs_dtype == problem.rhs_dtype && problem.direct.has_value();
    unit_ = same ? matrix_unit(traits.dialect, problem.lhs_dtype) : nullptr;
  }

  void run() {
    if (unit_ != nullptr) return on_unit();
    if (problem_.direct && problem_.rows.constant().value_or(kRows + 1) > kRows) return by_group();
    const int rows = problem_.element ? 1 : kRows;
    const auto at = place_grid({problem_.batches, ceil_div(problem_.rows, rows), problem_.columns});
    const Reg row = b.multiply(at[1], b.integer(rows)), column = at[2];
    if (problem_.element) return problem_.finish(row, column, Reg::none, problem_.element(row, column));
    std::vector<Reg> bases, sums;
    for (int r = 0; r < rows; ++r) {
      bases.push_back(problem_.lhs_row(inside(b.add(row, b.integer(r)), problem_.rows)));
      sums.push_back(b.number(0, {register_dtype(problem_.dtype), 1}));
    }
    const Reg base = problem_.direct->column(column);
    sums = b.loop(b.integer(0), depth_, b.integer(1), sums, [&](Reg k, std::span<const Reg> carried) {
      const Reg right = side_value(problem_.direct->place, problem_.rhs_dtype,
                                   b.add(base, b.multiply(k, b.dim(problem_.direct->along))));
      std::vector<Reg> next;
      for (std::size_t r = 0; r < bases.size(); ++r) {
        const Reg left = side_value(problem_.lhs_place, problem_.lhs_dtype,
                                    b.add(bases[r], b.multiply(k, b.dim(problem_.lhs_along))));
        next.push_back(multiply_add(b, left, right, carried[r]));
      }
      return next;
    });
    for (int r = 0; r < rows; ++r)
      finish_inside(b.add(row, b.integer(r)), column, sums[static_cast<std::size_t>(r)]);
  }

 private:
  std::vector<Reg> place_grid(const std::vector<Dim>& grid) {
    b.nest().grid = element_count(grid);
    const auto at = split_index(b, b.grid_index(), grid);
    enter_(at[0]);
    return at;
  }
  // The last one in the place of those beyond it: read, and never stored.
  Reg inside(Reg index, const Dim& count) { return b.minimum(index, b.dim(count - 1)); }
  Reg side_value(int place, DType dtype, Reg index) {
    return b.convert(load_element(b, {.place = place, .index = index}, dtype, 1),
                     register_dtype(problem_.dtype));
  }
  void finish_inside(Reg row, Reg column, Reg sum) {
    const Reg exists =
        b.binary(NestOp::bit_and, b.less(row, b.dim(problem_.rows)), b.less(column, b.dim(problem_.columns)));
    b.when(exists, [&] { problem_.finish(row, column, Reg::none, sum); });
  }

  // ---- a group

  // What one lane brings of a side in each step: elements `depths` of the contracted axis at `bases`, to
  // group memory from `targets` on.
  struct Share {
    int place = 0;
    DType dtype = DType::f32;
    Reg along;
    std::vector<Reg> bases, depths, targets;
  };

  void bring(const Share& share, Reg k) {
    for (std::size_t i = 0; i < share.bases.size(); ++i) {
      const Reg depth = b.add(k, share.depths[i]);
      const Reg index = b.add(share.bases[i], b.multiply(depth, share.along));
      const Reg value = load_element(b, {.place = share.place, .index = index, .mask = b.less(depth, depth_)},
                                     share.dtype, 1);
      b.store({.space = Space::group, .index = share.targets[i]}, b.convert(value, sums_.dtype));
    }
  }
  Reg brought(Reg base, int shift) {
    return b.load({.space = Space::group, .index = b.add(base, b.integer(shift))}, sums_);
  }

  // Neighbouring lanes read neighbours in k of the left side and neighbouring columns of the right one.
  void by_group() {
    const auto at = place_grid({problem_.batches, ceil_div(problem_.rows, kGroupRows),
                                ceil_div(problem_.columns, kGroupColumns), Dim(LaneGroup::kLanes)});
    const Reg lane = at[3], row = b.multiply(at[1], b.integer(kGroupRows)),
              column = b.multiply(at[2], b.integer(kGroupColumns));
    const auto split = [&](int low) {
      return std::pair(b.divide(lane, b.integer(low)), b.remainder(lane, b.integer(low)));
    };
    Share lhs{.place = problem_.lhs_place, .dtype = problem_.lhs_dtype, .along = b.dim(problem_.lhs_along)};
    const auto [lhs_row, lhs_depth] = split(kGroupDepth);
    for (int r = 0; r < kGroupRows; r += LaneGroup::kLanes / kGroupDepth) {
      const Reg inner = b.add(lhs_row, b.integer(r));
      lhs.bases.push_back(problem_.lhs_row(inside(b.add(row, inner), problem_.rows)));
      lhs.depths.push_back(lhs_depth);
      lhs.targets.push_back(b.add(b.multiply(inner, b.integer(kGroupDepth)), lhs_depth));
    }
    Share rhs{
        .place = problem_.direct->place, .dtype = problem_.rhs_dtype, .along = b.dim(problem_.direct->along)};
    const auto [rhs_depth, rhs_column] = split(kGroupColumns);
    const Reg base = problem_.direct->column(inside(b.add(column, rhs_column), problem_.columns));
    constexpr int kRight = kGroupRows * kGroupDepth;  // behind the left side
    for (int k = 0; k < kGroupDepth; k += LaneGroup::kLanes / kGroupColumns) {
      const Reg inner = b.add(rhs_depth, b.integer(k));
      rhs.bases.push_back(base);
      rhs.depths.push_back(inner);
      rhs.targets.push_back(
          b.add(b.add(b.multiply(inner, b.integer(kGroupColumns)), rhs_column), b.integer(kRight)));
    }
    sums_ = {register_dtype(problem_.dtype), 1};
    b.nest().group_bytes = (kRight + kGroupDepth * kGroupColumns) * bytes_of(sums_.dtype);

    const auto [own_row, own_column] = split(kLaneColumns);
    const Reg left = b.multiply(own_row, b.integer(kGroupDepth)),
              right = b.add(own_column, b.integer(kRight));
    std::vector<Reg> sums(kSums * kSums, b.number(0, sums_));
    sums =
        b.loop(b.integer(0), depth_, b.integer(kGroupDepth), sums, [&](Reg k, std::span<const Reg> carried) {
          bring(lhs, k);
          bring(rhs, k);
          b.barrier();
          auto next =
              b.loop(b.integer(0), b.integer(kGroupDepth), b.integer(1), {carried.begin(), carried.end()},
                     [&](Reg step, std::span<const Reg> before) {
                       return products(b.add(left, step),
                                       b.add(right, b.multiply(step, b.integer(kGroupColumns))), before);
                     });
          b.barrier();
          return next;
        });
    for (int r = 0; r < kSums; ++r) {
      for (int c = 0; c < kSums; ++c) {
        finish_inside(b.add(b.add(row, own_row), b.integer(r * kLaneRows)),
                      b.add(b.add(column, own_column), b.integer(c * kLaneColumns)),
                      sums[static_cast<std::size_t>(r * kSums + c)]);
      }
    }
  }

  // A lane's sums after one step of the contracted axis.
  std::vector<Reg> products(Reg left, Reg right, std::span<const Reg> sums) {
    std::vector<Reg> columns, next;
    for (int c = 0; c < kSums; ++c) columns.push_back(brought(right, c * kLaneColumns));
    for (int r = 0; r < kSums; ++r) {
      const Reg value = brought(left, r * kLaneRows * kGroupDepth);
      for (const Reg column : columns) next.push_back(multiply_add(b, value, column, sums[next.size()]));
    }
    return next;
  }

  // ---- a matrix unit

  Reg piece(const MatrixUnit::Place& place, int number) {
    const Reg along =
        b.add(b.multiply(high_, b.integer(place.from_high)), b.multiply(low_, b.integer(place.from_low)));
    return b.add(along, b.integer(place.at[static_cast<std::size_t>(number)]));
  }

  // The pairs that a lane holds of one side of a tile: where each begins, and how far into the contracted
  // axis.
  struct Side {
    int place = 0;
    Reg along;
    bool pairs_lie_together = false;  // each in one aligned u32
    std::vector<Reg> bases, depths;
  };

  // Two neighbours in k as one u32; `guarded`: 0 from the end of the contracted axis on.
  Reg pair(const Side& side, std::size_t number, Reg k, bool guarded) {
    const Reg depth = b.add(k, side.depths[number]);
    const Reg index = b.add(side.bases[number], b.multiply(depth, side.along));
    if (side.pairs_lie_together && !guarded) {
      return b.load({.place = side.place, .index = b.binary(NestOp::shift_right, index, b.integer(1))},
                    {DType::u32, 1});
    }
    const auto half = [&](int step) {
      const Reg mask = guarded ? b.less(b.add(depth, b.integer(step)), depth_) : Reg::none;
      const Reg at = step == 0 ? index : b.add(index, side.along);
      return b.convert(b.load({.place = side.place, .index = at, .mask = mask}, {DType::u16, 1}), DType::u32);
    };
    return b.binary(NestOp::bit_or, half(0),
                    b.binary(NestOp::shift_left, half(1), b.integer(16, DType::u32)));
  }

  std::vector<Reg> step(Reg k, bool guarded, std::span<const Reg> sums) {
    const auto read = [&](const Side& side) {
      std::vector<Reg> pairs;
      for (std::size_t i = 0; i < side.bases.size(); ++i) pairs.push_back(pair(side, i, k, guarded));
      return pairs;
    };
    const auto lhs = read(lhs_), rhs = read(rhs_);
    const auto part = [](const std::vector<Reg>& all, int which, int size) {
      return std::span(all).subspan(static_cast<std::size_t>(which * size), static_cast<std::size_t>(size));
    };
    std::vector<Reg> next;
    for (int m = 0; m < kUnitRows / unit_->rows; ++m) {
      for (int n = 0; n < kUnitColumns / unit_->columns; ++n) {
        const auto done =
            b.matrix_step(problem_.lhs_dtype, part(lhs, m, unit_->lhs_pairs), part(rhs, n, unit_->rhs_pairs),
                          sums.subspan(next.size(), static_cast<std::size_t>(unit_->sums)));
        next.insert(next.end(), done.begin(), done.end());
      }
    }
    return next;
  }

  // All lanes take the same way to every step: the grid is a multiple of the lanes, and so is a group.
  void on_unit() {
    const MatrixUnit& unit = *unit_;
    const auto at = place_grid({problem_.batches, ceil_div(problem_.rows, kUnitRows),
                                ceil_div(problem_.columns, kUnitColumns), Dim(unit.lanes)});
    const Reg row = b.multiply(at[1], b.integer(kUnitRows)),
              column = b.multiply(at[2], b.integer(kUnitColumns));
    high_ = b.divide(at[3], b.integer(unit.split));
    low_ = b.remainder(at[3], b.integer(unit.split));
    lhs_ = {.place = problem_.lhs_place,
            .along = b.dim(problem_.lhs_along),
            .pairs_lie_together = problem_.lhs_pairs_lie_together};
    rhs_ = {.place = problem_.direct->place,
            .along = b.dim(problem_.direct->along),
            .pairs_lie_together = problem_.direct->pairs_lie_together};
    for (int m = 0; m < kUnitRows; m += unit.rows) {
      for (int i = 0; i < unit.lhs_pairs; ++i) {
        const Reg r = b.add(b.add(row, b.integer(m)), piece(unit.lhs_row, i));
        lhs_.bases.push_back(problem_.lhs_row(inside(r, problem_.rows)));
        lhs_.depths.push_back(piece(unit.lhs_depth, i));
      }
    }
    for (int n = 0; n < kUnitColumns; n += unit.columns) {
      for (int i = 0; i < unit.rhs_pairs; ++i) {
        const Reg c = b.add(b.add(column, b.integer(n)), piece(unit.rhs_column, i));
        rhs_.bases.push_back(problem_.direct->column(inside(c, problem_.columns)));
        rhs_.depths.push_back(piece(unit.rhs_depth, i));
      }
    }
    const int tiles = kUnitRows / unit.rows * (kUnitColumns / unit.columns);
    std::vector<Reg> sums(static_cast<std::size_t>(tiles * unit.sums), b.number(0, {DType::f32, 1}));
    const Reg by = b.integer(unit.depth), whole = b.multiply(b.divide(depth_, by), by);
    sums = b.loop(b.integer(0), whole, by, sums,
                  [&](Reg k, std::span<const Reg> carried) { return step(k, false, carried); });
    sums = b.loop(whole, depth_, by, sums,
                  [&](Reg k, std::span<const Reg> carried) { return step(k, true, carried); });
    std::size_t next = 0;
    for (int m = 0; m < kUnitRows; m += unit.rows) {
      for (int n = 0; n < kUnitColumns; n += unit.columns) {
        for (int i = 0; i < unit.sums; ++i) {
          finish_inside(b.add(b.add(row, b.integer(m)), piece(unit.sum_row, i)),
                        b.add(b.add(column, b.integer(n)), piece(unit.sum_column, i)), sums[next++]);
        }
      }
    }
  }

  NestBuilder& b;
  const TileProblem& problem_;
  const std::function<void(Reg)>& enter_;
  Reg depth_;
  const MatrixUnit* unit_ = nullptr;
  LaneType sums_{};  // of a group
  Reg high_ = Reg::none, low_ = Reg::none;
  Side lhs_{}, rhs_{};
};

}  // namespace

void lower_tiles_simt(NestBuilder& b, const DeviceTraits& traits, const TileProblem& problem,
                      const std::function<void(Reg batch)>& enter) {
  Simt(b, traits, problem, enter).run();
}

}  // namespace diji
