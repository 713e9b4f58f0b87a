// Direct convolution: a tile of filters times a run of positions on the innermost axis, summed over channels
// and the kernel in ascending order. Kernel positions outside the input are skipped, not multiplied by zero.
#include "codegen/loops.h"

#include <algorithm>

namespace diji {
namespace {

// As in lower_dot: rows are filters here, vectors run along the innermost spatial axis.
constexpr int kVectors = 2;
int tile_filters(const DeviceTraits& traits) { return traits.vector_registers >= 32 ? 12 : 6; }

// Positions of the innermost axis that one grid index computes with one tile of filters.
constexpr std::int64_t kChunk = 512;

struct ConvolutionLowering {
  ConvolutionLowering(const Graph& body, const KernelBody& kernel, const DeviceTraits& device,
                      std::string entry)
      : traits(device),
        epilogue(kernel.epilogue),
        dims(convolution_dims(kernel.root_node->attributes)),
        nest(new_nest(body, std::move(entry))),
        b(nest) {
    const auto position = [&](std::size_t i) {
      return static_cast<int>(std::ranges::find(body.inputs(), kernel.root_node->inputs[i], &Port::value) -
                              body.inputs().begin());
    };
    x_place = position(0);
    w_place = position(1);
    x = body.type(kernel.root_node->inputs[0]).shape;
    w = body.type(kernel.root_node->inputs[1]).shape;
    out = body.type(kernel.root_node->outputs[0]).shape;
    dtype = body.type(kernel.root_node->inputs[0]).dtype;
    x_strides = strides_of(x);
    lanes = lanes_for(traits, dtype);
    width = kVectors * lanes;
    filters_max = tile_filters(traits);
    last = out.size() - 3;  // innermost spatial axis, counted among the spatial ones
  }

  bool padded(std::size_t axis) const { return !dims.pads_low[axis].is(0) || !dims.pads_high[axis].is(0); }

  // Input position of output position `o` and kernel position 0 on a spatial axis.
  Reg origin(std::size_t axis, Reg o) {
    return b.subtract(b.multiply(o, b.integer(dims.strides[axis])), b.dim(dims.pads_low[axis]));
  }

  // Loops over channels of the group and all kernel positions that lie inside x on every axis but the last.
  // inside(x index of lane 0 at kernel position 0 of the last axis …) gets the indices of x and w.
  std::vector<Reg> products(Reg channel_base, Reg x_base, std::span<const Reg> at, std::vector<Reg> sums,
                            const std::function<std::vector<Reg>(Reg x_index, Reg w_index, Reg last_kernel,
                                                                 std::span<const Reg>)>& inside) {
    const auto w_strides = strides_of(w);
    return b.loop(
        b.integer(0), b.dim(w[1]), b.integer(1), std::move(sums), [&](Reg c, std::span<const Reg> carried) {
          const Reg x_index = b.add(x_base, b.multiply(b.add(channel_base, c), b.dim(x_strides[1])));
          return kernel_axis(0, x_index, b.multiply(c, b.dim(w_strides[1])), at,
                             {carried.begin(), carried.end()}, inside);
        });
  }

  std::vector<Reg> kernel_axis(
      std::size_t axis, Reg x_index, Reg w_index, std::span<const Reg> at, std::vector<Reg> sums,
      const std::function<std::vector<Reg>(Reg, Reg, Reg, std::span<const Reg>)>& inside) {
    const auto w_strides = strides_of(w);
    const Reg zero = b.integer(0), size = b.dim(w[axis + 2]), dilation = b.integer(dims.dilations[axis]);
    Reg first = zero, end = size;
    const Reg start = origin(axis, at[axis]);
    if (axis != last && padded(axis)) {
      // Kernel positions k with 0 <= start + k·dilation < input size.
      const Reg before = b.maximum(b.subtract(zero, start), zero);
      first = b.divide(b.add(before, b.integer(dims.dilations[axis] - 1)), dilation);
      const Reg room =
          b.maximum(b.add(b.subtract(b.dim(x[axis + 2]), start), b.integer(dims.dilations[axis] - 1)), zero);
      end = b.minimum(b.divide(room, dilation), size);
    }
    return b.loop(first, end, b.integer(1), std::move(sums),
                  [&](Reg k, std::span<const Reg> carried) -> std::vector<Reg> {
                    const Reg position = b.add(start, b.multiply(k, dilation));
                    const Reg w_next = b.add(w_index, b.multiply(k, b.dim(w_strides[axis + 2])));
                    if (axis == last) return inside(b.add(x_index, position), w_next, position, carried);
                    const Reg x_next = b.add(x_index, b.multiply(position, b.dim(x_strides[axis + 2])));
                    return kernel_axis(axis + 1, x_next, w_next, at, {carried.begin(), carried.end()},
                                       inside);
                  });
  }

  // Lanes whose input position lies inside and whose output position exists.
  Reg input_mask(Reg position, Reg output_mask) {
    if (!padded(last)) return output_mask;
    const Reg steps =
        b.multiply(b.lane_numbers({DType::i64, lanes}), b.integer(dims.strides[last], DType::i64, lanes));
    const Reg at = b.add(b.splat(position, lanes), steps);
    const Reg low = b.less_equal(b.integer(0, DType::i64, lanes), at);
    const Reg high = b.less(at, b.splat(b.dim(x[last + 2]), lanes));
    const Reg inside = b.binary(NestOp::bit_and, low, high);
    return output_mask == Reg::none ? inside : b.binary(NestOp::bit_and, inside, output_mask);
  }

  struct Tile {
    Reg batch, group, filter;  // first filter
    std::vector<Reg> outer;    // coordinates of the outer spatial axes
    int filters;
  };

  // All filters of the tile at `width` positions from `position` on; `end` masks the tail (none: all exist).
  void positions(const Tile& tile, Reg position, Reg end) {
    std::vector<Reg> masks(kVectors, Reg::none), at = tile.outer;
    for (int v = 0; v < kVectors && end != Reg::none; ++v)
      masks[static_cast<std::size_t>(v)] = lane_mask(b, b.add(position, b.integer(v * lanes)), end, lanes);
    at.push_back(position);
    const auto w_strides = strides_of(w);
    std::vector<Reg> w_bases;
    for (int f = 0; f < tile.filters; ++f)
      w_bases.push_back(b.multiply(b.add(tile.filter, b.integer(f)), b.dim(w_strides[0])));
    const Reg channel_base = b.multiply(tile.group, b.dim(w[1]));
    const Reg x_base = b.multiply(tile.batch, b.dim(x_strides[0]));
    std::vector<Reg> sums(static_cast<std::size_t>(tile.filters * kVectors),
                          b.number(0, {register_dtype(dtype), lanes}));
    sums = products(
        channel_base, x_base, at, std::move(sums),
        [&](Reg x_index, Reg w_index, Reg input, std::span<const Reg> carried) {
          std::vector<Reg> next(carried.begin(), carried.end()), inputs, input_masks;
          for (int v = 0; v < kVectors; ++v) {
            const Reg shift = b.integer(v * lanes * dims.strides[last]);
            NestBuilder::Address from{.place = x_place, .index = b.add(x_index, shift)};
            from.mask = input_mask(b.add(input, shift), masks[static_cast<std::size_t>(v)]);
            if (dims.strides[last] != 1) from.stride = b.integer(dims.strides[last]);
            inputs.push_back(load_element(b, from, dtype, lanes));
            input_masks.push_back(from.mask);
          }
          for (int f = 0; f < tile.filters; ++f) {
            const Reg index = b.add(w_bases[static_cast<std::size_t>(f)], w_index);
            const Reg weight = b.splat(load_element(b, {.place = w_place, .index = index}, dtype, 1), lanes);
            for (int v = 0; v < kVectors; ++v) {
              Reg& sum = next[static_cast<std::size_t>(f * kVectors + v)];
              const Reg more = multiply_add(b, weight, inputs[static_cast<std::size_t>(v)], sum);
              // A weight of infinity times the 0 outside of x would be NaN.
              sum = padded(last) ? b.select(input_masks[static_cast<std::size_t>(v)], more, sum) : more;
            }
          }
          return next;
        });
    store_tile(tile, position, sums, masks);
  }

  void store_tile(const Tile& tile, Reg position, std::span<const Reg> sums, const std::vector<Reg>& masks) {
    const Access output{0, strides_of(out)};
    for (int f = 0; f < tile.filters; ++f) {
      for (int v = 0; v < kVectors; ++v) {
        std::vector<Reg> at = {tile.batch, b.add(tile.filter, b.integer(f))};
        at.insert(at.end(), tile.outer.begin(), tile.outer.end());
        at.push_back(b.add(position, b.integer(v * lanes)));
        const Reg mask = masks[static_cast<std::size_t>(v)];
        const Reg value = evaluate(b, epilogue, {at, last + 2, lanes, mask},
                                   sums[static_cast<std::size_t>(f * kVectors + v)]);
        store_element(b,
                      {.place = static_cast<int>(nest.places.size()) - 1,
                       .index = element_index(b, output, at),
                       .mask = mask},
                      value);
      }
    }
  }

  void run() {
    const Dim filters_per_group = floor_div(out[1], Dim(dims.groups));
    std::vector<Dim> grid = {out[0], Dim(dims.groups), ceil_div(filters_per_group, filters_max)};
    grid.insert(grid.end(), out.begin() + 2, out.end() - 1);
    grid.push_back(ceil_div(out.back(), kChunk));
    nest.grid = element_count(grid);
    const auto at = split_index(b, b.grid_index(), grid);
    Tile tile{.batch = at[0],
              .group = at[1],
              .filter = Reg::none,
              .outer = {at.begin() + 3, at.end() - 1},
              .filters = 1};
    const Reg group_start = b.multiply(tile.group, b.dim(filters_per_group));
    const Reg first = b.multiply(at[2], b.integer(filters_max));
    const Reg end = b.minimum(b.add(first, b.integer(filters_max)), b.dim(filters_per_group));
    const Reg start = b.multiply(at.back(), b.integer(kChunk));
    const Reg stop = b.minimum(b.add(start, b.integer(kChunk)), b.dim(out.back()));
    // A whole tile when it fits, else its filters one by one.
    Reg filter = first;
    for (const int size : {filters_max, 1}) {
      const Reg step = b.integer(size);
      const Reg limit = b.add(filter, b.multiply(b.divide(b.subtract(end, filter), step), step));
      b.loop(filter, limit, step, {}, [&](Reg f, std::span<const Reg>) -> std::vector<Reg> {
        tile.filter = b.add(group_start, f);
        tile.filters = size;
        run_positions(tile, start, stop);
        return {};
      });
      filter = limit;
    }
  }

  void run_positions(const Tile& tile, Reg start, Reg stop) {
    const Reg step = b.integer(width);
    const Reg tail = b.add(start, b.multiply(b.divide(b.subtract(stop, start), step), step));
    b.loop(start, tail, step, {}, [&](Reg position, std::span<const Reg>) -> std::vector<Reg> {
      positions(tile, position, Reg::none);
      return {};
    });
    b.loop(tail, stop, step, {}, [&](Reg position, std::span<const Reg>) -> std::vector<Reg> {
      positions(tile, position, stop);
      return {};
    });
  }

  const DeviceTraits& traits;
  ScalarProgram epilogue;
  ConvolutionDims dims;
  DType dtype = DType::f32;
  Shape x{}, w{}, out{};
  std::vector<Dim> x_strides{};
  int x_place = 0, w_place = 1, lanes = 1, width = 1, filters_max = 1;
  std::size_t last = 0;
  LoopNest nest;
  NestBuilder b;
};

}  // namespace

Result<Kernel> lower_convolution(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                                 std::string entry) {
  ConvolutionLowering lowering(body, kernel, traits, std::move(entry));
  lowering.run();
  return finish(std::move(lowering.nest), traits);
}

}  // namespace diji
