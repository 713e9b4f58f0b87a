// Signals: Fourier transforms as products with exact phases, windows, mel filters.
#include "ops/adapters.h"
#include "ops/families.h"
#include "ops/formula.h"
#include "ops/samples.h"

#include <array>
#include <numbers>

namespace diji {
namespace {

constexpr std::int64_t kMaxParts = 2;  // a complex number's, on the last axis

/// One transform along an axis.
struct Transform {
  Dim length;         ///< N
  Dim rows, columns;  ///< how many elements go in and come out along the axis
  std::int64_t parts_in = 1, parts_out = 2;
  bool inverse = false, onesided = false;
};

// cos(2π · (k·n + quarter·N/4) / N), with the phase reduced as an integer modulo 4N, so that large k·n cost
// no accuracy: the matrix [rows · parts_in, columns · parts_out] that a transform multiplies with.
ValueId transform_matrix(Builder& b, const Transform& t, DType dtype) {
  const Shape space = {t.rows, Dim(t.parts_in), t.columns, Dim(t.parts_out)};
  const ValueId j = b.iota(space, 0), part_in = b.iota(space, 1), k = b.iota(space, 2),
                part_out = b.iota(space, 3);
  const ValueId quarter = b.multiply(b.subtract(part_out, part_in), size_scalar(b, t.length));
  const ValueId turns = times(b, b.multiply(j, k), t.inverse ? -4 : 4);
  const Dim period = Dim(4) * max(t.length, 1);
  const ValueId phase = b.convert(floor_mod(b, b.add(turns, quarter), period), DType::f64);
  const ValueId angle = b.multiply(b.divide(phase, b.convert(size_scalar(b, period), DType::f64)),
                                   b.scalar(DType::f64, 2 * std::numbers::pi));
  ValueId matrix = b.map(Primitive::cos, {angle});
  if (t.inverse && t.onesided) {
    // Bins between the first and N/2 stand for their mirror images too.
    const ValueId two_j = times(b, j, 2);
    const ValueId alone =
        b.logical_or(b.equal(j, size_scalar(b, 0)), b.equal(two_j, size_scalar(b, t.length)));
    matrix = b.multiply(matrix, b.select(alone, b.scalar(DType::f64, 1), b.scalar(DType::f64, 2)));
  }
  if (t.inverse) matrix = b.divide(matrix, b.convert(size_scalar(b, max(t.length, 1)), DType::f64));
  return b.reshape(b.convert(matrix, dtype), {t.rows * Dim(t.parts_in), t.columns * Dim(t.parts_out)});
}

// x [..., rows, parts_in] times the matrix: [..., columns, parts_out].
ValueId transformed(Builder& b, ValueId x, const Transform& t) {
  if (!b.ok()) return ValueId::none;
  const DType dtype = b.dtype(x);
  Shape lead(b.shape(x).begin(), b.shape(x).end() - 2);
  Shape flat = lead;
  flat.push_back(t.rows * Dim(t.parts_in));
  const ValueId rows = b.reshape(b.convert(x, wider(dtype)), flat);
  const ValueId product = b.dot_general(rows, transform_matrix(b, t, wider(dtype)),
                                        {.lhs_contracting = {std::ssize(lead)}, .rhs_contracting = {0}});
  lead.push_back(t.columns);
  lead.emplace_back(t.parts_out);
  return b.convert(b.reshape(product, lead), dtype);
}

// The axis becomes the last but one, or the other way round.
ValueId swap_to(Builder& b, ValueId x, std::int64_t axis, bool back) {
  Ints order;
  const std::int64_t rank = b.rank(x);
  for (std::int64_t i = 0; i < rank; ++i) {
    if (i != axis && i != rank - 1) order.push_back(i);
  }
  order.push_back(axis);
  order.push_back(rank - 1);
  if (!back) return b.transpose(x, order);
  Ints inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return b.transpose(x, inverse);
}

Values dft(Builder& b, const OpCall& call) {
  ValueId x = call.inputs[0];
  const std::int64_t rank = b.rank(x);
  const auto parts = rank < 2 ? std::nullopt : b.shape(x).back().constant();
  if (!parts || *parts < 1 || *parts > kMaxParts)
    return {b.fail(ErrorCode::mismatch, "input {} must be [..., n, ..., 1 or 2]", text_of(b.shape(x)))};
  std::int64_t axis = rank - 2;
  if (operand(call, 2) != ValueId::none) {
    const auto given = known_numbers(b, operand(call, 2), "axis");
    if (!given || given->size() != 1) return {b.fail(ErrorCode::mismatch, "'axis' must have one element")};
    axis = b.axis((*given)[0], rank);
  }
  if (b.ok() && axis == rank - 1)
    return {b.fail(ErrorCode::mismatch, "axis {} holds real and imaginary parts", axis)};
  if (!b.ok()) return {ValueId::none};
  Transform t{.parts_in = *parts, .inverse = flag(call, "inverse"), .onesided = flag(call, "onesided")};
  const bool to_real = t.inverse && t.onesided;
  if (t.onesided && !t.inverse && *parts == 2)
    return {b.fail(ErrorCode::mismatch, "onesided wants a real signal, input is {}", text_of(b.shape(x)))};
  const Dim size = b.shape(x)[static_cast<std::size_t>(axis)];
  t.length = to_real ? Dim(2) * (size - 1) : size;
  if (operand(call, 1) != ValueId::none) {
    const auto length = known_size(b, operand(call, 1), "dft_length");
    if (!length) return {ValueId::none};
    t.length = *length;
  }
  const Dim half = floor_div(t.length, 2) + 1;
  t.columns = t.onesided && !t.inverse ? half : t.length;
  t.rows = min(size, to_real ? half : t.length);  // further elements are cut off, missing ones are zeros
  t.parts_out = to_real ? 1 : 2;
  x = slice_axis(b, swap_to(b, x, axis, false), rank - 2, 0, t.rows);
  const ValueId y = transformed(b, x, t);
  return {b.ok() ? swap_to(b, y, axis, true) : y};
}

// Overlapping frames of the signal, each times the window and transformed: [B, frames, bins, 2].
Values stft(Builder& b, const OpCall& call) {
  const ValueId window = operand(call, 2);
  ValueId signal = call.inputs[0];
  const Shape from = b.shape(signal);
  if (from.size() == 2) signal = b.reshape(signal, {from[0], from[1], 1});
  const auto parts = from.size() == 3 ? from[2].constant() : std::optional<std::int64_t>(1);
  if (from.size() < 2 || from.size() > 3 || !parts || *parts < 1 || *parts > kMaxParts)
    return {b.fail(ErrorCode::mismatch, "signal {} must be [B, length, 1 or 2]", text_of(from))};
  const auto step = known_size(b, call.inputs[1], "frame_step");
  if (!step) return {ValueId::none};
  Dim length = window != ValueId::none && b.rank(window) == 1 ? b.shape(window)[0] : from[1];
  if (operand(call, 3) != ValueId::none) {
    const auto given = known_size(b, operand(call, 3), "frame_length");
    if (!given) return {ValueId::none};
    length = *given;
  }
  if (step->bounds().max < 1)
    return {b.fail(ErrorCode::mismatch, "frame_step {} must be positive", step->text())};
  b.graph().require({Constraint::Kind::less_equal, 1, *step, "stft: frame_step"});
  const Dim frames = floor_div(from[1] - length, *step) + 1;
  const Shape space = {from[0], frames, length, *parts};
  const ValueId at = b.add(b.multiply(b.iota(space, 1), size_scalar(b, *step)), b.iota(space, 2));
  ValueId cut = b.gather(signal, {b.iota(space, 0), at, b.iota(space, 3)});
  if (window != ValueId::none) cut = b.multiply(cut, b.reshape(window, {1, 1, length, 1}));
  const bool onesided = flag(call, "onesided", true);
  if (onesided && *parts == 2)
    return {b.fail(ErrorCode::mismatch, "onesided wants a real signal, it is {}", text_of(from))};
  const Transform t{.length = length,
                    .rows = length,
                    .columns = onesided ? floor_div(length, 2) + 1 : length,
                    .parts_in = *parts,
                    .onesided = onesided};
  return {transformed(b, cut, t)};
}

// c0 − c1 · cos(2πn/N) + c2 · cos(4πn/N), N the size or, for windows that are not periodic, one less.
template <int kind>
Values cosine_window(Builder& b, const OpCall& call) {
  constexpr std::array<std::array<double, 3>, 3> kCoefficients = {
      {{0.5, 0.5, 0}, {25.0 / 46, 21.0 / 46, 0}, {0.42, 0.5, 0.08}}};
  constexpr std::array<double, 3> c = kCoefficients[kind];
  const auto size = known_size(b, call.inputs[0], "size");
  if (!size) return {ValueId::none};
  const Dim period = max(flag(call, "periodic", true) ? *size : *size - 1, 1);
  const auto wave = [&](std::int64_t times_around, double factor) {
    const ValueId phase = floor_mod(b, times(b, b.iota({*size}, 0), times_around), period);
    const ValueId part =
        b.divide(b.convert(phase, DType::f64), b.convert(size_scalar(b, period), DType::f64));
    const ValueId angle = b.multiply(part, b.scalar(DType::f64, 2 * std::numbers::pi));
    return b.multiply(b.map(Primitive::cos, {angle}), b.scalar(DType::f64, factor));
  };
  ValueId y = b.subtract(b.scalar(DType::f64, c[0]), wave(1, c[1]));
  if (c[2] != 0) y = b.add(y, wave(2, c[2]));
  return {b.convert(y, call.attributes.get_or("output_datatype", DType::f32))};
}

// ⌊(dft_length + 1) · Hz / sample_rate⌋ at the edges of the filters, which are equally far apart in mel:
// i64[num_mel_bins + 2].
ValueId mel_edges(Builder& b, const OpCall& call, const Dim& filters, const Dim& length, const Dim& rate) {
  const auto real = [&](double v) { return b.scalar(DType::f64, v); };
  const auto of_size = [&](const Dim& d) { return b.convert(size_scalar(b, d), DType::f64); };
  const double ten = std::numbers::ln10;
  const auto mel = [&](ValueId hertz) {
    const ValueId f = b.reshape(b.convert(hertz, DType::f64), {});
    return b.multiply(b.log(b.add(b.divide(f, real(700)), real(1))), real(2595 / ten));
  };
  const ValueId low = mel(call.inputs[3]), high = mel(call.inputs[4]);
  const ValueId step = b.divide(b.subtract(high, low), of_size(filters + 2));
  const ValueId at = b.add(b.multiply(b.iota({filters + 2}, 0, DType::f64), step), low);
  const ValueId hertz = b.multiply(b.map(Primitive::expm1, {b.multiply(at, real(ten / 2595))}), real(700));
  const ValueId bin = b.divide(b.multiply(hertz, of_size(length + 1)), of_size(rate));
  return b.convert(b.map(Primitive::floor, {bin}), DType::i64);
}

// Triangles between edges i, i + 1, i + 2.
Values mel_weight_matrix(Builder& b, const OpCall& call) {
  const auto filters = known_size(b, call.inputs[0], "num_mel_bins");
  const auto length = known_size(b, call.inputs[1], "dft_length");
  const auto rate = known_size(b, call.inputs[2], "sample_rate");
  if (!filters || !length || !rate) return {ValueId::none};
  const ValueId edges = mel_edges(b, call, *filters, *length, *rate);
  const auto edge = [&](std::int64_t i) {
    return b.reshape(slice_axis(b, edges, 0, i, *filters), {1, *filters});
  };
  const ValueId lower = edge(0), centre = edge(1), upper = edge(2);
  const ValueId bin = coordinates(b, 2, 0, floor_div(*length, 2) + 1);
  const auto part = [&](ValueId a, ValueId whole) {
    const ValueId safe = b.maximum(whole, size_scalar(b, 1));
    return b.divide(b.convert(a, DType::f64), b.convert(safe, DType::f64));
  };
  const ValueId zero = b.scalar(DType::f64, 0), one = b.scalar(DType::f64, 1);
  const ValueId rise = b.subtract(centre, lower), fall = b.subtract(upper, centre);
  const ValueId rising = b.select(b.equal(rise, size_scalar(b, 0)), one, part(b.subtract(bin, lower), rise));
  const ValueId falling = part(b.subtract(upper, bin), fall);
  const ValueId at_centre = b.select(b.less(size_scalar(b, 0), fall), one, rising);
  const ValueId on_left = b.logical_and(b.less_equal(lower, bin), b.less(bin, centre));
  const ValueId on_right = b.logical_and(b.less(centre, bin), b.less(bin, upper));
  const ValueId weights =
      b.select(b.equal(bin, centre), at_centre, b.select(on_left, rising, b.select(on_right, falling, zero)));
  return {b.convert(weights, call.attributes.get_or("output_datatype", DType::f32))};
}

// DFT-17 has the axis as an attribute, which is 1 where it is absent.
Result<void> axis_to_input(Builder& builder, ForeignNode& node) {
  if (node.version >= 20) return {};
  node.attributes.set("axis", Ints{node.attributes.get_or<std::int64_t>("axis", 1)});
  TRY(attribute_to_input(builder, node, "axis", 2));
  const HostTensor& list = *builder.graph().value(node.inputs[2]).constant;
  node.inputs[2] = builder.constant(list.reshaped({}));
  return {};
}

HostTensor number(std::int64_t value) { return HostTensor::of<std::int64_t>({}, {value}); }

std::vector<Sample> dft_samples(DType t) {
  const auto real = sample_tensor(t, {2, 10, 1}, Fill::normal),
             complex = sample_tensor(t, {2, 9, 2}, Fill::normal);
  const std::vector<bool> fixed = {false, true, true};
  const Attributes inverse = {{"inverse", std::int64_t{1}}}, half = {{"onesided", std::int64_t{1}}};
  Attributes both = half;
  both.set("inverse", std::int64_t{1});
  return {{"a real signal", {real}, {}, fixed},
          {"a complex signal", {complex}, {}, fixed},
          {"backwards", {complex}, inverse, fixed},
          {"one-sided", {real}, half, fixed},
          {"to a real signal", {complex}, both, fixed},
          {"to a real signal of odd length", {complex, number(15)}, both, fixed},
          {"longer", {real, number(16)}, {}, fixed},
          {"shorter", {complex, number(5)}, {}, fixed},
          {"first axis", {sample_tensor(t, {7, 3, 2}, Fill::normal), number(7), number(0)}, {}, fixed}};
}

std::vector<Sample> stft_samples(DType t) {
  const auto signal = sample_tensor(t, {2, 50, 1}, Fill::normal, 1),
             window = sample_tensor(t, {16}, Fill::positive, 2);
  const std::vector<bool> fixed = {false, true, false, true};
  return {{"with a window", {signal, number(7), window, number(16)}, {}, fixed},
          {"two-sided", {signal, number(8), window}, {{"onesided", std::int64_t{0}}}, fixed}};
}

std::vector<Sample> window_samples(DType t) {
  if (t != DType::i64 && t != DType::i32) return {};
  const auto size = [&](std::int64_t n) {
    return t == DType::i64 ? number(n) : HostTensor::of<std::int32_t>({}, {static_cast<std::int32_t>(n)});
  };
  return {{"periodic", {size(10)}, {}, {true}},
          {"symmetric", {size(17)}, {{"periodic", std::int64_t{0}}}, {true}},
          {"one", {size(1)}, {{"periodic", std::int64_t{0}}}, {true}}};
}

std::vector<Sample> mel_samples(DType t) {
  const auto count = [t](std::int32_t value) {
    return t == DType::i32 ? HostTensor::of<std::int32_t>({}, {value}) : number(value);
  };
  return {{"eight filters",
           {count(8), count(16), count(8192), HostTensor::of<float>({}, {133}),
            HostTensor::of<float>({}, {4096})},
           {},
           {true, true, true, true, true}}};
}

constexpr OpDef window_record(std::string_view name, std::string_view doc, std::string_view onnx,
                              Values (*decompose)(Builder&, const OpCall&), std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"size", "[]", kIndex, "T", OperandMode::required, true}},
          .outputs = {{"output", "[size]", kNumeric, "to"}},
          .attributes = {{"output_datatype", AttributeKind::dtype, "f32", "of the result"},
                         {"periodic", AttributeKind::integer, "1", "0: the last element mirrors the first"}},
          .decompose = decompose,
          .samples = window_samples,
          .onnx = {onnx, {17}},
          .oracle = oracle};
}

constexpr std::array kOps = {
    OpDef{
        .name = "dft",
        .doc =
            "Discrete Fourier transform along an axis of real ([..., 1]) or complex ([..., 2]) data, of any "
            "length; the inverse divides by it. One-sided: N/2 + 1 bins, or back from them to a real signal.",
        .inputs = {{"input", "[..., n, ..., 1 or 2]", kFloating},
                   {"dft_length", "[]", kIndex, "length", OperandMode::optional, true},
                   {"axis", "[]", kI64, "index", OperandMode::optional, true}},
        .outputs = {{"output", "[..., bins, ..., 1 or 2]", kFloating}},
        .attributes = {{"inverse", AttributeKind::integer, "0", ""},
                       {"onesided", AttributeKind::integer, "0", ""}},
        .decompose = dft,
        .samples = dft_samples,
        .onnx = {"DFT", {17, 20}, axis_to_input},
        .oracle = "onnx-node:test_dft"},
    OpDef{.name = "stft",
          .doc = "Fourier transforms of frames that begin every frame_step elements, each times the window.",
          .inputs = {{"signal", "[B, length, 1 or 2]", kFloating},
                     {"frame_step", "[]", kIndex, "length", OperandMode::required, true},
                     {"window", "[frame_length]", kFloating, "T", OperandMode::optional},
                     {"frame_length", "[]", kIndex, "length", OperandMode::optional, true}},
          .outputs = {{"output", "[B, frames, bins, 2]", kFloating}},
          .attributes = {{"onesided", AttributeKind::integer, "1", "N/2 + 1 bins"}},
          .decompose = stft,
          .samples = stft_samples,
          .onnx = {"STFT", {17}},
          .oracle = "onnx-node:test_stft"},
    window_record("hann_window", "½ − ½ · cos(2πn/N).", "HannWindow", cosine_window<0>,
                  "onnx-node:test_hannwindow"),
    window_record("hamming_window", "25/46 − 21/46 · cos(2πn/N).", "HammingWindow", cosine_window<1>,
                  "onnx-node:test_hammingwindow"),
    window_record("blackman_window", "0.42 − ½ · cos(2πn/N) + 0.08 · cos(4πn/N).", "BlackmanWindow",
                  cosine_window<2>, "onnx-node:test_blackmanwindow"),
    OpDef{.name = "mel_weight_matrix",
          .doc = "Triangular filters whose edges are equally far apart in mel, 2595 · log10(1 + f/700), over "
                 "the bins of "
                 "a transform: [dft_length/2 + 1, num_mel_bins].",
          .inputs = {{"num_mel_bins", "[]", kIndex, "T", OperandMode::required, true},
                     {"dft_length", "[]", kIndex, "T", OperandMode::required, true},
                     {"sample_rate", "[]", kIndex, "T", OperandMode::required, true},
                     {"lower_edge_hertz", "[]", kFloating, "hertz"},
                     {"upper_edge_hertz", "[]", kFloating, "hertz"}},
          .outputs = {{"output", "[bins, num_mel_bins]", kNumeric, "to"}},
          .attributes = {{"output_datatype", AttributeKind::dtype, "f32", "of the result"}},
          .decompose = mel_weight_matrix,
          .samples = mel_samples,
          .onnx = {"MelWeightMatrix", {17}},
          .oracle = "onnx-node:test_melweightmatrix"},
};

}  // namespace

std::span<const OpDef> signal_ops() { return kOps; }

}  // namespace diji
