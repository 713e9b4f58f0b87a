// The prelude of SIMT kernels.
#include "codegen/simt_words.h"

#include "diji/device_plugin.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace diji {
namespace {

// Which lane this is, exact functions, the first writer of the error word, matrix units. Bit patterns of
// floats are read through a union, which all these compilers define.
constexpr std::string_view kCompilers = R"(#define __global
#define __local
#if defined(__clang__) && (defined(__NVPTX__) || defined(__AMDGCN__))
#ifndef __device__
#define __device__ __attribute__((device))
#endif
#define kernel extern "C" __attribute__((global, launch_bounds(DIJI_GROUP)))
#define DIJI_SHARED __attribute__((shared))
#define DIJI_EXACT(name, suffix) __builtin_##name##suffix
#else
#define kernel extern "C" __global__ __launch_bounds__(DIJI_GROUP)
#define DIJI_SHARED __shared__
#define DIJI_EXACT(name, suffix) ::name##suffix
#endif
namespace diji {
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
static_assert(sizeof(long) == 8 && static_cast<char>(-1) < 0, "a 64-bit host whose char is signed");
#if defined(__clang__) && defined(__NVPTX__)
inline __device__ long get_global_id(int) {
  return (long)__nvvm_read_ptx_sreg_ctaid_x() * DIJI_GROUP + __nvvm_read_ptx_sreg_tid_x();
}
inline __device__ long get_global_size(int) { return (long)__nvvm_read_ptx_sreg_nctaid_x() * DIJI_GROUP; }
inline __device__ void group_barrier() { __syncthreads(); }
#elif defined(__clang__) && defined(__AMDGCN__)
inline __device__ long get_global_id(int) {
  return (long)__builtin_amdgcn_workgroup_id_x() * DIJI_GROUP + __builtin_amdgcn_workitem_id_x();
}
inline __device__ long get_global_size(int) { return __builtin_amdgcn_grid_size_x(); }
inline __device__ void group_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#else
inline __device__ long get_global_id(int) { return (long)blockIdx.x * DIJI_GROUP + threadIdx.x; }
inline __device__ long get_global_size(int) { return (long)gridDim.x * DIJI_GROUP; }
inline __device__ void group_barrier() { __syncthreads(); }
#endif
#if defined(__clang__) && (defined(__NVPTX__) || defined(__AMDGCN__))
inline __device__ int atomic_cmpxchg(volatile int* word, int from, int to) {
  return __sync_val_compare_and_swap(word, from, to);
}
#else
inline __device__ int atomic_cmpxchg(volatile int* word, int from, int to) {
  return atomicCAS(const_cast<int*>(word), from, to);
}
#endif
inline __device__ float fma(float a, float b, float c) { return DIJI_EXACT(fma, f)(a, b, c); }
inline __device__ double fma(double a, double b, double c) { return DIJI_EXACT(fma, )(a, b, c); }
inline __device__ float copysign(float a, float b) { return DIJI_EXACT(copysign, f)(a, b); }
inline __device__ double copysign(double a, double b) { return DIJI_EXACT(copysign, )(a, b); }
template <typename T>
inline __device__ T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
inline __device__ T max(T a, T b) {
  return a < b ? b : a;
}
template <typename To, typename From>
inline __device__ To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bitcast keeps the bytes");
  union {
    From from;
    To to;
  } both;
  both.from = from;
  return both.to;
}
#if (defined(__CUDACC_RTC__) || defined(__NVPTX__) || defined(__CUDA_ARCH__)) && \
    (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
#define DIJI_MMA(type)                                                                                 \
  inline __device__ void matrix_step_##type(float& c0, float& c1, float& c2, float& c3, uint a0,       \
                                            uint a1, uint a2, uint a3, uint b0, uint b1) {             \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." #type "." #type ".f32 {%0,%1,%2,%3}, "       \
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                              \
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)                                              \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                              \
  }
DIJI_MMA(f16)
DIJI_MMA(bf16)
#elif defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef short short4 __attribute__((ext_vector_type(4)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef uint uint2 __attribute__((ext_vector_type(2)));
inline __device__ void matrix_step_f16(float& c0, float& c1, float& c2, float& c3, uint a0, uint a1, uint b0,
                                       uint b1) {
  const float4 c = __builtin_amdgcn_mfma_f32_16x16x16f16(same_bits<half4>((uint2){a0, a1}),
                                                         same_bits<half4>((uint2){b0, b1}),
                                                         (float4){c0, c1, c2, c3}, 0, 0, 0);
  c0 = c.x, c1 = c.y, c2 = c.z, c3 = c.w;
}
inline __device__ void matrix_step_bf16(float& c0, float& c1, float& c2, float& c3, uint a0, uint a1, uint b0,
                                        uint b1) {
  const float4 c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(same_bits<short4>((uint2){a0, a1}),
                                                             same_bits<short4>((uint2){b0, b1}),
                                                             (float4){c0, c1, c2, c3}, 0, 0, 0);
  c0 = c.x, c1 = c.y, c2 = c.z, c3 = c.w;
}
#endif
)";

std::string all_words() {
  std::string text =
      fmt::format("#ifndef DIJI_SIMT_WORDS\n#define DIJI_SIMT_WORDS\n#define DIJI_GROUP {}\n{}",
                  DIJI_SIMT_GROUP, kCompilers);
  constexpr std::array kTypes = {"char", "uchar", "short", "ushort", "int",
                                 "uint", "long",  "ulong", "float",  "double"};
  for (const char* type : kTypes) {
    text += fmt::format(
        "template <typename T>\ninline __device__ {0} as_{0}(T x) {{ return same_bits<{0}>(x); }}\n"
        "template <typename T>\ninline __device__ {0} convert_{0}(T x) {{ return ({0})x; }}\n",
        type);
  }
  constexpr std::array kFunctions = {"sqrt", "fabs", "floor", "ceil", "rint"};
  for (const char* name : kFunctions) {
    text += fmt::format(
        "inline __device__ float {0}(float x) {{ return DIJI_EXACT({0}, f)(x); }}\n"
        "inline __device__ double {0}(double x) {{ return DIJI_EXACT({0}, )(x); }}\n",
        name);
  }
  return text + "}\n#endif\n";
}

}  // namespace

const std::string& simt_words() {
  static const std::string words = all_words();
  return words;
}

}  // namespace diji
