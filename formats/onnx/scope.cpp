// Look-up through scopes, and captures on the way.
#include "formats/onnx/scope.h"

#include "base/check.h"

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

Tensor Body::capture(const Body& outer, const Tensor& tensor) {
  if (tensor.id == ValueId::none) return tensor;
  if (const auto known = known_.find(tensor.id); known != known_.end()) return {known->second, tensor.packed};
  Graph& graph = builder.graph();
  const Value& value = const_cast<Body&>(outer).builder.graph().value(tensor.id);
  ValueId inside = ValueId::none;
  if (value.constant != nullptr) {
    inside = graph.add_constant(value.constant);
  } else {
    inside = graph.add_input("", value.type);
    graph.set_contents(inside, value.contents);
    captures_.emplace_back(tensor.id, inside);
  }
  known_.emplace(tensor.id, inside);
  return {inside, tensor.packed};
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
