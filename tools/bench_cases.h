// What `diji bench` measures: whole models, products of matrices, single operators.
#pragma once

#include "runtime/limits.h"
#include "tools/bench_peers.h"
#include "tools/context.h"
#include "tools/model_options.h"

#include <array>
#include <map>

namespace diji::tools {

/// Measured when first asked for, in this call, on its device and threads.
class MachineLimits {
 public:
  explicit MachineLimits(Device& device) : device_(device) {}
  /// f32 multiply-adds, measured again at each call.
  Result<double> peak_gflops();
  /// Of a copy of about so many bytes.
  Result<double> copy_gbps(double bytes);
  /// The least seconds that this work takes: by its multiply-adds at the peak or its bytes at a copy's rate.
  Result<double> seconds(const RunWork& work, bool counts_flops);
  /// The last that was measured; 0: none.
  double last_peak_gflops = 0, largest_copy_gbps = 0;

 private:
  Device& device_;
  CompileCache cache_;
  std::map<std::int64_t, double> copies_;
};

struct BenchRequest {
  DeviceList& devices;
  ModelOptions model;
  int threads = 1, rounds = 7;
  std::string python;  ///< "": no peers
  MachineLimits& limits;
};

/// The whole call: inputs copied in, outputs out. Errors: those of the model.
Result<BenchRow> bench_model(const BenchRequest& request, const std::string& path);
/// The kernels alone. `size` is M, N, K.
Result<BenchRow> bench_gemm(const BenchRequest& request, std::array<std::int64_t, 3> size, DType dtype);
/// The kernels alone. Errors: unsupported, where nothing of it can be measured.
Result<BenchRow> bench_op(const BenchRequest& request, const OpDef& op, DType dtype);

}  // namespace diji::tools
