// The one list of families.
#include "ops/catalog.h"

#include "ops/families.h"

#include <algorithm>

namespace diji {
namespace {

constexpr std::span<const OpDef> (*kFamilies[])() = {
    elementwise_ops,     function_ops,    activation_ops,  indexing_ops,      layout_ops,
    shape_ops,           reduction_ops,   contraction_ops, normalization_ops, quantization_ops,
    integer_product_ops, convolution_ops, pooling_ops,     einsum_ops,        padding_ops,
    resize_ops,          image_ops,       signal_ops,      loss_ops,          selection_ops,
    attention_ops,       recurrent_ops,   state_space_ops, minifloat_ops,     fused_ops,
    random_ops,
};

}  // namespace

const std::vector<const OpDef*>& catalog() {
  static const std::vector<const OpDef*> kAll = [] {
    std::vector<const OpDef*> all;
    for (const auto& family : kFamilies) {
      for (const OpDef& op : family()) all.push_back(&op);
    }
    return all;
  }();
  return kAll;
}

const OpDef* find_op(std::string_view name) {
  const auto found = std::ranges::find(catalog(), name, &OpDef::name);
  return found == catalog().end() ? nullptr : *found;
}

const OpDef* find_onnx(std::string_view type) {
  if (type.empty()) return nullptr;  // of records that ONNX has no name for
  const auto found = std::ranges::find(catalog(), type, [](const OpDef* op) { return op->onnx.type; });
  return found == catalog().end() ? nullptr : *found;
}

}  // namespace diji
