// What is tested of operators that come without samples of their own.
#include "graph/custom_op.h"
#include "ops/samples.h"
#include "runtime/conformance.h"

#include <algorithm>
#include <cstring>

namespace diji {
namespace {

constexpr std::int64_t kAnyRankSampled = 3;
// A row too many of what is sampled, at least.
constexpr std::size_t kGuardBytes = 4096;

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

// An output's memory between guards, all of it filled with one byte.
struct Guarded {
  std::vector<std::byte> memory;
  std::span<const std::byte> before() const { return std::span(memory).first(kGuardBytes); }
  std::span<const std::byte> behind() const { return std::span(memory).last(kGuardBytes); }
  std::span<const std::byte> output() const {
    return std::span(memory).subspan(kGuardBytes, memory.size() - 2 * kGuardBytes);
  }
};

// Errors: what was written outside of the outputs.
Result<std::vector<Guarded>> outputs_between_guards(const CustomOp& op, std::span<const OperandView> inputs,
                                                    const Attributes& attributes, std::byte fill) {
  const auto shapes = TRY(op.shapes(inputs, attributes));
  std::vector<DType> dtypes;
  for (const OperandView& input : inputs) dtypes.push_back(input.dtype);
  std::vector<Guarded> outputs;
  std::vector<std::byte*> memory;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    // As large as a tensor can be: allocating one says where it cannot.
    const HostTensor sized = TRY(HostTensor::allocate(op.dtype_of_output(i, dtypes), shapes[i]));
    outputs.push_back({std::vector(sized.bytes().size() + 2 * kGuardBytes, fill)});
    memory.push_back(outputs.back().memory.data() + kGuardBytes);
  }
  TRY(op.run(inputs, attributes, shapes, memory));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto changed = [&](std::span<const std::byte> guard) {
      return std::ranges::any_of(guard, [&](std::byte byte) { return byte != fill; });
    };
    const bool before = changed(outputs[i].before());
    if (!before && !changed(outputs[i].behind())) continue;
    return fail(ErrorCode::failed, "{}: it writes {} output '{}', which is {}{}", op.record().name,
                before ? "before the beginning of" : "behind the end of", op.record().outputs[i].name,
                name_of(op.dtype_of_output(i, dtypes)), text_of(shapes[i]));
  }
  return outputs;
}

}  // namespace

Result<void> check_outputs(const CustomOp& op, std::span<const HostTensor> inputs,
                           const Attributes& attributes) {
  std::vector<OperandView> operands;
  for (const HostTensor& input : inputs) operands.push_back(OperandView::of(input));
  // What the function leaves as it was differs with what was there.
  const auto one = TRY(outputs_between_guards(op, operands, attributes, std::byte{0x5a}));
  const auto other = TRY(outputs_between_guards(op, operands, attributes, std::byte{0xa5}));
  for (std::size_t i = 0; i < one.size(); ++i) {
    const auto differs = std::ranges::mismatch(one[i].output(), other[i].output());
    if (differs.in1 == one[i].output().end()) continue;
    return fail(ErrorCode::failed,
                "{}: it leaves a part of output '{}' unwritten, or two runs differ: byte {} of {}",
                op.record().name, op.record().outputs[i].name, differs.in1 - one[i].output().begin(),
                one[i].output().size());
  }
  return {};
}

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
