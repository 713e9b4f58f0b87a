// The records of the primitives and their dimension numbers.
#include "graph/primitives.h"

#include "base/check.h"

#include <algorithm>

namespace diji {
namespace {

constexpr OpDef map_record(std::string_view name, std::string_view doc, DTypeSet dtypes, bool binary,
                           DTypeSet result) {
  OpDef record{.name = name, .doc = doc, .kind = OpKind::primitive};
  if (binary) {
    record.inputs = {{"a", "[...]", dtypes}, {"b", "[...]", dtypes}};
  } else {
    record.inputs = {{"x", "[...]", dtypes}};
  }
  record.outputs = {{"y", "[...]", result, result == kBool ? "bool" : "T"}};
  return record;
}

constexpr std::array<OpDef, kPrimitiveCount> kRecords = {{
    map_record("prim.add", "a + b; integers wrap", kNumeric, true, kNumeric),
    map_record("prim.subtract", "a - b; integers wrap", kNumeric, true, kNumeric),
    map_record("prim.multiply", "a · b; integers wrap", kNumeric, true, kNumeric),
    map_record("prim.divide", "a / b; integers truncate toward zero, a zero divisor is an error", kNumeric,
               true, kNumeric),
    map_record("prim.maximum", "the larger one; NaN if either is NaN", kNumeric, true, kNumeric),
    map_record("prim.equal", "a = b; NaN equals nothing", kAny, true, kBool),
    map_record("prim.exp", "e to the power x", kFloating, false, kFloating),
    map_record("prim.tanh", "hyperbolic tangent", kFloating, false, kFloating),
    map_record("prim.sqrt", "square root; NaN below zero", kFloating, false, kFloating),
    {.name = "prim.convert",
     .doc = "Another dtype: floats round to nearest even once, float to integer truncates and saturates (NaN "
            "gives 0), "
            "integers wrap, to bool is x != 0.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[...]"}},
     .outputs = {{"y", "[...]", kAny, "to"}},
     .attributes = {{"dtype", AttributeKind::dtype, "", "of the result"}}},
    {.name = "prim.dims",
     .doc = "An integer tensor whose elements are expressions of sizes.",
     .kind = OpKind::primitive,
     .outputs = {{"y", "[n]", kIndex}},
     .attributes = {{"elements", AttributeKind::dims, "", "one each"},
                    {"dtype", AttributeKind::dtype, "", ""}}},
    {.name = "prim.reshape",
     .doc = "The same elements in row-major order under another shape.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[...]"}},
     .outputs = {{"y", "shape"}},
     .attributes = {{"shape", AttributeKind::dims, "", "of as many elements"}}},
    {.name = "prim.transpose",
     .doc = "Axis i of the result is axis permutation[i] of x.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[...]"}},
     .outputs = {{"y", "[...]"}},
     .attributes = {{"permutation", AttributeKind::integers, "", ""}}},
    {.name = "prim.broadcast",
     .doc = "Axes of size 1 stretch; ranks are equal.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[...]"}},
     .outputs = {{"y", "shape"}},
     .attributes = {{"shape", AttributeKind::dims, "", ""}}},
    {.name = "prim.slice",
     .doc = "Element i of an axis is element start + i · step of x.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[...]"}},
     .outputs = {{"y", "size"}},
     .attributes = {{"start", AttributeKind::dims, "", "per axis"},
                    {"size", AttributeKind::dims, "", "per axis"},
                    {"step", AttributeKind::integers, "", "per axis, not 0"}}},
    {.name = "prim.concatenate",
     .doc = "The parts behind each other along one axis.",
     .kind = OpKind::primitive,
     .inputs = {{"parts", "[..., n, ...]", kAny, "T", OperandMode::variadic}},
     .outputs = {{"y", "[..., sum n, ...]"}},
     .attributes = {{"axis", AttributeKind::integer, "", ""}}},
    {.name = "prim.reduce",
     .doc = "Folds the axes away. Over nothing: sum gives 0, max gives −inf or the smallest integer.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[...]", kNumeric}},
     .outputs = {{"y", "[kept...]", kNumeric}},
     .attributes = {{"axes", AttributeKind::integers, "", "ascending"},
                    {"kind", AttributeKind::text, "", "sum or max"}}},
    {.name = "prim.dot_general",
     .doc =
         "Sum over the contracting axes of a · b (StableHLO dot_general): [batch..., a free..., b free...].",
     .kind = OpKind::primitive,
     .inputs = {{"a", "[...]", kNumeric}, {"b", "[...]", kNumeric}},
     .outputs = {{"y", "[batch..., a free..., b free...]", kNumeric}},
     .attributes = {{"lhs_batch", AttributeKind::integers, "", ""},
                    {"lhs_contracting", AttributeKind::integers, "", ""},
                    {"rhs_batch", AttributeKind::integers, "", ""},
                    {"rhs_contracting", AttributeKind::integers, "", ""}}},
    {.name = "prim.convolution",
     .doc = "Cross-correlation, any number of spatial axes: x [N, C, in...], w [O, C/groups, kernel...] -> "
            "[N, O, out...]; "
            "cells outside x are 0.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[N, C, in...]", kFloating}, {"w", "[O, C/groups, kernel...]", kFloating}},
     .outputs = {{"y", "[N, O, out...]", kFloating}},
     .attributes = {{"dilations", AttributeKind::integers, "", ""},
                    {"groups", AttributeKind::integer, "", ""},
                    {"pads_high", AttributeKind::integers, "", ""},
                    {"pads_low", AttributeKind::integers, "", ""},
                    {"strides", AttributeKind::integers, "", ""}}},
    {.name = "prim.fusion",
     .doc = "The body as one kernel.",
     .kind = OpKind::primitive,
     .inputs = {{"captures", "", kAny, "any", OperandMode::variadic}},
     .outputs = {{"y", "", kAny, "any"}}},
}};

Ints free_axes(std::int64_t rank, const Ints& batch, const Ints& contracting) {
  Ints result;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    const auto in = [axis](const Ints& axes) { return std::ranges::find(axes, axis) != axes.end(); };
    if (!in(batch) && !in(contracting)) result.push_back(axis);
  }
  return result;
}

}  // namespace

const OpDef& op_of(Primitive primitive) { return kRecords[static_cast<std::size_t>(primitive)]; }

std::optional<Primitive> primitive_of(const OpDef* op) {
  // The records stand in one array in the enumeration's order, so the address is the number.
  if (std::less<>{}(op, kRecords.data()) || !std::less<>{}(op, kRecords.data() + kRecords.size()))
    return std::nullopt;
  return static_cast<Primitive>(op - kRecords.data());
}

const OpDef* find_primitive(std::string_view name) {
  const auto found = std::ranges::find(kRecords, name, &OpDef::name);
  return found == kRecords.end() ? nullptr : &*found;
}

bool is_map(Primitive primitive) { return primitive <= Primitive::convert; }

bool is_view(Primitive primitive) {
  return primitive == Primitive::reshape || primitive == Primitive::transpose ||
         primitive == Primitive::broadcast || primitive == Primitive::slice;
}

bool is_root(Primitive primitive) {
  return primitive == Primitive::reduce || primitive == Primitive::dot_general ||
         primitive == Primitive::convolution || primitive == Primitive::concatenate;
}

std::string_view name_of(Reduction reduction) { return reduction == Reduction::sum ? "sum" : "max"; }

std::optional<Reduction> parse_reduction(std::string_view name) {
  if (name == "sum") return Reduction::sum;
  if (name == "max") return Reduction::max;
  return std::nullopt;
}

Ints DotDims::lhs_free(std::int64_t rank) const { return free_axes(rank, lhs_batch, lhs_contracting); }
Ints DotDims::rhs_free(std::int64_t rank) const { return free_axes(rank, rhs_batch, rhs_contracting); }

DotDims dot_dims(const Attributes& attributes) {
  return {.lhs_batch = attributes.get_or("lhs_batch", Ints{}),
          .rhs_batch = attributes.get_or("rhs_batch", Ints{}),
          .lhs_contracting = attributes.get_or("lhs_contracting", Ints{}),
          .rhs_contracting = attributes.get_or("rhs_contracting", Ints{})};
}

ConvolutionDims convolution_dims(const Attributes& attributes) {
  return {.strides = attributes.get_or("strides", Ints{}),
          .dilations = attributes.get_or("dilations", Ints{}),
          .pads_low = attributes.get_or("pads_low", Ints{}),
          .pads_high = attributes.get_or("pads_high", Ints{}),
          .groups = attributes.get_or<std::int64_t>("groups", 1)};
}

}  // namespace diji
