// Narrow elements lie in a byte each: integers as the numbers they are, floats as their codes.
#include "formats/onnx/narrow.h"

#include "formats/onnx/names.h"
#include "formats/onnx/tensor.h"
#include "ops/catalog.h"

#include <algorithm>
#include <array>
#include <utility>

namespace diji::onnx {
namespace {

const DataType& type_of(std::int32_t number) { return kDataTypes[static_cast<std::size_t>(number)]; }
bool is_minifloat(std::int32_t number) { return number != 0 && !type_of(number).minifloat.empty(); }

ValueId call(const Site& site, std::string_view op, Values inputs, Attributes attributes) {
  return site.builder().call(*find_op(op), std::move(inputs), std::move(attributes),
                             std::string(site.node.name))[0];
}

// The numbers of a tensor: f32 for minifloats.
ValueId numbers(const Site& site, const Tensor& x) {
  if (!is_minifloat(x.packed)) return x.id;
  return call(site, "minifloat_decode", {x.id}, {{"format", std::string(type_of(x.packed).minifloat)}});
}

Result<std::string> round_mode(const Site& site) {
  const AttributeProto* found = site.attribute("round_mode");
  if (found == nullptr) return std::string("up");
  if (const auto* value = std::get_if<std::string_view>(&found->value)) return std::string(*value);
  return fail(ErrorCode::malformed, "attribute 'round_mode' is no STRING");
}

Result<Tensor> minifloats(const Site& site, ValueId x, std::int32_t to) {
  Builder& b = site.builder();
  const ValueId real = is_floating(b.dtype(x)) ? x : b.convert(x, DType::f32);
  return Tensor{call(site, "minifloat_encode", {real},
                     {{"format", std::string(type_of(to).minifloat)},
                      {"saturate", TRY(site.integer("saturate", 1))},
                      {"round_mode", TRY(round_mode(site))}}),
                to};
}

enum class Overflow : std::uint8_t { wraps, saturates };

Tensor narrow_integers(const Site& site, ValueId x, std::int32_t to, Overflow overflow) {
  Builder& b = site.builder();
  const DataType& type = type_of(to);
  const int count = 1 << type.packed_bits, offset = type.widened == DType::i8 ? count / 2 : 0;
  const auto number = [&](int value) { return b.scalar(DType::i32, value); };
  ValueId wide = b.convert(x, DType::i32);
  if (overflow == Overflow::saturates) {
    wide = b.maximum(b.minimum(wide, number(count - 1 - offset)), number(-offset));
  } else {
    const ValueId above = b.map(Primitive::bit_and, {b.add(wide, number(offset)), number(count - 1)});
    wide = b.subtract(above, number(offset));
  }
  return {b.convert(wide, type.widened), to};
}

Result<std::optional<ImportedList>> cast(Site& site, std::int32_t to) {
  const Tensor x = TRY(site.tensor(0, "the input"));
  if (packed_type(to) == 0 && !is_minifloat(x.packed) && site.node.op_type == "Cast") return std::nullopt;
  const ValueId known = numbers(site, x);
  if (is_minifloat(to)) return ImportedList{{TRY(minifloats(site, known, to))}};
  if (packed_type(to) != 0) {  // as wider integers do
    const bool real = is_floating(site.builder().dtype(known));
    return ImportedList{{narrow_integers(site, known, to, real ? Overflow::saturates : Overflow::wraps)}};
  }
  const DType dtype = TRY(dtype_of_number(to, "the result", site.importer.model().file, site.node.offset));
  return ImportedList{{Tensor{call(site, "cast", {known}, {{"to", dtype}})}}};
}

Result<std::optional<ImportedList>> cast_like(Site& site) {
  const Tensor x = TRY(site.tensor(0, "the input")), like = TRY(site.tensor(1, "target_type"));
  if (x.packed == 0 && like.packed == 0) return std::nullopt;
  return cast(site, like.packed != 0 ? like.packed : data_type_of(site.builder().dtype(like.id)));
}

Result<Attributes> axis_and_block(const Site& site) {
  Attributes attributes;
  for (const std::string_view name : {"axis", "block_size"}) {
    if (site.attribute(name) != nullptr) attributes.set(name, TRY(site.integer(name, 0)));
  }
  return attributes;
}

// The scale of every element of x, by the operator that knows axes and blocks: 1 dequantised.
Result<ValueId> scales(const Site& site, ValueId x, ValueId scale) {
  Builder& b = site.builder();
  const ValueId ones = b.broadcast(b.scalar(DType::i8, 1), b.shape(x));
  return call(site, "dequantize_linear", {ones, scale}, TRY(axis_and_block(site)));
}

// Minifloats have no zero point but 0.
Result<std::optional<ImportedList>> dequantize(Site& site) {
  const Tensor x = TRY(site.tensor(0, "x"));
  if (!is_minifloat(x.packed)) return std::nullopt;
  Builder& b = site.builder();
  const ValueId scale = TRY(site.plain(1, "x_scale"));
  const ValueId y = b.multiply(numbers(site, x), b.convert(TRY(scales(site, x.id, scale)), DType::f32));
  const auto to = static_cast<std::int32_t>(TRY(site.integer("output_dtype", data_type_of(b.dtype(scale)))));
  const DType dtype = TRY(dtype_of_number(to, "the result", site.importer.model().file, site.node.offset));
  return ImportedList{{Tensor{b.convert(y, dtype)}}};
}

Result<std::optional<ImportedList>> quantize(Site& site) {
  const Tensor zero_point = TRY(site.optional_tensor(2, "y_zero_point"));
  const auto wanted = static_cast<std::int32_t>(TRY(site.integer("output_dtype", 0)));
  const std::int32_t to = zero_point.packed != 0 ? zero_point.packed : wanted;
  if (packed_type(to) == 0) return std::nullopt;
  Builder& b = site.builder();
  const ValueId x = TRY(site.plain(0, "x")), scale = TRY(site.plain(1, "y_scale"));
  if (TRY(site.integer("precision", 0)) != 0)
    return fail(ErrorCode::unsupported, "precision with {} is not built yet", type_of(to).name);
  if (is_minifloat(to)) {
    const ValueId each = TRY(scales(site, x, scale));
    return ImportedList{{TRY(minifloats(site, b.divide(b.convert(x, b.dtype(each)), each), to))}};
  }
  Attributes attributes = TRY(axis_and_block(site));
  if (zero_point.id == ValueId::none) attributes.set("output_dtype", type_of(to).widened);
  Values operands = {x, scale};
  if (zero_point.id != ValueId::none) operands.push_back(zero_point.id);
  const ValueId y = call(site, "quantize_linear", std::move(operands), std::move(attributes));
  return ImportedList{{narrow_integers(site, y, to, Overflow::saturates)}};
}

}  // namespace

bool may_be_narrow(const NodeProto& node) {
  constexpr std::array<std::string_view, 4> kTypes = {"Cast", "CastLike", "DequantizeLinear",
                                                      "QuantizeLinear"};
  return domain_of(node.domain).empty() && std::ranges::find(kTypes, node.op_type) != kTypes.end();
}

Result<std::optional<ImportedList>> import_narrow(Site& site) {
  const std::string_view type = site.node.op_type;
  if (type == "CastLike") return cast_like(site);
  if (type == "DequantizeLinear") return dequantize(site);
  if (type == "QuantizeLinear") return quantize(site);
  const AttributeProto* to = site.attribute("to");
  const auto* number = to == nullptr ? nullptr : std::get_if<std::int64_t>(&to->value);
  if (number == nullptr) return std::nullopt;  // read_attributes says what is wrong
  return cast(site, static_cast<std::int32_t>(*number));
}

}  // namespace diji::onnx
