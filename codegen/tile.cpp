// Blocking: a block of columns is packed in panels that stay in the second-level cache while all rows of a
// chunk pass by; a tile of the result stays in registers while it runs over the contracted axis.
#include "codegen/tile.h"

namespace diji {
namespace {

// Longest run over the contracted axis (measured: 256 costs 10 %, from 1024 on there is no gain). Longer axes
// are cut in equal blocks and the sums wait in local memory, in the type they are summed in.
constexpr std::int64_t kDepthMax = 1536;

// Packed panels of one block of columns: half of a second-level cache of 1 MiB. Each row of the left side is
// read once for all of them.
constexpr std::int64_t kBlockBytes = 512 * 1024;
constexpr std::int64_t kPanelsMax = 16;

// Grid indices that a product is cut into where it is large enough: work for as many threads.
constexpr std::int64_t kColumnBlocksWanted = 8, kGridWanted = 16;
constexpr std::int64_t kChunkTilesMin = 4, kChunkRowsMax = 2048;

// Steps of the contracted axis in one turn of the innermost loop of whole tiles (measured: 4 % over one).
constexpr int kUnroll = 4;

// Products of two 8-bit integers are at most 255² in size, so sums of 256 of them are exact in f32, whose
// multiply-adds are several times as fast as those of 32-bit integers.
constexpr std::int64_t kExactRun = 256;

// Rows that the right side is read ahead of use, when it is not packed yet.
constexpr std::int64_t kRowsAhead = 12;

// Products of up to this many rows read each element of the right side once, where it lies, in long runs: a
// block of columns is 4 KiB of f32 where that still leaves some blocks.
constexpr int kFewRows = 4;
constexpr std::int64_t kFewRowsColumns = 1024, kFewRowsBlocksWanted = 4;

// Steps of the contracted axis that share one pass over the sums of few rows; the left side's values for them
// stay in registers.
constexpr int kStepsOneRow = 8, kStepsFewRows = 4;

struct TilePlan {
  TilePlan(const TileProblem& problem, const TileShape& shape) {
    const Dim one(1), width(shape.width());
    const std::int64_t row_bytes =
        shape.width() * static_cast<std::int64_t>(bytes_of(register_dtype(problem.dtype)));
    const Dim steps = floor_div(problem.depth, max(problem.depth_step, one));
    depth_blocks = max(min(ceil_div(problem.depth, kDepthMax), steps), one);
    depth_block = ceil_div(steps, depth_blocks) * problem.depth_step;
    const Dim all_panels = ceil_div(problem.columns, width);
    const Dim fit = floor_div(kBlockBytes, max(depth_block * Dim(row_bytes), one));
    const Dim fair = ceil_div(all_panels * problem.batches, kColumnBlocksWanted);
    const Dim panels_max = max(min(min(fit, fair), kPanelsMax), one);
    column_blocks = ceil_div(all_panels, panels_max);
    panels = ceil_div(all_panels, max(column_blocks, one));
    const Dim wanted = max(floor_div(kGridWanted, max(problem.batches * column_blocks, one)), one);
    const Dim chunks_wanted = max(max(min(wanted, ceil_div(problem.rows, shape.rows * kChunkTilesMin)),
                                      ceil_div(problem.rows, kChunkRowsMax)),
                                  one);
    chunk_rows = max(ceil_div(ceil_div(problem.rows, chunks_wanted), shape.rows) * Dim(shape.rows), one);
    chunks = ceil_div(problem.rows, chunk_rows);
    // Sums wait for the next block of the contracted axis only where there is one.
    const bool one_block = depth_blocks.is(1);
    sums_on = one_block ? Dim(0) : select_less(1, depth_blocks, 1, 0);
    panel_elements = depth_block * width;
    sums_at = panels * panel_elements;
    const Dim rows_of_width = panels * depth_block + max(sums_on * panels * chunk_rows, shape.rows);
    left_at = rows_of_width * width;
    local_bytes = rows_of_width * Dim(row_bytes);
    // The left side of a row of tiles, converted once for all panels.
    if (problem.converts_left())
      local_bytes = local_bytes + depth_block * Dim(shape.rows) * Dim(row_bytes / shape.width());
    if (problem.direct) use_few_rows(problem, shape, all_panels, row_bytes);
  }

  // Where there are few rows: all of the contracted axis at once, the sums of all columns of a block in local
  // memory.
  void use_few_rows(const TileProblem& problem, const TileShape& shape, const Dim& all_panels,
                    std::int64_t row_bytes) {
    const Dim one(1), most(std::max<std::int64_t>(kFewRowsColumns / shape.width(), 1));
    const Dim few_max = max(min(ceil_div(all_panels, kFewRowsBlocksWanted), most), one);
    const Dim few_blocks = ceil_div(all_panels, few_max);
    const auto choose = [&](Dim& target, const Dim& few) {
      target = select_less(problem.rows, kFewRows + 1, few, target);
    };
    choose(column_blocks, few_blocks);
    choose(panels, ceil_div(all_panels, max(few_blocks, one)));
    choose(local_bytes, panels * Dim(kFewRows * row_bytes));
  }

  Dim depth_blocks, depth_block, column_blocks, panels, chunk_rows, chunks, sums_on, panel_elements, sums_at,
      left_at, local_bytes;
};

class TileLowering {
 public:
  TileLowering(NestBuilder& builder, const DeviceTraits& traits, const TileProblem& problem)
      : b(builder),
        problem_(problem),
        shape_(tile_shape(traits, problem.dtype)),
        plan_(problem, shape_),
        wide_{register_dtype(problem.dtype), shape_.lanes},
        product_{product_dtype(problem.dtype, problem.lhs_dtype, problem.rhs_dtype), shape_.lanes} {}

  void run(const std::function<void(Reg batch)>& enter) {
    const std::vector<Dim> grid = {problem_.batches, plan_.column_blocks, plan_.chunks};
    b.nest().grid = element_count(grid);
    b.nest().local_bytes = plan_.local_bytes;
    const auto indices = split_index(b, b.grid_index(), grid);
    enter(indices[0]);
    columns_ = b.dim(problem_.columns);
    first_column_ = b.multiply(indices[1], b.dim(plan_.panels * Dim(shape_.width())));
    end_column_ = b.minimum(b.add(first_column_, b.dim(plan_.panels * Dim(shape_.width()))), columns_);
    start_ = b.multiply(indices[2], b.dim(plan_.chunk_rows));
    end_ = b.minimum(b.add(start_, b.dim(plan_.chunk_rows)), b.dim(problem_.rows));
    const auto rows = problem_.rows.constant();
    if (!problem_.direct || (rows && *rows > kFewRows)) return blocks();
    if (rows) return few_rows();
    const Reg few = b.less_equal(b.dim(problem_.rows), b.integer(kFewRows));
    b.when(few, [&] { few_rows(); });
    b.when(b.equal(few, b.integer(0, DType::boolean)), [&] { blocks(); });
  }

 private:
  enum class Source : std::uint8_t { packed, direct_and_pack };

  struct Tile {
    Source source = Source::packed;
    int rows = 1, vectors = 2;
    Reg row = Reg::none, column = Reg::none, panel = Reg::none;  // panel: index of its first element
    std::vector<Reg> masks;
  };

  std::vector<Reg> column_masks(Reg column, int vectors) {
    std::vector<Reg> masks;
    for (int v = 0; v < vectors; ++v)
      masks.push_back(lane_mask(b, b.add(column, b.integer(v * shape_.lanes)), columns_, shape_.lanes));
    return masks;
  }

  // Sums of all columns of the block wait in local memory while a few steps of the contracted axis at a time
  // are added: the right side is read once, in runs as long as the block.
  void few_rows() {
    const auto known = problem_.rows.constant();
    if (known) return few_rows(static_cast<int>(std::max<std::int64_t>(*known, 1)));
    const Reg one = b.less_equal(b.dim(problem_.rows), b.integer(1));
    b.when(one, [&] { few_rows(1); });
    b.when(b.equal(one, b.integer(0, DType::boolean)), [&] { few_rows(kFewRows); });
  }

  void few_rows(int rows) {
    first_depth_ = b.integer(0);
    row_bases(rows, start_);
    for_each_vector([&](Reg column, Reg) {
      for (int r = 0; r < rows; ++r) b.store(few_address(r, column), b.number(0, wide_));
    });
    const Reg depth = b.dim(problem_.depth);
    const int steps = rows == 1 ? kStepsOneRow : kStepsFewRows;
    const Reg by = b.integer(steps), whole = b.multiply(b.divide(depth, by), by);
    b.for_each(b.integer(0), whole, by, [&](Reg k) { add_steps(rows, k, steps); });
    b.for_each(whole, depth, b.integer(1), [&](Reg k) { add_steps(rows, k, 1); });
    b.for_each(b.integer(0), b.subtract(end_, start_), b.integer(1), [&](Reg r) {
      const Reg before = b.multiply(r, b.dim(plan_.panels * Dim(shape_.width())));
      for_each_vector([&](Reg column, Reg mask) {
        auto address = few_address(0, column);
        address.index = b.add(address.index, before);
        problem_.finish(b.add(start_, r), column, mask, b.load(address, wide_));
      });
    });
  }

  void for_each_vector(const std::function<void(Reg column, Reg mask)>& body) {
    vector_loop(b, first_column_, end_column_, shape_.lanes, {},
                [&](Reg column, Reg mask, std::span<const Reg>) -> std::vector<Reg> {
                  body(column, mask);
                  return {};
                });
  }

  NestBuilder::Address few_address(int r, Reg column) {
    const Reg before = b.multiply(b.integer(r), b.dim(plan_.panels * Dim(shape_.width())));
    return {
        .space = Space::local, .index = b.add(before, b.subtract(column, first_column_)), .aligned = true};
  }

  void add_steps(int rows, Reg k, int steps) {
    std::vector<Reg> left;
    for (int r = 0; r < rows; ++r) {
      for (int u = 0; u < steps; ++u) left.push_back(left_value(r, b.add(k, b.integer(u)), wide_.dtype));
    }
    const Reg along = b.dim(problem_.direct->along);
    for_each_vector([&](Reg column, Reg mask) {
      const Reg base = b.add(problem_.direct->column(column), b.multiply(k, along));
      std::vector<Reg> right;
      for (int u = 0; u < steps; ++u) {
        const Reg index = b.add(base, b.multiply(b.integer(u), along));
        right.push_back(
            right_value({.place = problem_.direct->place, .index = index, .mask = mask}, wide_.dtype));
      }
      for (int r = 0; r < rows; ++r) {
        Reg sum = b.load(few_address(r, column), wide_);
        for (int u = 0; u < steps; ++u)
          sum = multiply_add(b, left[static_cast<std::size_t>(r * steps + u)],
                             right[static_cast<std::size_t>(u)], sum);
        b.store(few_address(r, column), sum);
      }
    });
  }

  // lhs[row of the tile, k] in all lanes.
  Reg left_value(int r, Reg k, DType dtype) {
    if (problem_.converts_left() && dtype == product_.dtype) {
      const Reg at = b.add(left_row(r), k);
      return b.splat(b.load({.space = Space::local, .index = at}, {dtype, 1}), shape_.lanes);
    }
    const Reg index = b.add(bases_[static_cast<std::size_t>(r)], b.multiply(k, b.dim(problem_.lhs_along)));
    const Reg one = load_element(b, {.place = problem_.lhs_place, .index = index}, problem_.lhs_dtype, 1);
    return b.splat(b.convert(one, dtype), shape_.lanes);
  }

  Reg left_row(int r) {
    return b.add(b.dim(plan_.left_at), b.multiply(b.integer(r), b.dim(plan_.depth_block)));
  }

  // The rows of a tile over the block of the contracted axis, in what products are formed in.
  void convert_left(int rows) {
    const Reg along = b.dim(problem_.lhs_along);
    for (int r = 0; r < rows; ++r) {
      vector_loop(b, b.integer(0), depth_, shape_.lanes, {},
                  [&](Reg k, Reg mask, std::span<const Reg>) -> std::vector<Reg> {
                    const Reg index = b.add(bases_[static_cast<std::size_t>(r)], b.multiply(k, along));
                    const Reg value = load_element(
                        b, {.place = problem_.lhs_place, .index = index, .stride = along, .mask = mask},
                        problem_.lhs_dtype, shape_.lanes);
                    b.store({.space = Space::local, .index = b.add(left_row(r), k), .mask = mask},
                            b.convert(value, product_.dtype));
                    return {};
                  });
    }
  }

  Reg right_value(const NestBuilder::Address& address, DType dtype) {
    return b.convert(load_element(b, address, problem_.rhs_dtype, shape_.lanes), dtype);
  }

  bool one_depth_block() const { return plan_.depth_blocks.is(1); }

  void blocks() {
    if (one_depth_block()) {
      first_depth_ = b.integer(0);
      depth_ = b.dim(problem_.depth);
      return block();
    }
    const Reg count = b.dim(plan_.depth_blocks), size = b.dim(plan_.depth_block);
    b.for_each(b.integer(0), count, b.integer(1), [&](Reg index) {
      first_depth_ = b.multiply(index, size);
      depth_ = b.minimum(size, b.subtract(b.dim(problem_.depth), first_depth_));
      continued_ = b.less(b.integer(0), index);
      is_last_ = b.equal(b.add(index, b.integer(1)), count);
      block();
    });
  }

  void for_each_panel(const std::function<void(Reg column, Reg panel, Reg number)>& body) {
    const Reg width = b.integer(shape_.width()), size = b.dim(plan_.panel_elements);
    b.for_each(first_column_, end_column_, width, [&](Reg column) {
      const Reg number = b.divide(b.subtract(column, first_column_), width);
      body(column, b.multiply(number, size), number);
    });
  }

  // All rows of the chunk over one block of the contracted axis.
  void block() {
    Reg start = start_;
    if (problem_.direct) {
      // The first tile packs as it computes: reading far-apart rows hides behind its multiply-adds.
      row_tile(Source::direct_and_pack, shape_.rows, start_);
      start = b.add(start_, b.integer(shape_.rows));
    } else {
      for_each_panel([&](Reg column, Reg panel, Reg) { problem_.pack(first_depth_, depth_, column, panel); });
    }
    // Whole tiles, and a tail in the smallest tile that holds it; rows beyond the end repeat the last one and
    // are not stored.
    const Reg zero = b.integer(0);
    for (int rows = shape_.rows; rows > 0; rows -= kFewRows) {
      const Reg step = b.integer(rows);
      const Reg left = b.maximum(b.subtract(end_, start), zero);
      const bool last = rows <= kFewRows;
      const Reg count = b.divide(b.add(left, b.integer(last ? rows - 1 : kFewRows - 1)), step);
      const Reg stop = b.add(start, b.multiply(count, step));
      b.for_each(start, stop, step, [&](Reg row) { row_tile(Source::packed, rows, row); });
      start = stop;
    }
  }

  // One row of tiles: the panels of the block.
  void row_tile(Source source, int rows, Reg row) {
    row_bases(rows, row);
    if (problem_.converts_left()) convert_left(rows);
    for_each_panel([&](Reg column, Reg panel, Reg number) {
      Tile tile{.source = source,
                .rows = rows,
                .vectors = shape_.vectors,
                .row = row,
                .column = column,
                .panel = panel,
                .masks = column_masks(column, shape_.vectors)};
      const Reg sums_at = sums_index(row, number);
      std::vector<Reg> sums =
          multiply(tile, one_depth_block() ? zero_sums(tile) : waiting_sums(tile, sums_at));
      if (one_depth_block() && problem_.finish_is_short && !problem_.careful) {
        for (int r = 0; r < rows; ++r) finish_if_inside(tile, r, sums);
        return;
      }
      keep_sums(tile, sums, sums_at);
      if (one_depth_block()) return finish_rows(tile, sums_at);
      b.when(is_last_, [&] { finish_rows(tile, sums_at); });
    });
  }

  static std::size_t at(const Tile& tile, int r, int v) {
    return static_cast<std::size_t>(r * tile.vectors + v);
  }
  std::vector<Reg> zero_sums(const Tile& tile) {
    return std::vector<Reg>(static_cast<std::size_t>(tile.rows * tile.vectors), b.number(0, wide_));
  }

  // Where the sums of a tile wait: always the same place, unless the contracted axis has several blocks.
  Reg sums_index(Reg row, Reg panel) {
    const Reg base = b.dim(plan_.sums_at), width = b.integer(shape_.width());
    if (one_depth_block()) return base;
    const Reg before = b.add(b.multiply(panel, b.dim(plan_.sums_on * plan_.chunk_rows)),
                             b.multiply(b.subtract(row, start_), b.dim(plan_.sums_on)));
    return b.add(base, b.multiply(before, width));
  }
  NestBuilder::Address sums_address(Reg base, int r, int v) {
    return {.space = Space::local,
            .index = b.add(base, b.integer(r * shape_.width() + v * shape_.lanes)),
            .aligned = true};
  }
  std::vector<Reg> waiting_sums(const Tile& tile, Reg sums_at) {
    std::vector<Reg> sums;
    for (int r = 0; r < tile.rows; ++r) {
      for (int v = 0; v < tile.vectors; ++v) sums.push_back(waiting(sums_address(sums_at, r, v)));
    }
    return sums;
  }
  // Lanes that are off read 0: the first block starts from there.
  Reg waiting(NestBuilder::Address address) {
    address.mask = b.splat(continued_, shape_.lanes);
    const Reg loaded = b.load(address, wide_);
    return shape_.lanes > 1 ? loaded : b.select(address.mask, loaded, b.number(0, wide_));
  }

  // Sums to local memory; those of a tile with a NaN are summed again with care, from the start.
  void keep_sums(const Tile& tile, const std::vector<Reg>& sums, Reg sums_at) {
    for (int r = 0; r < tile.rows; ++r) {
      for (int v = 0; v < tile.vectors; ++v) b.store(sums_address(sums_at, r, v), sums[at(tile, r, v)]);
    }
    if (!problem_.careful) return;
    std::vector<Reg> total = sums;
    for (; total.size() > 1; total.resize((total.size() + 1) / 2)) {
      for (std::size_t i = 0, half = (total.size() + 1) / 2; half + i < total.size(); ++i)
        total[i] = b.binary(NestOp::add, total[i], total[half + i]);
    }
    const Reg is_number = b.equal(total[0], total[0]);
    const Reg odd = b.any(b.equal(is_number, b.integer(0, DType::boolean, shape_.lanes)));
    b.when_rare(odd, [&] { sum_again(tile, sums_at); });
  }

  void sum_again(const Tile& tile, Reg sums_at) {
    const Reg count = b.minimum(b.integer(tile.rows), b.subtract(end_, tile.row));
    const Reg end = b.add(first_depth_, depth_);
    b.for_each(b.integer(0), count, b.integer(1), [&](Reg r) {
      const Reg index = b.add(sums_at, b.multiply(r, b.integer(shape_.width())));
      for (int v = 0; v < tile.vectors; ++v) {
        const Reg column = b.add(tile.column, b.integer(v * shape_.lanes));
        b.store(sums_address(index, 0, v), problem_.careful(b.add(tile.row, r), column, end));
      }
    });
  }

  void finish_rows(const Tile& tile, Reg sums_at) {
    const Reg count = b.minimum(b.integer(tile.rows), b.subtract(end_, tile.row));
    b.for_each(b.integer(0), count, b.integer(1), [&](Reg r) {
      const Reg index = b.add(sums_at, b.multiply(r, b.integer(shape_.width())));
      for (int v = 0; v < tile.vectors; ++v)
        finish(tile, b.add(tile.row, r), v, b.load(sums_address(index, 0, v), wide_));
    });
  }
  void finish(const Tile& tile, Reg row, int v, Reg sums) {
    problem_.finish(row, b.add(tile.column, b.integer(v * shape_.lanes)),
                    tile.masks[static_cast<std::size_t>(v)], sums);
  }
  void finish_if_inside(const Tile& tile, int r, const std::vector<Reg>& sums) {
    const Reg row = b.add(tile.row, b.integer(r));
    const auto store = [&] {
      for (int v = 0; v < tile.vectors; ++v) finish(tile, row, v, sums[at(tile, r, v)]);
    };
    if (r == 0) return store();
    b.when(b.less(row, end_), store);
  }

  void row_bases(int rows, Reg row) {
    const Reg last = b.subtract(end_, b.integer(1));
    const Reg shift = b.multiply(first_depth_, b.dim(problem_.lhs_along));
    bases_.clear();
    for (int r = 0; r < rows; ++r) {
      const Reg inside = r == 0 ? row : b.minimum(b.add(row, b.integer(r)), last);
      bases_.push_back(b.add(problem_.lhs_row(inside), shift));
    }
  }

  // The sums of a tile over the current block of the contracted axis.
  std::vector<Reg> multiply(const Tile& tile, std::vector<Reg> sums) {
    const Reg zero = b.integer(0);
    if (product_ == wide_) return multiply(tile, zero, depth_, std::move(sums));
    // Exact sums of short runs, gathered in the wider integer.
    const Reg run = b.integer(kExactRun);
    return b.loop(zero, depth_, run, std::move(sums), [&](Reg begin, std::span<const Reg> carried) {
      const std::vector<Reg> none(carried.size(), b.number(0, product_));
      const std::vector<Reg> partial = multiply(tile, begin, b.minimum(b.add(begin, run), depth_), none);
      std::vector<Reg> next;
      for (std::size_t i = 0; i < carried.size(); ++i)
        next.push_back(b.add(carried[i], b.convert(partial[i], wide_.dtype)));
      return next;
    });
  }

  // The same over steps begin ≤ k < end.
  std::vector<Reg> multiply(const Tile& tile, Reg begin, Reg end, std::vector<Reg> sums) {
    const bool direct = tile.source == Source::direct_and_pack;
    Reg rhs_base = Reg::none, rhs_along = Reg::none;
    if (direct) {
      rhs_along = b.dim(problem_.direct->along);
      rhs_base = b.add(problem_.direct->column(tile.column), b.multiply(first_depth_, rhs_along));
    }
    const auto step = [&](Reg k, std::span<const Reg> carried) {
      std::vector<Reg> rhs, next(carried.begin(), carried.end());
      for (int v = 0; v < tile.vectors; ++v) {
        const Reg shift = b.integer(v * shape_.lanes);
        rhs.push_back(direct ? from_memory(tile, v, b.add(b.add(rhs_base, b.multiply(k, rhs_along)), shift))
                             : b.load(panel_address(tile, k, v), product_));
        if (direct) b.store(panel_address(tile, k, v), rhs.back());
      }
      for (int r = 0; r < tile.rows; ++r) {
        const Reg left = left_value(r, k, product_.dtype);
        for (int v = 0; v < tile.vectors; ++v) {
          Reg& sum = next[at(tile, r, v)];
          sum = multiply_add(b, left, rhs[static_cast<std::size_t>(v)], sum);
        }
      }
      return next;
    };
    Reg whole = begin;
    if (tile.rows == shape_.rows && !direct) {
      const Reg by = b.integer(kUnroll);
      whole = b.add(begin, b.multiply(b.divide(b.subtract(end, begin), by), by));
      sums = b.loop(begin, whole, by, std::move(sums), [&](Reg k, std::span<const Reg> carried) {
        std::vector<Reg> next(carried.begin(), carried.end());
        for (int u = 0; u < kUnroll; ++u) next = step(b.add(k, b.integer(u)), next);
        return next;
      });
    }
    return b.loop(whole, end, b.integer(1), std::move(sums), step);
  }

  NestBuilder::Address panel_address(const Tile& tile, Reg k, int v) {
    const Reg row = b.add(tile.panel, b.multiply(k, b.integer(shape_.width())));
    return {.space = Space::local, .index = b.add(row, b.integer(v * shape_.lanes)), .aligned = true};
  }
  Reg from_memory(const Tile& tile, int v, Reg index) {
    const int place = problem_.direct->place;
    const Reg ahead = b.multiply(b.integer(kRowsAhead), b.dim(problem_.direct->along));
    b.prefetch({.place = place, .index = b.add(index, ahead)}, problem_.rhs_dtype);
    const Reg mask = tile.masks[static_cast<std::size_t>(v)];
    return right_value({.place = place, .index = index, .mask = mask}, product_.dtype);
  }

  NestBuilder& b;
  const TileProblem& problem_;
  TileShape shape_;
  TilePlan plan_;
  LaneType wide_, product_;
  Reg columns_ = Reg::none, first_column_ = Reg::none, end_column_ = Reg::none, start_ = Reg::none,
      end_ = Reg::none;
  // Of the current block of the contracted axis.
  Reg first_depth_ = Reg::none, depth_ = Reg::none, continued_ = Reg::none, is_last_ = Reg::none;
  std::vector<Reg> bases_;
};

}  // namespace

Dim TileAxes::extent(int group) const {
  Dim product = 1;
  for (const std::size_t axis : of_group(group)) product = product * sizes[axis];
  return product;
}

Dim TileAxes::stride(const Access& access, int group) const {
  const auto axes = of_group(group);
  return axes.empty() ? Dim(0) : access.strides[axes[0]];
}

void TileAxes::place(NestBuilder& b, int group, Reg index) {
  const auto axes = of_group(group);
  std::vector<Dim> group_sizes;
  for (const std::size_t axis : axes) group_sizes.push_back(sizes[axis]);
  const auto split = split_index(b, index, group_sizes);
  at.resize(sizes.size(), Reg::none);
  for (std::size_t i = 0; i < axes.size(); ++i) at[axes[i]] = split[i];
}

std::vector<Reg> TileAxes::coordinates(NestBuilder& b) const {
  std::vector<Reg> result = at;
  result.resize(sizes.size(), Reg::none);
  for (Reg& reg : result) {
    if (reg == Reg::none) reg = b.integer(0);
  }
  return result;
}

// Two vectors a row and R rows need 2R accumulators, 2 registers for the right side and 1 for the left: R =
// 12 fills 27 of 32 registers, R = 6 fills 15 of 16.
DType product_dtype(DType sums, DType lhs, DType rhs) {
  const bool bytes = bytes_of(lhs) == 1 && bytes_of(rhs) == 1 && sums == DType::i32;
  return bytes ? DType::f32 : register_dtype(sums);
}

bool TileProblem::converts_left() const {
  return product_dtype(dtype, lhs_dtype, rhs_dtype) != register_dtype(dtype);
}

TileShape tile_shape(const DeviceTraits& traits, DType dtype) {
  const int lanes = lanes_for(traits, dtype);
  // One lane cannot be masked off, so a panel is one column then.
  return {.lanes = lanes, .vectors = lanes > 1 ? 2 : 1, .rows = traits.vector_registers >= 32 ? 12 : 6};
}

void lower_tiles(NestBuilder& b, const DeviceTraits& traits, const TileProblem& problem,
                 const std::function<void(Reg batch)>& enter) {
  TileLowering(b, traits, problem).run(enter);
}

}  // namespace diji
