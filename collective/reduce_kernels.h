// Private to reduce: the loops, compiled once for each instruction set (reduce_kernels.cpp) and chosen at
// start.
#pragma once

#include "collective/reduce.h"

namespace diji::collective {

/// One table an instruction set. Operands are all of the accumulator's type here.
struct ReduceKernels {
  void (*combine)(Reduction reduction, ElementType type, std::byte* target, const std::byte* left,
                  const std::byte* right, std::int64_t count, Store store) = nullptr;
  void (*widen)(ElementType from, float* target, const std::byte* source, std::int64_t count) = nullptr;
  void (*narrow)(ElementType to, std::byte* target, const float* source, std::int64_t count) = nullptr;
  void (*copy)(std::byte* target, const std::byte* source, std::int64_t bytes, Store store) = nullptr;
};

namespace baseline {
extern const ReduceKernels kKernels;
}
#if defined(__x86_64__)
namespace avx512 {
extern const ReduceKernels kKernels;
}
namespace avx2 {
extern const ReduceKernels kKernels;
}
#endif

}  // namespace diji::collective
