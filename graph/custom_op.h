// An operator from a library of the user's (diji/custom_op.h): its record, and the only calls of its
// functions.
#pragma once

#include "base/error.h"
#include "diji/custom_op.h"
#include "graph/graph.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji {

/// One operand as a call has it. `data` is not owned, and null where only the shape is asked for.
struct OperandView {
  bool present = false;
  DType dtype = DType::f32;
  StaticShape sizes;
  Ints strides;  ///< in elements
  const std::byte* data = nullptr;

  static OperandView of(const HostTensor& tensor);
};
/// Row-major without gaps.
Ints contiguous_strides(const StaticShape& sizes);
/// "contiguous f32[4, 3]" or "f32[4, 3] with strides [1, 4]".
std::string text_of(const OperandView& operand);

/// Immutable; any thread may call it. Lives at a fixed address, because its record does.
class CustomOp {
 public:
  /// Takes the record in; nothing of it is believed before. Errors: no_device, naming the operator and the
  /// field.
  static Result<std::unique_ptr<CustomOp>> check(const diji_custom_op* raw, std::string_view library);
  CustomOp(const CustomOp&) = delete;
  CustomOp& operator=(const CustomOp&) = delete;

  /// Kind host, `custom` is this.
  const OpDef& record() const { return record_; }
  const std::string& library() const { return library_; }

  /// Types of the results. `next_symbol` gives the sizes that only a run tells, in order. `inputs` may hold
  /// nulls and may be shorter than declared. Errors: mismatch, naming what is declared and what is given.
  Result<std::vector<Type>> infer(std::span<const Type* const> inputs, const Attributes& attributes,
                                  const std::function<Result<Dim>()>& next_symbol) const;
  /// Checks the operands against the declaration and asks the operator for the sizes of its results.
  Result<std::vector<StaticShape>> shapes(std::span<const OperandView> inputs,
                                          const Attributes& attributes) const;
  /// Runs it: `outputs` have memory for `shapes`, contiguous.
  Result<void> run(std::span<const OperandView> inputs, const Attributes& attributes,
                   std::span<const StaticShape> shapes, std::span<std::byte* const> outputs) const;
  /// Both, into new tensors.
  Result<std::vector<HostTensor>> call(std::span<const OperandView> inputs,
                                       const Attributes& attributes) const;

  /// The kernel text for these dtypes; null when there is none.
  const diji_op_kernel* kernel(std::string_view dialect, std::span<const DType> dtypes) const;
  /// The operator that computes the gradient, or null: see diji_custom_op::gradient.
  const CustomOp* gradient() const { return gradient_; }
  /// Finds it among the operators of the library. Errors: no_device, naming what does not fit.
  Result<void> link_gradient(std::span<const OpDef* const> library);
  /// How far any kernel may lie from run(), in units of the last place.
  double tolerance_ulp() const;
  std::int32_t rank_of_input(std::size_t input) const { return raw_.inputs[input].rank; }  ///< -1: any
  bool takes_strides(std::size_t input) const { return raw_.inputs[input].layout == DIJI_OP_STRIDED; }
  DType dtype_of_output(std::size_t output, std::span<const DType> inputs) const;

 private:
  CustomOp() = default;
  Result<void> take_operands(const diji_custom_op& raw);
  Result<void> take_kernels();
  /// `types`: what a message calls the operands by, where their sizes are no numbers.
  Result<void> check_operands(std::span<const OperandView> inputs,
                              std::span<const Type* const> types = {}) const;
  template <typename... Args>
  std::unexpected<Error> wrong(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) const;

  diji_custom_op raw_{};
  OpDef record_;
  std::string name_, library_;
  std::vector<diji_op_kernel> kernels_;
  const CustomOp* gradient_ = nullptr;
};

/// The record with this ONNX type ("com.example.ScaleRows", which is its name too), or null.
const OpDef* find_custom(std::span<const OpDef* const> ops, std::string_view type);

/// Result types of a node whose operator is custom, its symbols from the attribute "symbols".
Result<std::vector<Type>> infer_custom(const Graph& graph, const OpCall& call);
/// The same for a new node: sizes that only a run tells become fresh symbols, in the attribute "symbols".
Result<std::vector<Type>> infer_custom(Graph& graph, const OpDef& op, const Values& inputs,
                                       Attributes& attributes);

}  // namespace diji
