// Operators that put something around a tensor or cut its edges off.
#include "ops/adapters.h"
#include "ops/families.h"
#include "ops/formula.h"
#include "ops/samples.h"

#include <algorithm>
#include <array>

namespace diji {
namespace {

enum class PadMode : std::uint8_t { constant, edge, reflect, wrap };

std::optional<PadMode> pad_mode(Builder& b, const OpCall& call) {
  constexpr std::array<std::string_view, 4> kNames = {"constant", "edge", "reflect", "wrap"};
  const std::string mode = word(call, "mode", "constant");
  const auto* const found = std::ranges::find(kNames, mode);
  if (found != kNames.end()) return static_cast<PadMode>(found - kNames.begin());
  b.fail(ErrorCode::mismatch, "mode '{}' is none of constant, edge, reflect, wrap", mode);
  return std::nullopt;
}

// The axes an operand or attribute names, in its order; all of them where it is absent.
std::optional<Ints> named_axes(Builder& b, std::optional<Ints> given, std::int64_t rank) {
  Ints axes;
  if (!given) {
    for (std::int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
    return axes;
  }
  for (const std::int64_t axis : *given) {
    const std::int64_t at = b.axis(axis, rank);
    if (b.ok() && std::ranges::find(axes, at) != axes.end())
      b.fail(ErrorCode::mismatch, "axis {} stands twice", axis);
    axes.push_back(at);
  }
  return b.ok() ? std::optional(axes) : std::nullopt;
}

// Which cell stands at coordinate i of a padded axis. Negative padding takes cells away first; what is left
// is what edges, reflections and repetitions are made of.
ValueId padded_cell(Builder& b, ValueId i, PadMode mode, const Dim& size, const Dim& low, const Dim& high) {
  if (mode == PadMode::constant) return minus_size(b, i, low);
  const Dim first = max(0 - low, 0), left = size - first - max(0 - high, 0);
  const ValueId at = minus_size(b, i, max(low, 0)), last = size_scalar(b, left - 1);
  ValueId cell = at;
  if (mode == PadMode::edge) {
    cell = clamp(b, at, size_scalar(b, 0), last);
  } else if (mode == PadMode::wrap) {
    cell = floor_mod(b, at, max(left, 1));
  } else {
    // There and back again: 2 · (n − 1) cells, and one cell stays where it is.
    const Dim period = max(Dim(2) * (left - 1), 1);
    const ValueId on = floor_mod(b, at, period);
    cell = b.select(b.less(last, on), b.subtract(size_scalar(b, Dim(2) * (left - 1)), on), on);
  }
  return minus_size(b, cell, 0 - first);
}

bool is_zero(Builder& b, ValueId id) {
  const auto& constant = b.graph().value(id).constant;
  return constant != nullptr &&
         std::ranges::all_of(constant->bytes(), [](std::byte v) { return v == std::byte{0}; });
}

Values pad(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0], fill = operand(call, 2);
  const Shape from = b.shape(x);
  const auto pads = known_list(b, call.inputs[1], "pads");
  const auto mode = pad_mode(b, call);
  std::optional<Ints> given;
  if (operand(call, 3) != ValueId::none) given = known_numbers(b, operand(call, 3), "axes");
  if (!pads || !mode || !b.ok()) return {ValueId::none};
  const auto axes = named_axes(b, given, b.rank(x));
  if (!axes) return {ValueId::none};
  if (pads->size() != 2 * axes->size())
    return {b.fail(ErrorCode::mismatch, "{} pads for {} axes", pads->size(), axes->size())};
  Shape to = from, lows(from.size(), Dim(0)), highs = lows;
  for (std::size_t n = 0; n < axes->size(); ++n) {
    const auto axis = static_cast<std::size_t>((*axes)[n]);
    lows[axis] = (*pads)[n];
    highs[axis] = (*pads)[n + axes->size()];
    to[axis] = from[axis] + lows[axis] + highs[axis];
  }
  if (from.empty() || (to == from && std::ranges::all_of(lows, [](const Dim& d) { return d.is(0); })))
    return {x};
  Values indices;
  ValueId exists = ValueId::none;
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    ValueId cell = b.iota(to, static_cast<std::int64_t>(axis));
    if (!lows[axis].is(0) || !highs[axis].is(0)) {
      cell = padded_cell(b, cell, *mode, from[axis], lows[axis], highs[axis]);
      const ValueId inside = in_range(b, cell, from[axis]);
      exists = exists == ValueId::none ? inside : b.logical_and(exists, inside);
    }
    indices.push_back(cell);
  }
  if (*mode != PadMode::constant) return {b.gather(x, std::move(indices))};
  const ValueId cells = b.gather(x, std::move(indices), true);
  if (fill == ValueId::none || is_zero(b, fill) || !b.ok()) return {cells};
  return {b.select(exists, cells, b.reshape(fill, {}))};
}

// Each axis keeps its middle: half of what is too much goes from the low end (rounded down), half of what is
// missing is put there.
Values center_crop_pad(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  const auto sizes = known_list(b, call.inputs[1], "shape");
  const Ints* attribute = call.attributes.get<Ints>("axes");
  const auto axes = named_axes(b, attribute ? std::optional(*attribute) : std::nullopt, b.rank(x));
  if (!sizes || !axes) return {ValueId::none};
  if (sizes->size() != axes->size())
    return {b.fail(ErrorCode::mismatch, "shape {} for {} axes", text_of(*sizes), axes->size())};
  const Shape from = b.shape(x);
  Shape to = from, offset(from.size(), Dim(0));
  for (std::size_t n = 0; n < axes->size(); ++n) {
    const auto axis = static_cast<std::size_t>((*axes)[n]);
    to[axis] = (*sizes)[n];
    const Dim crop = floor_div(from[axis] - to[axis], 2), grow = floor_div(to[axis] - from[axis], 2);
    offset[axis] = select_less(to[axis], from[axis], crop, 0 - grow);
  }
  Values indices;
  for (std::size_t axis = 0; axis < to.size(); ++axis)
    indices.push_back(minus_size(b, b.iota(to, static_cast<std::int64_t>(axis)), 0 - offset[axis]));
  return {b.gather(x, std::move(indices), true)};
}

// Pad-1 and -2 have pads and value as attributes.
Result<void> pad_attributes(Builder& builder, ForeignNode& node) {
  if (const Attribute* paddings = node.attributes.find("paddings")) {
    node.attributes.set("pads", Attribute(*paddings));
    node.attributes.erase("paddings");
  }
  TRY(attribute_to_input(builder, node, "pads", 1));
  const Attribute* value = node.attributes.find("value");
  if (value == nullptr || node.inputs.empty() || node.inputs[0] == ValueId::none) return {};
  const auto* const real = std::get_if<double>(value);
  if (real == nullptr) return fail(ErrorCode::malformed, "'value' must be a real number");
  node.inputs.resize(std::max<std::size_t>(node.inputs.size(), 3), ValueId::none);
  node.inputs[2] = builder.scalar(builder.dtype(node.inputs[0]), *real);
  node.attributes.erase("value");
  return {};
}

std::vector<Sample> pad_samples(DType t) {
  const auto x = [&](StaticShape shape) { return sample_tensor(t, std::move(shape), Fill::normal); };
  const HostTensor fill = sample_tensor(t, {}, Fill::positive, 9);
  const std::vector<bool> fixed = {false, true, false, true};
  const auto mode = [](std::string name) { return Attributes{{"mode", std::move(name)}}; };
  return {{"zeros", {x({3, 17}), ints({1, 0, 2, 3})}, {}, fixed},
          {"a value", {x({2, 3, 5}), ints({0, 1, 2, 1, 0, 3}), fill}, {}, fixed},
          {"two axes", {x({2, 3, 5}), ints({2, -1, 1, 3}), fill, ints({0, -1})}, {}, fixed},
          {"crop", {x({4, 20}), ints({-1, 2, 0, -3})}, {}, fixed},
          {"edge", {x({3, 4}), ints({2, 3, 1, 6})}, mode("edge"), fixed},
          {"reflect", {x({3, 4}), ints({2, 3, 1, 1})}, mode("reflect"), fixed},
          {"reflect far", {x({2, 3}), ints({5, 7, 4, 9})}, mode("reflect"), fixed},
          {"reflect one cell", {x({1, 3}), ints({2, 0, 3, 0})}, mode("reflect"), fixed},
          {"wrap", {x({2, 3}), ints({3, 7, 4, 1})}, mode("wrap"), fixed},
          {"nothing there", {x({0, 3}), ints({1, 0, 1, 0})}, {}, fixed}};
}

std::vector<Sample> center_samples(DType t) {
  const auto x = sample_tensor(t, {5, 8, 3}, Fill::normal);
  return {{"crop and pad", {x, ints({2, 11, 3})}, {}, {false, true}},
          {"two axes", {x, ints({5, 4})}, {{"axes", Ints{1, -1}}}, {false, true}}};
}

constexpr std::array kOps = {
    OpDef{.name = "pad",
          .doc = "Puts cells around the named axes: a value, the edge, the reflection without the edge (any "
                 "number of "
                 "times), or the other end. Negative numbers take cells away.",
          .inputs = {{"data", "[...]"},
                     {"pads", "[2·n]: low ends, then high ends", kI64, "index", OperandMode::required, true},
                     {"constant_value", "[]", kAny, "T", OperandMode::optional},
                     {"axes", "[n]", kIndex, "axes", OperandMode::optional, true}},
          .outputs = {{"output", "[...]"}},
          .attributes = {{"mode", AttributeKind::text, "constant", "or edge, reflect, wrap"}},
          .decompose = pad,
          .samples = pad_samples,
          .onnx = {"Pad", {1, 2, 11, 13, 18, 19, 21, 23, 24, 25}, pad_attributes},
          .oracle = "onnx-node:test_constant_pad"},
    OpDef{.name = "center_crop_pad",
          .doc = "Crops or pads with zeros on both sides, so that the middle stays the middle.",
          .inputs = {{"input_data", "[...]"}, {"shape", "[n]", kIndex, "index", OperandMode::required, true}},
          .outputs = {{"output_data", "[...]"}},
          .attributes = {{"axes", AttributeKind::integers, "all", "which sizes `shape` gives"}},
          .decompose = center_crop_pad,
          .samples = center_samples,
          .onnx = {"CenterCropPad", {18}},
          .oracle = "onnx-node:test_center_crop_pad"},
};

}  // namespace

std::span<const OpDef> padding_ops() { return kOps; }

}  // namespace diji
