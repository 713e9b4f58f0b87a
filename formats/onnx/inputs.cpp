// Declared types of inputs, the caller's sizes and constants.
#include "formats/onnx/inputs.h"

#include "formats/onnx/names.h"
#include "formats/onnx/tensor.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace diji::onnx {
namespace {

const std::int64_t kSizeMax = Bounds{}.max;
constexpr std::size_t kSymbolsMax =
    65'536;  // one takes hundreds of bytes in memory and two in a hostile file

// Some exporters write -1 for a size they do not know.
std::optional<std::int64_t> known_size(const DimensionProto& dim) {
  return dim.value == -1 ? std::nullopt : dim.value;
}

std::string symbol_of(const ValueInfoProto& info, std::size_t axis) {
  const std::string_view param = (*info.dims)[axis].param;
  const bool unnamed = param.empty() || param == "?";  // some exporters write "?" for every unknown size
  return unnamed ? fmt::format("{}.{}", info.name, axis) : std::string(param);
}

std::unexpected<Error> usage_of(std::string_view file, std::string_view option, std::string_view name,
                                std::string_view wanted, const std::set<std::string>& known) {
  const std::vector<std::string> names(known.begin(), known.end());
  auto error = fail(ErrorCode::usage, "{}: {} '{}': the model has no such {}{}", file, option, shown(name),
                    wanted, nearest_hint(name, names));
  error.error().file = std::string(file);
  return error;
}

}  // namespace

Result<void> InputTypes::bind_symbol(const ValueInfoProto& info, const std::string& symbol,
                                     std::int64_t size) {
  const auto [known, is_new] = sizes_.emplace(symbol, size);
  if (is_new || known->second == size) return {};
  return fail_at(ErrorCode::mismatch, model_.file, info.offset,
                 "input '{}': size '{}' is {} here and {} elsewhere", shown(info.name), shown(symbol), size,
                 known->second);
}

Result<void> InputTypes::bind_constant(const ValueInfoProto& info, const HostTensor& constant) {
  if (info.kind == "tensor") {
    const std::string what = fmt::format("input '{}'", shown(info.name));
    const DType dtype = TRY(storage_of_number(info.data_type, what, model_.file, info.offset));
    if (dtype != constant.dtype()) {
      return fail_at(ErrorCode::mismatch, model_.file, info.offset,
                     "input '{}' is {}, the constant for it is {}", shown(info.name), name_of(dtype),
                     name_of(constant.dtype()));
    }
  }
  if (!info.dims) return {};
  bool fits = constant.rank() == std::ssize(*info.dims);
  for (std::size_t axis = 0; fits && axis < info.dims->size(); ++axis) {
    const std::int64_t size = constant.shape()[axis];
    const std::optional<std::int64_t> declared = known_size((*info.dims)[axis]);
    fits = declared.value_or(size) == size;
    if (!declared) TRY(bind_symbol(info, symbol_of(info, axis), size));
  }
  if (fits) return {};
  return fail_at(ErrorCode::mismatch, model_.file, info.offset,
                 "input '{}': the constant for it has shape {}", shown(info.name), text_of(constant.shape()));
}

Result<void> InputTypes::bind_options() {
  std::set<std::string> symbols, inputs;
  for (const ValueInfoProto& info : model_.graph.inputs) {
    inputs.emplace(info.name);
    for (std::size_t axis = 0; info.dims && axis < info.dims->size(); ++axis) {
      if (!known_size((*info.dims)[axis])) symbols.insert(symbol_of(info, axis));
    }
  }
  if (symbols.size() > kSymbolsMax) {
    return fail_at(ErrorCode::malformed, model_.file, model_.graph.offset, "more than {} symbolic sizes",
                   kSymbolsMax);
  }
  for (const auto& [symbol, size] : options_.fixed_dims) {
    if (!symbols.contains(symbol)) return usage_of(model_.file, "dim", symbol, "symbolic size", symbols);
    if (size < 0 || size > kSizeMax) {
      return fail(ErrorCode::usage, "dim '{}' = {} is no size; use 0..{}", shown(symbol), size, kSizeMax);
    }
    sizes_.emplace(symbol, size);
  }
  for (const auto& [name, constant] : options_.constants) {
    if (!inputs.contains(name)) return usage_of(model_.file, "constant", name, "input", inputs);
  }
  std::set<std::string_view> defaults;
  for (const TensorProto& tensor : model_.graph.initializers) defaults.insert(tensor.name);
  for (const ValueInfoProto& info : model_.graph.inputs) {
    const std::string name(info.name);
    if (const auto given = options_.constants.find(name); given != options_.constants.end()) {
      TRY(bind_constant(info, given->second));
    } else if (const auto other = options_.overrides.find(name);
               other != options_.overrides.end() && defaults.contains(info.name)) {
      TRY(bind_constant(info, other->second));
      overrides_.emplace(info.name, &other->second);
    }
  }
  return {};
}

const HostTensor* InputTypes::override_of(std::string_view name) const {
  const auto found = overrides_.find(name);
  return found == overrides_.end() ? nullptr : found->second;
}

Result<Dim> InputTypes::dim_of(const ValueInfoProto& info, std::size_t axis) const {
  if (const auto size = known_size((*info.dims)[axis])) {
    if (*size >= 0 && *size <= kSizeMax) return Dim(*size);
    return fail_at(ErrorCode::malformed, model_.file, info.offset, "input '{}': axis {} has size {}",
                   shown(info.name), axis, *size);
  }
  const std::string symbol = symbol_of(info, axis);
  const auto fixed = sizes_.find(symbol);
  return fixed == sizes_.end() ? Dim::symbol(symbol) : Dim(fixed->second);
}

Result<Type> InputTypes::type_of_input(const ValueInfoProto& info) const {
  const std::string what = fmt::format("input '{}'", shown(info.name));
  if (info.kind != "tensor" && info.kind != kOptionalTensor) {  // an optional that is fed is there
    return fail_at(info.kind.empty() ? ErrorCode::malformed : ErrorCode::unsupported, model_.file,
                   info.offset, "{} is of {}; only tensors are built yet", what,
                   info.kind.empty() ? "no type" : fmt::format("type {}", info.kind));
  }
  Type type{.dtype = TRY(storage_of_number(info.data_type, what, model_.file, info.offset))};
  if (!info.dims) {
    return fail_at(ErrorCode::unsupported, model_.file, info.offset,
                   "{} has no shape; tensors of unknown rank are not built yet", what);
  }
  for (std::size_t axis = 0; axis < info.dims->size(); ++axis) type.shape.push_back(TRY(dim_of(info, axis)));
  return type;
}

}  // namespace diji::onnx
