// What reductions share: loop axes of which some are folded away, and the loops over them.
#pragma once

#include "codegen/lane_group.h"
#include "codegen/loops.h"

#include <functional>
#include <vector>

namespace diji {

struct FoldLoops {
  enum Group : int { kKept, kFolded };

  FoldLoops(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits, std::string entry);

  bool innermost_kept() const { return !axes.groups.empty() && axes.groups.back() == kKept; }
  /// Sizes of the first `count` kept axes.
  std::vector<Dim> kept_sizes(std::size_t count) const;
  /// Places the grid over the kept axes: `grid` are their sizes, the last one perhaps in chunks.
  void place_grid(const std::vector<Dim>& grid);
  /// Whether a result is worth a group of a SIMT device: neighbours are folded, and more than a few of them.
  bool by_group(const DeviceTraits& traits) const;
  /// Places a group over each result.
  LaneGroup place_groups();
  /// inside(first, mask, lanes) for every vector of results along the innermost kept axis, chunks over the
  /// grid.
  void across_lanes(int lanes, const std::function<void(Reg mask)>& inside);
  /// Loops over the folded axes from `depth` to before `count`, calling `inside` for the innermost.
  std::vector<Reg> fold(std::size_t depth, std::size_t count, std::vector<Reg> carried,
                        const std::function<std::vector<Reg>(std::span<const Reg>)>& inside);
  /// The epilogue of one result (or one vector of them), stored.
  void store_result(Reg value, std::optional<std::size_t> vector_axis, int lanes, Reg mask);

  int vectors_a_chunk;
  ScalarProgram program, epilogue;
  Access output{0, {}};
  LoopAxes axes{};
  std::vector<std::size_t> folded{}, kept{};
  std::vector<Reg> at{};
  LoopNest nest;
  NestBuilder b;
};

}  // namespace diji
