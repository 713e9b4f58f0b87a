// Random graphs over all primitives, with symbolic sizes and data that fits them: for property tests of every
// floor above graph/. The same seed gives the same graph.
#pragma once

#include "base/checked.h"
#include "graph/bind.h"
#include "graph/builder.h"
#include "graph/interpreter.h"

#include <cmath>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace diji::test {

struct RandomGraphOptions {
  int steps = 8;
  std::int64_t elements_max = 2048;  ///< of any one value
  bool special_values = false;       ///< NaN, ±Inf, −0 among the inputs
  bool data_sizes = false;           ///< sizes that only a run tells
  /// Collectives in groups "data" of 3 ranks and "model" of 2, whose number is a symbol.
  bool collectives = false;
};
inline constexpr std::int64_t kDataRanks = 3, kModelRanks = 2;

class RandomGraph {
 public:
  RandomGraph(std::uint64_t seed, RandomGraphOptions options) : options_(options), random_(seed) {
    for (const char* name : {"N", "M"}) {
      const std::int64_t value = one_of({0, 1, 2, 3, 15, 16, 17, 33, 7, 4, 16, 33});
      const Bounds bounds = below(2) == 0 || value == 0 ? Bounds{} : Bounds{1, 1 << 20};
      symbols_.push_back(Dim::symbol(name, bounds));
      bindings_[name] = value;
    }
    bindings_["ranks"] = kModelRanks;
    // An input that binds both symbols, whatever else is built.
    fresh_input(DType::f32, {symbols_[0], symbols_[1]});
    pool_.push_back(graph_.inputs()[0].value);
    for (int i = 0; i < 2; ++i) attempt([&](Builder&) { return fresh_input(any_dtype(), any_shape()); });
    for (int step = 0, tries = 0; step < options_.steps && tries < 8 * options_.steps; ++tries) {
      step += attempt([&](Builder& b) { return any_node(b); }) ? 1 : 0;
    }
    graph_.add_output("last", pool_.back());
    for (int i = static_cast<int>(below(3)); i > 0; --i)
      graph_.add_output(fmt::format("other {}", i), any_value());
  }

  const Graph& graph() const { return graph_; }
  const std::vector<HostTensor>& inputs() const { return inputs_; }
  /// The inputs of another rank: floats turned by so many elements, the rest as it is.
  std::vector<HostTensor> inputs_of(std::int64_t rank) const {
    std::vector<HostTensor> turned;
    for (const HostTensor& input : inputs_) {
      HostTensor copy = HostTensor::allocate(input.dtype(), input.shape()).value();
      visit_dtype(input.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto from = input.values<T>();
        const auto to = copy.mutable_values<T>();
        std::ranges::copy(from, to.begin());
        if (is_floating(input.dtype()) && !from.empty())
          std::rotate(to.begin(), to.begin() + rank % std::ssize(to), to.end());
      });
      turned.push_back(std::move(copy));
    }
    return turned;
  }

 private:
  std::int64_t below(std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random_);
  }
  template <typename T>
  T one_of(std::initializer_list<T> items) {
    return items.begin()[below(std::ssize(items))];
  }
  ValueId any_value() { return pool_[static_cast<std::size_t>(below(std::ssize(pool_)))]; }
  // Late values more often, so that graphs are deep rather than wide.
  ValueId late_value() {
    return below(4) == 0
               ? any_value()
               : pool_[pool_.size() - 1 -
                       static_cast<std::size_t>(below(std::min<std::int64_t>(2, std::ssize(pool_))))];
  }
  DType any_dtype() {
    return below(3) == 0
               ? static_cast<DType>(below(kDTypeCount))
               : one_of({DType::f32, DType::f32, DType::f32, DType::f16, DType::i32, DType::f64, DType::i64});
  }
  Dim any_size() {
    if (below(5) < 2) return symbols_[static_cast<std::size_t>(below(2))];
    return one_of<Dim>({1, 1, 2, 3, 4, 5, 6, 15, 16, 17, 33});
  }
  Shape any_shape() {
    Shape shape;
    for (std::int64_t rank = below(5); rank > 0; --rank) shape.push_back(any_size());
    return shape;
  }

  std::optional<std::int64_t> count(const Shape& shape) const {
    const auto sizes = evaluate(shape, bindings_);
    if (!sizes) return std::nullopt;
    return checked_product(*sizes);
  }
  std::int64_t value_of(const Dim& dim) const { return dim.evaluate(bindings_).value_or(-1); }

  // Keeps what `make` builds when it is right for this graph's sizes, else takes it back.
  template <typename Make>
  bool attempt(Make make) {
    const Graph graph = graph_;
    const auto inputs = inputs_;
    Builder b(graph_);
    const ValueId id = make(b);
    if (id != ValueId::none && b.ok() && fits(graph.values().size())) {
      pool_.push_back(id);
      return true;
    }
    graph_ = graph;
    inputs_ = inputs;
    return false;
  }
  bool fits(std::size_t first_new) const {
    for (const Constraint& c : graph_.constraints()) {
      // What only a run tells cannot be checked before it.
      if (c.left.text().contains('#') || c.right.text().contains('#')) return false;
      const auto left = c.left.evaluate(bindings_), right = c.right.evaluate(bindings_);
      if (!left || !right || !(c.kind == Constraint::Kind::equal ? *left == *right : *left <= *right))
        return false;
    }
    for (std::size_t i = first_new; i < graph_.values().size(); ++i) {
      const auto elements = count(graph_.values()[i].type.shape);
      if (!elements || *elements > options_.elements_max) return false;
    }
    return true;
  }

  double any_real() {
    if (options_.special_values && below(6) == 0)
      return one_of({std::nan(""), HUGE_VAL, -HUGE_VAL, -0.0, 0.0, 1e30, -1e-30});
    return below(12) == 0 ? 0.0 : std::uniform_real_distribution<double>(-2, 2)(random_);
  }
  ValueId fresh_input(DType dtype, const Shape& shape) {
    const auto sizes = evaluate(shape, bindings_);
    const auto elements = count(shape);
    if (!elements || *elements > options_.elements_max || text_of(shape).contains('#')) return ValueId::none;
    HostTensor tensor = HostTensor::allocate(dtype, *sizes).value();
    const std::int64_t kind = below(8);
    visit_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (T& value : tensor.mutable_values<T>()) {
        if constexpr (std::is_same_v<T, bool>) {
          value = below(2) == 0;
        } else if constexpr (std::is_integral_v<T>) {
          value = static_cast<T>(
              kind == 0 ? random_() : static_cast<std::uint64_t>(below(21) - (std::is_signed_v<T> ? 10 : 0)));
        } else {
          value = static_cast<T>(any_real());
        }
      }
    });
    if (graph_.inputs().size() > 1 && below(4) == 0) {
      if (std::ranges::all_of(shape, [](const Dim& d) { return d.constant().has_value(); }))
        return graph_.add_constant(std::move(tensor));
    }
    inputs_.push_back(std::move(tensor));
    return graph_.add_input(fmt::format("x{}", graph_.inputs().size()), {dtype, shape});
  }

  // The next one of its group.
  ValueId collective(Builder& b) {
    const bool model = below(2) == 0;
    GroupChannel channel{.group = model ? "model" : "data",
                         .ranks = model ? Dim::symbol("ranks", {1, 64}) : Dim(kDataRanks)};
    for (const Node& node : graph_.nodes())
      channel.number += channel_of(node.attributes).group == channel.group ? 2 : 0;
    ValueId x = below(4) == 0 ? any_value() : late_value();
    const Reduction kind = one_of({Reduction::sum, Reduction::max, Reduction::min, Reduction::product});
    const bool number = b.dtype(x) != DType::boolean;
    switch (below(number ? 6 : 3)) {
      case 0: return b.rank(x) == 0 ? ValueId::none : b.all_gather(x, channel);
      case 1: return b.rank(x) == 0 ? ValueId::none : b.all_to_all(x, channel);
      case 2: return b.collective_broadcast(x, below(2), channel);
      case 3: return b.rank(x) == 0 ? ValueId::none : b.reduce_scatter(x, kind, channel);
      default: return b.all_reduce(x, kind, channel);
    }
  }

  ValueId any_node(Builder& b) {
    if (options_.collectives && below(4) == 0) return collective(b);
    if (below(3) == 0) return indexed_node(b);
    switch (below(18)) {
      case 0:
      case 1:
      case 2:
      case 16: return binary(b);
      case 3:
      case 4: return unary(b);
      case 17: return below(2) == 0 ? unary(b) : selection(b);
      case 5: return b.convert(late_value(), any_dtype());
      case 6: return reshape(b);
      case 7: return permute(b);
      case 8: return stretch(b);
      case 9: return slice(b);
      case 10: return concatenate(b);
      case 11:
      case 12: return reduce(b);
      case 13: return dot(b);
      case 14: return convolution(b);
      default:
        return below(3) == 0
                   ? b.dims({symbols_[0], symbols_[0] * symbols_[1], 3}, one_of({DType::i64, DType::i32}))
                   : binary(b);
    }
  }

  // A map that takes x's dtype, of this many operands.
  Primitive any_map(Builder& b, ValueId x, int operands) {
    while (true) {
      const auto map = static_cast<Primitive>(below(static_cast<std::int64_t>(Primitive::convert)));
      if (arity(map) == operands && contains(op_of(map).inputs[0].dtypes, b.dtype(x))) return map;
    }
  }
  ValueId unary(Builder& b) {
    ValueId x = late_value();
    if (!is_floating(b.dtype(x)) && below(2) == 0)
      x = b.convert(x, one_of({DType::f32, DType::f64, DType::f16}));
    return b.dtype(x) == DType::boolean ? ValueId::none : b.map(any_map(b, x, 1), {x});
  }
  ValueId binary(Builder& b) {
    ValueId x = late_value();
    // Arithmetic more often than its share.
    const bool common = b.dtype(x) != DType::boolean && below(2) == 0;
    const Primitive op = common ? one_of({Primitive::add, Primitive::subtract, Primitive::multiply,
                                          Primitive::divide, Primitive::maximum, Primitive::add})
                                : any_map(b, x, 2);
    ValueId y = partner(b, x);
    if (y == ValueId::none) return y;
    const bool integers = is_integer(b.dtype(x));
    if (integers && (op == Primitive::divide || op == Primitive::remainder)) {
      y = b.maximum(y, b.scalar(b.dtype(x), 1));  // no zero divisor
    } else if (integers && op == Primitive::power) {
      y = b.minimum(b.maximum(y, b.scalar(b.dtype(x), 0)), b.scalar(b.dtype(x), 9));
    } else if (below(2) == 0) {
      std::swap(x, y);
    }
    return b.map(op, {x, y});
  }
  ValueId selection(Builder& b) {
    const ValueId x = late_value(), y = partner(b, x), z = partner(b, x);
    if (y == ValueId::none || z == ValueId::none) return ValueId::none;
    return b.select(b.map(one_of({Primitive::less, Primitive::equal, Primitive::less}), {x, z}), x, y);
  }
  // Something that broadcasts with x.
  ValueId partner(Builder& b, ValueId x) {
    const std::int64_t kind = below(4);
    if (kind == 0) return b.scalar(b.dtype(x), static_cast<double>(below(5)));
    if (kind == 1) {
      const ValueId y = any_value();
      return b.dtype(y) == b.dtype(x) ? y : b.convert(y, b.dtype(x));
    }
    if (kind == 2) return x;
    Shape shape = b.shape(x);
    for (Dim& size : shape) {
      if (below(3) == 0) size = 1;
    }
    shape.erase(shape.begin(), shape.begin() + below(std::ssize(shape) + 1) / 2);
    return fresh_input(b.dtype(x), shape);
  }

  ValueId reshape(Builder& b) {
    const ValueId x = late_value();
    Shape shape = b.shape(x);
    const std::int64_t kind = below(5);
    if (kind == 0) return b.reshape(x, {element_count(shape)});
    const std::int64_t at = below(std::ssize(shape) + 1);
    if (kind == 1) shape.insert(shape.begin() + at, Dim(1));
    if (kind == 2) std::erase(shape, Dim(1));
    if (kind == 3 && at > 0 && at < std::ssize(shape)) {
      shape[static_cast<std::size_t>(at)] =
          shape[static_cast<std::size_t>(at - 1)] * shape[static_cast<std::size_t>(at)];
      shape.erase(shape.begin() + at - 1);
    }
    if (kind == 4 && at < std::ssize(shape)) {
      const std::int64_t size = shape[static_cast<std::size_t>(at)].constant().value_or(1);
      const std::int64_t factor = one_of({2, 3, 4, 5});
      if (size % factor != 0) return ValueId::none;
      shape[static_cast<std::size_t>(at)] = size / factor;
      shape.insert(shape.begin() + at, Dim(factor));
    }
    return shape == b.shape(x) ? ValueId::none : b.reshape(x, shape);
  }
  ValueId permute(Builder& b) {
    const ValueId x = late_value();
    Ints permutation;
    for (std::int64_t i = 0; i < b.rank(x); ++i) permutation.push_back(i);
    std::ranges::shuffle(permutation, random_);
    const ValueId y = b.transpose(x, permutation);
    return y == x ? ValueId::none : y;
  }
  ValueId stretch(Builder& b) {
    const ValueId x = late_value();
    Shape shape = b.shape(x);
    for (Dim& size : shape) {
      if (size.is(1)) size = any_size();
    }
    if (below(2) == 0) shape.insert(shape.begin(), any_size());
    return shape == b.shape(x) ? ValueId::none : b.broadcast(x, shape);
  }
  ValueId slice(Builder& b) {
    const ValueId x = late_value();
    Shape start, size;
    Ints step;
    for (const Dim& from : b.shape(x)) {
      const std::int64_t pace = one_of({1, 1, 2, 3});
      const std::int64_t kind = below(5);
      const Dim room = kind == 4 && value_of(from) > 0 ? from - 1 : from;
      if (kind == 0) {  // numbers
        const std::int64_t first = below(value_of(from) + 1);
        start.emplace_back(first);
        size.emplace_back(first < value_of(from) ? 1 + below((value_of(from) - first - 1) / pace + 1) : 0);
        step.push_back(pace);
      } else if (kind <= 2 && value_of(from) > 0) {  // backwards
        start.push_back(from - 1);
        size.push_back(floor_div(from + Dim(pace - 1), Dim(pace)));
        step.push_back(-pace);
      } else {
        start.push_back(from - room);
        size.push_back(floor_div(room + Dim(pace - 1), Dim(pace)));
        step.push_back(pace);
      }
    }
    const ValueId y = b.slice(x, start, size, step);
    return y == x ? ValueId::none : y;
  }
  ValueId concatenate(Builder& b) {
    const ValueId x = late_value();
    if (b.rank(x) == 0) return ValueId::none;
    const std::int64_t axis = below(b.rank(x));
    Values parts = {x};
    for (std::int64_t more = 1 + below(2); more > 0; --more) {
      Shape shape = b.shape(x);
      shape[static_cast<std::size_t>(axis)] = any_size();
      parts.push_back(below(3) == 0 ? x : fresh_input(b.dtype(x), shape));
      if (parts.back() == ValueId::none) return ValueId::none;
    }
    std::ranges::shuffle(parts, random_);
    return b.concatenate(parts, axis);
  }
  ValueId reduce(Builder& b) {
    const ValueId x = late_value();
    Ints axes;
    for (std::int64_t axis = 0; axis < b.rank(x); ++axis) {
      if (below(2) == 0) axes.push_back(axis);
    }
    if (axes.empty()) return ValueId::none;
    const Shape from = b.shape(x);
    const ValueId y =
        b.reduce(x, one_of({Reduction::sum, Reduction::max, Reduction::min, Reduction::product}), axes);
    if (below(2) == 0 || !b.ok()) return y;
    Shape kept = from;  // as in a softmax: the result goes back to its operand
    for (const std::int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
    return b.map(one_of({Primitive::subtract, Primitive::add}), {x, b.reshape(y, kept)});
  }
  ValueId dot(Builder& b) {
    const ValueId x = late_value();
    if (b.rank(x) == 0 || b.dtype(x) == DType::boolean) return ValueId::none;
    struct Axis {
      Dim size;
      int kind;  // 0 batch, 1 contracted, 2 free
      std::int64_t of_x;
    };
    std::vector<Axis> right;
    const std::int64_t contracted = below(b.rank(x));
    for (std::int64_t axis = 0; axis < b.rank(x); ++axis) {
      const bool again = below(12) == 0;
      if (axis == contracted || again)
        right.push_back({b.shape(x)[static_cast<std::size_t>(axis)], 1, axis});
      else if (below(3) == 0)
        right.push_back({b.shape(x)[static_cast<std::size_t>(axis)], 0, axis});
    }
    for (std::int64_t free = one_of({0, 1, 1, 1, 1, 2}); free > 0; --free)
      right.push_back({any_size(), 2, -1});
    if (below(2) == 0) std::ranges::shuffle(right, random_);
    DotDims dims;
    Shape shape;
    for (std::size_t i = 0; i < right.size(); ++i) {
      shape.push_back(right[i].size);
      if (right[i].kind == 2) continue;
      (right[i].kind == 0 ? dims.lhs_batch : dims.lhs_contracting).push_back(right[i].of_x);
      (right[i].kind == 0 ? dims.rhs_batch : dims.rhs_contracting).push_back(static_cast<std::int64_t>(i));
    }
    const ValueId y = fresh_input(b.dtype(x), shape);
    if (y == ValueId::none) return y;
    return b.dot_general(x, y, dims);
  }
  ValueId convolution(Builder& b) {
    const DType dtype = one_of({DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16});
    const std::int64_t groups = one_of({1, 1, 2, 3}), channels = 1 + below(3),
                       filters = groups * one_of<std::int64_t>({1, 2, 3, 7, 13});
    Shape x_shape = {one_of<Dim>({1, 2, symbols_[0]}), groups * channels}, w_shape = {filters, channels};
    ConvolutionDims dims{.groups = groups};
    for (std::int64_t spatial = 1 + below(2); spatial > 0; --spatial) {
      x_shape.push_back(any_size());
      w_shape.push_back(1 + below(3));
      dims.strides.push_back(one_of({1, 1, 2, 3}));
      dims.dilations.push_back(one_of({1, 1, 2}));
      dims.pads_low.emplace_back(one_of({0, 0, 1, 2}));
      dims.pads_high.emplace_back(one_of({0, 0, 1, 3}));
    }
    const ValueId x = fresh_input(dtype, x_shape), w = fresh_input(dtype, w_shape);
    if (x == ValueId::none || w == ValueId::none) return ValueId::none;
    return b.convolution(x, w, dims);
  }

  // What works by coordinates.
  ValueId indexed_node(Builder& b) {
    const ValueId x = late_value();
    const std::int64_t rank = b.rank(x), axis = rank == 0 ? 0 : below(rank);
    if (rank == 0) return coordinates(b);
    const std::int64_t size = value_of(b.shape(x)[static_cast<std::size_t>(axis)]);
    const bool number = b.dtype(x) != DType::boolean;
    switch (below(9)) {
      case 0: return coordinates(b);
      case 1: return gather(b, x);
      case 2: return window(b, x, axis);
      case 3: return rows(b, x, axis);
      case 4: return scatter(b, x);
      case 5:
        return size == 0 ? ValueId::none
                         : b.arg_reduce(x, one_of({Reduction::min, Reduction::max}), axis, below(2) == 0);
      case 6:
        return number ? b.prefix_scan(x, one_of({Reduction::sum, Reduction::product}), axis, below(2) == 0,
                                      below(2) == 0)
                      : ValueId::none;
      case 7: return b.sort_indices(x, axis, below(2) == 0);
      default: return options_.data_sizes ? compact(b) : gather(b, x);
    }
  }
  ValueId coordinates(Builder& b) {
    Shape shape = any_shape();
    if (shape.empty()) shape.push_back(any_size());
    return b.iota(shape, below(std::ssize(shape)),
                  one_of({DType::i64, DType::i64, DType::f32, DType::i8, DType::f16}));
  }
  // An input of indices from `low` to below `high`.
  ValueId index_input(const Shape& shape, std::int64_t high, std::int64_t low = 0) {
    const ValueId id = fresh_input(DType::i64, shape);
    if (id == ValueId::none || inputs_.empty() || graph_.value(id).constant != nullptr) return ValueId::none;
    for (std::int64_t& index : inputs_.back().mutable_values<std::int64_t>()) {
      if (high <= low) return ValueId::none;
      index = low + below(high - low);
    }
    return id;
  }
  // One index tensor an axis of x; some are coordinates, some data.
  Values index_tensors(Builder& b, ValueId x, const Shape& shape) {
    Values indices;
    for (const Dim& size : b.shape(x)) {
      const std::int64_t along = shape.empty() ? 0 : below(std::ssize(shape));
      const bool fits = !shape.empty() && value_of(shape[static_cast<std::size_t>(along)]) <= value_of(size);
      indices.push_back(fits && below(2) == 0 ? b.iota(shape, along) : index_input(shape, value_of(size)));
      if (indices.back() == ValueId::none) return {};
    }
    return indices;
  }
  ValueId gather(Builder& b, ValueId x) {
    const Values indices = index_tensors(b, x, below(3) == 0 ? b.shape(x) : any_shape());
    return indices.empty() ? ValueId::none : b.gather(x, indices, below(2) == 0);
  }
  // Whole rows by their numbers: an embedding.
  ValueId rows(Builder& b, ValueId x, std::int64_t axis) {
    const ValueId numbers = index_input({any_size()}, value_of(b.shape(x)[static_cast<std::size_t>(axis)]));
    if (numbers == ValueId::none) return numbers;
    Shape shape = b.shape(x), aligned(shape.size(), Dim(1));
    shape[static_cast<std::size_t>(axis)] = aligned[static_cast<std::size_t>(axis)] = b.shape(numbers)[0];
    Values indices;
    for (std::int64_t i = 0; i < b.rank(x); ++i)
      indices.push_back(i == axis ? b.reshape(numbers, aligned) : b.iota(shape, i));
    return b.gather(x, indices);
  }
  // x at every coordinate moved along one axis, 0 beyond its ends: a padding or one tap of a window.
  ValueId window(Builder& b, ValueId x, std::int64_t axis) {
    Shape shape = b.shape(x);
    Dim& size = shape[static_cast<std::size_t>(axis)];
    if (below(2) == 0) size = size + 3;
    Values indices;
    for (std::int64_t i = 0; i < b.rank(x); ++i) {
      ValueId at = b.iota(shape, i);
      if (i == axis && below(2) == 0)
        at = b.multiply(at, b.scalar(DType::i64, static_cast<double>(1 + below(3))));
      if (i == axis)
        at = b.subtract(at, below(3) == 0 ? b.reshape(b.dims({symbols_[0]}), {}) : b.scalar(DType::i64, 2));
      indices.push_back(at);
    }
    return b.gather(x, indices, true);
  }
  ValueId scatter(Builder& b, ValueId x) {
    const Shape shape = any_shape();
    const ValueId updates = fresh_input(b.dtype(x), shape);
    const Values indices = index_tensors(b, x, shape);
    if (indices.empty() || updates == ValueId::none) return ValueId::none;
    const bool truth = b.dtype(x) == DType::boolean;
    return b.scatter(
        x, updates, indices,
        truth ? Update::set
              : one_of({Update::set, Update::add, Update::multiply, Update::minimum, Update::maximum}));
  }
  ValueId compact(Builder& b) {
    const ValueId mask = fresh_input(DType::boolean, any_shape());
    if (mask == ValueId::none || inputs_.empty() || graph_.value(mask).constant != nullptr)
      return ValueId::none;
    const Dim count = graph_.fresh_symbol();
    bindings_[std::string(*count.symbol_name())] = std::ranges::count(inputs_.back().values<bool>(), true);
    return b.compact(mask, count);
  }

  RandomGraphOptions options_;
  std::mt19937_64 random_;
  std::vector<Dim> symbols_;
  Bindings bindings_;
  Graph graph_;
  std::vector<HostTensor> inputs_;
  std::vector<ValueId> pool_;
};

/// One element and one bound at a time: what is wrong with `got` as a computation of `wanted`; empty when
/// nothing is.
inline std::string difference(const HostTensor& got, const BoundedTensor& wanted) {
  const HostTensor& truth = wanted.value;
  if (got.shape() != truth.shape())
    return fmt::format("shape {}, wanted {}", text_of(got.shape()), text_of(truth.shape()));
  const bool floating = is_floating(got.dtype());
  if (!floating && got.dtype() != truth.dtype())
    return fmt::format("dtype {}, wanted {}", name_of(got.dtype()), name_of(truth.dtype()));
  const auto exact_got = floating ? std::vector<std::int64_t>{} : got.as_int64();
  const auto exact_truth = floating ? std::vector<std::int64_t>{} : truth.as_int64();
  const double largest = got.dtype() == DType::f16   ? 65504.0
                         : got.dtype() == DType::f64 ? 0x1.fffffffffffffp1023
                                                     : 0x1.fep127;
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double bound = wanted.bound.values<double>()[at];
    if (!std::isfinite(bound)) continue;  // nothing is promised
    const double a = got.as_double(i), b = truth.as_double(i);
    bool right = false;
    if (!floating) {
      right = exact_got[at] == exact_truth[at] || (bound > 0 && std::fabs(a - b) <= bound);
    } else if (std::isnan(b)) {
      right = std::isnan(a);
    } else if (std::isinf(a)) {
      right = std::signbit(a) == std::signbit(b) && std::fabs(b) + bound > largest;
    } else {
      right = std::fabs(a - b) <= bound;
    }
    if (!right) return fmt::format("element {}: got {}, true value {}, bound {}", i, a, b, bound);
  }
  return "";
}

/// Calls test(seed) for seeds 1 … count, or for DIJI_TEST_SEED alone. DIJI_TEST_COUNT is another count, for a
/// long run.
template <typename Test>
void for_each_seed(std::uint64_t count, Test test) {
  if (const char* seed = std::getenv("DIJI_TEST_SEED")) return test(std::strtoull(seed, nullptr, 10));
  if (const char* longer = std::getenv("DIJI_TEST_COUNT")) count = std::strtoull(longer, nullptr, 10);
  for (std::uint64_t seed = 1; seed <= count; ++seed) test(seed);
}

}  // namespace diji::test
