// The records of the primitives and their dimension numbers.
#include "graph/primitives.h"

#include "base/check.h"

#include <algorithm>

namespace diji {
namespace {

constexpr OpDef map_record(std::string_view name, std::string_view doc, DTypeSet dtypes, int operands,
                           DTypeSet result) {
  OpDef record{.name = name, .doc = doc, .kind = OpKind::primitive};
  if (operands == 2) {
    record.inputs = {{"a", "[...]", dtypes}, {"b", "[...]", dtypes}};
  } else {
    record.inputs = {{"x", "[...]", dtypes}};
  }
  record.outputs = {{"y", "[...]", result, result == kBool ? "bool" : "T"}};
  return record;
}

constexpr OpDef binary(std::string_view name, std::string_view doc, DTypeSet dtypes = kNumeric) {
  return map_record(name, doc, dtypes, 2, dtypes);
}
constexpr OpDef comparison(std::string_view name, std::string_view doc, DTypeSet dtypes) {
  return map_record(name, doc, dtypes, 2, kBool);
}
constexpr OpDef function(std::string_view name, std::string_view doc, DTypeSet dtypes = kFloating) {
  return map_record(name, doc, dtypes, 1, dtypes);
}

constexpr DTypeSet kBits = static_cast<DTypeSet>(kInteger | kBool);
constexpr DTypeSet kOrdered = static_cast<DTypeSet>(kNumeric | kBool);
constexpr AttributeDef kSymbols = {"symbols", AttributeKind::dims, "none",
                                   "sizes of results that only a run tells"};

constexpr OpDef of_ranks(std::string_view name, std::string_view doc, std::string_view x, std::string_view y,
                         DTypeSet dtypes = kAny) {
  return {.name = name,
          .doc = doc,
          .kind = OpKind::primitive,
          .inputs = {{"x", x, dtypes}},
          .outputs = {{"y", y, dtypes}},
          .attributes = {{"channel", AttributeKind::integer, "", "its place in the group's order, from 0"},
                         {"group", AttributeKind::text, "", "of ranks: a mesh axis"},
                         {"ranks", AttributeKind::dims, "", "one: how many the group has"}}};
}
constexpr OpDef reduction_of_ranks(std::string_view name, std::string_view doc, std::string_view y) {
  OpDef record = of_ranks(name, doc, "[n, ...]", y, kNumeric);
  record.attributes.push_back({"kind", AttributeKind::text, "", "sum, product, min or max"});
  return record;
}
constexpr OpDef from_root(std::string_view name, std::string_view doc) {
  OpDef record = of_ranks(name, doc, "[...]", "like x");
  record.attributes.push_back({"root", AttributeKind::integer, "", "a rank"});
  return record;
}

constexpr std::array<OpDef, kPrimitiveCount> kRecords = {{
    binary("prim.add", "a + b; integers wrap"),
    binary("prim.subtract", "a - b; integers wrap"),
    binary("prim.multiply", "a · b; integers wrap"),
    binary("prim.divide", "a / b; integers truncate toward zero, a zero divisor is an error"),
    binary("prim.remainder",
           "a - b · truncate(a / b), exact, with the sign of a (C's fmod); an integer divisor of zero is an "
           "error, a float one gives NaN"),
    binary("prim.power",
           "a to the power b (IEEE 754 pow: x^0 and 1^y are 1 even for NaN); integers wrap, a negative "
           "exponent gives the truncated 1 / a^-b, where 0 is an error"),
    binary("prim.minimum", "the smaller one; NaN if either is NaN; -0 is below +0"),
    binary("prim.maximum", "the larger one; NaN if either is NaN; +0 is above -0"),
    binary("prim.bit_and", "bits, or truth values", kBits),
    binary("prim.bit_or", "bits, or truth values", kBits),
    binary("prim.bit_xor", "bits, or truth values", kBits),
    binary("prim.shift_left", "a · 2^b modulo the width; 0 where b is at least the width or negative",
           kInteger),
    binary("prim.shift_right",
           "a shifted by b bits, with the sign for signed integers; where b is at least the width or "
           "negative, as shifted by the width",
           kInteger),
    comparison("prim.equal", "a = b; NaN equals nothing", kAny),
    comparison("prim.less", "a < b; false where one is NaN", kOrdered),
    {.name = "prim.select",
     .doc = "a where the condition is true, else b.",
     .kind = OpKind::primitive,
     .inputs = {{"condition", "[...]", kBool, "bool"}, {"a", "[...]"}, {"b", "[...]"}},
     .outputs = {{"y", "[...]"}}},
    function("prim.absolute", "|x|; the smallest integer wraps to itself", kNumeric),
    function("prim.floor", "the largest integer not above x"),
    function("prim.ceil", "the smallest integer not below x"),
    function("prim.round_even", "the nearest integer, halves to the even one"),
    function("prim.sqrt", "square root; NaN below zero"),
    function("prim.exp", "e to the power x"),
    function("prim.expm1", "e to the power x, less 1"),
    function("prim.log", "natural logarithm; -inf at 0, NaN below"),
    function("prim.log1p", "natural logarithm of 1 + x"),
    function("prim.erf", "error function, 2/sqrt(pi) · the integral of exp(-t^2) from 0 to x"),
    function("prim.sin", "sine of radians"),
    function("prim.cos", "cosine of radians"),
    function("prim.tan", "tangent of radians"),
    function("prim.asin", "arc sine; NaN beyond [-1, 1]"),
    function("prim.acos", "arc cosine; NaN beyond [-1, 1]"),
    function("prim.atan", "arc tangent"),
    function("prim.sinh", "hyperbolic sine"),
    function("prim.cosh", "hyperbolic cosine"),
    function("prim.tanh", "hyperbolic tangent"),
    function("prim.asinh", "inverse hyperbolic sine"),
    function("prim.acosh", "inverse hyperbolic cosine; NaN below 1"),
    function("prim.atanh", "inverse hyperbolic tangent; NaN beyond [-1, 1]"),
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
    {.name = "prim.iota",
     .doc = "The coordinate along one axis.",
     .kind = OpKind::primitive,
     .outputs = {{"y", "shape", kNumeric, "dtype"}},
     .attributes = {{"shape", AttributeKind::dims, "", ""},
                    {"axis", AttributeKind::integer, "", ""},
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
    {.name = "prim.gather",
     .doc = "y[p] = x[i0[p], i1[p], ...]: one index tensor an axis of x, all of the result's shape, 0 <= i < "
            "size. Outside of x: an error, or 0.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[...]"}, {"indices", "[...]", kIndex, "I", OperandMode::variadic}},
     .outputs = {{"y", "[...]"}},
     .attributes = {{"outside", AttributeKind::text, "", "error or zero"}}},
    {.name = "prim.concatenate",
     .doc = "The parts behind each other along one axis.",
     .kind = OpKind::primitive,
     .inputs = {{"parts", "[..., n, ...]", kAny, "T", OperandMode::variadic}},
     .outputs = {{"y", "[..., sum n, ...]"}},
     .attributes = {{"axis", AttributeKind::integer, "", ""}}},
    {.name = "prim.scatter",
     .doc = "x with cell [i0[p], i1[p], ...] updated by updates[p], for every p in row-major order. An index "
            "outside of x is an error.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[...]"},
                {"updates", "[...]"},
                {"indices", "[...]", kIndex, "I", OperandMode::variadic}},
     .outputs = {{"y", "like x"}},
     .attributes = {{"kind", AttributeKind::text, "", "set, add, multiply, minimum or maximum"}}},
    {.name = "prim.reduce",
     .doc =
         "Folds the axes away. Over nothing: sum gives 0, product 1, max -inf or the smallest integer, min "
         "+inf or the largest.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[...]", kNumeric}},
     .outputs = {{"y", "[kept...]", kNumeric}},
     .attributes = {{"axes", AttributeKind::integers, "", "ascending"},
                    {"kind", AttributeKind::text, "", "sum, product, min or max"}}},
    {.name = "prim.arg_reduce",
     .doc =
         "Coordinate of the largest (max) or smallest (min) element along an axis. Of equal ones the first "
         "or the last; a NaN wins, the first or the last.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[..., n, ...]", kOrdered}},
     .outputs = {{"y", "[kept...]", kI64, "i64"}},
     .attributes = {{"axis", AttributeKind::integer, "", "not empty"},
                    {"kind", AttributeKind::text, "", "min or max"},
                    {"last", AttributeKind::integer, "", "1: of equal ones the last"}}},
    {.name = "prim.prefix_scan",
     .doc = "Running sum or product along an axis.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[..., n, ...]", kNumeric}},
     .outputs = {{"y", "like x", kNumeric}},
     .attributes = {{"axis", AttributeKind::integer, "", ""},
                    {"exclusive", AttributeKind::integer, "", "1: without the own element"},
                    {"kind", AttributeKind::text, "", "sum or product"},
                    {"reverse", AttributeKind::integer, "", "1: from the end"}}},
    {.name = "prim.sort_indices",
     .doc = "The coordinates along an axis in the order that sorts it. Stable: equal keys keep their order, "
            "also descending. NaN is above everything, -0 equals +0.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[..., n, ...]", kOrdered}},
     .outputs = {{"y", "like x", kI64, "i64"}},
     .attributes = {{"axis", AttributeKind::integer, "", ""},
                    {"descending", AttributeKind::integer, "", ""}}},
    {.name = "prim.compact",
     .doc = "Row-major positions of the true elements. Its memory is for all of them; the count becomes the "
            "symbol.",
     .kind = OpKind::primitive,
     .inputs = {{"mask", "[...]", kBool, "bool"}},
     .outputs = {{"y", "[count]", kI64, "i64"}},
     .attributes = {{"symbols", AttributeKind::dims, "", "the count"}}},
    {.name = "prim.dot_general",
     .doc =
         "Sum over the contracting axes of a · b (StableHLO dot_general): [batch..., a free..., b free...].",
     .kind = OpKind::primitive,
     .inputs = {{"a", "[...]", kNumeric}, {"b", "[...]", kNumeric, "U"}},
     .outputs = {{"y", "[batch..., a free..., b free...]", kNumeric, "dtype"}},
     .attributes = {{"lhs_batch", AttributeKind::integers, "", ""},
                    {"lhs_contracting", AttributeKind::integers, "", ""},
                    {"rhs_batch", AttributeKind::integers, "", ""},
                    {"rhs_contracting", AttributeKind::integers, "", ""},
                    {"dtype", AttributeKind::dtype, "of a", "of the sums: i32 for 8-bit integers"}}},
    {.name = "prim.convolution",
     .doc = "Cross-correlation, any number of spatial axes: x [N, C, in...], w [O, C/groups, kernel...] -> "
            "[N, O, out...]; "
            "cells outside x are padding_value.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[N, C, in...]", kNumeric}, {"w", "[O, C/groups, kernel...]", kNumeric, "U"}},
     .outputs = {{"y", "[N, O, out...]", kNumeric, "dtype"}},
     .attributes = {{"dilations", AttributeKind::integers, "", ""},
                    {"dtype", AttributeKind::dtype, "of x", "of the sums: i32 for 8-bit integers"},
                    {"groups", AttributeKind::integer, "", ""},
                    {"pads_high", AttributeKind::dims, "", "not negative"},
                    {"padding_value", AttributeKind::integer, "0", "in x's dtype; 0 for floats"},
                    {"pads_low", AttributeKind::dims, "", "not negative"},
                    {"strides", AttributeKind::integers, "", ""}}},
    {.name = "prim.observe",
     .doc = "The same integers, from here on known as sizes: the host reads them, and each becomes a symbol.",
     .kind = OpKind::primitive,
     .inputs = {{"x", "[n] or []", kIndex}},
     .outputs = {{"y", "like x", kIndex}},
     .attributes = {{"symbols", AttributeKind::dims, "", "one an element"}}},
    reduction_of_ranks("prim.all_reduce", "The reduction of all ranks' x, element by element.", "like x"),
    of_ranks("prim.all_gather", "The ranks' x behind each other along axis 0, by rank.", "[n, ...]",
             "[ranks · n, ...]"),
    reduction_of_ranks(
        "prim.reduce_scatter",
        "Of the reduction of all ranks' x, cut along axis 0 into a block for each rank, the own "
        "block.",
        "[n / ranks, ...]"),
    of_ranks("prim.all_to_all",
             "x is cut along axis 0 into a block for each rank; the blocks that the ranks have for this one, "
             "by rank.",
             "[n, ...]", "like x"),
    from_root("prim.collective_broadcast", "The x of rank root; that of the others is not looked at."),
    {.name = "prim.conditional",
     .doc = "The first body where the condition is true, else the second; both take the captures.",
     .kind = OpKind::primitive,
     .inputs = {{"condition", "one element", kBool, "bool"},
                {"captures", "", kAny, "any", OperandMode::variadic}},
     .outputs = {{"results", "", kAny, "any"}},
     .attributes = {kSymbols}},
    {.name = "prim.loop",
     .doc =
         "Runs the body while the condition holds, at most `limit` times and once for each slice (axis 0) "
         "of the scanned inputs. Body: [iteration, carried..., slices..., captures...] -> [condition where "
         "conditional, carried..., stacked...]. Results: the carried values at the end, then the stacked "
         "ones of all iterations along a new axis 0. A carried value's size may change from iteration to "
         "iteration where the body's input has a symbol of its own for it.",
     .kind = OpKind::primitive,
     .inputs = {{"limit", "one element", kI64, "i64", OperandMode::optional},
                {"condition", "one element", kBool, "bool", OperandMode::optional},
                {"values", "carried, scanned, captures", kAny, "any", OperandMode::variadic}},
     .outputs = {{"results", "", kAny, "any"}},
     .attributes = {{"carried", AttributeKind::integer, "", "how many"},
                    {"scanned", AttributeKind::integer, "", "how many"},
                    {"conditional", AttributeKind::integer, "", "1: the body computes whether to go on"},
                    kSymbols}},
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
  return primitive >= Primitive::concatenate && primitive <= Primitive::convolution;
}

bool is_collective(Primitive primitive) {
  return primitive >= Primitive::all_reduce && primitive <= Primitive::collective_broadcast;
}

bool stands_alone(Primitive primitive) {
  return primitive >= Primitive::observe || primitive == Primitive::dims;
}

int arity(Primitive map) { return static_cast<int>(op_of(map).inputs.size()); }

namespace {

constexpr std::string_view kReductions[] = {"sum", "product", "min", "max"};
constexpr Primitive kReductionSteps[] = {Primitive::add, Primitive::multiply, Primitive::minimum,
                                         Primitive::maximum};
constexpr std::string_view kUpdates[] = {"set", "add", "multiply", "minimum", "maximum"};

template <typename Enum, std::size_t N>
std::optional<Enum> parse_name(const std::string_view (&names)[N], std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Enum>(found - std::begin(names));
}

}  // namespace

std::string_view name_of(Reduction reduction) { return kReductions[static_cast<std::size_t>(reduction)]; }
std::optional<Reduction> parse_reduction(std::string_view name) {
  return parse_name<Reduction>(kReductions, name);
}
Primitive step_of(Reduction reduction) { return kReductionSteps[static_cast<std::size_t>(reduction)]; }

std::string_view name_of(Update update) { return kUpdates[static_cast<std::size_t>(update)]; }
std::optional<Update> parse_update(std::string_view name) { return parse_name<Update>(kUpdates, name); }

GroupChannel channel_of(const Attributes& attributes) {
  const Shape ranks = attributes.get_or("ranks", Shape{});
  return {.group = attributes.get_or("group", std::string{}),
          .number = attributes.get_or<std::int64_t>("channel", 0),
          .ranks = ranks.empty() ? Dim(1) : ranks[0]};
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
          .pads_low = attributes.get_or("pads_low", Shape{}),
          .pads_high = attributes.get_or("pads_high", Shape{}),
          .groups = attributes.get_or<std::int64_t>("groups", 1),
          .padding_value = attributes.get_or<std::int64_t>("padding_value", 0)};
}

LoopForm loop_form(const Node& node) {
  const auto count = [&](std::string_view name) {
    return static_cast<std::size_t>(std::max<std::int64_t>(node.attributes.get_or<std::int64_t>(name, 0), 0));
  };
  LoopForm form{
      .carried = count("carried"), .scanned = count("scanned"), .conditional = count("conditional") != 0};
  const std::size_t values = node.inputs.size() < 2 ? 0 : node.inputs.size() - 2;
  form.captures = values - std::min(values, form.carried + form.scanned);
  const std::size_t results = node.bodies.empty() ? 0 : node.bodies[0]->outputs().size();
  form.stacked = results - std::min(results, form.first_result() + form.carried);
  return form;
}

}  // namespace diji
