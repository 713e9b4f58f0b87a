// The list of special operators, and how they read their operands and attributes.
#include "formats/onnx/special.h"

#include "formats/onnx/attribute.h"
#include "formats/onnx/names.h"

#include <algorithm>
#include <array>

namespace diji::onnx {
namespace {

Result<ImportedList> import_constant(Site& site) {
  HostTensor value = TRY(constant_value(site.node, site.importer.source()));
  std::int32_t packed = 0;
  if (const auto* proto = std::get_if<std::shared_ptr<const TensorProto>>(&site.node.attributes[0].value)) {
    packed = packed_type((*proto)->data_type);
  }
  return ImportedList{{Tensor{site.builder().constant(std::move(value)), packed}}};
}

// All that ONNX has; constant_value says which are built.
constexpr std::array<std::string_view, 8> kConstantForms = {"value",         "value_float", "value_floats",
                                                            "value_int",     "value_ints",  "value_string",
                                                            "value_strings", "sparse_value"};
constexpr std::array<std::string_view, 2> kBranches = {"then_branch", "else_branch"};
constexpr std::array kOwn = {SpecialOp{"Constant", import_constant, kConstantForms},
                             SpecialOp{"If", nullptr, kBranches}};

std::array<std::span<const SpecialOp>, 3> families() { return {kOwn, sequence_ops(), loop_ops()}; }

}  // namespace

const SpecialOp* find_special(const NodeProto& node) {
  if (!domain_of(node.domain).empty()) return nullptr;
  for (const std::span<const SpecialOp> family : families()) {
    const auto found = std::ranges::find(family, node.op_type, &SpecialOp::type);
    if (found != family.end()) return &*found;
  }
  return nullptr;
}

std::vector<SpecialOp> special_ops() {
  std::vector<SpecialOp> all;
  for (const std::span<const SpecialOp> family : families())
    all.insert(all.end(), family.begin(), family.end());
  return all;
}

std::unexpected<Error> refuse_packed(std::int32_t packed, std::string_view what) {
  return fail(ErrorCode::unsupported,
              "{} is {}, which only DequantizeLinear, Cast and operators that move elements take", what,
              kDataTypes[static_cast<std::size_t>(packed)].name);
}

bool Site::has_input(std::size_t i) const {
  if (i >= inputs.size()) return false;
  const auto* tensor = std::get_if<Tensor>(&inputs[i].value);
  return tensor == nullptr || tensor->id != ValueId::none;
}

Result<Tensor> Site::tensor(std::size_t i, std::string_view what) const {
  if (!has_input(i)) return fail(ErrorCode::malformed, "{} is missing", what);
  if (const auto* tensor = std::get_if<Tensor>(&inputs[i].value)) return *tensor;
  return fail(ErrorCode::mismatch, "{} is no tensor", what);
}

Result<Tensor> Site::optional_tensor(std::size_t i, std::string_view what) const {
  if (!has_input(i)) return Tensor{};
  return tensor(i, what);
}

Result<ValueId> Site::plain(std::size_t i, std::string_view what) const {
  const Tensor value = TRY(tensor(i, what));
  if (value.packed != 0) return refuse_packed(value.packed, what);
  return value.id;
}

Result<Sequence> Site::sequence(std::size_t i, std::string_view what) const {
  if (!has_input(i)) return fail(ErrorCode::malformed, "{} is missing", what);
  if (const auto* sequence = std::get_if<Sequence>(&inputs[i].value)) return *sequence;
  return fail(ErrorCode::mismatch, "{} is no sequence", what);
}

Result<std::int64_t> Site::known_integer(std::size_t i, std::string_view what) const {
  const ValueId id = TRY(plain(i, what));
  const auto elements = scope.body.builder.constant_ints(id);
  if (elements && elements->size() == 1) return (*elements)[0];
  if (elements) return fail(ErrorCode::mismatch, "{} has {} elements, one is wanted", what, elements->size());
  return fail(ErrorCode::unsupported, "{} depends on data; only what is known at import is built yet", what);
}

const AttributeProto* Site::attribute(std::string_view name) const {
  const auto found = std::ranges::find(node.attributes, name, &AttributeProto::name);
  return found == node.attributes.end() ? nullptr : &*found;
}

Result<std::int64_t> Site::integer(std::string_view name, std::int64_t otherwise) const {
  const AttributeProto* found = attribute(name);
  if (found == nullptr) return otherwise;
  if (const auto* value = std::get_if<std::int64_t>(&found->value)) return *value;
  return fail(ErrorCode::malformed, "attribute '{}' is no INT", name);
}

Result<std::vector<std::int64_t>> Site::integers(std::string_view name) const {
  using Values = std::vector<std::int64_t>;
  const AttributeProto* found = attribute(name);
  if (found == nullptr) return Values();
  if (const auto* values = std::get_if<Values>(&found->value)) return *values;
  return fail(ErrorCode::malformed, "attribute '{}' is no INTS", name);
}

Result<const GraphProto*> Site::graph(std::string_view name) const {
  const AttributeProto* found = attribute(name);
  if (found == nullptr) return fail(ErrorCode::malformed, "attribute '{}' is missing", name);
  if (const auto* value = std::get_if<std::shared_ptr<const GraphProto>>(&found->value)) return value->get();
  return fail(ErrorCode::malformed, "attribute '{}' is no GRAPH", name);
}

}  // namespace diji::onnx
