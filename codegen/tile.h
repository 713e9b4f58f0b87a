// Register tiles: the loops around a product of matrices, shared by dot_general and convolution.
#pragma once

#include "codegen/loops.h"

#include <functional>
#include <optional>
#include <vector>

namespace diji {

/// result[row, column] = Σ over k of lhs[row, k] · rhs[k, column], for each of `batches`. The order of every
/// sum is ascending in k, whatever the sizes and tiles, so that bits depend on nothing else.
struct TileProblem {
  Dim batches = 1, rows, columns, depth;
  Dim depth_step = 1;        ///< blocks of the contracted axis are multiples of this, and so is `depth`
  DType dtype = DType::f32;  ///< of the sums
  DType lhs_dtype = DType::f32, rhs_dtype = DType::f32;  ///< in memory: 8-bit integers sum into i32
  int lhs_place = 0;
  Dim lhs_along;                        ///< elements between neighbours in k
  std::function<Reg(Reg row)> lhs_row;  ///< index of lhs[row, 0]
  /// Elements 2k and 2k + 1 along the contracted axis are neighbours, and every row begins at an even one.
  bool lhs_pairs_lie_together = false;
  /// A right side whose columns lie side by side is read where it is.
  struct Direct {
    int place = 1;
    Dim along;                              ///< elements between neighbours in k
    std::function<Reg(Reg column)> column;  ///< index of rhs[0, column]
    bool pairs_lie_together = false;        ///< as of the left side
  };
  std::optional<Direct> direct;
  /// Else, and always as quads, it is packed: writes rows [first, first + count) of the panel that begins at
  /// `column` to local memory, row k (of quads: rows 4k … 4k + 3, and 0 beyond the last one) at
  /// panel + (k - first) · width; what lies beyond the last column is not looked at. `scratch` is the index
  /// of a byte from which on there is one for each byte of the panel, where it is wanted.
  std::function<void(Reg first, Reg count, Reg column, Reg panel, Reg scratch)> pack;
  bool wants_scratch = false;
  /// One vector of sums over k < end once more, with what does not belong to it left out, where packing put 0
  /// in its place and 0 · ∞ made a NaN. None: nothing is ever left out.
  std::function<Reg(Reg row, Reg column, Reg end)> careful;
  /// One sum over all of the contracted axis, for lockstep devices where the right side is not direct.
  std::function<Reg(Reg row, Reg column)> element;
  /// Takes one vector of the result.
  std::function<void(Reg row, Reg column, Reg mask, Reg sums)> finish;
  bool finish_is_short = false;  ///< a few instructions, which may be repeated for each row of a tile
};

/// Loop axes in groups of one meaning, and where the loops stand on them.
enum TileGroup : int { kBatch, kRow, kColumn, kContracted };
struct TileAxes : LoopAxes {
  std::vector<Reg> at;  ///< by axis; none: not placed yet
  Dim extent(int group) const;
  /// The stride along a group that is one axis, or 0 when it has none.
  Dim stride(const Access& access, int group) const;
  void place(NestBuilder& b, int group, Reg index);
  /// Coordinates, 0 where the loops do not stand.
  std::vector<Reg> coordinates(NestBuilder& b) const;
};

/// Sizes of a tile on a kind of device.
struct TileShape {
  int lanes = 1, vectors = 2, rows = 6;
  bool quads = false;  ///< 8-bit sides: four steps of the contracted axis in one lane of 32 bits
  int width() const { return lanes * vectors; }
};
TileShape tile_shape(const DeviceTraits& traits, DType sums, DType lhs, DType rhs);

/// Writes the nest: its grid, its local memory and its loops. `enter` is told the batch first.
void lower_tiles(NestBuilder& b, const DeviceTraits& traits, const TileProblem& problem,
                 const std::function<void(Reg batch)>& enter);
/// The same where grid indices run in lockstep (tile_simt.cpp).
void lower_tiles_simt(NestBuilder& b, const DeviceTraits& traits, const TileProblem& problem,
                      const std::function<void(Reg batch)>& enter);

}  // namespace diji
