// Shared adapter steps.
#include "ops/adapters.h"

namespace diji {

Result<void> attribute_to_input(Builder& builder, ForeignNode& node, std::string_view attribute,
                                std::size_t input) {
  const Ints* values = node.attributes.get<Ints>(attribute);
  if (values == nullptr) return {};
  if (node.inputs.size() > input && node.inputs[input] != ValueId::none) {
    return fail(ErrorCode::malformed, "'{}' is given as an attribute and as an input", attribute);
  }
  node.inputs.resize(std::max(node.inputs.size(), input + 1), ValueId::none);
  node.inputs[input] =
      builder.constant(HostTensor::of<std::int64_t>({std::ssize(*values)}, std::span(*values)));
  node.attributes.erase(attribute);
  return {};
}

Result<void> drop_consumed_inputs(Builder&, ForeignNode& node) {
  node.attributes.erase("consumed_inputs");
  return {};
}

Result<void> legacy_broadcast(Builder& builder, ForeignNode& node) {
  node.attributes.erase("consumed_inputs");
  if (node.version >= 7 || node.inputs.size() < 2) return {};
  const bool stretches = node.attributes.get_or<std::int64_t>("broadcast", 0) != 0;
  const std::int64_t* axis = node.attributes.get<std::int64_t>("axis");
  const Shape a = builder.shape(node.inputs[0]);
  Shape b = builder.shape(node.inputs[1]);
  if (!stretches && !(a == b)) {
    return fail(ErrorCode::mismatch,
                "shapes {} and {} differ; before version 7 of the operator set only broadcast=1 stretches",
                text_of(a), text_of(b));
  }
  if (stretches && axis != nullptr) {
    const std::int64_t at = *axis < 0 ? *axis + std::ssize(a) : *axis;
    if (at < 0 || at + std::ssize(b) > std::ssize(a))
      return fail(ErrorCode::mismatch, "{} does not fit into {} at axis {}", text_of(b), text_of(a), *axis);
    b.resize(static_cast<std::size_t>(std::ssize(a) - at), Dim(1));
    node.inputs[1] = builder.reshape(node.inputs[1], std::move(b));
  }
  node.attributes.erase("axis");
  node.attributes.erase("broadcast");
  return builder.status();
}

}  // namespace diji
