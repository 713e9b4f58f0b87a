// Types, literals and helper functions.
#include "codegen/kernel_c_words.h"

#include "base/check.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace diji {

std::string_view kernel_c_scalar(DType dtype) {
  switch (dtype) {
    case DType::f64: return "double";
    case DType::f32: return "float";
    case DType::f16: return "ushort";
    case DType::boolean: return "int";
    default: break;
  }
  constexpr std::string_view kSigned[] = {"char", "short", "", "int", "", "", "", "long"},
                             kUnsigned[] = {"uchar", "ushort", "", "uint", "", "", "", "ulong"};
  const auto at = static_cast<std::size_t>(bytes_of(dtype) - 1);
  return is_signed_integer(dtype) ? kSigned[at] : kUnsigned[at];
}

std::string kernel_c_type(LaneType type) {
  CHECK(type.lanes <= 16, "vectors of this language have at most 16 lanes");
  const std::string_view scalar = kernel_c_scalar(type.dtype);
  return type.lanes == 1 ? std::string(scalar) : fmt::format("{}{}", scalar, type.lanes);
}

LaneType kernel_c_stored(LaneType type) {
  return {type.dtype == DType::boolean ? DType::u8 : type.dtype, type.lanes};
}

std::string kernel_c_literal(DType dtype, const NestInstruction& constant) {
  if (dtype == DType::f64)
    return fmt::format("as_double(0x{:x}UL)", std::bit_cast<std::uint64_t>(constant.real));
  if (dtype == DType::f32) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(constant.real));
    return fmt::format("as_float(0x{:x}u)", bits);
  }
  if (dtype == DType::boolean) return constant.integer != 0 ? (constant.type.lanes == 1 ? "1" : "-1") : "0";
  return fmt::format("(({})0x{:x}UL)", kernel_c_scalar(dtype), static_cast<std::uint64_t>(constant.integer));
}

std::string kernel_c_lane(std::string_view value, int lanes, int lane) {
  return lanes == 1 ? std::string(value) : fmt::format("{}.s{:x}", value, lane);
}

std::string KernelCHelpers::add(std::string name, const std::string& definition) {
  functions_.try_emplace(name, definition);
  return name;
}

// vload and vstore of 16 lanes are 16 elements to a driver whose library is written so (PoCL's): its compiler
// then spends its time on making one access of them again.
std::string KernelCHelpers::neighbours(LaneType stored) {
  const std::string text = kernel_c_type(stored);
  types_.try_emplace(
      "neighbours_" + text,
      fmt::format("typedef struct __attribute__((packed, aligned({}))) {{ {} v; }} neighbours_{};",
                  bytes_of(stored.dtype), text, text));
  return "neighbours_" + text;
}

std::string KernelCHelpers::text(std::string_view before) const {
  std::string all;
  for (const auto& [definitions, prefix] : {std::pair(&types_, std::string_view()), {&functions_, before}}) {
    for (const auto& [name, definition] : *definitions)
      all += fmt::format("#ifndef HAS_{0}\n#define HAS_{0}\n{1}{2}\n#endif\n", name, prefix, definition);
  }
  return all;
}

std::string KernelCHelpers::extreme(bool maximum, LaneType type) {
  const std::string text = kernel_c_type(type);
  const std::string name = fmt::format("{}_{}", maximum ? "maximum" : "minimum", text);
  const std::string bits = kernel_c_type({type.dtype == DType::f64 ? DType::i64 : DType::i32, type.lanes});
  // Equal numbers differ at most in the sign of 0, which one bit operation decides.
  const std::string choose = type.lanes == 1
                                 ? "a {1} b ? a : b {1} a ? b : as_{2}(as_{3}(a) {4} as_{3}(b))"
                                 : "select(select(as_{2}(as_{3}(a) {4} as_{3}(b)), b, b {1} a), a, a {1} b)";
  const std::string other =
      type.lanes == 1 ? "a != a || b != b ? a + b : {0}" : "select({0}, a + b, (a != a) | (b != b))";
  const std::string chosen =
      fmt::format(fmt::runtime(choose), "", maximum ? ">" : "<", text, bits, maximum ? "&" : "|");
  const std::string result = fmt::format(fmt::runtime(other), "(" + chosen + ")");
  return add(name, fmt::format("{0} {1}({0} a, {0} b) {{ return {2}; }}", text, name, result));
}

std::string KernelCHelpers::float_to_integer(LaneType from, LaneType to) {
  const std::string source = kernel_c_type(from), target = kernel_c_type(to);
  const std::string name = fmt::format("{}_to_{}", source, target);
  const bool is_signed = is_signed_integer(to.dtype);
  const int magnitude = static_cast<int>(bytes_of(to.dtype)) * 8 - (is_signed ? 1 : 0);
  const double beyond = std::ldexp(1.0, magnitude);
  const auto number = [&](double value) {
    return kernel_c_literal(from.dtype, {.op = NestOp::constant, .type = {from.dtype, 1}, .real = value});
  };
  const std::uint64_t most = magnitude == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << magnitude) - 1;
  const std::string high = fmt::format("(({})0x{:x}UL)", kernel_c_scalar(to.dtype), most);
  const std::string low = fmt::format("(({})0x{:x}UL)", kernel_c_scalar(to.dtype), is_signed ? ~most : 0);
  // Lane by lane in vectors too: drivers do not agree on what saturating conversions do with NaN.
  std::string lanes;
  for (int lane = 0; lane < from.lanes; ++lane) {
    const std::string x = kernel_c_lane("x", from.lanes, lane);
    lanes += fmt::format("{0}({1} < {2} ? ({1} >= {3} ? ({4}){1} : {5}) : {1} >= {2} ? {6} : ({4})0)",
                         lane == 0 ? "" : ", ", x, number(beyond), number(is_signed ? -beyond : 0),
                         kernel_c_scalar(to.dtype), low, high);
  }
  const std::string value = from.lanes == 1 ? lanes : fmt::format("({})({})", target, lanes);
  return add(name, fmt::format("{} {}({} x) {{ return {}; }}", target, name, source, value));
}

// Exact: the exponent is moved by a multiplication that subnormals survive too.
std::string KernelCHelpers::half_to_float(int lanes) {
  const std::string f = kernel_c_type({DType::f32, lanes}), u = kernel_c_type({DType::u32, lanes}),
                    h = kernel_c_type({DType::u16, lanes});
  const std::string name = "half_to_" + f;
  const std::string pick =
      lanes == 1 ? "m >= 0x0f800000u ? (m | 0x7f800000u) : as_uint(as_float(m) * as_float(0x77800000u))"
                 : "select(as_{1}(as_{0}(m) * as_float(0x77800000u)), m | 0x7f800000u, m >= 0x0f800000u)";
  return add(name,
             fmt::format("{0} {1}({2} x) {{ {3} m = (convert_{3}(x) & 0x7fffu) << 13; return as_{0}(({4}) | "
                         "((convert_{3}(x) & 0x8000u) << 16)); }}",
                         f, name, h, u, fmt::format(fmt::runtime(pick), f, u)));
}

// To nearest even: subnormals by adding 0.5, whose last bit is worth the smallest half; others in the bits.
std::string KernelCHelpers::float_to_half(int lanes) {
  const std::string f = kernel_c_type({DType::f32, lanes}), u = kernel_c_type({DType::u32, lanes}),
                    h = kernel_c_type({DType::u16, lanes});
  const std::string name = f + "_to_half";
  const std::string steps = fmt::format(
      "{0} a = as_{0}(x) & 0x7fffffffu; {0} normal = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13; "
      "{0} small = "
      "as_{0}(as_{1}(a) + as_float(0x3f000000u)) - 0x3f000000u; {0} odd = 0x7e00u | ((a >> 13) & 0x3ffu); ",
      u, f);
  const std::string pick =
      lanes == 1 ? "a > 0x7f800000u ? odd : a >= 0x47800000u ? 0x7c00u : a < 0x38800000u ? small : normal"
                 : "select(select(select(normal, small, a < 0x38800000u), ({0})(0x7c00u), a >= 0x47800000u), "
                   "odd, a > 0x7f800000u)";
  return add(
      name, fmt::format("{0} {1}({2} x) {{ {3} return convert_{0}(({4}) | ((as_{5}(x) >> 16) & 0x8000u)); }}",
                        h, name, f, steps, fmt::format(fmt::runtime(pick), u), u));
}

namespace {

// Masked memory is a branch a lane. It is called where it is used, often many times in a kernel: drivers that
// take it in everywhere compile for seconds.
constexpr std::string_view kCalled = "__attribute__((noinline)) ";

// "{m}", "{i}" and "{v}" of the text are lanes of the arguments of those names, "{lane}" its number.
std::string for_lanes(int lanes, std::string_view separator, std::string_view text) {
  std::string all;
  for (int lane = 0; lane < lanes; ++lane) {
    all += lane == 0 ? "" : separator;
    all += fmt::format(
        fmt::runtime(text), fmt::arg("lane", lane), fmt::arg("m", kernel_c_lane("m", lanes, lane)),
        fmt::arg("i", kernel_c_lane("i", lanes, lane)), fmt::arg("v", kernel_c_lane("v", lanes, lane)));
  }
  return all;
}

}  // namespace

std::string KernelCHelpers::masked_load(LaneType stored) {
  const std::string text = kernel_c_type(stored), scalar(kernel_c_scalar(stored.dtype));
  const std::string lanes = for_lanes(stored.lanes, ", ", "{m} ? p[{lane}] : (" + scalar + ")0");
  return add(
      "load_" + text,
      fmt::format("{0}{1} load_{1}(const __global {2}* p, int{3} m) {{ return all(m) ? ((const __global "
                  "{4}*)p)->v : ({1})({5}); }}",
                  kCalled, text, scalar, stored.lanes, neighbours(stored), lanes));
}

std::string KernelCHelpers::masked_gather(LaneType stored) {
  const std::string text = kernel_c_type(stored), scalar(kernel_c_scalar(stored.dtype));
  const std::string lanes = for_lanes(stored.lanes, ", ", "{m} ? p[{i}] : (" + scalar + ")0");
  return add(
      "gather_" + text,
      fmt::format("{0}{1} gather_{1}(const __global {2}* p, long{3} i, int{3} m) {{ return ({1})({4}); }}",
                  kCalled, text, scalar, stored.lanes, lanes));
}

std::string KernelCHelpers::masked_store(LaneType stored) {
  const std::string text = kernel_c_type(stored), scalar(kernel_c_scalar(stored.dtype));
  return add("store_" + text,
             fmt::format("{0}void store_{1}(__global {2}* p, int{3} m, {1} v) {{ if (all(m)) {{ ((__global "
                         "{4}*)p)->v = v; return; }} {5} }}",
                         kCalled, text, scalar, stored.lanes, neighbours(stored),
                         for_lanes(stored.lanes, " ", "if ({m}) p[{lane}] = {v};")));
}

std::string KernelCHelpers::masked_scatter(LaneType stored) {
  const std::string text = kernel_c_type(stored), scalar(kernel_c_scalar(stored.dtype));
  return add(
      "scatter_" + text,
      fmt::format("{0}void scatter_{1}(__global {2}* p, long{3} i, int{3} m, {1} v) {{ {4} }}", kCalled, text,
                  scalar, stored.lanes, for_lanes(stored.lanes, " ", "if ({m}) p[{i}] = {v};")));
}

// The low word decides who was first; nobody reads the high one before the launch is over.
std::string KernelCHelpers::report() {
  return add("report_error",
             "void report_error(volatile __global int* word, long node, int code, long value) { if "
             "(atomic_cmpxchg(word, 0, "
             "(int)((uint)node << 8) | code) == 0) word[1] = (int)value; }");
}

}  // namespace diji
