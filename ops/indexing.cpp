// Operators that read or write elements at computed positions.
#include "graph/builder.h"
#include "ops/families.h"
#include "ops/records.h"
#include "ops/rules.h"

#include <algorithm>
#include <array>

namespace diji {
namespace {

std::int64_t axis_of(Builder& b, const OpCall& call, std::int64_t otherwise = 0) {
  return b.axis(call.attributes.get_or<std::int64_t>("axis", otherwise), b.rank(call.inputs[0]));
}

// Coordinates of a tensor of shape `shape`, those of `axis` replaced. By value: a reference to the graph's
// own shape would dangle once nodes are added.
Values all_coordinates(Builder& b, Shape shape, std::size_t axis, ValueId along) {
  Values indices;
  for (std::size_t i = 0; i < shape.size(); ++i)
    indices.push_back(i == axis ? along : b.iota(shape, static_cast<std::int64_t>(i)));
  return indices;
}

Values gather(Builder& b, const OpCall& call) {
  const std::int64_t axis = axis_of(b, call);
  return {b.ok() ? b.take(call.inputs[0], call.inputs[1], axis) : ValueId::none};
}

// Index tensors of the operators "…Elements": every other coordinate is the index tensor's own.
std::optional<Values> element_indices(Builder& b, const OpCall& call, ValueId indices) {
  const ValueId x = call.inputs[0];
  if (b.rank(x) != b.rank(indices) || b.rank(x) == 0) {
    b.fail(ErrorCode::mismatch, "data {} and indices {} need one rank of at least 1", text_of(b.shape(x)),
           text_of(b.shape(indices)));
    return std::nullopt;
  }
  const auto axis = static_cast<std::size_t>(axis_of(b, call));
  if (!b.ok()) return std::nullopt;
  return all_coordinates(b, b.shape(indices), axis, from_the_end(b, indices, b.shape(x)[axis]));
}

Values gather_elements(Builder& b, const OpCall& call) {
  const auto indices = element_indices(b, call, call.inputs[1]);
  return {indices ? b.gather(call.inputs[0], *indices) : ValueId::none};
}

Update update_of(Builder& b, const OpCall& call) {
  const auto name = call.attributes.get_or("reduction", std::string("none"));
  constexpr std::pair<std::string_view, Update> kNames[] = {{"none", Update::set},
                                                            {"add", Update::add},
                                                            {"mul", Update::multiply},
                                                            {"min", Update::minimum},
                                                            {"max", Update::maximum}};
  for (const auto& [known, update] : kNames) {
    if (name == known) return update;
  }
  b.fail(ErrorCode::mismatch, "reduction '{}' is none of none, add, mul, min, max", name);
  return Update::set;
}

Values scatter_elements(Builder& b, const OpCall& call) {
  const auto indices = element_indices(b, call, call.inputs[1]);
  const Update update = update_of(b, call);
  if (!indices || !b.ok()) return {ValueId::none};
  return {b.scatter(call.inputs[0], call.inputs[2], *indices, update)};
}

// Index tensors of the operators "…ND": the last axis of `indices` holds coordinates of the axes from
// `batch` on; the result has the leading axes of `indices`, then the rest of x.
struct PointIndices {
  Values indices;
  Shape shape;
};

std::optional<PointIndices> point_indices(Builder& b, ValueId x, ValueId indices, std::int64_t batch) {
  const Shape from = b.shape(x), at = b.shape(indices);
  const auto depth = at.empty() ? std::nullopt : at.back().constant();
  const std::int64_t rank = std::ssize(from);
  if (!depth || batch < 0 || batch + *depth > rank || *depth < 1 || batch >= std::ssize(at)) {
    b.fail(ErrorCode::mismatch, "indices {} hold no coordinates of data {} behind {} batch axes", text_of(at),
           text_of(from), batch);
    return std::nullopt;
  }
  PointIndices result;
  result.shape.assign(at.begin(), at.end() - 1);
  for (std::int64_t i = 0; i < batch; ++i) {
    const auto axis = static_cast<std::size_t>(i);
    require_equal(b, from[axis], at[axis], fmt::format("GatherND: sizes of batch axis {}", i));
  }
  result.shape.insert(result.shape.end(), from.begin() + batch + *depth, from.end());
  const std::size_t lead = at.size() - 1;
  for (std::int64_t i = 0; i < rank; ++i) {
    if (i >= batch && i < batch + *depth) {
      Shape start(at.size(), Dim(0)), size = at;
      start.back() = i - batch;
      size.back() = 1;
      Shape aligned(at.begin(), at.end() - 1);
      aligned.resize(result.shape.size(), Dim(1));
      const ValueId one = b.slice(indices, start, size, Ints(at.size(), 1));
      const ValueId counted = from_the_end(b, one, from[static_cast<std::size_t>(i)]);
      result.indices.push_back(b.broadcast(b.reshape(counted, aligned), result.shape));
    } else {
      const std::int64_t axis = i < batch ? i : static_cast<std::int64_t>(lead) + i - batch - *depth;
      result.indices.push_back(b.iota(result.shape, axis));
    }
  }
  if (!b.ok()) return std::nullopt;
  return result;
}

// A point without axes is a scalar; index tensors need one axis at least.
ValueId unit_axis(Builder& b, ValueId x) {
  Shape shape = b.shape(x);
  shape.insert(shape.begin(), Dim(1));
  return b.reshape(x, std::move(shape));
}

Values gather_nd(Builder& b, const OpCall& call) {
  const auto batch = call.attributes.get_or<std::int64_t>("batch_dims", 0);
  const auto points = point_indices(b, call.inputs[0], call.inputs[1], batch);
  return {points ? b.gather(call.inputs[0], points->indices) : ValueId::none};
}

Values scatter_nd(Builder& b, const OpCall& call) {
  const auto points = point_indices(b, call.inputs[0], call.inputs[1], 0);
  const Update update = update_of(b, call);
  if (!points || !b.ok()) return {ValueId::none};
  const Shape& updates = b.shape(call.inputs[2]);
  if (updates.size() != points->shape.size()) {
    return {b.fail(ErrorCode::mismatch, "updates {} where {} is wanted", text_of(updates),
                   text_of(points->shape))};
  }
  return {b.scatter(call.inputs[0], call.inputs[2], points->indices, update)};
}

// Row `batch` of the update goes to position write_indices[batch] of `axis` on; circular positions wrap.
Values tensor_scatter(Builder& b, const OpCall& call) {
  const auto axis = static_cast<std::size_t>(axis_of(b, call, -2));
  const auto mode = call.attributes.get_or("mode", std::string("linear"));
  if (mode != "linear" && mode != "circular")
    b.fail(ErrorCode::mismatch, "mode '{}' is neither linear nor circular", mode);
  if (b.ok() && axis == 0) b.fail(ErrorCode::mismatch, "axis 0 is the batch");
  if (!b.ok()) return {ValueId::none};
  const Shape update = b.shape(call.inputs[1]);
  ValueId position = b.iota(update, static_cast<std::int64_t>(axis));
  if (call.inputs.size() > 2 && call.inputs[2] != ValueId::none) {
    Shape aligned(update.size(), Dim(1));
    aligned[0] = update[0];
    position = b.add(position, b.reshape(b.convert(call.inputs[2], DType::i64), aligned));
  }
  if (mode == "circular") {
    const ValueId size = size_scalar(b, b.shape(call.inputs[0])[axis]);
    position = b.map(Primitive::remainder, {position, size});
  }
  return {b.scatter(call.inputs[0], call.inputs[1], all_coordinates(b, update, axis, position), Update::set)};
}

// A class outside of 0 … depth-1 (or -depth … -1) is off everywhere.
Values one_hot(Builder& b, const OpCall& call) {
  const ValueId indices = b.convert(call.inputs[0], DType::i64);
  const auto depth = b.contents(call.inputs[1]);
  if (!depth || depth->size() != 1 || element_count(b.shape(call.inputs[2])).constant() != 2)
    return {b.fail(ErrorCode::mismatch, "depth is one number and values are two")};
  const auto axis =
      static_cast<std::size_t>(b.axis(call.attributes.get_or<std::int64_t>("axis", -1), b.rank(indices) + 1));
  if (!b.ok()) return {ValueId::none};
  const ValueId counted = from_the_end(b, indices, (*depth)[0]);
  Shape aligned = b.shape(indices);
  aligned.insert(aligned.begin() + static_cast<std::ptrdiff_t>(axis), Dim(1));
  Shape to = aligned;
  to[axis] = (*depth)[0];
  const ValueId on = b.equal(b.reshape(counted, aligned), b.iota(to, static_cast<std::int64_t>(axis)));
  const auto value = [&](std::int64_t i) {
    const ValueId list = b.reshape(call.inputs[2], {2});
    return b.reshape(b.slice(list, {i}, {1}, {1}), {});
  };
  return {b.select(on, value(1), value(0))};
}

// Rows of the true conditions; a condition shorter than the axis leaves the rest out.
Values compress(Builder& b, const OpCall& call) {
  const Dim count = call.attributes.get_or("symbols", Shape{1})[0];
  ValueId x = call.inputs[0];
  std::int64_t axis = 0;
  if (call.attributes.has("axis")) {
    axis = axis_of(b, call);
  } else {
    x = b.reshape(x, {element_count(b.shape(x))});
  }
  if (!b.ok() || b.rank(x) == 0) return {b.fail(ErrorCode::mismatch, "a scalar cannot be compressed")};
  const ValueId rows = b.compact(call.inputs[1], count);
  Shape to = b.shape(x), aligned(to.size(), Dim(1));
  const auto at = static_cast<std::size_t>(axis);
  to[at] = aligned[at] = count;
  return {b.gather(x, all_coordinates(b, to, at, b.broadcast(b.reshape(rows, aligned), to)))};
}

Values non_zero(Builder& b, const OpCall& call) {
  const Dim count = call.attributes.get_or("symbols", Shape{1})[0];
  const ValueId x = b.rank(call.inputs[0]) == 0 ? unit_axis(b, call.inputs[0]) : call.inputs[0];
  const Shape shape = b.shape(x);
  const ValueId mask = b.dtype(x) == DType::boolean ? x : b.logical_not(b.equal(x, b.scalar(b.dtype(x), 0)));
  const ValueId position = b.compact(mask, count);
  Values rows;
  Dim stride = element_count(shape);
  for (const Dim& size : shape) {
    // max(…, 1): with a size of 0 nothing is true, but the divisor must not be 0.
    stride = floor_div(stride, max(size, 1));
    const ValueId quotient = b.divide(position, size_scalar(b, max(stride, 1)));
    const ValueId coordinate = b.map(Primitive::remainder, {quotient, size_scalar(b, max(size, 1))});
    rows.push_back(b.reshape(coordinate, {1, count}));
  }
  return {b.concatenate(std::move(rows), 0)};
}

// Element t of a sequence of length n is element n-1-t, the rest stays.
Values reverse_sequence(Builder& b, const OpCall& call) {
  const std::int64_t rank = b.rank(call.inputs[0]);
  const std::int64_t batch = b.axis(call.attributes.get_or<std::int64_t>("batch_axis", 1), rank);
  const std::int64_t time = b.axis(call.attributes.get_or<std::int64_t>("time_axis", 0), rank);
  if (b.ok() && batch == time) b.fail(ErrorCode::mismatch, "batch_axis and time_axis are both {}", batch);
  if (!b.ok()) return {ValueId::none};
  const Shape shape = b.shape(call.inputs[0]);
  Shape aligned(shape.size(), Dim(1));
  aligned[static_cast<std::size_t>(batch)] = shape[static_cast<std::size_t>(batch)];
  const ValueId length = b.reshape(b.convert(call.inputs[1], DType::i64), aligned);
  const ValueId t = b.iota(shape, time);
  const ValueId turned = b.subtract(b.subtract(length, b.scalar(DType::i64, 1)), t);
  const ValueId along = b.select(b.less(t, length), turned, t);
  return {b.gather(call.inputs[0], all_coordinates(b, shape, static_cast<std::size_t>(time), along))};
}

HostTensor positions(StaticShape shape, std::int64_t size, bool negative) {
  HostTensor tensor = HostTensor::allocate(DType::i64, std::move(shape)).value();
  std::int64_t next = 3;
  for (std::int64_t& value : tensor.mutable_values<std::int64_t>()) {
    value = next % size - (negative && next % 2 == 0 ? size : 0);
    next += 5;
  }
  return tensor;
}

std::vector<Sample> gather_samples(DType t) {
  const auto x = [&](StaticShape shape) { return sample_tensor(t, std::move(shape), Fill::normal); };
  return {{"rows", {x({7, 33}), positions({5}, 7, true)}, {}, {}},
          {"columns", {x({3, 9}), positions({2, 2}, 9, false)}, {{"axis", std::int64_t{1}}}, {}},
          {"one", {x({4, 5, 6}), positions({}, 5, true)}, {{"axis", std::int64_t{-2}}}, {}},
          {"none", {x({4, 5}), positions({0}, 4, false)}, {}, {}}};
}

std::vector<Sample> gather_elements_samples(DType t) {
  const auto x = [&](StaticShape shape) { return sample_tensor(t, std::move(shape), Fill::normal); };
  return {{"rows", {x({7, 18}), positions({4, 18}, 7, true)}, {}, {}},
          {"columns", {x({3, 9}), positions({2, 20}, 9, false)}, {{"axis", std::int64_t{1}}}, {}}};
}

std::vector<Sample> gather_nd_samples(DType t) {
  const auto x = [&](StaticShape shape) { return sample_tensor(t, std::move(shape), Fill::normal); };
  return {{"points", {x({5, 5}), positions({3, 2}, 5, true)}, {}, {}},
          {"rows", {x({6, 17}), positions({2, 2, 1}, 6, true)}, {}, {}},
          {"batches", {x({2, 4, 19}), positions({2, 3, 1}, 4, true)}, {{"batch_dims", std::int64_t{1}}}, {}}};
}

std::vector<Sample> scatter_samples(DType t) {
  const auto x = [&](StaticShape shape, std::uint64_t seed) {
    return sample_tensor(t, std::move(shape), Fill::normal, seed);
  };
  std::vector<Sample> samples;
  for (const std::string_view reduction : {"none", "add", "mul", "min", "max"}) {
    if (t == DType::boolean && reduction != "none") continue;
    samples.push_back({fmt::format("{}", reduction),
                       {x({5, 7}, 1), positions({9, 7}, 5, true), x({9, 7}, 2)},
                       {{"reduction", std::string(reduction)}},
                       {}});
  }
  return samples;
}

std::vector<Sample> scatter_nd_samples(DType t) {
  std::vector<Sample> samples;
  for (const std::string_view reduction : {"none", "add", "mul", "min", "max"}) {
    if (t == DType::boolean && reduction != "none") continue;
    samples.push_back({fmt::format("{}", reduction),
                       {sample_tensor(t, {5, 17}, Fill::normal), positions({4, 1}, 5, true),
                        sample_tensor(t, {4, 17}, Fill::normal, 2)},
                       {{"reduction", std::string(reduction)}},
                       {}});
  }
  return samples;
}

std::vector<Sample> tensor_scatter_samples(DType t) {
  return {{"linear",
           {sample_tensor(t, {2, 6, 5}, Fill::normal), sample_tensor(t, {2, 2, 5}, Fill::normal, 2),
            HostTensor::of<std::int64_t>({2}, {1, 4})},
           {},
           {}},
          {"circular",
           {sample_tensor(t, {2, 6, 5}, Fill::normal), sample_tensor(t, {2, 2, 5}, Fill::normal, 2),
            HostTensor::of<std::int64_t>({2}, {5, 0})},
           {{"mode", std::string("circular")}},
           {}}};
}

// Classes of every dtype that can hold them; unsigned ones have none below zero.
std::vector<Sample> one_hot_samples(DType t) {
  const auto classes = [&](StaticShape shape, std::initializer_list<int> values) {
    HostTensor tensor = HostTensor::allocate(t, std::move(shape)).value();
    visit_dtype(t, [&](auto tag) {
      using T = typename decltype(tag)::type;
      std::ranges::transform(values, tensor.mutable_values<T>().begin(),
                             [](int value) { return static_cast<T>(static_cast<float>(value)); });
    });
    return tensor;
  };
  const bool has_sign = is_floating(t) || is_signed_integer(t);
  const int below = has_sign ? -1 : 2, far_below = has_sign ? -8 : 11;
  const auto values = [](DType dtype) { return sample_tensor(dtype, {2}, Fill::normal); };
  return {{"last axis",
           {classes({5}, {0, 3, below, 9, far_below}), ints({4}), values(DType::f32)},
           {},
           {false, true}},
          {"first axis",
           {classes({2, 2}, {0, 3, 1, 2}), ints({19}), values(DType::i64)},
           {{"axis", std::int64_t{0}}},
           {false, true}},
          {"depth from data", {classes({3}, {0, 3, 1}), ints({4}), values(DType::i32)}, {}, {}}};
}

std::vector<Sample> compress_samples(DType t) {
  const auto mask = [](std::initializer_list<bool> values) {
    return HostTensor::of<bool>({std::ssize(values)}, values);
  };
  return {{"rows",
           {sample_tensor(t, {3, 5}, Fill::normal), mask({true, false, true})},
           {{"axis", std::int64_t{0}}},
           {}},
          {"flat and short", {sample_tensor(t, {3, 5}, Fill::normal), mask({false, true, true})}, {}, {}},
          {"none",
           {sample_tensor(t, {3, 5}, Fill::normal), mask({false, false, false})},
           {{"axis", std::int64_t{0}}},
           {}}};
}

std::vector<Sample> non_zero_samples(DType t) {
  return {{"some", {sample_tensor(t, {3, 4, 5}, Fill::special)}, {}, {}},
          {"empty", {sample_tensor(t, {3, 0}, Fill::normal)}, {}, {}}};
}

std::vector<Sample> reverse_samples(DType t) {
  return {{"time first",
           {sample_tensor(t, {5, 3, 2}, Fill::normal), HostTensor::of<std::int64_t>({3}, {5, 1, 3})},
           {},
           {}},
          {"batch first",
           {sample_tensor(t, {3, 19}, Fill::normal), HostTensor::of<std::int64_t>({3}, {19, 0, 7})},
           {{"batch_axis", std::int64_t{0}}, {"time_axis", std::int64_t{1}}},
           {}}};
}

constexpr AttributeDef kAxis0 = {"axis", AttributeKind::integer, "0", "may be negative"};
constexpr AttributeDef kReduction = {"reduction", AttributeKind::text, "none", "or add, mul, min, max"};

constexpr OpDef scatter_elements_record(std::string_view name, OnnxName onnx, std::string_view oracle) {
  return {.name = name,
          .doc =
              "data with element [.., indices[p] at axis, ..] updated by updates[p]; duplicates act in "
              "row-major order; a negative index counts from the end, one out of range is an error.",
          .inputs = {{"data", "[...]"}, {"indices", "[...]", kIndex, "I"}, {"updates", "like indices"}},
          .outputs = {{"output", "like data"}},
          .attributes = {kAxis0, kReduction},
          .decompose = scatter_elements,
          .samples = scatter_samples,
          .onnx = onnx,
          .oracle = oracle};
}

constexpr std::array kOps = {
    OpDef{.name = "gather",
          .doc = "data[..., indices, ...] along axis; a negative index counts from the end, one out of range "
                 "is an error.",
          .inputs = {{"data", "[..., n, ...]"}, {"indices", "[...]", kIndex, "I"}},
          .outputs = {{"output", "[..., indices..., ...]"}},
          .attributes = {kAxis0},
          .decompose = gather,
          .samples = gather_samples,
          .onnx = {"Gather", {1, 11, 13}},
          .oracle = "onnx-node:test_gather_"},
    OpDef{.name = "gather_elements",
          .doc = "Element p is data[p] with p's coordinate at axis replaced by indices[p].",
          .inputs = {{"data", "[...]"}, {"indices", "[...]", kIndex, "I"}},
          .outputs = {{"output", "like indices"}},
          .attributes = {kAxis0},
          .decompose = gather_elements,
          .samples = gather_elements_samples,
          .onnx = {"GatherElements", {11, 13}},
          .oracle = "onnx-node:test_gather_elements"},
    OpDef{.name = "gather_nd",
          .doc = "data at the coordinates in the last axis of indices, behind batch_dims shared axes.",
          .inputs = {{"data", "[...]"}, {"indices", "[..., k]", kI64, "I"}},
          .outputs = {{"output", "[..., rest of data]"}},
          .attributes = {{"batch_dims", AttributeKind::integer, "0", "leading axes in common"}},
          .decompose = gather_nd,
          .samples = gather_nd_samples,
          .onnx = {"GatherND", {11, 12, 13}},
          .oracle = "onnx-node:test_gathernd"},
    scatter_elements_record("scatter_elements", {"ScatterElements", {11, 13, 16, 18}},
                            "onnx-node:test_scatter_elements"),
    scatter_elements_record("scatter", {"Scatter", {9, 11}}, "onnx-node:test_scatter_with"),
    OpDef{
        .name = "scatter_nd",
        .doc = "data with the cells at the coordinates in the last axis of indices updated, in row-major "
               "order.",
        .inputs = {{"data", "[...]"}, {"indices", "[..., k]", kI64, "I"}, {"updates", "[..., rest of data]"}},
        .outputs = {{"output", "like data"}},
        .attributes = {kReduction},
        .decompose = scatter_nd,
        .samples = scatter_nd_samples,
        .onnx = {"ScatterND", {11, 13, 16, 18}},
        .oracle = "onnx-node:test_scatternd"},
    OpDef{.name = "tensor_scatter",
          .doc = "A cache [batch, ..., n, ...] with the update written from position write_indices[batch] on "
                 "along axis; circular: positions wrap.",
          .inputs = {{"past_cache", "[B, ..., n, ...]"},
                     {"update", "[B, ..., m, ...]"},
                     {"write_indices", "[B]", kI64, "I", OperandMode::optional}},
          .outputs = {{"present_cache", "like past_cache"}},
          .attributes = {{"axis", AttributeKind::integer, "-2", ""},
                         {"mode", AttributeKind::text, "linear", "or circular"}},
          .decompose = tensor_scatter,
          .samples = tensor_scatter_samples,
          .onnx = {"TensorScatter", {24}},
          .oracle = "onnx-node:test_tensorscatter"},
    OpDef{.name = "one_hot",
          .doc =
              "values[1] where the class is the coordinate along the new axis, else values[0]; a class out "
              "of range is off everywhere.",
          .inputs = {{"indices", "[...]", kNumeric, "I"},
                     {"depth", "[] or [1]", kNumeric, "D", OperandMode::required, true},
                     {"values", "[2]"}},
          .outputs = {{"output", "[..., depth, ...]"}},
          .attributes = {{"axis", AttributeKind::integer, "-1", "of the result"}},
          .decompose = one_hot,
          .samples = one_hot_samples,
          .onnx = {"OneHot", {9, 11, 28}},
          .oracle = "onnx-node:test_onehot"},
    OpDef{.name = "compress",
          .doc = "The slices along axis (or the elements of the flattened input) whose condition is true.",
          .inputs = {{"input", "[...]"}, {"condition", "[n]", kBool, "bool"}},
          .outputs = {{"output", "[...]"}},
          .attributes = {{"axis", AttributeKind::integer, "flattened", "may be negative"}},
          .fresh_symbols = 1,
          .decompose = compress,
          .samples = compress_samples,
          .onnx = {"Compress", {9, 11, 28}},
          .oracle = "onnx-node:test_compress"},
    OpDef{.name = "non_zero",
          .doc = "Coordinates of the elements that are not 0, a column each, in row-major order.",
          .inputs = {{"x", "[...]"}},
          .outputs = {{"y", "[rank, n]", kI64, "i64"}},
          .fresh_symbols = 1,
          .decompose = non_zero,
          .samples = non_zero_samples,
          .onnx = {"NonZero", {9, 13}},
          .oracle = "onnx-node:test_nonzero"},
    OpDef{.name = "reverse_sequence",
          .doc = "The first sequence_lens[b] elements along time turned round, for each b of the batch axis.",
          .inputs = {{"input", "[...]"}, {"sequence_lens", "[B]", kI64, "I"}},
          .outputs = {{"y", "like input"}},
          .attributes = {{"batch_axis", AttributeKind::integer, "1", ""},
                         {"time_axis", AttributeKind::integer, "0", ""}},
          .decompose = reverse_sequence,
          .samples = reverse_samples,
          .onnx = {"ReverseSequence", {10, 28}},
          .oracle = "onnx-node:test_reversesequence"},
};

}  // namespace

std::span<const OpDef> indexing_ops() { return kOps; }

}  // namespace diji
