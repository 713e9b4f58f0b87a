// Sizes of blocks, panels and chunks, and what lies where in local memory.
#include "codegen/tile_plan.h"

#include "codegen/scalar.h"

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

// A block of columns of few rows is 4 KiB of f32 where that still leaves some blocks.
constexpr std::int64_t kFewRowsColumns = 1024, kFewRowsBlocksWanted = 4;

}  // namespace

TilePlan::TilePlan(const TileProblem& problem, const TileShape& shape) {
  const Dim one(1), width(shape.width());
  const std::int64_t bytes = static_cast<std::int64_t>(bytes_of(register_dtype(problem.dtype)));
  const std::int64_t row_bytes = shape.width() * bytes;
  depth = shape.quads ? ceil_div(problem.depth, 4) : problem.depth;
  const Dim steps = ceil_div(depth, max(problem.depth_step, one));
  depth_blocks = max(min(ceil_div(depth, kDepthMax), steps), one);
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
  // Rows that are read as they lie need no copy: their misses hide behind the multiply-adds (measured: a copy
  // costs 10 %).
  packs_left = shape.quads || (shape.lanes > 1 && register_dtype(problem.lhs_dtype) != problem.lhs_dtype &&
                               problem.lhs_along.is(1));
  // Not a power of two, where all rows would meet in the same sets of the first-level cache.
  left_stride = std::min(depth_block.constant().value_or(kDepthMax), kDepthMax) / 16 * 16 + 2 * 16;
  scratch_at = (left_at + Dim(packs_left ? shape.rows * left_stride : 0)) * Dim(bytes);
  local_bytes = scratch_at + (problem.wants_scratch ? panel_elements * Dim(bytes) : Dim(0));
  if (problem.direct) use_few_rows(problem, shape, all_panels, row_bytes);
}

// Where there are few rows: all of the contracted axis at once, the sums of all columns of a block in local
// memory.
void TilePlan::use_few_rows(const TileProblem& problem, const TileShape& shape, const Dim& all_panels,
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

}  // namespace diji
