// Convolutions of one channel a group: nothing is shared between filters, so there is no product of matrices
// in them. Vectors run along the innermost axis; only those that touch an edge of x are masked.
#include "codegen/loops.h"

#include <algorithm>

namespace diji {
namespace {

// Vectors side by side that share each weight.
constexpr int kVectors = 4;

// Runs along the innermost axis for one grid index.
constexpr std::int64_t kRunsPerChunk = 16;

// Kernels this wide are written out, so that weights and addresses are known to the device's compiler.
constexpr std::int64_t kUnrollMax = 8;

struct DepthwiseLowering {
  DepthwiseLowering(const Graph& body, const KernelBody& kernel, const DeviceTraits& device,
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
    x_dtype = body.type(kernel.root_node->inputs[0]).dtype;
    w_dtype = body.type(kernel.root_node->inputs[1]).dtype;
    dtype = body.type(kernel.root_node->outputs[0]).dtype;
    sum_dtype = exact_in_floats() ? DType::f32 : register_dtype(dtype);
    lanes = lanes_for(traits, sum_dtype);
    last = out.size() - 3;
    output.strides = strides_of(out);
  }

  // Products of bytes are at most 255² in size, so few of them sum exactly in f32, whose multiply-adds are
  // several times as fast as those of 32-bit integers.
  bool exact_in_floats() const {
    constexpr std::int64_t kExactMax = 128;
    Dim volume = 1;
    for (std::size_t axis = 2; axis < w.size(); ++axis) volume = volume * w[axis];
    const auto known = volume.constant();
    return bytes_of(x_dtype) == 1 && bytes_of(w_dtype) == 1 && known && *known <= kExactMax;
  }

  using Sums = std::vector<Reg>;

  // One step over an axis of the kernel, from `axis` on; `at` is where the result is on each spatial axis,
  // `from` and `weight` are the indices so far.
  Sums kernel_axis(std::size_t axis, const std::vector<Reg>& at, Reg from, Reg weight, Sums sums,
                   const std::function<Sums(Reg from, Reg weight, Reg k, std::span<const Reg>)>& inside) {
    const Reg zero = b.integer(0), size = b.dim(w[axis + 2]);
    const Reg start = origin(axis, at[axis]);
    const auto step = [&](Reg k, std::span<const Reg> carried) -> Sums {
      const Reg input = b.add(start, b.multiply(k, b.integer(dims.dilations[axis])));
      const Reg next = b.add(weight, b.multiply(k, b.dim(strides_of(w)[axis + 2])));
      if (axis == last) return inside(b.add(from, input), next, k, carried);
      const Reg row = b.add(from, b.multiply(input, b.dim(strides_of(x)[axis + 2])));
      return kernel_axis(axis + 1, at, row, next, {carried.begin(), carried.end()}, inside);
    };
    if (axis != last) {
      const auto [first, end] = positions_inside(axis, start);
      return b.loop(first, end, b.integer(1), std::move(sums), step);
    }
    const auto known = w[axis + 2].constant();
    if (!known || *known > kUnrollMax) return b.loop(zero, size, b.integer(1), std::move(sums), step);
    for (std::int64_t k = 0; k < *known; ++k) sums = step(b.integer(k), sums);
    return sums;
  }

  // Input position of output position `o` and kernel position 0.
  Reg origin(std::size_t axis, Reg o) {
    return b.subtract(b.multiply(o, b.integer(dims.strides[axis])), b.dim(dims.pads_low[axis]));
  }

  // Kernel positions k with 0 <= start + k · dilation < size of x.
  std::pair<Reg, Reg> positions_inside(std::size_t axis, Reg start) {
    const Reg zero = b.integer(0), size = b.dim(w[axis + 2]), dilation = b.integer(dims.dilations[axis]);
    if (dims.pads_low[axis].is(0) && dims.pads_high[axis].is(0)) return {zero, size};
    const Reg up = b.integer(dims.dilations[axis] - 1);
    const Reg before = b.maximum(b.subtract(zero, start), zero);
    const Reg room = b.maximum(b.add(b.subtract(b.dim(x[axis + 2]), start), up), zero);
    return {b.divide(b.add(before, up), dilation), b.minimum(b.divide(room, dilation), size)};
  }

  // A vector of x whose lanes all exist.
  Reg load_whole(Reg index) {
    const std::int64_t stride = dims.strides[last];
    if (stride == 1 || lanes == 1) return load_x({.place = x_place, .index = index});
    if (stride != 2) return load_x({.place = x_place, .index = index, .stride = b.integer(stride)});
    // What lies behind the last lane need not exist.
    const Reg low = load_x({.place = x_place, .index = index});
    const Reg mask = lane_mask(b, b.integer(0), b.integer(lanes - 1), lanes);
    const Reg next = b.add(index, b.integer(lanes));
    const Reg high = load_x({.place = x_place, .index = next, .mask = mask});
    return b.even_lanes(low, high);
  }
  Reg load_x(const NestBuilder::Address& address) { return load_element(b, address, x_dtype, lanes); }

  // What products take: less the padding value, so that what lies outside adds nothing.
  Reg operand_x(Reg loaded) {
    const Reg value = b.convert(loaded, sum_dtype);
    if (dims.padding_value == 0) return value;
    return b.binary(NestOp::subtract, value, padding_number({sum_dtype, lanes}));
  }
  Reg padding_number(LaneType type) { return b.number(static_cast<double>(dims.padding_value), type); }

  Reg weight_value(Reg index) { return b.splat(weight(index, sum_dtype), lanes); }
  Reg weight(Reg index, DType to) {
    return b.convert(load_element(b, {.place = w_place, .index = index}, w_dtype, 1), to);
  }

  struct Run {
    Reg x_base, w_base;
    std::vector<Reg> at;        // batch, filter, outer spatial axes
    Reg taken_off = Reg::none;  // by operand_x, from every result
  };

  // padding value · sum of the filter
  Reg padding_products(Reg w_base) {
    const DType type = register_dtype(dtype);
    Dim volume = 1;
    for (std::size_t axis = 2; axis < w.size(); ++axis) volume = volume * w[axis];
    const Reg sum = b.loop(b.integer(0), b.dim(volume), b.integer(1), {b.number(0, {type, 1})},
                           [&](Reg k, std::span<const Reg> carried) -> Sums {
                             return {b.binary(NestOp::add, carried[0], weight(b.add(w_base, k), type))};
                           })[0];
    return b.splat(b.binary(NestOp::multiply, sum, padding_number({type, 1})), lanes);
  }

  // `count` vectors from `position` on, away from the edges.
  void whole(const Run& run, Reg position, int count) {
    std::vector<Reg> at(run.at.begin() + 2, run.at.end());
    at.push_back(position);
    Sums sums(static_cast<std::size_t>(count), b.number(0, {sum_dtype, lanes}));
    sums = kernel_axis(0, at, run.x_base, run.w_base, sums,
                       [&](Reg from, Reg weight, Reg, std::span<const Reg> carried) {
                         Sums next(carried.begin(), carried.end());
                         const Reg left = weight_value(weight);
                         for (int v = 0; v < count; ++v) {
                           Reg& sum = next[static_cast<std::size_t>(v)];
                           const Reg index = b.add(from, b.integer(v * lanes * dims.strides[last]));
                           sum = multiply_add(b, left, operand_x(load_whole(index)), sum);
                         }
                         return next;
                       });
    for (int v = 0; v < count; ++v)
      store(run, b.add(position, b.integer(v * lanes)), Reg::none, sums[static_cast<std::size_t>(v)]);
  }

  // One vector that may reach over an edge of x or the end of the result. Positions outside of x are left
  // out: a weight of infinity times the 0 there would be NaN.
  void edge(const Run& run, Reg position) {
    std::vector<Reg> at(run.at.begin() + 2, run.at.end());
    at.push_back(position);
    const Reg exists = lane_mask(b, position, b.dim(out.back()), lanes);
    // The same masks serve all rows of the kernel.
    const std::int64_t known = w.back().constant().value_or(kUnrollMax + 1);
    std::vector<EdgeMask> masks;
    for (std::int64_t k = 0; k < known && known <= kUnrollMax; ++k)
      masks.push_back(edge_mask(position, b.integer(k), exists));
    const Sums sums = kernel_axis(0, at, run.x_base, run.w_base, {b.number(0, {sum_dtype, lanes})},
                                  [&](Reg from, Reg weight, Reg k, std::span<const Reg> carried) -> Sums {
                                    const EdgeMask mask = masks.empty()
                                                              ? edge_mask(position, k, exists)
                                                              : masks[static_cast<std::size_t>(*b.known(k))];
                                    return {masked_step(weight, from, mask, carried[0])};
                                  });
    store(run, position, exists, sums[0]);
  }

  // Lanes of a vector that lie inside of x; with stride 2, also those of the two vectors it is taken from.
  struct EdgeMask {
    Reg inside = Reg::none, low = Reg::none, high = Reg::none;
  };

  EdgeMask edge_mask(Reg position, Reg k, Reg exists) {
    const Reg input = b.add(origin(last, position), b.multiply(k, b.integer(dims.dilations[last])));
    const auto inside = [&](Reg first, std::int64_t step) {
      const Reg steps =
          b.binary(NestOp::multiply, b.lane_numbers({DType::i64, lanes}), b.integer(step, DType::i64, lanes));
      const Reg where = b.binary(NestOp::add, b.splat(first, lanes), steps);
      // One comparison without sign: what is negative is large.
      return b.less(b.bitcast(where, DType::u64), b.splat(b.bitcast(b.dim(x.back()), DType::u64), lanes));
    };
    EdgeMask mask{.inside = b.binary(NestOp::bit_and, exists, inside(input, dims.strides[last]))};
    if (dims.strides[last] != 2) return mask;
    mask.low = inside(input, 1);
    mask.high = inside(b.add(input, b.integer(lanes)), 1);
    return mask;
  }

  Reg masked_step(Reg weight, Reg from, const EdgeMask& mask, Reg sum) {
    const std::int64_t stride = dims.strides[last];
    const auto load = [&](Reg index, Reg on, bool strided) {
      const Reg step = strided ? b.integer(stride) : Reg::none;
      return load_x({.place = x_place, .index = index, .stride = step, .mask = on});
    };
    const auto more = [&](Reg right) { return multiply_add(b, weight_value(weight), operand_x(right), sum); };
    if (lanes == 1) {  // one lane cannot be masked off
      return b.loop(
          b.integer(0), b.convert(mask.inside, DType::i64), b.integer(1), {sum},
          [&](Reg, std::span<const Reg>) -> Sums { return {more(load(from, Reg::none, false))}; })[0];
    }
    const Reg right = stride == 2 ? b.even_lanes(load(from, mask.low, false),
                                                 load(b.add(from, b.integer(lanes)), mask.high, false))
                                  : load(from, mask.inside, stride != 1);
    return b.select(mask.inside, more(right), sum);
  }

  void store(const Run& run, Reg position, Reg mask, Reg sums) {
    std::vector<Reg> at = run.at;
    at.push_back(position);
    sums = b.convert(sums, register_dtype(dtype));
    if (run.taken_off != Reg::none) sums = b.binary(NestOp::add, sums, run.taken_off);
    const Reg value = evaluate(b, epilogue, {at, last + 2, lanes, mask}, sums);
    const int place = static_cast<int>(nest.places.size()) - 1;
    store_element(b, {.place = place, .index = element_index(b, output, at), .mask = mask}, value);
  }

  // Positions whose whole kernel lies inside of x on the innermost axis: [first, end).
  std::pair<Dim, Dim> interior() const {
    const Dim stride(dims.strides[last]), pad(dims.pads_low[last]);
    const Dim reach = (w.back() - 1) * Dim(dims.dilations[last]);
    const Dim end = floor_div(x.back() - 1 - reach + pad, stride) + 1;
    return {ceil_div(pad, stride), min(end, out.back())};
  }

  void run_vectors(const Run& run) {
    const auto [first, end] = interior();
    const Reg step = b.integer(lanes), size = b.dim(out.back()), inner_end = b.dim(end);
    // Edge vectors, then whole ones while they fit, then edge vectors.
    const Reg lead = b.minimum(b.dim(ceil_div(first, lanes) * Dim(lanes)), size);
    b.for_each(b.integer(0), lead, step, [&](Reg position) { edge(run, position); });
    Reg start = lead;
    for (const int count : {kVectors, 1}) {
      const Reg by = b.integer(count * lanes);
      const Reg room = b.maximum(b.subtract(inner_end, start), b.integer(0));
      const Reg stop = b.add(start, b.multiply(b.divide(room, by), by));
      b.for_each(start, stop, by, [&](Reg position) { whole(run, position, count); });
      start = stop;
    }
    b.for_each(start, size, step, [&](Reg position) { edge(run, position); });
  }

  void run() {
    const std::vector<Dim> outer(out.begin() + 2, out.end() - 1);
    const Dim runs = element_count(outer);
    const std::vector<Dim> grid = {out[0], out[1], ceil_div(runs, kRunsPerChunk)};
    nest.grid = element_count(grid);
    const auto indices = split_index(b, b.grid_index(), grid);
    const Reg per_group = b.dim(floor_div(out[1], Dim(dims.groups)));
    const Reg first = b.multiply(indices[2], b.integer(kRunsPerChunk));
    const Reg end = b.minimum(b.add(first, b.integer(kRunsPerChunk)), b.dim(runs));
    b.for_each(first, end, b.integer(1), [&](Reg number) {
      const Reg channel = b.divide(indices[1], per_group);
      const auto x_strides = strides_of(x);
      Run run{.x_base = b.add(b.multiply(indices[0], b.dim(x_strides[0])),
                              b.multiply(channel, b.dim(x_strides[1]))),
              .w_base = b.multiply(indices[1], b.dim(strides_of(w)[0])),
              .at = {indices[0], indices[1]}};
      if (dims.padding_value != 0) run.taken_off = padding_products(run.w_base);
      const auto coordinates = split_index(b, number, outer);
      run.at.insert(run.at.end(), coordinates.begin(), coordinates.end());
      run_vectors(run);
    });
  }

  const DeviceTraits& traits;
  ScalarProgram epilogue;
  ConvolutionDims dims;
  DType dtype = DType::f32, x_dtype = DType::f32, w_dtype = DType::f32;  // of the result, of x and of w
  DType sum_dtype = DType::f32;
  Shape x{}, w{}, out{};
  int x_place = 0, w_place = 1, lanes = 1;
  std::size_t last = 0;
  Access output{0, {}};
  LoopNest nest;
  NestBuilder b;
};

}  // namespace

bool is_depthwise(const Graph& body, const KernelBody& kernel) {
  constexpr std::int64_t kFiltersMax = 4;  // more of them share enough of x for a product of matrices
  const Shape& w = body.type(kernel.root_node->inputs[1]).shape;
  const ConvolutionDims dims = convolution_dims(kernel.root_node->attributes);
  const auto filters = floor_div(w[0], Dim(dims.groups)).constant();
  return w.size() > 2 && w[1].is(1) && filters && *filters <= kFiltersMax;
}

Result<Kernel> lower_depthwise(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                               std::string entry) {
  DepthwiseLowering lowering(body, kernel, traits, std::move(entry));
  lowering.run();
  return finish(std::move(lowering.nest), traits);
}

}  // namespace diji
