// Two languages of the family: OpenCL C, and C++ that simt_words makes look like it.
#include "codegen/print_kernel_c.h"

#include "codegen/kernel_c_functions.h"
#include "codegen/simt_words.h"

#include <fmt/format.h>

namespace diji {
namespace {

constexpr std::string_view kTypes = R"(typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef ushort f16;
typedef ushort bf16;
typedef float f32;
typedef bool boolean;
#define DIJI_NAN_f32 as_float(0x7fc00000u)
#define DIJI_NAN_f64 as_double(0x7ff8000000000000UL)
#define DIJI_INF_f32 as_float(0x7f800000u)
#define DIJI_INF_f64 as_double(0x7ff0000000000000UL)
#define DIJI_RARE(condition) (condition)
)";

// A place is a buffer and an offset; each work-item takes every n-th index of the grid.
std::string head_with(const LoopNest& nest, std::string_view shared) {
  std::string parameters, places;
  for (std::size_t i = 0; i < nest.places.size(); ++i) {
    parameters += fmt::format("__global uchar* m{0}, long o{0}, ", i);
    places += fmt::format("  __global uchar* const place{0} = m{0} + o{0};\n", i);
  }
  for (std::size_t i = 0; i <= nest.sizes.size(); ++i) parameters += fmt::format("long size{}, ", i);
  if (nest.group_bytes > 0) {
    places +=
        fmt::format("  {}ulong together[{}];\n  __local uchar* const shared = (__local uchar*)together;\n",
                    shared, (nest.group_bytes + 7) / 8);
  }
  return fmt::format(
      "kernel void diji_{}({}__global uchar* errors, long error_at, __global uchar* scratches, long stride, "
      "long count) {{\n{}"
      "  volatile __global int* const error_word = (volatile __global int*)(errors + error_at);\n"
      "  __global uchar* const scratch = scratches + get_global_id(0) * stride;\n"
      "  for (long grid = (long)get_global_id(0); grid < count; grid += (long)get_global_size(0)) {{\n",
      nest.entry, parameters, places);
}

std::string vector_type(LaneType type, std::string_view name) {
  return fmt::format(
      "typedef {0} {1};\ntypedef struct __attribute__((packed, aligned({2}))) {{ {1} v; }} {1}_at;\n",
      kernel_c_word(type), name, bytes_of(type.dtype));
}

// Signed integers wrap as unsigned ones do, and small ones are computed in int.
std::string infix(std::string_view sign, LaneType type, const std::string& a, const std::string& b,
                  CDeclarations& declarations) {
  const bool wraps = sign == "+" || sign == "-" || sign == "*" || sign == "<<";
  const bool small = type.lanes == 1 && bytes_of(type.dtype) < 4;
  if (!wraps || is_floating(type.dtype) || !(is_signed_integer(type.dtype) || small))
    return fmt::format("{} {} {}", a, sign, b);
  constexpr DType kUnsigned[] = {DType::u8,  DType::u16, DType::u16, DType::u32,
                                 DType::u32, DType::u32, DType::u32, DType::u64};
  const DType wide = small ? DType::u32 : kUnsigned[bytes_of(type.dtype) - 1];
  if (type.lanes == 1) {
    return fmt::format("({0})(({1}){2} {3} ({1}){4})", declarations.type(type), name_of(wide), a, sign, b);
  }
  const std::string other = kernel_c_word({wide, type.lanes});
  return fmt::format("as_{0}(as_{1}({2}) {3} as_{1}({4}))", kernel_c_word(type), other, a, sign, b);
}

std::string opencl_head(const LoopNest& nest) { return head_with(nest, "__local "); }
std::string simt_head(const LoopNest& nest) { return head_with(nest, "DIJI_SHARED "); }

std::string in_namespace(std::string_view text) { return fmt::format("namespace diji {{\n{}}}\n", text); }

CLanguage language(std::string_view prelude) {
  return {.prelude = prelude,
          .head = opencl_head,
          .tail = "  }\n}\n",
          .vector_type = vector_type,
          .function = kernel_c_function,
          .function_words = "inline ",
          .infix = infix,
          .long_suffix = "L",
          .open = "(",
          .close = ")",
          .casts_vectors = false,
          .global = "__global ",
          .group = "__local ",
          .prefetches = false,
          .barrier = "barrier(CLK_LOCAL_MEM_FENCE)"};
}

}  // namespace

KernelText print_opencl(const LoopNest& nest) {
  static const std::string prelude = fmt::format(
      "#pragma OPENCL FP_CONTRACT OFF\n{}#ifdef cl_khr_fp64\ntypedef double f64;\n#endif\n", kTypes);
  return print_c_family(nest, language(prelude));
}

KernelText print_simt(const LoopNest& nest) {
  static const std::string prelude =
      simt_words() + fmt::format("#ifndef DIJI_SIMT_TYPES\n#define DIJI_SIMT_TYPES\n{}#endif\n",
                                 in_namespace(std::string(kTypes) + "typedef double f64;\n"));
  CLanguage simt = language(prelude);
  simt.head = simt_head;
  simt.function_words = "inline __device__ ";
  simt.barrier = "group_barrier()";
  simt.guarded = true;
  KernelText text = print_c_family(nest, simt);
  for (std::size_t i = 1; i < text.declarations.size(); ++i)
    text.declarations[i] = in_namespace(text.declarations[i]);
  text.function = in_namespace(text.function);
  return text;
}

}  // namespace diji
