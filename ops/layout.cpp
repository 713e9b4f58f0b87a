// Operators that make tensors from sizes, repeat, cut or mask them.
#include "graph/builder.h"
#include "ops/adapters.h"
#include "ops/families.h"
#include "ops/records.h"
#include "ops/rules.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace diji {
namespace {

// How many elements a range has, where sizes or constants tell.
std::optional<Dim> range_count(Builder& b, const OpCall& call) {
  const auto start = b.contents(call.inputs[0]), limit = b.contents(call.inputs[1]),
             delta = b.contents(call.inputs[2]);
  if (start && limit && delta && (*delta)[0].constant().value_or(0) != 0) {
    const Dim &from = (*start)[0], &to = (*limit)[0], &step = (*delta)[0];
    if (*step.constant() > 0) return max(floor_div(to - from + step - 1, step), 0);
    return max(floor_div(from - to - step - 1, Dim(0) - step), 0);
  }
  const auto first = constant_number(b, call.inputs[0]), end = constant_number(b, call.inputs[1]),
             by = constant_number(b, call.inputs[2]);
  if (!first || !end || !by || *by == 0 || start) return std::nullopt;
  const double count = std::ceil((*end - *first) / *by);
  if (!(count < 0x1p40)) {
    b.fail(ErrorCode::mismatch, "from {} to {} by {} has no end", *first, *end, *by);
    return std::nullopt;
  }
  return Dim(static_cast<std::int64_t>(std::max(count, 0.0)));
}

// Element i is start + i · delta. The count may come from data: then the host reads it.
Values range(Builder& b, const OpCall& call) {
  const DType dtype = b.dtype(call.inputs[0]);
  const DType wide = is_floating(dtype) ? (dtype == DType::f64 ? dtype : DType::f32) : dtype;
  const auto scalar = [&](std::size_t i) { return b.reshape(b.convert(call.inputs[i], wide), {}); };
  const ValueId start = scalar(0), limit = scalar(1), delta = scalar(2);
  if (constant_number(b, call.inputs[2]) == 0.0) return {b.fail(ErrorCode::mismatch, "delta is 0")};
  std::optional<Dim> count = range_count(b, call);
  if (!b.ok()) return {ValueId::none};
  if (!count) {
    const DType exact = is_floating(dtype) ? DType::f64 : DType::i64;
    const ValueId span = b.subtract(b.convert(limit, exact), b.convert(start, exact));
    const ValueId step = b.convert(delta, exact), zero = b.scalar(exact, 0);
    ValueId number = b.divide(span, step);
    if (is_floating(dtype)) {
      number = b.map(Primitive::ceil, {number});
    } else {
      // Truncation cuts a last partial step off where both have one sign.
      const ValueId rest = b.map(Primitive::remainder, {span, step});
      const ValueId partial =
          b.logical_and(b.logical_not(b.equal(rest, zero)), b.equal(b.less(span, zero), b.less(step, zero)));
      number = b.add(number, b.convert(partial, exact));
    }
    const Shape symbols = call.attributes.get_or("symbols", Shape{1});
    const ValueId known = b.observe(b.convert(b.maximum(number, zero), DType::i64), symbols);
    count = b.contents(known).value_or(Shape{0})[0];
    count = max(*count, 0);
  }
  const ValueId steps = b.convert(b.iota({*count}, 0), wide);
  return {b.convert(b.add(start, b.multiply(steps, delta)), dtype)};
}

Values constant_of_shape(Builder& b, const OpCall& call) {
  const auto shape = b.contents(call.inputs[0]);
  if (!shape) return {b.undecided("the shape is not known, nor how many axes it has")};
  const HostTensor* value = call.attributes.get<HostTensor>("value");
  if (value != nullptr && value->count() != 1)
    return {b.fail(ErrorCode::mismatch, "value has {} elements, it must have 1", value->count())};
  const ValueId filled = value == nullptr ? b.scalar(DType::f32, 0) : b.reshape(b.constant(*value), {});
  return {b.broadcast(filled, *shape)};
}

Values eye_like(Builder& b, const OpCall& call) {
  const Shape shape = b.shape(call.inputs[0]);
  if (shape.size() != 2) return {b.fail(ErrorCode::mismatch, "{} is no matrix", text_of(shape))};
  const ValueId diagonal =
      b.add(b.iota(shape, 0),
            b.scalar(DType::i64, static_cast<double>(call.attributes.get_or<std::int64_t>("k", 0))));
  return {b.convert(b.equal(diagonal, b.iota(shape, 1)),
                    call.attributes.get_or("dtype", b.dtype(call.inputs[0])))};
}

Values tile(Builder& b, const OpCall& call) {
  const Shape from = b.shape(call.inputs[0]);
  const auto repeats = b.contents(call.inputs[1]);
  if (!repeats || repeats->size() != from.size()) {
    return {b.fail(ErrorCode::mismatch, "repeats needs {} elements for {}", from.size(), text_of(from))};
  }
  Shape apart, stretched, joined;
  for (std::size_t i = 0; i < from.size(); ++i) {
    apart.insert(apart.end(), {Dim(1), from[i]});
    stretched.insert(stretched.end(), {(*repeats)[i], from[i]});
    joined.push_back((*repeats)[i] * from[i]);
  }
  return {b.reshape(b.broadcast(b.reshape(call.inputs[0], apart), stretched), joined)};
}

Values split(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  const auto axis =
      static_cast<std::size_t>(b.axis(call.attributes.get_or<std::int64_t>("axis", 0), b.rank(x)));
  if (!b.ok()) return {ValueId::none};
  const Shape from = b.shape(x);
  const auto parts = call.attributes.get_or<std::int64_t>("num_outputs", 0);
  Shape sizes;
  if (call.inputs.size() > 1 && call.inputs[1] != ValueId::none) {
    sizes = b.contents(call.inputs[1]).value_or(Shape{});
    Dim total = 0;
    for (const Dim& size : sizes) total = total + size;
    require_equal(b, total, from[axis], "the sum of split and the size of the axis");
  } else {
    // Equal parts but for a shorter last one.
    if (parts < 1) return {b.fail(ErrorCode::mismatch, "num_outputs is {}", parts)};
    const Dim chunk = floor_div(from[axis] + Dim(parts - 1), Dim(parts));
    Dim rest = from[axis];
    for (std::int64_t i = 0; i < parts; ++i) {
      sizes.push_back(i + 1 == parts ? rest : min(chunk, rest));
      rest = rest - sizes.back();
    }
  }
  Values results;
  Shape start(from.size(), Dim(0));
  for (const Dim& part : sizes) {
    Shape size = from;
    size[axis] = part;
    results.push_back(b.slice(x, start, size, Ints(from.size(), 1)));
    start[axis] = start[axis] + part;
  }
  if (results.empty()) return {b.fail(ErrorCode::mismatch, "split into no parts")};
  return results;
}

Values trilu(Builder& b, const OpCall& call) {
  const Shape shape = b.shape(call.inputs[0]);
  const auto rank = std::ssize(shape);
  if (rank < 2) return {b.fail(ErrorCode::mismatch, "{} is no matrix", text_of(shape))};
  ValueId row = b.iota(shape, rank - 2);
  const ValueId column = b.iota(shape, rank - 1);
  if (call.inputs.size() > 1 && call.inputs[1] != ValueId::none)
    row = b.add(row, b.reshape(call.inputs[1], {}));
  const bool upper = call.attributes.get_or<std::int64_t>("upper", 1) != 0;
  const ValueId kept = upper ? b.less_equal(row, column) : b.less_equal(column, row);
  return {b.select(kept, call.inputs[0], b.scalar(b.dtype(call.inputs[0]), 0))};
}

Values size_op(Builder& b, const OpCall& call) {
  return {size_scalar(b, element_count(b.shape(call.inputs[0])))};
}

Values flatten(Builder& b, const OpCall& call) {
  const Shape from = b.shape(call.inputs[0]);
  const auto rank = std::ssize(from);
  auto axis = call.attributes.get_or<std::int64_t>("axis", 1);
  if (axis != rank) axis = b.axis(axis, rank);
  if (!b.ok()) return {ValueId::none};
  return {b.reshape(call.inputs[0], {element_count(Shape(from.begin(), from.begin() + axis)),
                                     element_count(Shape(from.begin() + axis, from.end()))})};
}

Result<void> split_sizes(Builder& b, ForeignNode& node) {
  TRY(attribute_to_input(b, node, "split", 1));
  const bool given = node.inputs.size() > 1 && node.inputs[1] != ValueId::none;
  if (!given && !node.attributes.has("num_outputs"))
    node.attributes.set("num_outputs", static_cast<std::int64_t>(node.outputs));
  return {};
}

// Tile-1 repeats one axis `tiles` times.
Result<void> tile_axis(Builder& b, ForeignNode& node) {
  if (node.version >= 6 || node.inputs.size() != 3) return {};
  const auto tiles = b.constant_ints(node.inputs[1]), axis = b.constant_ints(node.inputs[2]);
  if (!tiles || !axis || tiles->size() != 1 || axis->size() != 1)
    return fail(ErrorCode::unsupported, "tiles and axis must be constants before version 6");
  Ints repeats(static_cast<std::size_t>(b.rank(node.inputs[0])), 1);
  const auto at = static_cast<std::size_t>(b.axis((*axis)[0], std::ssize(repeats)));
  TRY(b.status());
  repeats[at] = (*tiles)[0];
  node.inputs = {node.inputs[0], b.constant(HostTensor::of<std::int64_t>(
                                     {std::ssize(repeats)}, std::span<const std::int64_t>(repeats)))};
  return {};
}

std::vector<Sample> range_samples(DType t) {
  const auto number = [&](double value) {
    return visit_dtype(t, [&](auto tag) {
      using T = typename decltype(tag)::type;
      return HostTensor::of<T>({}, {static_cast<T>(value)});
    });
  };
  const std::vector<bool> fixed = {true, true, true};
  std::vector<Sample> samples = {{"up", {number(1), number(20), number(3)}, {}, fixed},
                                 {"empty", {number(5), number(5), number(1)}, {}, fixed},
                                 {"from data", {number(2), number(40), number(2)}, {}, {}}};
  if (is_floating(t) || is_signed_integer(t)) {
    samples.push_back({"down", {number(10), number(-7), number(-2)}, {}, fixed});
    samples.push_back({"down from data", {number(10), number(-7), number(-2)}, {}, {}});
    samples.push_back({"nothing from data", {number(3), number(9), number(-2)}, {}, {}});
  }
  if (is_floating(t))
    samples.push_back({"from data, the last step cut off", {number(1), number(3), number(0.3)}, {}, {}});
  return samples;
}

std::vector<Sample> constant_of_shape_samples(DType) {
  return {{"zeros", {ints({3, 17})}, {}, {true}},
          {"ones", {ints({4})}, {{"value", HostTensor::of<std::int32_t>({1}, {1})}}, {true}},
          {"nothing", {ints({0, 3})}, {}, {true}}};
}

std::vector<Sample> eye_samples(DType t) {
  return {{"square", {sample_tensor(t, {5, 5}, Fill::normal)}, {}, {}},
          {"off", {sample_tensor(t, {4, 19}, Fill::normal)}, {{"k", std::int64_t{2}}}, {}},
          {"below",
           {sample_tensor(t, {4, 3}, Fill::normal)},
           {{"k", std::int64_t{-1}}, {"dtype", DType::f32}},
           {}}};
}

std::vector<Sample> tile_samples(DType t) {
  return {{"both axes", {sample_tensor(t, {3, 5}, Fill::normal), ints({2, 4})}, {}, {false, true}},
          {"no times", {sample_tensor(t, {3, 5}, Fill::normal), ints({0, 1})}, {}, {false, true}}};
}

std::vector<Sample> split_samples(DType t) {
  return {
      {"sizes",
       {sample_tensor(t, {3, 18}, Fill::normal), ints({1, 0, 17})},
       {{"axis", std::int64_t{1}}},
       {false, true}},
      {"a shorter last", {sample_tensor(t, {7, 2}, Fill::normal)}, {{"num_outputs", std::int64_t{3}}}, {}}};
}

std::vector<Sample> trilu_samples(DType t) {
  const auto k = [](std::int64_t value) { return HostTensor::of<std::int64_t>({}, {value}); };
  return {{"upper", {sample_tensor(t, {2, 5, 7}, Fill::normal)}, {}, {}},
          {"lower", {sample_tensor(t, {19, 18}, Fill::special), k(2)}, {{"upper", std::int64_t{0}}}, {}},
          {"beyond", {sample_tensor(t, {4, 5}, Fill::normal), k(-9)}, {}, {}}};
}

std::vector<Sample> flatten_samples(DType t) {
  return {{"default", {sample_tensor(t, {2, 3, 4}, Fill::normal)}, {}, {}},
          {"first", {sample_tensor(t, {2, 3, 4}, Fill::normal)}, {{"axis", std::int64_t{0}}}, {}},
          {"last", {sample_tensor(t, {2, 3, 4}, Fill::normal)}, {{"axis", std::int64_t{3}}}, {}}};
}

constexpr OperandMode kOptional = OperandMode::optional;
constexpr DTypeSet kRange = kNumeric;

constexpr std::array kOps = {
    OpDef{.name = "range",
          .doc = "start, start + delta, … before limit.",
          .inputs = {{"start", "[]", kRange}, {"limit", "[]", kRange}, {"delta", "[]", kRange}},
          .outputs = {{"output", "[n]", kRange}},
          .attributes = {{"stash_type", AttributeKind::integer, "1", "16-bit floats count in f32"}},
          .fresh_symbols = 1,
          .decompose = range,
          .samples = range_samples,
          .onnx = {"Range", {11, 27}},
          .oracle = "onnx-node:test_range"},
    OpDef{.name = "constant_of_shape",
          .doc = "One value everywhere; f32 0 unless given.",
          .inputs = {{"input", "[r]", kI64, "index", OperandMode::required, true}},
          .outputs = {{"output", "shape", kAny, "value"}},
          .attributes = {{"value", AttributeKind::tensor, "f32 0", "one element"}},
          .decompose = constant_of_shape,
          .samples = constant_of_shape_samples,
          .onnx = {"ConstantOfShape", {9, 20, 21, 23, 24, 25}},
          .oracle = "onnx-node:test_constantofshape"},
    OpDef{.name = "eye_like",
          .doc = "1 on diagonal k, else 0, of the shape of the input.",
          .inputs = {{"input", "[M, N]"}},
          .outputs = {{"output", "[M, N]", kAny, "dtype"}},
          .attributes = {{"dtype", AttributeKind::dtype, "of input", ""},
                         {"k", AttributeKind::integer, "0", "above the main diagonal"}},
          .decompose = eye_like,
          .samples = eye_samples,
          .onnx = {"EyeLike", {9, 22}},
          .oracle = "onnx-node:test_eyelike"},
    OpDef{.name = "tile",
          .doc = "The input behind itself repeats[i] times along axis i.",
          .inputs = {{"input", "[...]"}, {"repeats", "[r]", kIndex, "index", OperandMode::required, true}},
          .outputs = {{"output", "[...]"}},
          .decompose = tile,
          .samples = tile_samples,
          .onnx = {"Tile", {1, 6, 13}, tile_axis},
          .oracle = "onnx-node:test_tile"},
    OpDef{.name = "split",
          .doc = "Parts along axis, of the sizes in split, or num_outputs equal ones with a shorter last.",
          .inputs = {{"input", "[..., n, ...]"}, {"split", "[parts]", kI64, "index", kOptional, true}},
          .outputs = {{"outputs", "[..., n_i, ...]", kAny, "T", OperandMode::variadic}},
          .attributes = {{"axis", AttributeKind::integer, "0", "may be negative"},
                         {"num_outputs", AttributeKind::integer, "as many as named", ""}},
          .decompose = split,
          .samples = split_samples,
          .onnx = {"Split", {1, 2, 11, 13, 18}, split_sizes},
          .oracle = "onnx-node:test_split"},
    OpDef{.name = "trilu",
          .doc = "The upper (lower) triangle from diagonal k on; 0 elsewhere.",
          .inputs = {{"input", "[..., M, N]"}, {"k", "[]", kI64, "index", kOptional}},
          .outputs = {{"output", "[..., M, N]"}},
          .attributes = {{"upper", AttributeKind::integer, "1", "0: lower"}},
          .decompose = trilu,
          .samples = trilu_samples,
          .onnx = {"Trilu", {14}},
          .oracle = "onnx-node:test_tri"},
    OpDef{.name = "size",
          .doc = "The number of elements.",
          .inputs = {{"data", "[...]"}},
          .outputs = {{"size", "[]", kI64, "index"}},
          .decompose = size_op,
          .samples = unary_samples,
          .onnx = {"Size", {1, 13, 19, 21, 23, 24, 25}},
          .oracle = "onnx-node:test_size"},
    OpDef{.name = "flatten",
          .doc = "A matrix: the axes before axis, and the others.",
          .inputs = {{"input", "[...]"}},
          .outputs = {{"output", "[M, N]"}},
          .attributes = {{"axis", AttributeKind::integer, "1", "may be negative, or the rank"}},
          .decompose = flatten,
          .samples = flatten_samples,
          .onnx = {"Flatten", {1, 9, 11, 13, 21, 23, 24, 25}},
          .oracle = "onnx-node:test_flatten"},
};

}  // namespace

std::span<const OpDef> layout_ops() { return kOps; }

}  // namespace diji
