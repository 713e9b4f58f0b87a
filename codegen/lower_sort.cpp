// Sorting coordinates along an axis: a stable bottom-up merge sort of integer keys in local memory, one line
// a grid index.
#include "codegen/loops.h"
#include "codegen/sort_key.h"

namespace diji {
namespace {

// A line's number of elements stays below 2^kPassesMax, which the size of local memory ensures.
constexpr std::int64_t kPassesMax = 28;

struct SortLowering {
  SortLowering(const Graph& body, const KernelBody& kernel, std::string entry)
      : descending(kernel.root_node->attributes.get_or<std::int64_t>("descending", 0) != 0),
        axis(static_cast<std::size_t>(kernel.root_node->attributes.get_or<std::int64_t>("axis", 0))),
        space(kernel.space),
        program(kernel.programs[0]),
        dtype(body.type(kernel.root_node->inputs[0]).dtype),
        nest(new_nest(body, std::move(entry))),
        b(nest) {}

  // Local memory, in elements of i64: two halves, each the line's keys and then its coordinates.
  Reg load(Reg index) { return b.load({.space = Space::local, .index = index}, {DType::i64, 1}); }
  void store(Reg index, Reg value) { b.store({.space = Space::local, .index = index}, value); }

  void run() {
    std::vector<Dim> lines = space;
    lines[axis] = 1;
    nest.grid = element_count(lines);
    nest.local_bytes = space[axis] * Dim(4 * 8);
    std::vector<Reg> at = split_index(b, b.grid_index(), lines);
    const Reg count = b.dim(space[axis]);
    each(count, [&](Reg k) {
      at[axis] = k;
      const Reg key = b.convert(order_key(b, evaluate(b, program, {at, std::nullopt, 1}), dtype), DType::i64);
      store(k, descending ? reversed_key(b, key) : key);
      store(b.add(count, k), k);
    });
    const Reg sorted = merge_passes(count);
    const Access output{0, strides_of(space)};
    const int out = static_cast<int>(nest.places.size()) - 1;
    each(count, [&](Reg k) {
      at[axis] = k;
      store_element(b, {.place = out, .index = element_index(b, output, at)},
                    load(b.add(b.add(sorted, count), k)));
    });
  }

  template <typename Body>
  void each(Reg count, Body body) {
    b.loop(b.integer(0), count, b.integer(1), {}, [&](Reg k, std::span<const Reg>) -> std::vector<Reg> {
      body(k);
      return {};
    });
  }

  // Runs of `width` elements become runs of twice as many, from one half of the memory to the other. Returns
  // where the sorted half begins.
  Reg merge_passes(Reg count) {
    const Reg zero = b.integer(0), half = b.multiply(count, b.integer(2));
    return b.loop(zero, b.integer(kPassesMax), b.integer(1), {b.integer(1), zero},
                  [&](Reg, std::span<const Reg> carried) -> std::vector<Reg> {
                    const Reg width = carried[0], from = carried[1], to = b.subtract(half, from);
                    const Reg unfinished = b.less(width, count), pair = b.multiply(width, b.integer(2));
                    const Reg end = b.select(unfinished, count, zero);
                    b.loop(zero, end, pair, {}, [&](Reg low, std::span<const Reg>) -> std::vector<Reg> {
                      merge(from, to, count, low, b.minimum(b.add(low, width), count),
                            b.minimum(b.add(low, pair), count));
                      return {};
                    });
                    return {b.select(unfinished, pair, width), b.select(unfinished, to, from)};
                  })[1];
  }

  // [low, middle) and [middle, high) of `from` to [low, high) of `to`; of equal keys the left one comes
  // first.
  void merge(Reg from, Reg to, Reg count, Reg low, Reg middle, Reg high) {
    const Reg one = b.integer(1), last = b.subtract(count, one);
    b.loop(low, high, one, {low, middle}, [&](Reg k, std::span<const Reg> carried) -> std::vector<Reg> {
      const Reg left = carried[0], right = carried[1];
      const Reg left_at = b.add(from, b.minimum(left, last)), right_at = b.add(from, b.minimum(right, last));
      const Reg left_key = load(left_at), right_key = load(right_at);
      const Reg left_done = b.less_equal(middle, left), right_done = b.less_equal(high, right);
      const Reg yes = b.integer(1, DType::boolean), no = b.integer(0, DType::boolean);
      const Reg ordered = b.less_equal(left_key, right_key);
      const Reg take_left = b.select(left_done, no, b.select(right_done, yes, ordered));
      const Reg target = b.add(to, k);
      store(target, b.select(take_left, left_key, right_key));
      store(b.add(target, count), load(b.add(b.select(take_left, left_at, right_at), count)));
      return {b.select(take_left, b.add(left, one), left), b.select(take_left, right, b.add(right, one))};
    });
  }

  bool descending;
  std::size_t axis;
  Shape space;
  ScalarProgram program;
  DType dtype;
  LoopNest nest;
  NestBuilder b;
};

}  // namespace

Result<Kernel> lower_sort(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                          std::string entry) {
  SortLowering lowering(body, kernel, std::move(entry));
  lowering.run();
  return finish(std::move(lowering.nest), traits);
}

}  // namespace diji
