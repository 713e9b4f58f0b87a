// What a benchmark compares with: how fast the machine could be, and how much work a run is.
#pragma once

#include "graph/op_def.h"
#include "runtime/session.h"

#include <cstdint>
#include <map>
#include <string>

namespace diji {

/// GB/s of an element-wise kernel that reads `bytes` / 2 and writes as much, on all threads: the best of some
/// runs, the first untimed. Small sizes stay in caches, so a limit is measured at the size that it is for.
Result<double> measure_copy_gbps(Device& device, CompileCache& cache, std::int64_t bytes);

/// Operations and bytes of the kernels of one run: every kernel reads its operands and writes its result.
struct RunWork {
  double flops = 0, bytes = 0;
};
/// Runs once.
Result<RunWork> work_of(Session& session, const std::map<std::string, HostTensor>& inputs);

/// A graph of one operator and what to feed it.
struct OperatorCase {
  Graph graph;
  std::map<std::string, HostTensor> inputs;
  std::string sizes;  ///< "f32[1024, 1024], f32[1024, 1024]"
};
/// Operands of 1024 × 1024 where the operator takes them and needs nothing else, else its largest sample.
/// Errors: unsupported, where it has no sample of this dtype.
Result<OperatorCase> benchmark_case(const OpDef& op, DType dtype);
/// a · b of M × K and K × N, a size each fixed; sums in the dtype or f32, as the operator matmul has it.
Result<OperatorCase> matmul_case(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace diji
