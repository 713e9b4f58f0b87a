// Matrix products: how the two sides of a dot_general are walked; the loops are those of register tiles.
#include "codegen/quads.h"
#include "codegen/tile.h"

#include <algorithm>

namespace diji {
namespace {

struct DotLowering {
  DotLowering(const Graph& body, const KernelBody& kernel, const DeviceTraits& device, std::string entry)
      : traits(device), epilogue(kernel.epilogue), nest(new_nest(body, std::move(entry))), b(nest) {
    const Node& dot = *kernel.root_node;
    lhs_place = place_of(body, dot.inputs[0]);
    rhs_place = place_of(body, dot.inputs[1]);
    dtype = body.type(dot.outputs[0]).dtype;
    lhs_dtype = body.type(dot.inputs[0]).dtype;
    rhs_dtype = body.type(dot.inputs[1]).dtype;
    set_axes(body.type(dot.inputs[0]).shape, body.type(dot.inputs[1]).shape, dot_dims(dot.attributes));
    shape = tile_shape(traits, dtype, lhs_dtype, rhs_dtype);
  }

  // Axes in the order batch, rows, columns, contracted, with how each side walks them.
  void set_axes(const Shape& a, const Shape& c, const DotDims& dims) {
    const auto a_strides = strides_of(a), c_strides = strides_of(c);
    const auto add = [&](TileGroup group, std::int64_t left, std::int64_t right) {
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
  }

  // panel[(k - first) · width + j] = rhs[k, column + j]; columns beyond the last one repeat it or are 0.
  void pack(Reg first, Reg count, Reg column, Reg panel) {
    axes.place(b, kColumn, b.integer(0));
    const Reg along = b.dim(axes.stride(rhs, kContracted)), across = b.dim(axes.stride(rhs, kColumn));
    const Reg base = b.add(element_index(b, rhs, axes.coordinates(b)), b.multiply(first, along));
    const Reg done = axes.stride(rhs, kContracted).is(1) && shape.lanes > 1
                         ? pack_transposed(base, count, column, panel)
                         : b.integer(0);
    const auto from = [&](Reg k, Reg at, int lanes) {
      const Reg index = b.add(b.add(base, b.multiply(k, along)), b.multiply(at, across));
      NestBuilder::Address address{
          .place = rhs_place, .index = index, .mask = lane_mask(b, at, b.dim(axes.extent(kColumn)), lanes)};
      if (!axes.stride(rhs, kColumn).is(1)) address.stride = across;
      return address;
    };
    if (shape.quads) {
      const Reg rows = b.multiply(done, b.integer(4));
      pack_quads(b,
                 {.dtype = rhs_dtype,
                  .count = b.subtract(count, rows),
                  .place = [&](Reg k) { return from(b.add(rows, k), column, shape.width()); }},
                 shape.width(), panel_row(panel, done));
      return;
    }
    for (int v = 0; v < shape.vectors; ++v) {
      const Reg at = b.add(column, b.integer(v * shape.lanes));
      const Reg to = b.add(panel, b.integer(v * shape.lanes));
      b.for_each(done, count, b.integer(1), [&](Reg k) {
        const Reg value = load_element(b, from(k, at, shape.lanes), rhs_dtype, shape.lanes);
        b.store(panel_address(to, k), b.convert(value, register_dtype(dtype)));
      });
    }
  }

  Reg panel_row(Reg panel, Reg k) { return b.add(panel, b.multiply(k, b.integer(shape.width()))); }
  NestBuilder::Address panel_address(Reg panel, Reg k) {
    return {.space = Space::local, .index = panel_row(panel, k), .aligned = true};
  }

  // Index of rhs[first k, column] for each lane's column.
  std::vector<Reg> column_bases(Reg base, Reg column) {
    const Reg last = b.subtract(b.dim(axes.extent(kColumn)), b.integer(1));
    std::vector<Reg> bases;
    for (int lane = 0; lane < shape.lanes; ++lane) {
      const Reg inside = b.minimum(b.add(column, b.integer(lane)), last);
      bases.push_back(b.add(base, b.multiply(inside, b.dim(axes.stride(rhs, kColumn)))));
    }
    return bases;
  }

  // Whole vectors along the contracted axis, which neighbours in memory lie on. Returns how many rows of the
  // panel are done.
  Reg pack_transposed(Reg base, Reg count, Reg column, Reg panel) {
    const Reg lanes = b.integer(shape.lanes);
    const Reg steps = shape.quads ? b.divide(count, b.integer(4)) : count;
    const Reg done = b.multiply(b.divide(steps, lanes), lanes);
    for (int v = 0; v < shape.vectors; ++v) {
      const Reg to = b.add(panel, b.integer(v * shape.lanes));
      const auto columns = column_bases(base, b.add(column, b.integer(v * shape.lanes)));
      b.for_each(b.integer(0), done, lanes, [&](Reg k) { pack_block(columns, k, to); });
    }
    return done;
  }

  // As many steps of the contracted axis as there are lanes: read along it, transposed in registers. Zipping
  // the first half of the rows with the second moves one bit of the row's number into the lane's, so
  // log2(lanes) rounds exchange them.
  void pack_block(const std::vector<Reg>& columns, Reg k, Reg to) {
    std::vector<Reg> rows;
    for (const Reg column : columns) rows.push_back(along_column(column, k));
    const auto half = static_cast<std::size_t>(shape.lanes / 2);
    for (int round = 1; round < shape.lanes; round *= 2) {
      std::vector<Reg> zipped;
      for (std::size_t i = 0; i < half; ++i) {
        zipped.push_back(b.zip_low(rows[i], rows[half + i]));
        zipped.push_back(b.zip_high(rows[i], rows[half + i]));
      }
      rows = std::move(zipped);
    }
    for (int step = 0; step < shape.lanes; ++step)
      b.store(panel_address(to, b.add(k, b.integer(step))), rows[static_cast<std::size_t>(step)]);
  }

  // One vector of steps of the contracted axis, from step k on.
  Reg along_column(Reg column, Reg k) {
    const DType sums = register_dtype(dtype);
    if (!shape.quads) {
      const Reg index = b.add(column, k);
      return b.convert(load_element(b, {.place = rhs_place, .index = index}, rhs_dtype, shape.lanes), sums);
    }
    const Reg index = b.add(column, b.multiply(k, b.integer(4)));
    return b.bitcast(b.load({.place = rhs_place, .index = index}, {rhs_dtype, 4 * shape.lanes}),
                     {sums, shape.lanes});
  }

  void finish_vector(Reg row, Reg column, Reg mask, Reg sums) {
    const int out = static_cast<int>(nest.places.size()) - 1;
    const auto columns = axes.of_group(kColumn);
    const auto vector_axis = columns.empty() ? std::nullopt : std::optional(columns[0]);
    axes.place(b, kRow, row);
    axes.place(b, kColumn, column);
    const std::vector<Reg> where = axes.coordinates(b);
    const Reg value = evaluate(b, epilogue, {where, vector_axis, shape.lanes, mask}, sums);
    store_element(b, {.place = out, .index = element_index(b, output, where), .mask = mask}, value);
  }

  bool pairs_lie_together(const Access& side) const {
    const auto is_even = [](const Dim& dim) { return dim.constant().value_or(1) % 2 == 0; };
    for (std::size_t axis = 0; axis < axes.sizes.size(); ++axis) {
      if (axes.groups[axis] != kContracted && !is_even(side.strides[axis])) return false;
    }
    return is_even(side.offset) && axes.stride(side, kContracted).is(1);
  }

  void run() {
    TileProblem problem{.batches = axes.extent(kBatch),
                        .rows = axes.extent(kRow),
                        .columns = axes.extent(kColumn),
                        .depth = axes.extent(kContracted),
                        .dtype = dtype,
                        .lhs_dtype = lhs_dtype,
                        .rhs_dtype = rhs_dtype,
                        .lhs_place = lhs_place,
                        .lhs_along = axes.stride(lhs, kContracted)};
    problem.lhs_row = [&](Reg row) {
      axes.place(b, kRow, row);
      return element_index(b, lhs, axes.coordinates(b));
    };
    problem.lhs_pairs_lie_together = pairs_lie_together(lhs);
    if (traits.simt || axes.of_group(kColumn).empty() || axes.stride(rhs, kColumn).is(1)) {
      problem.direct = {.place = rhs_place,
                        .along = axes.stride(rhs, kContracted),
                        .column =
                            [&](Reg column) {
                              axes.place(b, kColumn, column);
                              return element_index(b, rhs, axes.coordinates(b));
                            },
                        .pairs_lie_together = pairs_lie_together(rhs)};
    }
    problem.pack = [&](Reg first, Reg count, Reg column, Reg panel, Reg) {
      pack(first, count, column, panel);
    };
    problem.finish = [&](Reg row, Reg column, Reg mask, Reg sums) { finish_vector(row, column, mask, sums); };
    problem.finish_is_short = epilogue.steps.size() == 1 && axes.of_group(kRow).size() <= 1;
    lower_tiles(b, traits, problem, [&](Reg batch) { axes.place(b, kBatch, batch); });
  }

  const DeviceTraits& traits;
  ScalarProgram epilogue;
  DType dtype = DType::f32, lhs_dtype = DType::f32, rhs_dtype = DType::f32;
  int lhs_place = 0, rhs_place = 1;
  TileShape shape{};
  Access lhs{0, {}}, rhs{0, {}}, output{0, {}};
  TileAxes axes{};
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
