// How large the blocks of a product of matrices are, as expressions of its sizes.
#pragma once

#include "codegen/tile.h"

namespace diji {

// Products of up to this many rows read each element of the right side once, where it lies, in long runs.
inline constexpr int kFewRows = 4;

/// A block of columns is packed in panels that stay in the second-level cache while all rows of a chunk pass
/// by. In local memory: the panels, sums that wait, the packed left side of a row of tiles, scratch for
/// packing. Depths are in steps: four elements where products are of quads, else one.
struct TilePlan {
  TilePlan(const TileProblem& problem, const TileShape& shape);

  Dim depth;                ///< of the whole product
  bool packs_left = false;  ///< rows of the left side are copied to local memory
  std::int64_t left_stride =
      0;  ///< between them: a constant, so that one register points to all rows of a tile
  Dim depth_blocks, depth_block, column_blocks, panels, chunk_rows, chunks, sums_on, panel_elements;
  Dim sums_at, left_at;  ///< elements
  Dim scratch_at;        ///< bytes
  Dim local_bytes;

 private:
  void use_few_rows(const TileProblem& problem, const TileShape& shape, const Dim& all_panels,
                    std::int64_t row_bytes);
};

}  // namespace diji
