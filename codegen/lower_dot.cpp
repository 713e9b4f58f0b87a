// Matrix products: a panel of the right side is packed into local memory, register tiles of the result run
// over the whole contracted axis. The order of every sum is ascending in k whatever the sizes, so bits depend
// on nothing else.
#include "codegen/loops.h"

#include <algorithm>

namespace diji {
namespace {

enum Group : int { kBatch, kRow, kColumn, kContracted };

// Vectors of a tile's row. Two vectors a row and R rows need 2R accumulators, 2 registers for the panel and 1
// for the left side: R = 12 fills 27 of 32 registers, R = 6 fills 15 of 16.
constexpr int kVectors = 2;
int tile_rows(const DeviceTraits& traits) { return traits.vector_registers >= 32 ? 12 : 6; }

// A tail of up to 11 rows in tiles of 4: 8 accumulators are what two units with a latency of 4 cycles need.
constexpr int kTailRows = 4;

// Rows that share one packed panel: packing moves K · width elements once per chunk, so 40 tiles make it
// 1/480 of the multiply-adds on 12-row tiles. (Fewer rows that stay in the second-level cache were measured
// and lost: a panel's rows lie far apart, so packing is what costs.)
constexpr int kTilesPerChunk = 40;

struct DotLowering {
  DotLowering(const Graph& body, const KernelBody& kernel, const DeviceTraits& device, std::string entry)
      : traits(device), epilogue(kernel.epilogue), nest(new_nest(body, std::move(entry))), b(nest) {
    const Node& dot = *kernel.root_node;
    const auto position = [&](std::size_t i) {
      return static_cast<int>(std::ranges::find(body.inputs(), dot.inputs[i], &Port::value) -
                              body.inputs().begin());
    };
    lhs_place = position(0);
    rhs_place = position(1);
    dtype = body.type(dot.inputs[0]).dtype;
    set_axes(body.type(dot.inputs[0]).shape, body.type(dot.inputs[1]).shape, dot_dims(dot.attributes));
    lanes = lanes_for(traits, dtype);
    width = kVectors * lanes;
    rows_max = tile_rows(traits);
  }

  // Axes in the order batch, rows, columns, contracted, with how each side walks them.
  void set_axes(const Shape& a, const Shape& c, const DotDims& dims) {
    const auto a_strides = strides_of(a), c_strides = strides_of(c);
    const auto add = [&](Group group, std::int64_t left, std::int64_t right) {
      const auto pick = [](const std::vector<Dim>& values, std::int64_t axis) {
        return axis < 0 ? Dim(0) : values[static_cast<std::size_t>(axis)];
      };
      axes.sizes.push_back(left < 0 ? c[static_cast<std::size_t>(right)] : a[static_cast<std::size_t>(left)]);
      axes.groups.push_back(group);
      lhs.strides.push_back(pick(a_strides, left));
      rhs.strides.push_back(pick(c_strides, right));
    };
    for (std::size_t i = 0; i < dims.lhs_batch.size(); ++i) add(kBatch, dims.lhs_batch[i], dims.rhs_batch[i]);
    for (const std::int64_t axis : dims.lhs_free(std::ssize(a))) add(kRow, axis, -1);
    for (const std::int64_t axis : dims.rhs_free(std::ssize(c))) add(kColumn, -1, axis);
    output.strides = strides_of(axes.sizes);
    for (std::size_t i = 0; i < dims.lhs_contracting.size(); ++i)
      add(kContracted, dims.lhs_contracting[i], dims.rhs_contracting[i]);
    collect_accesses(epilogue, axes.accesses);
    axes.accesses.push_back(&output);
    for (Access* access : axes.accesses) access->strides.resize(axes.sizes.size(), Dim(0));
    axes.accesses.push_back(&lhs);
    axes.accesses.push_back(&rhs);
    axes.collapse();
    at.assign(axes.sizes.size(), Reg::none);
  }

  Dim extent(int group) const {
    Dim product = 1;
    for (const std::size_t axis : axes.of_group(group)) product = product * axes.sizes[axis];
    return product;
  }
  std::vector<Dim> sizes_of(int group) const {
    std::vector<Dim> sizes;
    for (const std::size_t axis : axes.of_group(group)) sizes.push_back(axes.sizes[axis]);
    return sizes;
  }
  void place(int group, Reg index) {
    const auto group_axes = axes.of_group(group);
    const auto coordinates = split_index(b, index, sizes_of(group));
    for (std::size_t i = 0; i < group_axes.size(); ++i) at[group_axes[i]] = coordinates[i];
  }
  // The stride along a group that is one axis, or 0 when it has none.
  Dim stride(const Access& access, int group) const {
    const auto group_axes = axes.of_group(group);
    return group_axes.empty() ? Dim(0) : access.strides[group_axes[0]];
  }

  std::vector<Reg> column_masks(Reg column, Reg columns) {
    std::vector<Reg> masks;
    for (int v = 0; v < kVectors; ++v)
      masks.push_back(lane_mask(b, b.add(column, b.integer(v * lanes)), columns, lanes));
    return masks;
  }

  // local[k · width + j] = rhs[k, column + j], zero beyond the last column.
  void pack_panel(Reg depth, Reg column, const std::vector<Reg>& masks) {
    place(kColumn, column);
    const Reg base = element_index(b, rhs, with_zero(kContracted));
    const Reg across = b.dim(stride(rhs, kColumn)), along = b.dim(stride(rhs, kContracted));
    const bool contiguous = stride(rhs, kColumn).is(1);
    b.loop(b.integer(0), depth, b.integer(1), {}, [&](Reg k, std::span<const Reg>) -> std::vector<Reg> {
      const Reg row = b.add(base, b.multiply(k, along));
      for (int v = 0; v < kVectors; ++v) {
        const Reg index = b.add(row, b.multiply(b.integer(v * lanes), across));
        NestBuilder::Address from{
            .place = rhs_place, .index = index, .mask = masks[static_cast<std::size_t>(v)]};
        if (!contiguous) from.stride = across;
        b.store(panel_address(k, v), load_element(b, from, dtype, lanes));
      }
      return {};
    });
  }

  NestBuilder::Address panel_address(Reg k, int v) {
    return {.space = Space::local,
            .index = b.add(b.multiply(k, b.integer(width)), b.integer(v * lanes)),
            .aligned = true};
  }

  std::vector<Reg> with_zero(int group) {
    std::vector<Reg> result = at;
    for (const std::size_t axis : axes.of_group(group)) result[axis] = b.integer(0);
    for (Reg& reg : result) {
      if (reg == Reg::none) reg = b.integer(0);
    }
    return result;
  }

  // `rows` rows of the result from `row` on, over the packed panel.
  void tile(Reg row, int rows, Reg depth, Reg column, const std::vector<Reg>& masks) {
    std::vector<Reg> bases;
    for (int r = 0; r < rows; ++r) {
      place(kRow, b.add(row, b.integer(r)));
      bases.push_back(element_index(b, lhs, with_zero(kContracted)));
    }
    const Reg along = b.dim(stride(lhs, kContracted));
    const Reg zero = b.number(0, {register_dtype(dtype), lanes});
    std::vector<Reg> sums(static_cast<std::size_t>(rows * kVectors), zero);
    sums = b.loop(b.integer(0), depth, b.integer(1), sums, [&](Reg k, std::span<const Reg> carried) {
      std::vector<Reg> panel, next(carried.begin(), carried.end());
      for (int v = 0; v < kVectors; ++v)
        panel.push_back(b.load(panel_address(k, v), {register_dtype(dtype), lanes}));
      const Reg offset = b.multiply(k, along);
      for (int r = 0; r < rows; ++r) {
        const Reg left = load_element(
            b, {.place = lhs_place, .index = b.add(bases[static_cast<std::size_t>(r)], offset)}, dtype, 1);
        const Reg wide = b.splat(left, lanes);
        for (int v = 0; v < kVectors; ++v) {
          Reg& sum = next[static_cast<std::size_t>(r * kVectors + v)];
          sum = multiply_add(b, wide, panel[static_cast<std::size_t>(v)], sum);
        }
      }
      return next;
    });
    for (int r = 0; r < rows; ++r)
      finish_row(b.add(row, b.integer(r)),
                 std::span(sums).subspan(static_cast<std::size_t>(r * kVectors), kVectors), column, masks);
  }

  void finish_row(Reg row, std::span<const Reg> sums, Reg column, const std::vector<Reg>& masks) {
    const int out = static_cast<int>(nest.places.size()) - 1;
    const auto columns = axes.of_group(kColumn);
    const auto vector_axis = columns.empty() ? std::nullopt : std::optional(columns[0]);
    place(kRow, row);
    for (int v = 0; v < kVectors; ++v) {
      place(kColumn, b.add(column, b.integer(v * lanes)));
      const std::vector<Reg> where = with_zero(kContracted);
      const Reg mask = masks[static_cast<std::size_t>(v)];
      const Reg value =
          evaluate(b, epilogue, {where, vector_axis, lanes, mask}, sums[static_cast<std::size_t>(v)]);
      store_element(b, {.place = out, .index = element_index(b, output, where), .mask = mask}, value);
    }
  }

  // Tiles of all sizes that fit: full ones, then smaller ones, so that few rows are left to run with two
  // accumulators.
  void rows(Reg start, Reg end, Reg depth, Reg column, const std::vector<Reg>& masks) {
    for (const int size : {rows_max, kTailRows, 1}) {
      const Reg step = b.integer(size);
      const Reg stop = b.add(start, b.multiply(b.divide(b.subtract(end, start), step), step));
      b.loop(start, stop, step, {}, [&](Reg row, std::span<const Reg>) -> std::vector<Reg> {
        tile(row, size, depth, column, masks);
        return {};
      });
      start = stop;
    }
  }

  void run() {
    // Chunks of about equal size, in whole tiles: a short last chunk would pack its panel for nothing.
    const Dim all_rows = extent(kRow);
    const Dim chunks = max(ceil_div(all_rows, rows_max * kTilesPerChunk), 1);
    const Dim row_chunk = ceil_div(ceil_div(all_rows, chunks), rows_max) * Dim(rows_max);
    const std::vector<Dim> grid = {extent(kBatch), ceil_div(extent(kColumn), width), chunks};
    nest.grid = element_count(grid);
    nest.local_bytes = extent(kContracted) * Dim(width * bytes_of(register_dtype(dtype)));
    const auto indices = split_index(b, b.grid_index(), grid);
    place(kBatch, indices[0]);
    const Reg column = b.multiply(indices[1], b.integer(width));
    const Reg start = b.multiply(indices[2], b.dim(row_chunk));
    const Reg end = b.minimum(b.add(start, b.dim(row_chunk)), b.dim(all_rows));
    const Reg depth = b.dim(extent(kContracted));
    const auto masks = column_masks(column, b.dim(extent(kColumn)));
    pack_panel(depth, column, masks);
    rows(start, end, depth, column, masks);
  }

  const DeviceTraits& traits;
  ScalarProgram epilogue;
  DType dtype = DType::f32;
  int lhs_place = 0, rhs_place = 1, lanes = 1, width = 1, rows_max = 1;
  Access lhs{0, {}}, rhs{0, {}}, output{0, {}};
  LoopAxes axes{};
  std::vector<Reg> at{};
  LoopNest nest;
  NestBuilder b;
};

}  // namespace

Result<Kernel> lower_dot(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                         std::string entry) {
  DotLowering lowering(body, kernel, traits, std::move(entry));
  lowering.run();
  return finish(std::move(lowering.nest), traits);
}

}  // namespace diji
