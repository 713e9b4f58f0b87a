// Products that fold axes: matrices, general matrices with a bias, Einstein sums.
#include "ops/contraction.h"

#include "ops/families.h"
#include "ops/formula.h"
#include "ops/samples.h"

#include <algorithm>
#include <array>
#include <cmath>

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

// alpha · A' · B' + beta · C.
Values gemm(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0], y = call.inputs[1], c = operand(call, 2);
  if (b.rank(x) != 2 || b.rank(y) != 2) {
    return {b.fail(ErrorCode::mismatch, "a {} and b {} must be matrices", text_of(b.shape(x)),
                   text_of(b.shape(y)))};
  }
  const DType dtype = b.dtype(x);
  const auto scaled = [&](ValueId value, std::string_view name) {
    const double factor = call.attributes.get_or<double>(name, 1.0);
    if (factor == 1) return value;
    if (!is_floating(dtype) && factor != std::trunc(factor))
      return b.fail(ErrorCode::unsupported, "{} = {} does not scale {}", name, factor, name_of(dtype));
    return b.multiply(value, b.scalar(dtype, factor));
  };
  const std::int64_t fold_x = flag(call, "transA") ? 0 : 1, fold_y = flag(call, "transB") ? 1 : 0;
  const ValueId product =
      scaled(b.dot_general(x, y, {.lhs_contracting = {fold_x}, .rhs_contracting = {fold_y}}), "alpha");
  if (c == ValueId::none || !b.ok()) return {product};
  return {b.add(product, b.broadcast(scaled(c, "beta"), b.shape(product)))};
}

// Gemm-1 and -6 have a flag for what later versions always do.
Result<void> drop_broadcast(Builder&, ForeignNode& node) {
  node.attributes.erase("broadcast");
  return {};
}

// The determinant by Gaussian elimination with partial pivoting: step k swaps the row with the largest
// element of column k up, and the pivot goes into the product.
Graph elimination_step(Builder& b, const Type& matrices, const Type& products) {
  Graph body = b.graph().child();
  Builder step(body);
  const ValueId k = body.add_input("k", {DType::i64, {}});
  const ValueId m = body.add_input("matrices", matrices), product = body.add_input("product", products);
  const Shape shape = matrices.shape;
  const ValueId row = coordinates(step, 3, 1, shape[1]);
  const auto pick_row = [&](ValueId from, ValueId which) {  // [B, 1, n]
    const Shape to = {shape[0], 1, shape[2]};
    return step.gather(from, {step.iota(to, 0), which, step.iota(to, 2)});
  };
  const auto pick_column = [&](ValueId from) {  // [B, n, 1]
    const Shape to = {shape[0], shape[1], 1};
    return step.gather(from, {step.iota(to, 0), step.iota(to, 1), k});
  };
  const ValueId below = step.logical_not(step.less(row, k));
  const ValueId size = step.select(below, step.absolute(pick_column(m)), step.scalar(matrices.dtype, -1));
  const ValueId pivot_row = step.reshape(step.arg_reduce(size, Reduction::max, 1), {shape[0], 1, 1});
  const ValueId top = pick_row(m, k), pivot = pick_row(m, pivot_row);
  const ValueId swapped =
      step.select(step.equal(row, k), pivot, step.select(step.equal(row, pivot_row), top, m));
  const ValueId diagonal = step.gather(pivot, {step.iota({shape[0], 1, 1}, 0), size_scalar(step, 0), k});
  const ValueId moved = step.select(step.equal(pivot_row, k), diagonal,
                                    step.subtract(step.scalar(matrices.dtype, 0), diagonal));
  // A zero pivot leaves a column of zeros: the product is 0 whatever the rest becomes.
  const ValueId zero = step.scalar(matrices.dtype, 0);
  const ValueId divisor = step.select(step.equal(diagonal, zero), step.scalar(matrices.dtype, 1), diagonal);
  const ValueId factor = step.select(step.less(k, row), step.divide(pick_column(swapped), divisor), zero);
  const ValueId next = step.subtract(swapped, step.multiply(factor, pivot));
  body.add_output("matrices", next);
  body.add_output("product", step.multiply(product, moved));
  if (auto status = step.status(); !status) b.fail_with(status.error());
  return body;
}

Values determinant(Builder& b, const OpCall& call) {
  const Shape from = b.shape(call.inputs[0]);
  if (from.size() < 2) return {b.fail(ErrorCode::mismatch, "x {} holds no matrices", text_of(from))};
  const DType dtype = b.dtype(call.inputs[0]);
  const Shape batch(from.begin(), from.end() - 2);
  const Shape to = {element_count(batch), from[from.size() - 2], from.back()};
  b.graph().require({Constraint::Kind::equal, to[1], to[2], "det: rows and columns"});
  if (to[1].constant() && to[2].constant() && !(to[1] == to[2]))
    return {b.fail(ErrorCode::mismatch, "the matrices of {} are not square", text_of(from))};
  const ValueId matrices = b.reshape(b.convert(call.inputs[0], DType::f64), to);
  const ValueId ones = b.broadcast(b.scalar(DType::f64, 1), {to[0], 1, 1});
  if (!b.ok()) return {ValueId::none};
  Graph body = elimination_step(b, b.type(matrices), b.type(ones));
  if (!b.ok()) return {ValueId::none};
  const Values end = b.loop(size_scalar(b, to[1]), ValueId::none, {matrices, ones}, {}, {}, std::move(body));
  if (!b.ok()) return {ValueId::none};
  return {b.convert(b.reshape(end[1], batch), dtype)};
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

std::vector<Sample> gemm_samples(DType t) {
  const auto sample = [&](std::string label, StaticShape a, StaticShape b, StaticShape c,
                          Attributes attributes) {
    return Sample{
        std::move(label),
        {sample_tensor(t, std::move(a), Fill::normal, 1), sample_tensor(t, std::move(b), Fill::normal, 2),
         sample_tensor(t, std::move(c), Fill::normal, 3)},
        std::move(attributes),
        {}};
  };
  const auto one = std::int64_t{1};
  return {sample("a row", {5, 7}, {7, 18}, {18}, {}),
          sample("a column", {7, 5}, {7, 18}, {5, 1}, {{"transA", one}, {"alpha", 2.0}}),
          sample("a scalar", {5, 7}, {18, 7}, {}, {{"transB", one}, {"beta", 3.0}}),
          sample("a matrix", {7, 5}, {18, 7}, {5, 18}, {{"transA", one}, {"transB", one}, {"beta", 2.0}}),
          sample("nothing folded", {3, 0}, {0, 4}, {4}, {}),
          {"no bias",
           {sample_tensor(t, {3, 33}, Fill::wide, 1), sample_tensor(t, {33, 2}, Fill::wide, 2)},
           {},
           {}}};
}

std::vector<Sample> determinant_samples(DType t) {
  return {{"one matrix", {sample_tensor(t, {4, 4}, Fill::normal)}, {}, {}},
          {"a batch", {sample_tensor(t, {2, 3, 3, 3}, Fill::normal)}, {}, {}},
          {"one element", {sample_tensor(t, {5, 1, 1}, Fill::normal)}, {}, {}}};
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
    OpDef{.name = "gemm",
          .doc = "alpha · A' · B' + beta · C for matrices, each of A and B transposed on demand; C stretches "
                 "to [M, N].",
          .inputs = {{"a", "[M, K]", kNumeric},
                     {"b", "[K, N]", kNumeric},
                     {"c", "[M, N]", kNumeric, "T", OperandMode::optional}},
          .outputs = {{"y", "[M, N]", kNumeric}},
          .attributes = {{"alpha", AttributeKind::real, "1", "of the product"},
                         {"beta", AttributeKind::real, "1", "of c"},
                         {"transA", AttributeKind::integer, "0", "a is [K, M]"},
                         {"transB", AttributeKind::integer, "0", "b is [N, K]"}},
          .decompose = gemm,
          .samples = gemm_samples,
          .onnx = {"Gemm", {1, 6, 7, 9, 11, 13}, drop_broadcast},
          .oracle = "onnx-node:test_gemm"},
    OpDef{
        .name = "det",
        .doc =
            "Determinant of the matrices on the last two axes, by elimination with partial pivoting in f64.",
        .inputs = {{"x", "[..., n, n]", kFloating}},
        .outputs = {{"y", "[...]", kFloating}},
        .decompose = determinant,
        .samples = determinant_samples,
        .onnx = {"Det", {11, 22}},
        .oracle = "onnx-node:test_det"},
};

}  // namespace

std::span<const OpDef> contraction_ops() { return kOps; }

}  // namespace diji
