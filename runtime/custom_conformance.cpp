// What is tested of operators that come without samples of their own.
#include "graph/custom_op.h"
#include "ops/samples.h"
#include "runtime/conformance.h"

#include <algorithm>
#include <cstring>

namespace diji {
namespace {

constexpr std::int64_t kAnyRankSampled = 3;

DType sampled_dtype(const Operand& input, DType first) {
  if (contains(input.dtypes, first)) return first;
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    if (contains(input.dtypes, static_cast<DType>(i))) return static_cast<DType>(i);
  }
  return first;
}

// The same elements with the axes in the opposite order in memory and a gap behind each of the innermost.
struct Scattered {
  std::vector<std::byte> bytes;
  OperandView view;
};
Scattered scattered(const HostTensor& tensor) {
  Scattered result;
  result.view = OperandView::of(tensor);
  const auto element = static_cast<std::size_t>(bytes_of(tensor.dtype()));
  std::int64_t stride = 2;
  for (std::size_t axis = 0; axis < tensor.shape().size(); ++axis) {
    result.view.strides[axis] = stride;
    stride *= std::max<std::int64_t>(tensor.shape()[axis], 1);
  }
  result.bytes.assign(static_cast<std::size_t>(stride) * element, std::byte{0x5a});
  const Ints dense = contiguous_strides(tensor.shape());
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < dense.size(); ++axis)
      at += i / dense[axis] % tensor.shape()[axis] * result.view.strides[axis];
    std::memcpy(result.bytes.data() + static_cast<std::size_t>(at) * element,
                tensor.bytes().data() + static_cast<std::size_t>(i) * element, element);
  }
  result.view.data = result.bytes.data();
  return result;
}

}  // namespace

std::vector<Sample> samples_of(const OpDef& op, DType dtype) {
  if (op.custom == nullptr) return op.samples(dtype);
  std::vector<Sample> samples;
  for (const std::int64_t size : {3, 1, 17, 0}) {
    for (const Fill fill : {Fill::normal, Fill::positive}) {
      Sample sample{.label = fmt::format("all axes {}{}", size, fill == Fill::normal ? "" : ", positive")};
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const std::int32_t declared = op.custom->rank_of_input(i);
        const StaticShape shape(static_cast<std::size_t>(declared < 0 ? kAnyRankSampled : declared), size);
        sample.inputs.push_back(sample_tensor(sampled_dtype(op.inputs[i], dtype), shape, fill, i + 1));
      }
      samples.push_back(std::move(sample));
    }
  }
  return samples;
}

Result<void> check_strides(const CustomOp& op, std::span<const HostTensor> inputs,
                           const Attributes& attributes) {
  std::vector<OperandView> dense;
  for (const HostTensor& input : inputs) dense.push_back(OperandView::of(input));
  const auto wanted = TRY(op.call(dense, attributes));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!op.takes_strides(i)) continue;
    const Scattered other = scattered(inputs[i]);
    std::vector<OperandView> operands = dense;
    operands[i] = other.view;
    const auto got = TRY(op.call(operands, attributes));
    for (std::size_t output = 0; output < got.size(); ++output) {
      const Comparison compared = compare_with_tolerance(got[output], wanted[output], 0, 0);
      if (got[output].same_bits(wanted[output])) continue;
      return fail(ErrorCode::failed,
                  "input '{}' is declared strided, and of {} output {} is another than of the same elements "
                  "contiguous: {}",
                  op.record().inputs[i].name, text_of(other.view), output, compared.problem);
    }
  }
  return {};
}

}  // namespace diji
