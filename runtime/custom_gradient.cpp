// Gradients of custom operators against differences of the operators themselves.
#include "graph/custom_op.h"
#include "ops/samples.h"
#include "runtime/conformance.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace diji {
namespace {

constexpr int kDirections = 4;
constexpr double kSlack = 50;  // of the bound below, whose constants depend on third derivatives

std::vector<OperandView> views_of(std::span<const HostTensor> tensors) {
  std::vector<OperandView> views;
  for (const HostTensor& tensor : tensors) views.push_back(OperandView::of(tensor));
  return views;
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64: return std::ldexp(1.0, -53);
    case DType::f32: return std::ldexp(1.0, -24);
    case DType::f16: return std::ldexp(1.0, -11);
    default: return std::ldexp(1.0, -8);
  }
}

// The number whose gradient is looked at: the outputs weighed. `size` is what its terms come to without
// signs.
struct Weighed {
  double value = 0, size = 0;
  void add(double weight, double term) {
    value += weight * term;
    size += std::abs(weight * term);
  }
};
Result<Weighed> weighed(const CustomOp& op, std::span<const HostTensor> inputs, const Attributes& attributes,
                        std::span<const HostTensor> weights) {
  Weighed sum;
  const auto outputs = TRY(op.call(views_of(inputs), attributes));
  for (std::size_t output = 0; output < outputs.size(); ++output) {
    for (std::int64_t i = 0; i < outputs[output].count(); ++i)
      sum.add(weights[output].as_double(i), outputs[output].as_double(i));
  }
  return sum;
}

HostTensor moved(const HostTensor& from, const HostTensor& direction, double step) {
  HostTensor to = HostTensor::allocate(from.dtype(), from.shape()).value();
  visit_dtype(from.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_integral_v<T>) {
      std::int64_t i = 0;
      for (T& value : to.mutable_values<T>()) {
        value = static_cast<T>(from.as_double(i) + step * direction.as_double(i));
        ++i;
      }
    }
  });
  return to;
}

}  // namespace

Result<void> check_gradient(const CustomOp& op, std::span<const HostTensor> inputs,
                            const Attributes& attributes) {
  if (op.gradient() == nullptr) return {};
  std::vector<HostTensor> operands(inputs.begin(), inputs.end()), weights;
  for (const HostTensor& output : TRY(op.call(views_of(inputs), attributes))) {
    weights.push_back(sample_tensor(output.dtype(), output.shape(), Fill::normal, 100 + weights.size()));
    operands.push_back(weights.back());
  }
  const auto gradients = TRY(op.gradient()->call(views_of(operands), attributes));
  std::size_t next = 0;
  for (std::size_t input = 0; input < inputs.size(); ++input) {
    if (!is_floating(inputs[input].dtype())) continue;
    const HostTensor& gradient = gradients[next++];
    const std::string_view name = op.record().inputs[input].name;
    if (gradient.dtype() != inputs[input].dtype() || gradient.shape() != inputs[input].shape()) {
      return fail(ErrorCode::failed, "the gradient by '{}' is {}{}, the input {}{}", name,
                  name_of(gradient.dtype()), text_of(gradient.shape()), name_of(inputs[input].dtype()),
                  text_of(inputs[input].shape()));
    }
    // Rounding costs u / step, the third derivative step²: the best step is the cube root of u.
    const double step = std::cbrt(unit_roundoff(gradient.dtype()));
    for (std::uint64_t seed = 0; seed < kDirections; ++seed) {
      const HostTensor direction =
          sample_tensor(gradient.dtype(), gradient.shape(), Fill::normal, 200 + seed);
      std::vector<HostTensor> ahead(inputs.begin(), inputs.end()), behind = ahead;
      ahead[input] = moved(inputs[input], direction, step);
      behind[input] = moved(inputs[input], direction, -step);
      const Weighed high = TRY(weighed(op, ahead, attributes, weights)),
                    low = TRY(weighed(op, behind, attributes, weights));
      const double difference = (high.value - low.value) / (2 * step);
      Weighed claimed;  // along what the rounded operands really differ by
      for (std::int64_t i = 0; i < gradient.count(); ++i)
        claimed.add(gradient.as_double(i),
                    (ahead[input].as_double(i) - behind[input].as_double(i)) / (2 * step));
      const double allowed = kSlack * step * step * (high.size + low.size + claimed.size);
      if (std::abs(difference - claimed.value) <= allowed) continue;
      return fail(ErrorCode::failed,
                  "the gradient by '{}' gives {} along a direction, differences of the operator {} (allowed "
                  "distance {:.2g})",
                  name, claimed.value, difference, allowed);
    }
  }
  return {};
}

}  // namespace diji
