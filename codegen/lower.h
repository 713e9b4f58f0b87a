// From a fusion's body to kernels: loop nests for a kind of device, printed in its dialect.
#pragma once

#include "base/error.h"
#include "codegen/loop_nest.h"
#include "graph/graph.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji {

/// What of a device shapes the loops.
struct DeviceTraits {
  std::string dialect;  ///< "llvm-ir" or "c"
  int vector_bytes = 16;
  int vector_registers = 16;
  int lanes_max = 0;         ///< most lanes of a vector; 0: no limit
  bool without_f64 = false;  ///< kernels that need f64 are refused
  bool simt = false;         ///< kernels are scalar, and a grid index does one element's work
};

/// One launch: places are the body's inputs, then its output; size arguments are `sizes`, then the node's
/// number. A body with a compact has one place more, 8 bytes: how many positions were found, an i64. Its
/// output's memory is for as many as the mask has elements, whatever its type says, and its grid is 1 even
/// without elements, so that the count is always written.
struct Kernel {
  std::string entry;
  KernelText text;
  std::vector<Dim> sizes;
  Dim grid;
  Dim local_bytes = 0;
  Dim flops = 0, bytes = 0;  ///< what it is worth: see diji_launch
};

/// The launches that compute the body, in order (several for a concatenation or a scatter). Kernels are
/// specialised on dtypes, ranks, operators and numbers that are fixed in the graph, never on symbolic sizes.
/// Errors: unsupported, naming what has no kernel yet or a dialect without a printer.
Result<std::vector<Kernel>> lower(const Graph& body, const DeviceTraits& traits);

Result<KernelText> print_nest(const LoopNest& nest, std::string_view dialect);

/// Kernels of different entries, printed in one dialect, as the text of one module.
std::string module_text(std::span<const KernelText> kernels);

/// A kernel that does nothing but independent fused multiply-adds, to measure the machine's peak: `rounds` is
/// the only size, each grid index does rounds · flops_per_round operations and stores one vector.
struct PeakKernel {
  Kernel kernel;
  std::int64_t flops_per_round = 0;
};
Result<PeakKernel> peak_kernel(const DeviceTraits& traits);

}  // namespace diji
