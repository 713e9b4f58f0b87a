// Custom operators: records taken in, operands compared with what is declared, functions called.
#include "graph/custom_op.h"

#include "base/check.h"
#include "base/nearest.h"

#include <algorithm>
#include <cstring>

namespace diji {
namespace {

constexpr std::size_t kNameBytesMax = 256;
constexpr std::int32_t kRankMax = 64;
static_assert(static_cast<int>(DType::boolean) == DIJI_BOOL && static_cast<int>(DType::f64) == DIJI_F64 &&
                  kDTypeCount == DIJI_BOOL + 1,
              "the header's dtypes are ours");

std::string names_of(std::uint32_t dtypes) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    if ((dtypes >> i & 1) != 0) names.push_back(name_of(static_cast<DType>(i)));
  }
  return fmt::format("{}", fmt::join(names, " or "));
}

// "contiguous f32 or f64 of rank 2"
std::string declared(const diji_op_input& input) {
  return fmt::format("{} {} of {}", input.layout == DIJI_OP_STRIDED ? "strided" : "contiguous",
                     names_of(input.dtypes),
                     input.rank < 0 ? "any rank" : fmt::format("rank {}", input.rank));
}

bool is_contiguous(const OperandView& operand) {
  const Ints wanted = contiguous_strides(operand.sizes);
  if (std::ranges::find(operand.sizes, 0) != operand.sizes.end()) return true;
  for (std::size_t axis = 0; axis < wanted.size(); ++axis) {
    if (operand.sizes[axis] != 1 && operand.strides[axis] != wanted[axis]) return false;
  }
  return true;
}

bool is_name(const char* text) {
  if (text == nullptr) return false;
  const std::string_view name(text, strnlen(text, kNameBytesMax + 1));
  const auto printable = [](char c) { return c > ' ' && c < 127; };
  return !name.empty() && name.size() <= kNameBytesMax && std::ranges::all_of(name, printable);
}

// diji gives a kernel another name where many share a module.
bool stands_once(std::string_view text, std::string_view entry) {
  const std::size_t at = text.find(fmt::format("{}(", entry));
  return at != std::string_view::npos && text.find(entry) == at && text.rfind(entry) == at;
}

constexpr AttributeKind kKinds[] = {AttributeKind::integer, AttributeKind::real, AttributeKind::text,
                                    AttributeKind::integers};

// What a call's functions find behind `context`.
struct CallState {
  const Attributes& attributes;
  const OpDef& record;
  std::string refusal;
  std::string undeclared;  // an attribute that the function asked for and the record lacks, as a sentence
};
CallState& state_of(const diji_op_call* call) { return *static_cast<CallState*>(call->context); }

// Where the function's name for an attribute is not the record's, no model could ever set it.
std::string undeclared(const OpDef& record, const char* name, AttributeKind kind) {
  const std::string asked = name == nullptr ? "" : name;
  std::vector<std::string> names;
  for (const AttributeDef& attribute : record.attributes) {
    names.emplace_back(attribute.name);
    if (attribute.name != asked) continue;
    if (attribute.kind == kind) return "";
    return fmt::format("it asks for the attribute '{}' as {}, and its record declares it as {}", asked,
                       name_of(kind), name_of(attribute.kind));
  }
  const std::string nearest = nearest_name(asked, names);
  return fmt::format("it asks for an attribute '{}' that its record does not declare{}", asked,
                     nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
}

template <typename T>
const T* attribute_of(const diji_op_call* call, const char* name) {
  CallState& state = state_of(call);
  const auto kind = static_cast<AttributeKind>(Attribute(T()).index());
  if (state.undeclared.empty()) state.undeclared = undeclared(state.record, name, kind);
  return name == nullptr ? nullptr : state.attributes.get<T>(name);
}

std::int32_t refuse(const diji_op_call* call, const char* sentence) {
  state_of(call).refusal = sentence == nullptr ? "" : sentence;
  return 1;
}

diji_op_call call_with(CallState& state, std::span<const diji_op_tensor> inputs,
                       std::span<const diji_op_tensor> outputs) {
  diji_op_call call{};
  call.struct_size = sizeof(call);
  call.inputs = inputs.data();
  call.outputs = outputs.data();
  call.integer = [](const diji_op_call* self, const char* name, std::int64_t otherwise) {
    const auto* value = attribute_of<std::int64_t>(self, name);
    return value == nullptr ? otherwise : *value;
  };
  call.real = [](const diji_op_call* self, const char* name, double otherwise) {
    const auto* value = attribute_of<double>(self, name);
    return value == nullptr ? otherwise : *value;
  };
  call.text = [](const diji_op_call* self, const char* name, const char* otherwise) {
    const auto* value = attribute_of<std::string>(self, name);
    return value == nullptr ? otherwise : value->c_str();
  };
  call.integers = [](const diji_op_call* self, const char* name, std::size_t* count) {
    const auto* value = attribute_of<Ints>(self, name);
    *count = value == nullptr ? 0 : value->size();
    return value == nullptr ? nullptr : value->data();
  };
  call.refuse = refuse;
  call.context = &state;
  return call;
}

// Views that point into `operands`, which outlive the call; absent ones up to `count`.
std::vector<diji_op_tensor> tensors_of(std::span<const OperandView> operands, std::size_t count,
                                       bool with_data) {
  static constexpr std::int64_t kNoSizes = 0;
  std::vector<diji_op_tensor> tensors(count, diji_op_tensor{});
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const OperandView& operand = operands[i];
    if (!operand.present) continue;
    tensors[i].rank = static_cast<std::uint32_t>(operand.sizes.size());
    tensors[i].dtype = static_cast<diji_dtype>(operand.dtype);
    tensors[i].sizes = operand.sizes.empty() ? &kNoSizes : operand.sizes.data();
    if (!with_data) continue;
    // The interface has one struct for both directions; inputs are only read, as it says.
    tensors[i].data = const_cast<std::byte*>(operand.data);
    tensors[i].strides = operand.strides.empty() ? &kNoSizes : operand.strides.data();
  }
  return tensors;
}

}  // namespace

Ints contiguous_strides(const StaticShape& sizes) {
  Ints strides(sizes.size(), 1);
  for (std::size_t axis = sizes.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * sizes[axis];
  return strides;
}

OperandView OperandView::of(const HostTensor& tensor) {
  return {.present = true,
          .dtype = tensor.dtype(),
          .sizes = tensor.shape(),
          .strides = contiguous_strides(tensor.shape()),
          .data = tensor.bytes().data()};
}

std::string text_of(const OperandView& operand) {
  const std::string type = fmt::format("{}{}", name_of(operand.dtype), text_of(operand.sizes));
  if (is_contiguous(operand)) return "contiguous " + type;
  return fmt::format("{} with strides [{}]", type, fmt::join(operand.strides, ", "));
}

template <typename... Args>
std::unexpected<Error> CustomOp::wrong(ErrorCode code, fmt::format_string<Args...> text,
                                       Args&&... args) const {
  auto error = fail(code, "{}: {}", name_, fmt::format(text, std::forward<Args>(args)...));
  error.error().op = name_;
  return error;
}

Result<std::unique_ptr<CustomOp>> CustomOp::check(const diji_custom_op* raw, std::string_view library) {
  constexpr auto kCode = ErrorCode::no_device;
  if (raw == nullptr) return fail(kCode, "operator library {}: one of its operators is null", library);
  constexpr std::size_t kFirstBytes = offsetof(diji_custom_op, gradient);  // of ABI 1.0
  if (raw->struct_size < kFirstBytes) {
    return fail(kCode, "operator library {}: an operator's record has {} bytes, {} are needed", library,
                raw->struct_size, kFirstBytes);
  }
  std::unique_ptr<CustomOp> op(new CustomOp());
  op->library_ = std::string(library);
  std::memcpy(&op->raw_, raw, std::min<std::size_t>(raw->struct_size, sizeof(diji_custom_op)));
  if (!is_name(raw->domain) || !is_name(raw->name) || std::string_view(raw->domain) == "ai.onnx") {
    return fail(kCode, "operator library {}: an operator needs a name, and a domain other than ONNX's own",
                library);
  }
  op->name_ = fmt::format("{}.{}", raw->domain, raw->name);
  if (raw->run == nullptr) return op->wrong(kCode, "it has no run(), which is its meaning");
  if (op->raw_.gradient != nullptr && !is_name(op->raw_.gradient))
    return op->wrong(kCode, "its gradient has no name");
  if (raw->version < 1) return op->wrong(kCode, "its version is 0; the first is 1");
  OpDef& record = op->record_;
  record.name = op->name_;
  record.doc = raw->doc == nullptr ? "" : raw->doc;
  record.kind = OpKind::host;
  record.fresh_symbols = 1;  // it may have the attribute "symbols"
  record.onnx.type = op->name_;
  record.onnx.versions = {std::int64_t{raw->version}};
  record.custom = op.get();
  TRY(op->take_operands(*raw));
  TRY(op->take_kernels());
  return op;
}

Result<void> CustomOp::take_operands(const diji_custom_op& raw) {
  constexpr auto kCode = ErrorCode::no_device;
  constexpr std::uint32_t kInputsMax = 16, kOutputsMax = 6, kAttributesMax = 16;
  if (raw.input_count < 1 || raw.input_count > kInputsMax || raw.output_count < 1 ||
      raw.output_count > kOutputsMax || raw.attribute_count > kAttributesMax || raw.inputs == nullptr ||
      raw.outputs == nullptr || (raw.attribute_count > 0 && raw.attributes == nullptr)) {
    return wrong(kCode, "{} inputs, {} outputs, {} attributes: 1 to {}, 1 to {} and at most {} can be",
                 raw.input_count, raw.output_count, raw.attribute_count, kInputsMax, kOutputsMax,
                 kAttributesMax);
  }
  bool optional = false;
  for (std::uint32_t i = 0; i < raw.input_count; ++i) {
    const diji_op_input& input = raw.inputs[i];
    if (!is_name(input.name)) return wrong(kCode, "input {} has no name", i);
    const bool layout = input.layout == DIJI_OP_CONTIGUOUS || input.layout == DIJI_OP_STRIDED;
    if (input.dtypes == 0 || (input.dtypes & ~std::uint32_t{kAny}) != 0 || input.rank < DIJI_OP_ANY_RANK ||
        input.rank > kRankMax || !layout)
      return wrong(kCode, "input '{}' has no dtype, an unknown one, or no such rank or layout", input.name);
    if (optional && input.optional == 0)
      return wrong(kCode, "input '{}' is required and stands behind an optional one", input.name);
    optional = input.optional != 0;
    record_.inputs.push_back({.name = input.name,
                              .dims = "",
                              .dtypes = static_cast<DTypeSet>(input.dtypes),
                              .type = "any",
                              .mode = optional ? OperandMode::optional : OperandMode::required});
  }
  for (std::uint32_t i = 0; i < raw.output_count; ++i) {
    const diji_op_output& output = raw.outputs[i];
    if (!is_name(output.name)) return wrong(kCode, "output {} has no name", i);
    const auto is_input = [&](std::int32_t of) {
      return of >= 0 && of < static_cast<std::int32_t>(raw.input_count) && raw.inputs[of].optional == 0;
    };
    const auto dtype = static_cast<std::uint32_t>(output.dtype);
    if (!is_input(output.dtype_of) && (output.dtype_of != DIJI_OP_OWN || dtype >= kDTypeCount))
      return wrong(kCode, "output '{}' has neither a dtype nor that of a required input", output.name);
    const bool ranked = output.rank >= 0 && output.rank <= kRankMax && raw.shape != nullptr;
    if (!is_input(output.shape_of) && (output.shape_of != DIJI_OP_OWN || !ranked)) {
      return wrong(kCode, "output '{}' has neither the shape of a required input nor a rank and shape()",
                   output.name);
    }
    record_.outputs.push_back({.name = output.name, .dims = "", .dtypes = kAny, .type = "any"});
  }
  for (std::uint32_t i = 0; i < raw.attribute_count; ++i) {
    const diji_op_attribute& attribute = raw.attributes[i];
    if (!is_name(attribute.name) || static_cast<std::size_t>(attribute.kind) >= std::size(kKinds))
      return wrong(kCode, "attribute {} has no name or no such kind", i);
    record_.attributes.push_back(
        {attribute.name, kKinds[attribute.kind], attribute.required != 0 ? "" : "none", ""});
  }
  return {};
}

Result<void> CustomOp::take_kernels() {
  constexpr auto kCode = ErrorCode::no_device;
  constexpr std::uint32_t kKernelsMax = 256;
  const bool optional = raw_.inputs[raw_.input_count - 1].optional != 0;
  if (raw_.kernel_count > kKernelsMax || (raw_.kernel_count > 0 && (raw_.kernels == nullptr || optional)))
    return wrong(kCode, "{} kernels: {} can be, and none with optional inputs", raw_.kernel_count,
                 kKernelsMax);
  for (std::uint32_t i = 0; i < raw_.kernel_count; ++i) {
    const diji_op_kernel* kernel = raw_.kernels[i];
    if (kernel == nullptr || kernel->struct_size < sizeof(diji_op_kernel) || !is_name(kernel->dialect) ||
        !is_name(kernel->dtypes) || !is_name(kernel->entry) || kernel->text == nullptr ||
        kernel->elements < 1 || !(kernel->tolerance_ulp >= 0) || !stands_once(kernel->text, kernel->entry)) {
      return wrong(kCode,
                   "kernel {} lacks its dialect, dtypes, entry, elements or tolerance, or a text in which "
                   "the entry's name "
                   "stands once",
                   i);
    }
    kernels_.push_back(*kernel);
  }
  return {};
}

Result<void> CustomOp::link_gradient(std::span<const OpDef* const> library) {
  constexpr auto kCode = ErrorCode::no_device;
  if (raw_.gradient == nullptr) return {};
  const std::string name = fmt::format("{}.{}", raw_.domain, raw_.gradient);
  const OpDef* found = find_custom(library, name);
  if (found == nullptr) return wrong(kCode, "its gradient {} is not in the library", name);
  const auto inputs = std::span(raw_.inputs, raw_.input_count);
  const auto floats =
      std::ranges::count_if(inputs, [](const diji_op_input& i) { return (i.dtypes & kFloating) != 0; });
  const diji_custom_op& other = found->custom->raw_;
  if (other.input_count != raw_.input_count + raw_.output_count || other.output_count != floats) {
    return wrong(kCode, "its gradient {} has {} inputs and {} outputs; it must have {} and {}", name,
                 other.input_count, other.output_count, raw_.input_count + raw_.output_count, floats);
  }
  gradient_ = found->custom;
  return {};
}

DType CustomOp::dtype_of_output(std::size_t output, std::span<const DType> inputs) const {
  const diji_op_output& declared_output = raw_.outputs[output];
  if (declared_output.dtype_of < 0) return static_cast<DType>(declared_output.dtype);
  return inputs[static_cast<std::size_t>(declared_output.dtype_of)];
}

Result<void> CustomOp::check_operands(std::span<const OperandView> inputs,
                                      std::span<const Type* const> types) const {
  if (inputs.size() > raw_.input_count)
    return wrong(ErrorCode::mismatch, "{} inputs given, {} declared", inputs.size(), raw_.input_count);
  for (std::size_t i = 0; i < raw_.input_count; ++i) {
    const diji_op_input& input = raw_.inputs[i];
    if (i >= inputs.size() || !inputs[i].present) {
      if (input.optional != 0) continue;
      return wrong(ErrorCode::mismatch, "input '{}' is declared as {}, the call has none", input.name,
                   declared(input));
    }
    const OperandView& given = inputs[i];
    const bool fits = (input.dtypes >> static_cast<int>(given.dtype) & 1) != 0 &&
                      (input.rank < 0 || input.rank == std::ssize(given.sizes)) &&
                      (input.layout == DIJI_OP_STRIDED || is_contiguous(given));
    if (fits) continue;
    auto error = wrong(ErrorCode::mismatch, "input '{}' is declared as {}, the call has {}", input.name,
                       declared(input), types.empty() ? text_of(given) : "contiguous " + text_of(*types[i]));
    error.error().dtype = std::string(name_of(given.dtype));
    error.error().shape = text_of(given.sizes);
    return error;
  }
  return {};
}

Result<std::vector<StaticShape>> CustomOp::shapes(std::span<const OperandView> inputs,
                                                  const Attributes& attributes) const {
  TRY(check_operands(inputs));
  std::vector<StaticShape> shapes;
  for (std::uint32_t i = 0; i < raw_.output_count; ++i) {
    const diji_op_output& output = raw_.outputs[i];
    shapes.push_back(output.shape_of >= 0 ? inputs[static_cast<std::size_t>(output.shape_of)].sizes
                                          : StaticShape(static_cast<std::size_t>(output.rank), -1));
  }
  if (raw_.shape == nullptr) return shapes;
  const std::vector<StaticShape> from_inputs = shapes;
  std::vector<diji_op_tensor> outputs(shapes.size(), diji_op_tensor{});
  std::vector<std::int64_t*> sizes;
  std::vector<DType> dtypes;
  for (const OperandView& input : inputs) dtypes.push_back(input.dtype);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    outputs[i].rank = static_cast<std::uint32_t>(shapes[i].size());
    outputs[i].dtype = static_cast<diji_dtype>(dtype_of_output(i, dtypes));
    sizes.push_back(shapes[i].data());
  }
  CallState state{attributes, record_, "", ""};
  const auto tensors = tensors_of(inputs, raw_.input_count, false);
  const diji_op_call call = call_with(state, tensors, outputs);
  const std::int32_t refused = raw_.shape(&call, sizes.data());
  if (!state.undeclared.empty()) return wrong(ErrorCode::failed, "shape(): {}", state.undeclared);
  if (refused != 0) {
    return wrong(ErrorCode::mismatch, "it refuses its operands: {}",
                 state.refusal.empty() ? "without a reason" : state.refusal);
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string_view name = raw_.outputs[i].name;
    if (raw_.outputs[i].shape_of >= 0 && shapes[i] != from_inputs[i]) {
      return wrong(ErrorCode::mismatch, "output '{}' is declared with the shape of '{}', {}; shape() says {}",
                   name, raw_.inputs[raw_.outputs[i].shape_of].name, text_of(from_inputs[i]),
                   text_of(shapes[i]));
    }
    if (std::ranges::any_of(shapes[i], [](std::int64_t size) { return size < 0; }))
      return wrong(ErrorCode::mismatch, "shape() gives output '{}' no such shape: {}", name,
                   text_of(shapes[i]));
  }
  return shapes;
}

Result<void> CustomOp::run(std::span<const OperandView> inputs, const Attributes& attributes,
                           std::span<const StaticShape> shapes, std::span<std::byte* const> outputs) const {
  CHECK(shapes.size() == raw_.output_count && outputs.size() == raw_.output_count, "memory for every output");
  TRY(check_operands(inputs));
  std::vector<DType> dtypes;
  for (const OperandView& input : inputs) dtypes.push_back(input.dtype);
  std::vector<OperandView> results;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    results.push_back(
        {true, dtype_of_output(i, dtypes), shapes[i], contiguous_strides(shapes[i]), outputs[i]});
  }
  CallState state{attributes, record_, "", ""};
  const auto in = tensors_of(inputs, raw_.input_count, true);
  const auto out = tensors_of(results, raw_.output_count, true);
  const diji_op_call call = call_with(state, in, out);
  const std::int32_t refused = raw_.run(&call);
  if (!state.undeclared.empty()) return wrong(ErrorCode::failed, "run(): {}", state.undeclared);
  if (refused == 0) return {};
  return wrong(ErrorCode::data, "{}", state.refusal.empty() ? "it failed without a reason" : state.refusal);
}

Result<std::vector<HostTensor>> CustomOp::call(std::span<const OperandView> inputs,
                                               const Attributes& attributes) const {
  const std::vector<StaticShape> sizes = TRY(shapes(inputs, attributes));
  std::vector<DType> dtypes;
  for (const OperandView& input : inputs) dtypes.push_back(input.dtype);
  std::vector<HostTensor> results;
  std::vector<std::byte*> memory;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    results.push_back(TRY(HostTensor::allocate(dtype_of_output(i, dtypes), sizes[i])));
    memory.push_back(results.back().mutable_bytes().data());
  }
  TRY(run(inputs, attributes, sizes, memory));
  return results;
}

Result<std::vector<Type>> CustomOp::infer(std::span<const Type* const> inputs, const Attributes& attributes,
                                          const std::function<Result<Dim>()>& next_symbol) const {
  std::vector<OperandView> operands(inputs.size());
  std::vector<DType> dtypes(inputs.size(), DType::f32);
  // A node that was made with symbols keeps them, whatever its operands have become.
  bool numbers = !attributes.has("symbols");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    dtypes[i] = inputs[i]->dtype;
    operands[i] = {.present = true, .dtype = inputs[i]->dtype};
    for (const Dim& dim : inputs[i]->shape) {
      numbers &= dim.constant().has_value();
      operands[i].sizes.push_back(dim.constant().value_or(1));
    }
    operands[i].strides = contiguous_strides(operands[i].sizes);
  }
  TRY(check_operands(operands, inputs));
  std::vector<StaticShape> known;
  if (numbers) known = TRY(shapes(operands, attributes));
  std::vector<Type> types;
  for (std::size_t i = 0; i < raw_.output_count; ++i) {
    Type type{dtype_of_output(i, dtypes), {}};
    if (numbers) {
      type.shape.assign(known[i].begin(), known[i].end());
    } else if (raw_.outputs[i].shape_of >= 0) {
      type.shape = inputs[static_cast<std::size_t>(raw_.outputs[i].shape_of)]->shape;
    } else {
      for (std::int32_t axis = 0; axis < raw_.outputs[i].rank; ++axis)
        type.shape.push_back(TRY(next_symbol()));
    }
    types.push_back(std::move(type));
  }
  return types;
}

const diji_op_kernel* CustomOp::kernel(std::string_view dialect, std::span<const DType> dtypes) const {
  std::vector<std::string_view> names;
  for (const DType dtype : dtypes) names.push_back(name_of(dtype));
  const std::string wanted = fmt::format("{}", fmt::join(names, ","));
  const auto found = std::ranges::find_if(
      kernels_, [&](const diji_op_kernel& k) { return dialect == k.dialect && wanted == k.dtypes; });
  return found == kernels_.end() ? nullptr : &*found;
}

double CustomOp::tolerance_ulp() const {
  double most = 0;
  for (const diji_op_kernel& kernel : kernels_) most = std::max(most, kernel.tolerance_ulp);
  return most;
}

const OpDef* find_custom(std::span<const OpDef* const> ops, std::string_view type) {
  const auto found = std::ranges::find(ops, type, [](const OpDef* op) { return op->name; });
  return found == ops.end() ? nullptr : *found;
}

namespace {

Result<std::vector<Type>> infer_with(const Graph& graph, const OpCall& call,
                                     const std::function<Result<Dim>()>& next_symbol) {
  std::vector<const Type*> types;
  for (const ValueId id : call.inputs) types.push_back(id == ValueId::none ? nullptr : &graph.type(id));
  return call.op->custom->infer(types, call.attributes, next_symbol);
}

}  // namespace

Result<std::vector<Type>> infer_custom(const Graph& graph, const OpCall& call) {
  const Shape symbols = call.attributes.get_or("symbols", Shape{});
  std::size_t used = 0;
  auto types = TRY(infer_with(graph, call, [&]() -> Result<Dim> {
    if (used < symbols.size()) return symbols[used++];
    return fail(ErrorCode::mismatch, "{}: {} symbols are too few for its results", call.op->name,
                symbols.size());
  }));
  if (used == symbols.size()) return types;
  return fail(ErrorCode::mismatch, "{}: {} symbols, {} are used by its results", call.op->name,
              symbols.size(), used);
}

Result<std::vector<Type>> infer_custom(Graph& graph, const OpDef& op, const Values& inputs,
                                       Attributes& attributes) {
  if (attributes.has("symbols")) return infer_custom(graph, {&op, inputs, attributes});
  Shape symbols;
  auto types = TRY(infer_with(graph, {&op, inputs, attributes}, [&]() -> Result<Dim> {
    symbols.push_back(graph.fresh_symbol());
    return symbols.back();
  }));
  if (!symbols.empty()) attributes.set("symbols", std::move(symbols));
  return types;
}

}  // namespace diji
