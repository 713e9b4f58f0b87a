// The newcomer's question "is a matmul right here, and how fast": measured together with the machine's own
// peak.
#pragma once

#include "device/device.h"
#include "runtime/compile_cache.h"

#include <cstdint>

namespace diji {

struct MatmulCheck {
  std::int64_t size = 0;
  double gflops = 0;         ///< median of the timed runs
  double peak_gflops = 0;    ///< of independent multiply-adds, same call, same threads
  double share_of_peak = 0;  ///< 0 to 1
  double max_error = 0;      ///< against float64 on the sampled rows
  double max_share_of_bound = 0;
  std::int64_t rows_checked = 0;
  bool ok = false;
};

/// f32, size × size × size, random operands. Errors: memory, device.
Result<MatmulCheck> check_matmul(Device& device, CompileCache& cache, std::int64_t size);

/// Peak rate of f32 multiply-adds on all threads, in GFLOP/s.
Result<double> measure_peak_gflops(Device& device, CompileCache& cache);

}  // namespace diji
