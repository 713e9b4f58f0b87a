// A GPU that is the host: what its driver, its compiler and its matrix unit share.
#pragma once

#include <cstdint>
#include <functional>

namespace fake_gpu {

/// What a kernel's code calls for one step of a matrix unit: pointers to its sums, then its operands.
using MatrixStep = void (*)(int lanes, int is_bfloat, float* const* sums, const std::uint32_t* operands);

/// Runs `lane(0)` … `lane(count - 1)` so that they meet at every barrier and matrix_step, and does the steps.
void run_lanes(int count, const std::function<void(int)>& lane);
void barrier();
void matrix_step(int lanes, int is_bfloat, float* const* sums, const std::uint32_t* operands);

}  // namespace fake_gpu
