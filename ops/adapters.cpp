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

}  // namespace diji
