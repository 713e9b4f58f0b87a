// Convolutions as products: rows are the filters of a group, columns the positions of the result, and the
// contracted axis runs over channels and kernel positions in ascending order. Panels of the right side are
// packed from x on the way, with 0 outside of it; where the kernel has one position, x is read as it lies.
#include "codegen/quads.h"
#include "codegen/tile.h"

#include <algorithm>

namespace diji {

namespace {

struct ConvolutionLowering {
  ConvolutionLowering(const Graph& body, const KernelBody& kernel, const DeviceTraits& device,
                      std::string entry)
      : traits(device),
        epilogue(kernel.epilogue),
        dims(convolution_dims(kernel.root_node->attributes)),
        nest(new_nest(body, std::move(entry))),
        b(nest) {
    x_place = place_of(body, kernel.root_node->inputs[0]);
    w_place = place_of(body, kernel.root_node->inputs[1]);
    x = body.type(kernel.root_node->inputs[0]).shape;
    w = body.type(kernel.root_node->inputs[1]).shape;
    out = body.type(kernel.root_node->outputs[0]).shape;
    dtype = body.type(kernel.root_node->outputs[0]).dtype;
    x_dtype = body.type(kernel.root_node->inputs[0]).dtype;
    w_dtype = body.type(kernel.root_node->inputs[1]).dtype;
    shape = tile_shape(traits, dtype, w_dtype, x_dtype);
    spatial = out.size() - 2;
    for (std::size_t axis = 0; axis < spatial; ++axis) kernel_size = kernel_size * w[axis + 2];
    set_axes();
  }

  bool padded(std::size_t axis) const { return !dims.pads_low[axis].is(0) || !dims.pads_high[axis].is(0); }
  bool pointwise() const {
    for (std::size_t axis = 0; axis < spatial; ++axis) {
      if (!w[axis + 2].is(1) || dims.strides[axis] != 1 || padded(axis)) return false;
    }
    return true;
  }
  // Neighbours in the result read neighbours in x: the positions of all axes can be counted as one.
  bool flat() const {
    for (std::size_t axis = 0; axis < spatial; ++axis) {
      if (dims.strides[axis] != 1 || (axis > 0 && !(x[axis + 2] == out[axis + 2]))) return false;
    }
    return true;
  }

  // Axes: batch, group, filters of a group, positions. Accesses walk filters of all groups as one axis, so
  // the axis is split.
  void set_axes() {
    const Dim filters = floor_div(out[1], Dim(dims.groups));
    axes.sizes = {out[0], Dim(dims.groups), filters};
    axes.groups = {kBatch, kBatch, kRow};
    for (std::size_t axis = 0; axis < spatial; ++axis) {
      axes.sizes.push_back(out[axis + 2]);
      axes.groups.push_back(kColumn);
    }
    output.strides = strides_of(out);
    positions.strides = strides_of({out.begin() + 2, out.end()});
    positions.strides.insert(positions.strides.begin(), 3, Dim(0));
    const auto x_strides = strides_of(x), w_strides = strides_of(w);
    inputs.strides = {x_strides[0], x_strides[1] * w[1], 0};
    for (std::size_t axis = 0; axis < spatial; ++axis)
      inputs.strides.push_back(pointwise() ? x_strides[axis + 2] : Dim(0));
    weights.strides = {0, w_strides[0] * filters, w_strides[0]};
    weights.strides.resize(axes.sizes.size(), Dim(0));
    collect_accesses(epilogue, axes.accesses);
    axes.accesses.push_back(&output);
    for (Access* access : axes.accesses)
      access->strides.insert(access->strides.begin() + 1, access->strides[1] * filters);
    for (Access* access : {&positions, &inputs, &weights}) axes.accesses.push_back(access);
    axes.collapse();
    // Vectors run along one axis: what an epilogue keeps apart from it joins the batches.
    const auto columns = axes.of_group(kColumn);
    for (std::size_t i = 0; i + 1 < columns.size(); ++i) axes.groups[columns[i]] = kBatch;
  }

  // lanes: where in the result (on each spatial axis) lane l of a vector is that begins at `position`.
  std::vector<Reg> lane_positions(Reg position) {
    const Shape sizes(out.begin() + 2, out.end());
    const auto first = split_index(b, position, sizes);
    std::vector<Reg> lanes;
    for (const Reg coordinate : first) lanes.push_back(b.splat(coordinate, shape.lanes));
    lanes.back() = b.binary(NestOp::add, lanes.back(), b.lane_numbers({DType::i64, shape.lanes}));
    // Carries, from the innermost axis outwards.
    for (std::size_t axis = spatial; axis-- > 1;) {
      const Reg size = b.dim(sizes[axis]), wide = b.splat(size, shape.lanes);
      const Reg furthest = b.add(first[axis], b.integer(shape.lanes - 1));
      const Reg carries = b.divide(furthest, b.maximum(size, b.integer(1)));
      const auto after = b.loop(b.integer(0), carries, b.integer(1), {lanes[axis], lanes[axis - 1]},
                                [&](Reg, std::span<const Reg> now) -> std::vector<Reg> {
                                  const Reg over = b.less_equal(wide, now[0]);
                                  const Reg one = b.integer(1, DType::i64, shape.lanes);
                                  return {b.select(over, b.binary(NestOp::subtract, now[0], wide), now[0]),
                                          b.select(over, b.binary(NestOp::add, now[1], one), now[1])};
                                });
      lanes[axis] = after[0];
      lanes[axis - 1] = after[1];
    }
    return lanes;
  }

  // One vector of the panel: which elements of x at kernel position 0, on each axis and as an index.
  struct Source {
    std::vector<Reg> inputs;  // by axis, vectors
    Reg index = Reg::none;    // of lane 0 where neighbours are neighbours in x, else of each lane
    Reg exists = Reg::none;   // lanes before the end of the result
  };

  Source source(Reg position, Reg end) {
    const int lanes = shape.lanes;
    const auto x_strides = strides_of(x);
    Source result{.exists = lane_mask(b, position, end, lanes)};
    const auto at = lane_positions(position);
    Reg index = flat() ? position : b.integer(0, DType::i64, lanes);
    for (std::size_t axis = 0; axis < spatial; ++axis) {
      const Reg steps = b.integer(dims.strides[axis], DType::i64, lanes), pad = b.dim(dims.pads_low[axis]);
      const Reg input =
          b.binary(NestOp::subtract, b.binary(NestOp::multiply, at[axis], steps), b.splat(pad, lanes));
      result.inputs.push_back(input);
      const Reg stride = b.dim(x_strides[axis + 2]);
      index = flat()
                  ? b.subtract(index, b.multiply(pad, stride))
                  : b.binary(NestOp::add, index, b.binary(NestOp::multiply, input, b.splat(stride, lanes)));
    }
    result.index = index;
    return result;
  }

  void pack(Reg first, Reg count, Reg column, Reg panel, Reg scratch) {
    if (!shape.quads) return pack_rows(first, count, column, panel);
    pack_rows(first, count, column, scratch);
    const auto row = [&](Reg k) -> NestBuilder::Address {
      return {.space = Space::local, .index = b.add(scratch, b.multiply(k, b.integer(shape.width())))};
    };
    pack_quads(b, {.dtype = x_dtype, .count = count, .place = row}, shape.width(), panel);
  }

  // to[((channel - first channel) · kernel + kernel position) · width + j] = x at that place for position
  // column + j, or what stands outside. Kernel positions outside, so that what lies inside of x is found out
  // once for all channels.
  void pack_rows(Reg first, Reg count, Reg column, Reg panel) {
    const Reg size = b.maximum(b.dim(kernel_size), b.integer(1));
    const Reg first_channel = b.divide(first, size), channels = b.divide(count, size);
    axes.place(b, kColumn, b.integer(0));
    const Reg before = element_index(b, positions, axes.coordinates(b));
    const Reg end = b.add(before, b.dim(axes.extent(kColumn)));
    const Reg base = b.add(element_index(b, inputs, axes.coordinates(b)),
                           b.multiply(first_channel, b.dim(strides_of(x)[1])));
    std::vector<Source> sources;
    for (int v = 0; v < shape.vectors; ++v)
      sources.push_back(source(b.add(before, b.add(column, b.integer(v * shape.lanes))), end));
    std::vector<Reg> masks;
    for (const Source& each : sources) masks.push_back(each.exists);
    kernel_axis(
        0, sources, masks, base, b.integer(0), [&](const std::vector<Reg>& inside, Reg from, Reg which) {
          b.for_each(b.integer(0), channels, b.integer(1), [&](Reg c) {
            const Reg channel = b.add(from, b.multiply(c, b.dim(strides_of(x)[1])));
            const Reg row = b.add(b.multiply(c, b.dim(kernel_size)), which);
            const Reg to = b.add(panel, b.multiply(row, b.integer(shape.width())));
            for (int v = 0; v < shape.vectors; ++v) {
              const auto number = static_cast<std::size_t>(v);
              Reg value = load_inside(sources[number].index, channel, inside[number]);
              if (!shape.quads) value = b.convert(value, register_dtype(dtype));
              b.store(
                  {.space = Space::local, .index = b.add(to, b.integer(v * shape.lanes)), .aligned = true},
                  value);
            }
          });
        });
  }

  // Loops over kernel positions from `axis` on; `masks` keeps the lanes that lie inside of x so far.
  void kernel_axis(std::size_t axis, const std::vector<Source>& sources, const std::vector<Reg>& masks,
                   Reg from, Reg which, const std::function<void(const std::vector<Reg>&, Reg, Reg)>& body) {
    if (axis == spatial) return body(masks, from, which);
    b.for_each(b.integer(0), b.dim(w[axis + 2]), b.integer(1), [&](Reg k) {
      const Reg shift = b.multiply(k, b.integer(dims.dilations[axis]));
      std::vector<Reg> inside = masks;
      for (std::size_t v = 0; v < sources.size(); ++v)
        inside[v] = inside_mask(axis, sources[v], shift, masks[v]);
      const Reg next = b.add(from, b.multiply(shift, b.dim(strides_of(x)[axis + 2])));
      kernel_axis(axis + 1, sources, inside, next, b.add(b.multiply(which, b.dim(w[axis + 2])), k), body);
    });
  }

  Reg load_inside(Reg index, Reg shift, Reg mask) {
    const int lanes = shape.lanes;
    const bool many = b.type(index).lanes > 1;
    const Reg at = many ? b.binary(NestOp::add, index, b.splat(shift, lanes)) : b.add(index, shift);
    const Reg outside = b.number(static_cast<double>(dims.padding_value), {register_dtype(x_dtype), lanes});
    if (lanes > 1) {
      const Reg inside = load_element(b, {.place = x_place, .index = at, .mask = mask}, x_dtype, lanes);
      return dims.padding_value == 0 ? inside : b.select(mask, inside, outside);
    }
    // One lane cannot be masked off.
    return b.loop(b.integer(0), b.convert(mask, DType::i64), b.integer(1), {outside},
                  [&](Reg, std::span<const Reg>) -> std::vector<Reg> {
                    return {load_element(b, {.place = x_place, .index = at}, x_dtype, 1)};
                  })[0];
  }

  // Positions outside of x left out: a weight of infinity times the 0 there would be NaN. Integers take what
  // stands outside.
  Reg careful(Reg row, Reg column, Reg last) {
    const Reg size = b.maximum(b.dim(kernel_size), b.integer(1)), channel = b.dim(strides_of(x)[1]);
    axes.place(b, kRow, row);
    axes.place(b, kColumn, b.integer(0));
    const Reg before = element_index(b, positions, axes.coordinates(b));
    const Source from = source(b.add(before, column), b.add(before, b.dim(axes.extent(kColumn))));
    const Reg base = element_index(b, inputs, axes.coordinates(b));
    const Reg filter = element_index(b, weights, axes.coordinates(b));
    const Reg zero = b.number(0, {register_dtype(dtype), shape.lanes});
    return b.loop(b.integer(0), b.divide(last, size), b.integer(1), {zero},
                  [&](Reg c, std::span<const Reg> carried) -> std::vector<Reg> {
                    return {careful_axis(0, from, from.exists, b.add(base, b.multiply(c, channel)),
                                         b.add(filter, b.multiply(c, b.dim(kernel_size))), carried[0])};
                  })[0];
  }

  Reg careful_axis(std::size_t axis, const Source& from, Reg mask, Reg at, Reg weight, Reg sums) {
    if (axis == spatial) {
      const DType type = register_dtype(dtype);
      const Reg left = b.convert(load_element(b, {.place = w_place, .index = weight}, w_dtype, 1), type);
      const Reg right = b.convert(load_inside(from.index, at, mask), type);
      const Reg next = multiply_add(b, b.splat(left, shape.lanes), right, sums);
      return is_floating(type) ? b.select(mask, next, sums) : next;
    }
    return b.loop(b.integer(0), b.dim(w[axis + 2]), b.integer(1), {sums},
                  [&](Reg k, std::span<const Reg> carried) -> std::vector<Reg> {
                    const Reg shift = b.multiply(k, b.integer(dims.dilations[axis]));
                    const Reg next = b.add(at, b.multiply(shift, b.dim(strides_of(x)[axis + 2])));
                    const Reg inside = inside_mask(axis, from, shift, mask);
                    const Reg after = b.add(weight, b.multiply(k, b.dim(strides_of(w)[axis + 2])));
                    return {careful_axis(axis + 1, from, inside, next, after, carried[0])};
                  })[0];
  }

  // One comparison without sign: what is negative is large.
  Reg inside_mask(std::size_t axis, const Source& from, Reg shift, Reg mask) {
    if (!padded(axis)) return mask;
    const Reg input = b.binary(NestOp::add, from.inputs[axis], b.splat(shift, shape.lanes));
    const Reg size = b.splat(b.bitcast(b.dim(x[axis + 2]), DType::u64), shape.lanes);
    return b.binary(NestOp::bit_and, mask, b.less(b.bitcast(input, DType::u64), size));
  }

  void finish_vector(Reg row, Reg column, Reg mask, Reg sums) {
    axes.place(b, kRow, row);
    axes.place(b, kColumn, column);
    const auto at = axes.coordinates(b);
    const auto columns = axes.of_group(kColumn);
    const auto vector_axis = columns.empty() ? std::nullopt : std::optional(columns[0]);
    const int place = static_cast<int>(nest.places.size()) - 1;
    const Reg value = evaluate(b, epilogue, {at, vector_axis, shape.lanes, mask}, sums);
    store_element(b, {.place = place, .index = element_index(b, output, at), .mask = mask}, value);
  }

  void run() {
    TileProblem problem{.batches = axes.extent(kBatch),
                        .rows = axes.extent(kRow),
                        .columns = axes.extent(kColumn),
                        .depth = w[1] * kernel_size,
                        .depth_step = kernel_size,
                        .dtype = dtype,
                        .lhs_dtype = w_dtype,
                        .rhs_dtype = x_dtype,
                        .lhs_place = w_place,
                        .lhs_along = 1,
                        .wants_scratch = shape.quads};
    problem.lhs_row = [&](Reg row) {
      axes.place(b, kRow, row);
      return element_index(b, weights, axes.coordinates(b));
    };
    if (pointwise()) {
      problem.direct = {.place = x_place, .along = strides_of(x)[1], .column = [&](Reg column) {
                          axes.place(b, kColumn, column);
                          return element_index(b, inputs, axes.coordinates(b));
                        }};
    }
    problem.pack = [&](Reg first, Reg count, Reg column, Reg panel, Reg scratch) {
      pack(first, count, column, panel, scratch);
    };
    if (traits.simt && !pointwise()) {
      problem.element = [&](Reg row, Reg column) { return careful(row, column, b.dim(problem.depth)); };
    }
    bool any_padded = false;
    for (std::size_t axis = 0; axis < spatial; ++axis) any_padded = any_padded || padded(axis);
    if (any_padded && is_floating(dtype)) {
      problem.careful = [&](Reg row, Reg column, Reg last) { return careful(row, column, last); };
    }
    problem.finish = [&](Reg row, Reg column, Reg mask, Reg sums) { finish_vector(row, column, mask, sums); };
    problem.finish_is_short = epilogue.steps.size() == 1;
    lower_tiles(b, traits, problem, [&](Reg batch) { axes.place(b, kBatch, batch); });
  }

  const DeviceTraits& traits;
  ScalarProgram epilogue;
  ConvolutionDims dims;
  DType dtype = DType::f32, x_dtype = DType::f32, w_dtype = DType::f32;  // of the sums, of x and of w
  Shape x{}, w{}, out{};
  Dim kernel_size = 1;
  int x_place = 0, w_place = 1;
  TileShape shape{};
  std::size_t spatial = 0;
  Access output{0, {}}, positions{0, {}}, inputs{0, {}}, weights{0, {}};
  TileAxes axes{};
  LoopNest nest;
  NestBuilder b;
};

}  // namespace

Result<Kernel> lower_convolution(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                                 std::string entry) {
  if (!traits.simt && is_depthwise(body, kernel))
    return lower_depthwise(body, kernel, traits, std::move(entry));
  ConvolutionLowering lowering(body, kernel, traits, std::move(entry));
  lowering.run();
  return finish(std::move(lowering.nest), traits);
}

}  // namespace diji
