// Look-up through scopes, and captures on the way.
#include "formats/onnx/scope.h"

#include "base/check.h"
#include "ops/random_numbers.h"

namespace diji::onnx {

std::vector<Tensor*> tensors_of(Imported& value) {
  std::vector<Tensor*> all;
  if (auto* tensor = std::get_if<Tensor>(&value.value)) all.push_back(tensor);
  if (auto* sequence = std::get_if<Sequence>(&value.value)) {
    for (Tensor& item : sequence->items) all.push_back(&item);
  }
  if (auto* optional = std::get_if<Optional>(&value.value); optional != nullptr && optional->content) {
    auto own = std::make_shared<Imported>(*optional->content);
    all = tensors_of(*own);
    optional->content = own;
  }
  return all;
}

namespace {

// The same numbers inside, where they are known: sizes stay sizes. Nothing otherwise.
std::optional<ValueId> again(Builder& builder, const Value& value, const std::optional<Shape>& contents) {
  if (value.constant != nullptr) return builder.graph().add_constant(value.constant);
  const bool fits = value.type.dtype == DType::i64 || value.type.dtype == DType::i32;
  if (!fits || !contents) return std::nullopt;
  return builder.reshape(builder.dims(*contents, value.type.dtype), value.type.shape);
}

}  // namespace

Tensor Body::capture(Body& outer, const Tensor& tensor) {
  if (tensor.id == ValueId::none) return tensor;
  if (const auto known = known_.find(tensor.id); known != known_.end()) return {known->second, tensor.packed};
  const Value& value = outer.builder.graph().value(tensor.id);
  std::optional<ValueId> inside = again(builder, value, outer.builder.contents(tensor.id));
  if (!inside) {
    inside = builder.graph().add_input(fmt::format("capture{}", captures_.size()), value.type);
    captures_.emplace_back(tensor.id, *inside);
  }
  known_.emplace(tensor.id, *inside);
  return {*inside, tensor.packed};
}

ValueId Body::random_key() {
  if (random_key_ != ValueId::none) return random_key_;
  if (outer_ == nullptr) {
    random_key_ = builder.graph().add_input(std::string(kRandomKey), {DType::u64, {}});
  } else {
    random_key_ = capture(*outer_, {.id = outer_->random_key()}).id;
    if (iteration != ValueId::none) random_key_ = fold_in(builder, random_key_, iteration);
  }
  return random_key_;
}

bool Scope::sees(std::string_view name) const {
  return values.contains(name) || (outer_ != nullptr && outer_->sees(name));
}

Imported Scope::find(std::string_view name) {
  if (const auto own = values.find(name); own != values.end()) return own->second;
  CHECK(outer_ != nullptr, "names are defined before they are looked up");
  Imported value = outer_->find(name);
  if (&outer_->body != &body) {
    for (Tensor* tensor : tensors_of(value)) *tensor = body.capture(outer_->body, *tensor);
  }
  return value;
}

}  // namespace diji::onnx
