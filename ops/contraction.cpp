// Products that fold an axis: matrix multiplication and convolution.
#include "ops/contraction.h"

#include "ops/families.h"
#include "ops/samples.h"

#include <algorithm>
#include <array>

namespace diji {
namespace {

Shape without(const Shape& shape, std::size_t axis) {
  Shape result = shape;
  result.erase(result.begin() + static_cast<std::ptrdiff_t>(axis));
  return result;
}

}  // namespace

ValueId matmul(Builder& b, ValueId x, ValueId y, std::optional<DType> sums) {
  const bool stacked_row = b.rank(x) == 1 && b.rank(y) > 2;
  if (b.rank(x) == 0 || b.rank(y) == 0)
    return b.fail(ErrorCode::mismatch, "a scalar operand; at least one axis is needed");
  const bool row = b.rank(x) == 1, column = b.rank(y) == 1;
  if (column) y = b.reshape(y, {b.shape(y)[0], 1});
  if (row && b.rank(y) > 2) x = b.reshape(x, {1, b.shape(x)[0]});
  DotDims dims{.lhs_contracting = {b.rank(x) - 1}, .rhs_contracting = {b.rank(y) - 2}};
  if (b.rank(y) > 2) {
    const Shape x_batch(b.shape(x).begin(), b.shape(x).end() - 2),
        y_batch(b.shape(y).begin(), b.shape(y).end() - 2);
    const Shape batch = b.broadcast_shapes(x_batch, y_batch, "matmul");
    if (!b.ok()) return ValueId::none;
    const auto stretch = [&](ValueId id) {
      Shape to = batch;
      to.insert(to.end(), b.shape(id).end() - 2, b.shape(id).end());
      return b.broadcast(id, std::move(to));
    };
    x = stretch(x);
    y = stretch(y);
    for (std::int64_t i = 0; i < std::ssize(batch); ++i) dims.lhs_batch.push_back(i);
    dims.rhs_batch = dims.lhs_batch;
    dims.lhs_contracting = {b.rank(x) - 1};
    dims.rhs_contracting = {b.rank(y) - 2};
  }
  ValueId result = b.dot_general(x, y, dims, sums);
  if (!b.ok()) return ValueId::none;
  if (column) result = b.reshape(result, without(b.shape(result), b.shape(result).size() - 1));
  if (stacked_row) result = b.reshape(result, without(b.shape(result), b.shape(result).size() - 2));
  return result;
}

namespace {

Values matmul_op(Builder& b, const OpCall& call) { return {matmul(b, call.inputs[0], call.inputs[1])}; }

// Padding of one axis under SAME_UPPER/SAME_LOWER: as much as makes out = ceil(in / stride).
std::optional<std::int64_t> same_padding(Builder& b, const Dim& in, std::int64_t reach, std::int64_t stride) {
  if (stride == 1) return reach - 1;
  const auto size = in.constant();
  if (!size) {
    b.fail(ErrorCode::unsupported, "auto_pad SAME with stride {} on the symbolic size {} is not built yet",
           stride, in.text());
    return std::nullopt;
  }
  const std::int64_t out = (*size + stride - 1) / stride;
  return std::max<std::int64_t>((out - 1) * stride + reach - *size, 0);
}

// Far above any real stride or dilation, far below where products of two overflow.
constexpr std::int64_t kGeometryMax = (std::int64_t{1} << 31) - 1;

}  // namespace

std::optional<ConvolutionDims> conv_geometry(Builder& b, const OpCall& call, ValueId x, ValueId w) {
  if (b.rank(x) < 3 || b.rank(w) != b.rank(x)) {
    b.fail(ErrorCode::mismatch, "x {} and w {} need equal ranks of at least 3", text_of(b.shape(x)),
           text_of(b.shape(w)));
    return std::nullopt;
  }
  const auto spatial = static_cast<std::size_t>(b.rank(x) - 2);
  ConvolutionDims dims{.strides = call.attributes.get_or("strides", Ints(spatial, 1)),
                       .dilations = call.attributes.get_or("dilations", Ints(spatial, 1)),
                       .groups = call.attributes.get_or<std::int64_t>("group", 1)};
  Ints pads = call.attributes.get_or("pads", Ints(2 * spatial, 0));
  if (pads.size() != 2 * spatial || dims.strides.size() != spatial || dims.dilations.size() != spatial) {
    b.fail(ErrorCode::mismatch, "pads, strides and dilations need {}, {} and {} entries for {} spatial axes",
           2 * spatial, spatial, spatial, spatial);
    return std::nullopt;
  }
  const auto in_range = [](const Ints& list) {
    return std::ranges::all_of(list, [](std::int64_t v) { return v >= 1 && v <= kGeometryMax; });
  };
  if (!in_range(dims.strides) || !in_range(dims.dilations)) {
    b.fail(ErrorCode::mismatch, "strides [{}] and dilations [{}] must be 1 … {}",
           fmt::join(dims.strides, ", "), fmt::join(dims.dilations, ", "), kGeometryMax);
    return std::nullopt;
  }
  const auto kernel = call.attributes.get_or("kernel_shape", Ints{});
  const auto mode = call.attributes.get_or("auto_pad", std::string("NOTSET"));
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    b.fail(ErrorCode::mismatch, "auto_pad '{}' is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER", mode);
    return std::nullopt;
  }
  if (std::ranges::any_of(pads, [](std::int64_t pad) { return pad < 0; })) {
    b.fail(ErrorCode::mismatch, "pads [{}] must not be negative", fmt::join(pads, ", "));
    return std::nullopt;
  }
  for (std::size_t i = 0; i < spatial; ++i) {
    const auto size = b.shape(w)[i + 2].constant();
    if (!size || (!kernel.empty() && (kernel.size() != spatial || kernel[i] != *size))) {
      b.fail(ErrorCode::mismatch, "kernel_shape [{}] does not fit w {}", fmt::join(kernel, ", "),
             text_of(b.shape(w)));
      return std::nullopt;
    }
    if (mode == "VALID") pads[i] = pads[i + spatial] = 0;
    if (mode.starts_with("SAME")) {
      const auto total =
          same_padding(b, b.shape(x)[i + 2], dims.dilations[i] * (*size - 1) + 1, dims.strides[i]);
      if (!total) return std::nullopt;
      pads[i] = mode == "SAME_UPPER" ? *total / 2 : *total - *total / 2;
      pads[i + spatial] = *total - pads[i];
    }
  }
  dims.pads_low.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(spatial));
  dims.pads_high.assign(pads.begin() + static_cast<std::ptrdiff_t>(spatial), pads.end());
  return dims;
}

namespace {

Values conv(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0], w = call.inputs[1];
  const auto dims = conv_geometry(b, call, x, w);
  if (!dims) return {ValueId::none};
  ValueId result = b.convolution(x, w, *dims);
  if (call.inputs.size() > 2 && call.inputs[2] != ValueId::none && b.ok()) {
    Shape bias(b.shape(x).size(), Dim(1));
    bias[1] = b.shape(w)[0];
    result = b.add(result, b.reshape(call.inputs[2], std::move(bias)));
  }
  return {result};
}

std::vector<Sample> matmul_samples(DType t) {
  const auto sample = [&](std::string label, StaticShape a, StaticShape c, Fill fill) {
    return Sample{std::move(label),
                  {sample_tensor(t, std::move(a), fill, 1), sample_tensor(t, std::move(c), fill, 2)},
                  {},
                  {}};
  };
  return {sample("one tile", {8, 16}, {16, 32}, Fill::normal),
          sample("tails", {13, 37}, {37, 51}, Fill::normal),
          sample("one row", {1, 100}, {100, 35}, Fill::wide),
          sample("one column", {19, 100}, {100, 1}, Fill::positive),
          sample("batches", {3, 7, 5}, {3, 5, 18}, Fill::normal),
          sample("stretched batches", {2, 1, 7, 5}, {3, 5, 4}, Fill::normal),
          sample("shared right side", {2, 9, 5}, {5, 33}, Fill::normal),
          sample("vector by matrix", {5}, {5, 7}, Fill::normal),
          sample("matrix by vector", {3, 4, 5}, {5}, Fill::normal),
          sample("vectors", {70}, {70}, Fill::wide),
          sample("nothing folded", {3, 0}, {0, 4}, Fill::normal),
          sample("no rows", {0, 3}, {3, 4}, Fill::normal)};
}

std::vector<Sample> conv_samples(DType t) {
  const auto sample = [&](std::string label, StaticShape x, StaticShape w, Attributes attributes) {
    return Sample{
        std::move(label),
        {sample_tensor(t, std::move(x), Fill::normal, 1), sample_tensor(t, std::move(w), Fill::normal, 2)},
        std::move(attributes),
        {}};
  };
  return {
      sample("1-d", {2, 5, 40}, {13, 5, 5}, {}),
      sample("2-d padded", {1, 3, 9, 21}, {4, 3, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}),
      sample("strides", {1, 2, 11, 37}, {3, 2, 3, 2}, {{"strides", Ints{2, 3}}, {"pads", Ints{0, 1, 2, 1}}}),
      sample("dilated", {1, 2, 20}, {3, 2, 3}, {{"dilations", Ints{4}}}),
      sample("groups", {2, 6, 18}, {4, 3, 2}, {{"group", std::int64_t{2}}}),
      sample("depth-wise", {1, 17, 5, 20}, {17, 1, 3, 3},
             {{"group", std::int64_t{17}}, {"auto_pad", std::string("SAME_UPPER")}}),
      sample("one wide axis", {1, 4, 50, 1}, {6, 4, 5, 1}, {}),
      sample("no batch", {0, 2, 8}, {3, 2, 3}, {})};
}

constexpr std::array kOps = {
    OpDef{.name = "matmul",
          .doc = "Matrix product as in NumPy: [..., M, K] · [..., K, N] -> [..., M, N]; leading axes "
                 "broadcast. Sums run over K in "
                 "ascending order.",
          .inputs = {{"a", "[..., M, K]", kNumeric}, {"b", "[..., K, N]", kNumeric}},
          .outputs = {{"y", "[..., M, N]", kNumeric}},
          .decompose = matmul_op,
          .samples = matmul_samples,
          .onnx = {"MatMul", {1, 9, 13}},
          .oracle = "onnx-node:test_matmul_"},
    OpDef{.name = "conv",
          .doc = "Cross-correlation over any number of spatial axes with optional bias: x [N, C, in...], w "
                 "[O, C/group, kernel...].",
          .inputs = {{"x", "[N, C, in...]", kFloating},
                     {"w", "[O, C/group, kernel...]", kFloating},
                     {"b", "[O]", kFloating, "T", OperandMode::optional}},
          .outputs = {{"y", "[N, O, out...]", kFloating}},
          .attributes = {{"auto_pad", AttributeKind::text, "NOTSET", "or VALID, SAME_UPPER, SAME_LOWER"},
                         {"dilations", AttributeKind::integers, "1 each", "distance of kernel elements"},
                         {"group", AttributeKind::integer, "1", "channel groups"},
                         {"kernel_shape", AttributeKind::integers, "from w", "checked against w"},
                         {"pads", AttributeKind::integers, "0 each", "low ends, then high ends"},
                         {"strides", AttributeKind::integers, "1 each", ""}},
          .decompose = conv,
          .samples = conv_samples,
          .onnx = {"Conv", {1, 11, 22}},
          .oracle = "onnx-node:test_conv"},
};

}  // namespace

std::span<const OpDef> contraction_ops() { return kOps; }

}  // namespace diji
