// Emission of primitives and operators with checks, inference and contents.
#include "graph/builder.h"

#include "base/check.h"
#include "graph/custom_op.h"

#include <algorithm>
#include <cmath>

namespace diji {

Result<void> Builder::status() const {
  if (error_) return std::unexpected(*error_);
  return {};
}

ValueId Builder::fail_with(Error error) {
  if (!error_) error_ = std::move(error);
  return ValueId::none;
}

const Type& Builder::type(ValueId id) const {
  static const Type kNothing{};
  return id == ValueId::none ? kNothing : graph_.type(id);
}

std::optional<Shape> Builder::contents(ValueId id) const { return contents_of(graph_, id); }

std::optional<Ints> Builder::constant_ints(ValueId id) const {
  const auto elements = contents(id);
  if (!elements) return std::nullopt;
  Ints result;
  for (const Dim& element : *elements) {
    const auto value = element.constant();
    if (!value) return std::nullopt;
    result.push_back(*value);
  }
  return result;
}

ValueId Builder::constant(HostTensor tensor) { return graph_.add_constant(std::move(tensor)); }

ValueId Builder::scalar(DType dtype, double value) {
  return visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return constant(HostTensor::of<T>({}, {static_cast<T>(value)}));
  });
}

ValueId Builder::primitive(Primitive which, Values inputs, Attributes attributes) {
  if (!ok()) return ValueId::none;
  const OpDef& op = op_of(which);
  if (auto checked = check_call(graph_, {&op, inputs, attributes}); !checked)
    return fail_with(checked.error());
  auto types = infer_primitive(graph_, which, inputs, attributes);
  if (!types) return fail_with(std::move(types).error());
  auto contents = propagate_contents(graph_, which, inputs, attributes, (*types)[0]);
  return graph_
      .add_node({.op = &op, .inputs = std::move(inputs), .attributes = std::move(attributes)},
                std::move(*types), {std::move(contents)})
      .outputs[0];
}

ValueId Builder::map(Primitive which, std::initializer_list<ValueId> operands) {
  if (!ok()) return ValueId::none;
  Shape target = shape(*operands.begin());
  for (const ValueId id : operands) target = broadcast_shapes(target, shape(id), op_of(which).name);
  Values inputs;
  for (const ValueId id : operands) inputs.push_back(broadcast(id, target));
  return primitive(which, std::move(inputs), {});
}

ValueId Builder::convert(ValueId x, DType to) {
  if (!ok() || dtype(x) == to) return x;
  return primitive(Primitive::convert, {x}, {{"dtype", to}});
}

ValueId Builder::dims(Shape elements, DType dtype) {
  return primitive(Primitive::dims, {}, {{"elements", std::move(elements)}, {"dtype", dtype}});
}

ValueId Builder::iota(Shape to, std::int64_t along, DType dtype) {
  return primitive(Primitive::iota, {}, {{"shape", std::move(to)}, {"axis", along}, {"dtype", dtype}});
}

ValueId Builder::reshape(ValueId x, Shape to) {
  if (!ok() || shape(x) == to) return x;
  return primitive(Primitive::reshape, {x}, {{"shape", std::move(to)}});
}

ValueId Builder::transpose(ValueId x, Ints permutation) {
  bool identity = std::ssize(permutation) == rank(x);
  for (std::size_t i = 0; i < permutation.size(); ++i)
    identity &= permutation[i] == static_cast<std::int64_t>(i);
  if (identity) return x;
  return primitive(Primitive::transpose, {x}, {{"permutation", std::move(permutation)}});
}

// Along an axis whose size only the run tells to be 1: element i · 0 there, i · 1 where it is as long as
// `to`. Kernels are given the factor as a stride.
ValueId Builder::stretched(ValueId x, const Shape& to) {
  Shape wide = shape(x), factors(to.size(), Dim(1));
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    const Dim size = wide[axis];
    if (size == to[axis] || size.is(1) || size.bounds().min > 1) continue;
    graph_.require({Constraint::Kind::equal, (size - 1) * (size - to[axis]), 0,
                    fmt::format("broadcast: axis {} of {} to {}", axis, text_of(wide), text_of(to))});
    wide[axis] = to[axis];
    factors[axis] = select_less(size, 2, 0, 1);
  }
  if (wide == shape(x)) return x;
  Values indices;
  for (std::size_t axis = 0; axis < wide.size(); ++axis) {
    const ValueId at = iota(wide, static_cast<std::int64_t>(axis));
    indices.push_back(factors[axis].is(1) ? at : multiply(at, reshape(dims({factors[axis]}), {})));
  }
  return gather(x, std::move(indices));
}

ValueId Builder::broadcast(ValueId x, Shape to) {
  if (!ok() || shape(x) == to) return x;
  if (rank(x) > std::ssize(to)) {
    return fail(ErrorCode::mismatch, "a tensor of shape {} does not broadcast to {}", text_of(shape(x)),
                text_of(to));
  }
  Shape aligned(to.size() - shape(x).size(), Dim(1));
  aligned.insert(aligned.end(), shape(x).begin(), shape(x).end());
  ValueId same_rank = reshape(x, aligned);
  if (aligned == to) return same_rank;
  if (graph_.stretches) same_rank = stretched(same_rank, to);
  return primitive(Primitive::broadcast, {same_rank}, {{"shape", std::move(to)}});
}

ValueId Builder::slice(ValueId x, Shape start, Shape size, Ints step) {
  const bool whole = size == shape(x) && std::ranges::all_of(start, [](const Dim& d) { return d.is(0); }) &&
                     std::ranges::all_of(step, [](std::int64_t s) { return s == 1; });
  if (whole) return x;
  return primitive(Primitive::slice, {x},
                   {{"start", std::move(start)}, {"size", std::move(size)}, {"step", std::move(step)}});
}

ValueId Builder::gather(ValueId x, Values indices, bool zero_outside) {
  if (!ok()) return ValueId::none;
  Shape target;
  for (const ValueId id : indices) target = broadcast_shapes(target, shape(id), "gather");
  Values inputs = {x};
  for (const ValueId id : indices) inputs.push_back(broadcast(convert(id, DType::i64), target));
  return primitive(Primitive::gather, std::move(inputs),
                   {{"outside", std::string(zero_outside ? "zero" : "error")}});
}

ValueId Builder::take(ValueId x, ValueId indices, std::int64_t along) {
  if (!ok()) return ValueId::none;
  const Shape from = shape(x), picked = shape(indices);
  const auto at = static_cast<std::size_t>(along);
  Shape to(from.begin(), from.begin() + along);
  to.insert(to.end(), picked.begin(), picked.end());
  to.insert(to.end(), from.begin() + along + 1, from.end());
  // The indices lie along the axes that take the place of `along`.
  Shape aligned = picked;
  aligned.resize(to.size() - at, Dim(1));
  const ValueId wide = convert(indices, DType::i64);
  const ValueId size = reshape(dims({from[at]}), {});
  const ValueId counted = select(less(wide, scalar(DType::i64, 0)), add(wide, size), wide);
  const ValueId index = broadcast(reshape(counted, aligned), to);
  Values all;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    const std::size_t result_axis = axis < at ? axis : axis + picked.size() - 1;
    all.push_back(axis == at ? index : iota(to, static_cast<std::int64_t>(result_axis)));
  }
  return gather(x, std::move(all));
}

ValueId Builder::scatter(ValueId x, ValueId updates, Values indices, Update update) {
  if (!ok()) return ValueId::none;
  Values inputs = {x, updates};
  for (const ValueId id : indices) inputs.push_back(broadcast(convert(id, DType::i64), shape(updates)));
  return primitive(Primitive::scatter, std::move(inputs), {{"kind", std::string(name_of(update))}});
}

ValueId Builder::concatenate(Values parts, std::int64_t along) {
  if (parts.size() == 1) return parts[0];
  return primitive(Primitive::concatenate, std::move(parts), {{"axis", along}});
}

ValueId Builder::reduce(ValueId x, Reduction reduction, Ints axes) {
  if (axes.empty()) return x;
  std::ranges::sort(axes);
  return primitive(Primitive::reduce, {x},
                   {{"axes", std::move(axes)}, {"kind", std::string(name_of(reduction))}});
}

ValueId Builder::reduce_keeping(ValueId x, Reduction reduction, Ints axes) {
  if (!ok()) return ValueId::none;
  Shape kept = shape(x);
  for (const std::int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  return reshape(reduce(x, reduction, std::move(axes)), std::move(kept));
}

ValueId Builder::arg_reduce(ValueId x, Reduction reduction, std::int64_t along, bool last) {
  return primitive(
      Primitive::arg_reduce, {x},
      {{"axis", along}, {"kind", std::string(name_of(reduction))}, {"last", std::int64_t{last ? 1 : 0}}});
}

ValueId Builder::prefix_scan(ValueId x, Reduction reduction, std::int64_t along, bool exclusive,
                             bool reverse) {
  return primitive(Primitive::prefix_scan, {x},
                   {{"axis", along},
                    {"kind", std::string(name_of(reduction))},
                    {"exclusive", std::int64_t{exclusive ? 1 : 0}},
                    {"reverse", std::int64_t{reverse ? 1 : 0}}});
}

ValueId Builder::sort_indices(ValueId x, std::int64_t along, bool descending) {
  return primitive(Primitive::sort_indices, {x},
                   {{"axis", along}, {"descending", std::int64_t{descending ? 1 : 0}}});
}

ValueId Builder::compact(ValueId mask, const Dim& count) {
  return primitive(Primitive::compact, {mask}, {{"symbols", Shape{count}}});
}

ValueId Builder::observe(ValueId x, Shape symbols) {
  return primitive(Primitive::observe, {x}, {{"symbols", std::move(symbols)}});
}

ValueId Builder::known_sizes(ValueId x, std::string_view operand) {
  if (!ok() || contents(x)) return x;
  if (is_floating(dtype(x))) {
    // Some operators take counts as floats. A constant's are known now.
    const auto& tensor = graph_.value(x).constant;
    if (tensor == nullptr) return known_sizes(convert(x, DType::i64), operand);
    Ints values;
    for (std::int64_t i = 0; i < tensor->count(); ++i) {
      const double value = tensor->as_double(i);
      if (!(std::fabs(value) <= 0x1p53)) return fail(ErrorCode::mismatch, "'{}' is {}", operand, value);
      values.push_back(static_cast<std::int64_t>(value));
    }
    return constant(HostTensor::of<std::int64_t>(tensor->shape(), std::span<const std::int64_t>(values)));
  }
  const auto count = element_count(shape(x)).constant();
  if (rank(x) > 1 || !count) {
    return undecided("how many elements '{}' has ({}) is computed from data, and with it a rank", operand,
                     text_of(type(x)));
  }
  for (const Node& node : graph_.nodes()) {
    if (primitive_of(node.op) == Primitive::observe && node.inputs[0] == x) return node.outputs[0];
  }
  // What data says is not limited to what a size may be: steps and axes may be negative.
  constexpr std::int64_t kObservedMax = std::int64_t{1} << 40;
  Shape symbols;
  for (std::int64_t i = 0; i < *count; ++i)
    symbols.push_back(graph_.fresh_symbol({-kObservedMax, kObservedMax}));
  return observe(x, std::move(symbols));
}

Values Builder::structured(Node node) {
  if (!ok()) return {};
  if (auto checked = check_call(graph_, {node.op, node.inputs, node.attributes}); !checked) {
    fail_with(checked.error());
    return {};
  }
  auto types = infer_structured(graph_, node);
  if (!types) {
    fail_with(std::move(types).error());
    return {};
  }
  return graph_.add_node(std::move(node), std::move(*types)).outputs;
}

Values Builder::conditional(ValueId condition, Graph then, Graph otherwise, Values captures) {
  Node node{.op = &op_of(Primitive::conditional), .inputs = {condition}};
  node.inputs.insert(node.inputs.end(), captures.begin(), captures.end());
  node.bodies = {std::make_shared<const Graph>(std::move(then)),
                 std::make_shared<const Graph>(std::move(otherwise))};
  return structured(std::move(node));
}

Values Builder::loop(ValueId limit, ValueId condition, const Values& carried, const Values& scanned,
                     const Values& captures, Graph body) {
  Node node{.op = &op_of(Primitive::loop), .inputs = {limit, condition}};
  for (const Values* values : {&carried, &scanned, &captures})
    node.inputs.insert(node.inputs.end(), values->begin(), values->end());
  const std::size_t results = body.outputs().size();
  const bool conditional = results > carried.size() && body.outputs()[0].name == kLoopCondition;
  node.attributes = {{"carried", std::ssize(carried)},
                     {"scanned", std::ssize(scanned)},
                     {"conditional", std::int64_t{conditional ? 1 : 0}}};
  node.bodies = {std::make_shared<const Graph>(std::move(body))};
  return structured(std::move(node));
}

namespace {

std::int64_t long_axes(const Shape& shape, const Ints& axes) {
  return std::ranges::count_if(
      axes, [&](std::int64_t axis) { return !shape[static_cast<std::size_t>(axis)].is(1); });
}

Shape sizes_of(const Shape& shape, const Ints& axes) {
  Shape sizes;
  for (const std::int64_t axis : axes) sizes.push_back(shape[static_cast<std::size_t>(axis)]);
  return sizes;
}

Ints joined(Ints first, const Ints& second, const Ints& third) {
  first.insert(first.end(), second.begin(), second.end());
  first.insert(first.end(), third.begin(), third.end());
  return first;
}

}  // namespace

// Kernels contract one axis and have one axis of columns: several become one, in their order.
ValueId Builder::dot_of_merged_axes(ValueId a, ValueId b, const DotDims& dims, std::optional<DType> result) {
  const Ints lhs_free = dims.lhs_free(rank(a)), rhs_free = dims.rhs_free(rank(b));
  const Shape batch = sizes_of(shape(a), dims.lhs_batch), rows = sizes_of(shape(a), lhs_free),
              columns = sizes_of(shape(b), rhs_free);
  const Dim depth = element_count(sizes_of(shape(a), dims.lhs_contracting));
  Shape left = batch, right = batch, whole = batch;
  left.insert(left.end(), rows.begin(), rows.end());
  left.push_back(depth);
  right.insert(right.end(), {depth, element_count(columns)});
  whole.insert(whole.end(), rows.begin(), rows.end());
  whole.insert(whole.end(), columns.begin(), columns.end());
  const ValueId lhs = reshape(transpose(a, joined(dims.lhs_batch, lhs_free, dims.lhs_contracting)), left);
  const ValueId rhs = reshape(transpose(b, joined(dims.rhs_batch, dims.rhs_contracting, rhs_free)), right);
  DotDims merged;
  for (std::int64_t i = 0; i < std::ssize(batch); ++i) merged.lhs_batch.push_back(i);
  merged.rhs_batch = merged.lhs_batch;
  merged.lhs_contracting = {std::ssize(left) - 1};
  merged.rhs_contracting = {std::ssize(batch)};
  return reshape(dot_general(lhs, rhs, merged, result), std::move(whole));
}

ValueId Builder::dot_general(ValueId a, ValueId b, const DotDims& dims, std::optional<DType> result) {
  if (!ok()) return ValueId::none;
  const bool fits = dims.lhs_batch.size() == dims.rhs_batch.size() &&
                    dims.lhs_contracting.size() == dims.rhs_contracting.size();
  if (fits &&
      (long_axes(shape(b), dims.rhs_contracting) > 1 || long_axes(shape(b), dims.rhs_free(rank(b))) > 1)) {
    return dot_of_merged_axes(a, b, dims, result);
  }
  Attributes attributes{{"lhs_batch", dims.lhs_batch},
                        {"rhs_batch", dims.rhs_batch},
                        {"lhs_contracting", dims.lhs_contracting},
                        {"rhs_contracting", dims.rhs_contracting}};
  if (result && *result != dtype(a)) attributes.set("dtype", *result);
  return primitive(Primitive::dot_general, {a, b}, std::move(attributes));
}

ValueId Builder::convolution(ValueId x, ValueId w, const ConvolutionDims& dims, std::optional<DType> result) {
  if (!ok()) return ValueId::none;
  Attributes attributes{{"strides", dims.strides},
                        {"dilations", dims.dilations},
                        {"pads_low", dims.pads_low},
                        {"pads_high", dims.pads_high},
                        {"groups", dims.groups}};
  if (dims.padding_value != 0) attributes.set("padding_value", dims.padding_value);
  if (result && *result != dtype(x)) attributes.set("dtype", *result);
  return primitive(Primitive::convolution, {x, w}, std::move(attributes));
}

namespace {

Attributes of_channel(const GroupChannel& channel) {
  return {{"channel", channel.number}, {"group", channel.group}, {"ranks", Shape{channel.ranks}}};
}

Attributes of_reduction(const GroupChannel& channel, Reduction kind) {
  Attributes attributes = of_channel(channel);
  attributes.set("kind", std::string(name_of(kind)));
  return attributes;
}

}  // namespace

ValueId Builder::all_reduce(ValueId x, Reduction kind, const GroupChannel& channel) {
  return primitive(Primitive::all_reduce, {x}, of_reduction(channel, kind));
}
ValueId Builder::reduce_scatter(ValueId x, Reduction kind, const GroupChannel& channel) {
  return primitive(Primitive::reduce_scatter, {x}, of_reduction(channel, kind));
}
ValueId Builder::all_gather(ValueId x, const GroupChannel& channel) {
  return primitive(Primitive::all_gather, {x}, of_channel(channel));
}
ValueId Builder::all_to_all(ValueId x, const GroupChannel& channel) {
  return primitive(Primitive::all_to_all, {x}, of_channel(channel));
}
ValueId Builder::collective_broadcast(ValueId x, std::int64_t root, const GroupChannel& channel) {
  Attributes attributes = of_channel(channel);
  attributes.set("root", root);
  return primitive(Primitive::collective_broadcast, {x}, std::move(attributes));
}

Values Builder::call(const OpDef& op, Values inputs, Attributes attributes, std::string name) {
  const Values nothing(std::max<std::size_t>(op.outputs.size(), 1), ValueId::none);
  if (!ok()) return nothing;
  if (const auto which = primitive_of(&op))
    return {primitive(*which, std::move(inputs), std::move(attributes))};
  if (op.custom != nullptr) return custom(op, std::move(inputs), std::move(attributes), std::move(name));
  // Before anything is made of the operands: sizes are only read from what the operator takes.
  if (auto checked = check_call(graph_, {&op, inputs, attributes}); !checked) {
    fail_with(std::move(checked).error());
    return nothing;
  }
  for (std::size_t i = 0; i < std::min(inputs.size(), op.inputs.size()); ++i) {
    if (op.inputs[i].sizes && inputs[i] != ValueId::none)
      inputs[i] = known_sizes(inputs[i], op.inputs[i].name);
  }
  if (op.fresh_symbols > 0 && !attributes.has("symbols")) {
    Shape symbols;
    for (int i = 0; i < op.fresh_symbols; ++i) symbols.push_back(graph_.fresh_symbol());
    attributes.set("symbols", std::move(symbols));
  }
  if (!ok()) return nothing;
  const OpCall call{&op, inputs, attributes};
  auto results = infer_call(graph_, call);
  if (!results) {
    fail_with(std::move(results).error());
    return nothing;
  }
  std::vector<Type> types;
  std::vector<std::optional<Shape>> contents;
  for (Value& value : *results) {
    types.push_back(std::move(value.type));
    contents.push_back(std::move(value.contents));
  }
  return graph_
      .add_node({.op = &op,
                 .inputs = std::move(inputs),
                 .attributes = std::move(attributes),
                 .name = std::move(name)},
                std::move(types), std::move(contents))
      .outputs;
}

Values Builder::custom(const OpDef& op, Values inputs, Attributes attributes, std::string name) {
  auto types = infer_custom(graph_, op, inputs, attributes);  // its sentences name the declaration: first
  if (auto checked = check_call(graph_, {&op, inputs, attributes}); types && !checked)
    types = std::unexpected(std::move(checked).error());
  if (!types) {
    fail_with(std::move(types).error());
    return Values(op.outputs.size(), ValueId::none);
  }
  return graph_
      .add_node({.op = &op,
                 .inputs = std::move(inputs),
                 .attributes = std::move(attributes),
                 .name = std::move(name)},
                std::move(*types))
      .outputs;
}

ValueId Builder::fusion(Graph body, Values inputs) {
  if (!ok()) return ValueId::none;
  std::vector<Type> types;
  for (const Port& port : body.outputs()) types.push_back(body.type(port.value));
  return graph_
      .add_node({.op = &op_of(Primitive::fusion),
                 .inputs = std::move(inputs),
                 .bodies = {std::make_shared<const Graph>(std::move(body))}},
                std::move(types))
      .outputs[0];
}

std::int64_t Builder::axis(std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) {
    fail(ErrorCode::mismatch, "axis {} is out of range for {} axes; use {}..{}", axis, rank, -rank, rank - 1);
    return 0;
  }
  return axis < 0 ? axis + rank : axis;
}

namespace {

// What two sizes broadcast to that are equal or one of which is 1.
Dim common_size(const Dim& a, const Dim& b) {
  if (a.bounds().min > 1) return a;
  if (b.bounds().min > 1) return b;
  return select_less(min(a, b), 1, 0, max(a, b));
}

}  // namespace

Shape Builder::broadcast_shapes(const Shape& a, const Shape& b, std::string_view why) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape result(rank, Dim(1));
  for (std::size_t i = 0; i < rank; ++i) {
    const Dim left = i + a.size() < rank ? Dim(1) : a[i + a.size() - rank];
    const Dim right = i + b.size() < rank ? Dim(1) : b[i + b.size() - rank];
    if (left == right || right.is(1)) {
      result[i] = left;
    } else if (left.is(1)) {
      result[i] = right;
    } else if (const Bounds gap = (left - right).bounds(); gap.min > 0 || gap.max < 0) {
      fail(ErrorCode::mismatch, "{}: shapes {} and {} do not broadcast: {} and {} on axis {}", why,
           text_of(a), text_of(b), left.text(), right.text(), i);
    } else if (graph_.stretches) {
      result[i] = common_size(left, right);
    } else {
      // Two sizes that may or may not be equal: taken as equal (neither as 1), which every run checks.
      graph_.require({Constraint::Kind::equal, left, right,
                      fmt::format("{}: axis {} of {} and {}", why, i, text_of(a), text_of(b))});
      result[i] = left.constant() ? left : right;
    }
  }
  return result;
}

namespace {

std::unexpected<Error> bad_call(const OpDef& op, std::string sentence) {
  auto error = fail(ErrorCode::mismatch, "{}: {}", op.name, sentence);
  error.error().op = std::string(op.name);
  return error;
}

const Operand* operand_at(const OpDef& op, std::size_t i) {
  if (i < op.inputs.size()) return &op.inputs[i];
  const bool variadic = !op.inputs.empty() && op.inputs[op.inputs.size() - 1].mode == OperandMode::variadic;
  return variadic ? &op.inputs[op.inputs.size() - 1] : nullptr;
}

Result<void> check_attributes(const OpCall& call) {
  const OpDef& op = *call.op;
  for (const auto& [name, value] : call.attributes.items()) {
    if (name == "symbols" && op.fresh_symbols > 0) continue;
    const auto found = std::ranges::find(op.attributes, std::string_view(name), &AttributeDef::name);
    if (found == op.attributes.end()) return bad_call(op, fmt::format("it has no attribute '{}'", name));
    if (static_cast<AttributeKind>(value.index()) != found->kind) {
      return bad_call(op, fmt::format("attribute '{}' must be of kind {}", name, name_of(found->kind)));
    }
  }
  for (const AttributeDef& attribute : op.attributes) {
    if (attribute.default_text.empty() && !call.attributes.has(attribute.name)) {
      return bad_call(op, fmt::format("attribute '{}' is missing", attribute.name));
    }
  }
  return {};
}

}  // namespace

Result<void> check_call(const Graph& graph, const OpCall& call) {
  const OpDef& op = *call.op;
  std::map<std::string_view, DType> types;
  for (std::size_t i = 0; i < std::max(call.inputs.size(), op.inputs.size()); ++i) {
    const Operand* operand = operand_at(op, i);
    if (operand == nullptr) {
      return bad_call(op,
                      fmt::format("{} inputs given, at most {} taken", call.inputs.size(), op.inputs.size()));
    }
    const ValueId id = i < call.inputs.size() ? call.inputs[i] : ValueId::none;
    if (id == ValueId::none) {
      // A list may end anywhere behind its first item, but it has no holes.
      const bool may_be_absent = operand->mode == OperandMode::optional ||
                                 (operand->mode == OperandMode::variadic && i > 0 && i >= call.inputs.size());
      if (may_be_absent || primitive_of(&op) == Primitive::fusion) continue;
      return bad_call(op, fmt::format("input '{}' is missing", operand->name));
    }
    const DType dtype = graph.type(id).dtype;
    if (!contains(operand->dtypes, dtype)) {
      auto error = bad_call(op, fmt::format("input '{}' cannot be {}", operand->name, name_of(dtype)));
      error.error().dtype = std::string(name_of(dtype));
      return error;
    }
    if (operand->type == "any") continue;
    const auto [known, first] = types.emplace(operand->type, dtype);
    if (!first && known->second != dtype) {
      return bad_call(op, fmt::format("input '{}' is {}, another of the same type is {}", operand->name,
                                      name_of(dtype), name_of(known->second)));
    }
  }
  return check_attributes(call);
}

Result<std::vector<Value>> infer_call(const Graph& graph, const OpCall& call) {
  TRY(check_call(graph, call));
  if (call.op->custom != nullptr) {
    std::vector<Value> results;
    for (Type& type : TRY(infer_custom(graph, call))) results.push_back({.type = std::move(type)});
    return results;
  }
  if (call.op->decompose == nullptr) {
    return fail(ErrorCode::unsupported, "{}: operators of its kind are not built yet", call.op->name);
  }
  Graph scratch = graph.scratch();
  Values inputs;
  for (const ValueId id : call.inputs) {
    if (id == ValueId::none) {
      inputs.push_back(id);
    } else if (const Value& value = graph.value(id); value.constant != nullptr) {
      inputs.push_back(scratch.add_constant(value.constant));
    } else {
      inputs.push_back(scratch.add_input("", value.type));
      scratch.set_contents(inputs.back(), value.contents);
    }
  }
  Builder builder(scratch);
  const Values outputs = call.op->decompose(builder, {call.op, inputs, call.attributes});
  if (auto status = builder.status(); !status) {
    Error& error = status.error();
    if (error.op.empty() || error.op.starts_with("prim.")) error.op = std::string(call.op->name);
    // Users know the operator, not the primitive inside; and its name stands once.
    if (error.message.starts_with("prim.") || error.message.starts_with(fmt::format("{}: ", call.op->name)))
      error.message.erase(0, error.message.find(": ") + 2);
    return in_context(call.op->name, std::move(error));
  }
  std::vector<Value> results;
  for (const ValueId id : outputs) {
    results.push_back(scratch.value(id));
    if (!results.back().contents) results.back().contents = contents_of(scratch, id);
  }
  return results;
}

}  // namespace diji
