// Conformance: every operator on a device against the float64 interpreter, within the proven bound.
#pragma once

#include "device/device.h"
#include "graph/op_def.h"
#include "runtime/compile_cache.h"
#include "runtime/executable.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace diji {

/// One line of `diji verify`.
struct VerifyRow {
  std::string op;
  DType dtype = DType::f32;
  std::string device;
  int cases = 0;
  int failed = 0;
  int unsupported = 0;  ///< refused by name, with the reason below
  /// Elements for which no finite bound is proved (they follow from what may overflow, or from a floor of
  /// something rounded): not compared here, only by the operator's outside oracle.
  std::int64_t unproved = 0;
  double worst_ulp = 0;    ///< largest error in units of the last place of the true value
  double worst_share = 0;  ///< largest error as a share of the proven bound; above 1 is a failure
  std::string problem;     ///< the first failure or refusal: sample, element, got, wanted, bound
  /// Hash of all outputs' bits in order, all NaN being one: what two compilers of one machine must agree on.
  std::string bits;
};

/// Samples of an operator: its own, or for one of the user's tensors whose sizes are all equal (so that most
/// rules about sizes hold).
std::vector<Sample> samples_of(const OpDef& op, DType dtype);

/// All of every output is written, and nothing before or behind it. Errors: failed, naming the output.
Result<void> check_outputs(const CustomOp& op, std::span<const HostTensor> inputs,
                           const Attributes& attributes);

/// A custom operator gives the same bits for operands that lie in memory in another order, with gaps, where
/// it declares to take strides. Errors: failed, naming the operand and the element.
Result<void> check_strides(const CustomOp& op, std::span<const HostTensor> inputs,
                           const Attributes& attributes);

/// The operator's gradient, where it has one, against central differences of run() along random directions,
/// in the precision of the operands. Errors: failed, naming the input; what the operators themselves refuse.
Result<void> check_gradient(const CustomOp& op, std::span<const HostTensor> inputs,
                            const Attributes& attributes);

/// All samples of `op` whose first operand may be `dtype`, each with its sizes as numbers and, where the
/// operator allows it, as symbols.
VerifyRow verify_operator(Device& device, CompileCache& cache, const OpDef& op, DType dtype);

/// How `got` (as a kernel made it) compares with the truth; floats element by element against `bound`.
struct Comparison {
  bool ok = true;
  double worst_ulp = 0, worst_share = 0, max_abs_error = 0, max_rel_error = 0;
  std::int64_t unproved = 0;  ///< elements without a finite bound
  std::string problem;
};
Comparison compare_with_truth(const HostTensor& got, const HostTensor& truth, const HostTensor& bound);

/// What the kernel behind a step made of the very inputs it had; nothing where the step is none, or is not
/// the last of its kernel.
Result<std::optional<Comparison>> check_kernel(const Observation& seen);

/// One kernel of a model against the truth for the very inputs it had in this run.
struct KernelCheck {
  std::string operators;
  Comparison comparison;
};
/// Runs the model once and checks every kernel alone, so that each bound is that of one kernel: errors of
/// earlier kernels are in its inputs and do not pile up in the bound. Inputs in the order of the ports.
Result<std::vector<KernelCheck>> verify_kernels(std::shared_ptr<const Executable> executable,
                                                std::span<const HostTensor> inputs);

/// |a − b| ≤ atol + rtol·|b|, exact for integers and booleans; NaN equals NaN. For tensors from elsewhere.
Comparison compare_with_tolerance(const HostTensor& got, const HostTensor& wanted, double rtol, double atol);

}  // namespace diji
