// C with vector_size types and no intrinsics: what of the family's spelling GCC 12 and Clang have.
#include "codegen/print_c.h"

#include "codegen/c_writer.h"

#include "base/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace diji {
namespace {

// LLVM fuses llvm.fmuladd where the processor has the instruction; DIJI_FUSES says the same of this compile.
constexpr std::string_view kPrelude = R"(typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned short f16;
typedef unsigned short bf16;
typedef float f32;
typedef double f64;
typedef _Bool boolean;
#define DIJI_NAN_f32 __builtin_nanf("")
#define DIJI_NAN_f64 __builtin_nan("")
#define DIJI_INF_f32 __builtin_inff()
#define DIJI_INF_f64 __builtin_inf()
#define DIJI_RARE(condition) __builtin_expect(condition, 0)
#define DIJI_SELECT_BITS(type, mask, m, a, b) (type)((m & (mask)a) | (~m & (mask)b))
#ifdef __clang__
#define DIJI_SELECT DIJI_SELECT_BITS
#else  // GCC 12 dies of the bits where a vector takes two registers
#define DIJI_SELECT_LANES(type, m, a, b) \
  ({ type r; for (int l = 0; l < (int)(sizeof(r) / sizeof(r[0])); ++l) r[l] = m[l] ? a[l] : b[l]; r; })
#define DIJI_SELECT(type, mask, m, a, b) \
  __builtin_choose_expr(sizeof(type) <= 64, DIJI_SELECT_BITS(type, mask, m, a, b), \
                        DIJI_SELECT_LANES(type, m, a, b))
#endif
#if defined(__FMA__) || defined(__aarch64__) || defined(__riscv_flen) || defined(__loongarch__) || \
    defined(__FP_FAST_FMAF)
#define DIJI_FUSES 1
#else
#define DIJI_FUSES 0
#endif
)";

std::string head(const LoopNest& nest) {
  std::string text = fmt::format(
      "void {}(void *const *places, const i64 *sizes, void *error_word, void *scratch,\n"
      "    i64 begin, i64 end) {{\n",
      nest.entry);
  for (std::size_t i = 0; i < nest.places.size(); ++i)
    text += fmt::format("  void *const place{} = places[{}];\n", i, i);
  for (std::size_t i = 0; i <= nest.sizes.size(); ++i)  // the last one is the node's number
    text += fmt::format("  const i64 size{} = sizes[{}];\n", i, i);
  return text + "  for (i64 grid = begin; grid < end; ++grid) {\n";
}

// Two types: of registers, and of memory, where a vector is aligned as one element is.
std::string vector_type(LaneType type, std::string_view name) {
  const auto element = bytes_of(type.dtype), bytes = element * type.lanes;
  return fmt::format(
      "typedef {0} {1} __attribute__((vector_size({2})));\n"
      "typedef {0} {1}_at __attribute__((vector_size({2}), aligned({3})));\n",
      name_of(type.dtype), name, bytes, element);
}

// A function of the C library that the compiler turns into an instruction, on each lane.
std::string lane_function(const Writer& w, std::string_view base, int operands) {
  constexpr std::string_view kNames[] = {"a", "b", "c"};
  const bool single = w.f.type.dtype == DType::f32;
  const auto joined = [&](const char* format) {
    return listed(operands, [&](int i) { return fmt::format(fmt::runtime(format), kNames[i]); });
  };
  const std::string parameters =
      listed(operands, [&](int i) { return fmt::format("{} {}", w.type(w.f.type), kNames[i]); });
  const std::string scalar = fmt::format("__builtin_{}{}", base, single ? "f" : "");
  if (w.f.type.lanes == 1)
    return w.text("$T $name($parameters) { return $call; }\n", blank("parameters", parameters),
                  blank("call", fmt::format("{}({})", scalar, joined("{}"))));
  return w.text(
      "$T $name($parameters) {\n"
      "  $T r;\n"
      "  for (int l = 0; l < $N; ++l) r[l] = $call;\n"
      "  return r;\n"
      "}\n",
      blank("parameters", parameters), blank("call", fmt::format("{}({})", scalar, joined("{}[l]"))));
}

std::string multiply_add(const Writer& w) {
  const CFunction exact{.op = NestOp::fused_multiply_add, .type = w.f.type, .from = {}};
  return w.text("$T $name($T a, $T b, $T c) { return DIJI_FUSES ? $fused(a, b, c) : a * b + c; }\n",
                blank("fused", w.declarations.function(exact)));
}

// The bytes of every lane taken out one by one: the first of them lies lowest.
std::string dot4(const Writer& w) {
  const LaneType sums = w.f.type;
  const auto as_sums = [&](DType bytes) {
    const LaneType from{bytes, 4 * sums.lanes};
    const CFunction bits{.op = NestOp::bitcast, .type = sums, .from = from};
    return sums.lanes > 1 ? fmt::format("({})", w.type(sums)) : w.declarations.function(bits);
  };
  return w.text(
      "$T $name($A a, $B b, $T c) {\n"
      "  const $T x = $first(a), y = $second(b);\n"
      "  for (int j = 0; j < 32; j += 8) c += ((x >> j) & 255) * (y << (24 - j) >> 24);\n"
      "  return c;\n"
      "}\n",
      blank("A", w.type({DType::u8, 4 * sums.lanes})), blank("B", w.type({DType::i8, 4 * sums.lanes})),
      blank("first", as_sums(DType::u8)), blank("second", as_sums(DType::i8)));
}

// IEEE 754-2019 minimum and maximum: NaN if one is, and −0 below +0.
std::string extreme(const Writer& w) {
  const bool least = w.f.op == NestOp::minimum, floating = is_floating(w.f.type.dtype);
  const std::string first(least ? "a < b" : "b < a"), second(least ? "b < a" : "a < b");
  if (w.f.type.lanes == 1 && !floating)
    return w.text("$T $name($T a, $T b) { return $first ? a : b; }\n", blank("first", first));
  if (w.f.type.lanes == 1) {
    return w.text(
        "$T $name($T a, $T b) {\n"
        "  if ($first) return a;\n"
        "  if ($second) return b;\n"
        "  return a == b ? (__builtin_signbit(a) ? $low : $high) : a + b;\n"
        "}\n",
        blank("first", first), blank("second", second), blank("low", least ? "a" : "b"),
        blank("high", least ? "b" : "a"));
  }
  if (!floating) {
    return w.text(
        "$T $name($T a, $T b) {\n"
        "  const $M m = ($M)($first);\n"
        "  return ($T)((m & ($M)a) | (~m & ($M)b));\n"
        "}\n",
        blank("first", first));
  }
  // Equal numbers have equal bits but for zeros, whose signs join.
  return w.text(
      "$T $name($T a, $T b) {\n"
      "  const $M x = ($M)a, y = ($M)b, m = ($M)($first), n = ($M)($second), e = ($M)(a == b);\n"
      "  return ($T)((m & x) | (n & y) | (e & (x $join y)) | (~(m | n | e) & ($M)(a + b)));\n"
      "}\n",
      blank("first", first), blank("second", second), blank("join", least ? "|" : "&"));
}

// Bits of f32 rounded to nearest even by integer arithmetic, in u32 lanes. Below 2^-14 a half is a multiple
// of 2^-24, which is the last place of floats from 0.5 on: the addition rounds.
std::string to_half(const Writer& w) {
  const LaneType wide{DType::u32, w.f.type.lanes};
  const bool vector = wide.lanes > 1;
  const std::string mask = vector ? fmt::format("({})", w.type(wide)) : "-(u32)";
  const std::string narrow =
      vector ? fmt::format("__builtin_convertvector(h, {})", w.type(w.f.type)) : "(f16)h";
  const CFunction bits{.op = NestOp::bitcast, .type = {DType::u32, 1}, .from = {DType::f32, 1}},
      real{.op = NestOp::bitcast, .type = {DType::f32, 1}, .from = {DType::u32, 1}};
  const auto cast = [&](const CFunction& scalar, LaneType to) {
    return vector ? fmt::format("({})", w.type(to)) : w.declarations.function(scalar);
  };
  return w.text(
      "$T $name($F x) {\n"
      "  const $U all = $bits(x), size = all & 0x7fffffffu, one = $bits(($F)$real(size) + 0.5f);\n"
      "  const $U small = one - 0x3f000000u;\n"
      "  const $U normal = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;\n"
      "  const $U quiet = 0x7e00u | ((size >> 13) & 0x3ffu);\n"
      "  const $U is_small = $mask(size < 0x38800000u), is_large = $mask(size >= 0x47800000u);\n"
      "  const $U is_nan = $mask(size > 0x7f800000u);\n"
      "  const $U h = (is_small & small) | (~(is_small | is_large) & normal) |\n"
      "                (is_large & ~is_nan & 0x7c00u) | (is_nan & quiet) | ((all >> 16) & 0x8000u);\n"
      "  return $narrow;\n"
      "}\n",
      blank("U", w.type(wide)), blank("mask", mask), blank("narrow", narrow), blank("bits", cast(bits, wide)),
      blank("real", cast(real, w.f.from)));
}

// Exponent and fraction put where a float has them, and 2^112 times that: exact, also for what is subnormal.
std::string from_half(const Writer& w) {
  const LaneType wide{DType::u32, w.f.type.lanes};
  const bool vector = wide.lanes > 1;
  const CFunction bits{.op = NestOp::bitcast, .type = {DType::u32, 1}, .from = {DType::f32, 1}},
      real{.op = NestOp::bitcast, .type = {DType::f32, 1}, .from = {DType::u32, 1}};
  const auto cast = [&](const CFunction& scalar, LaneType to) {
    return vector ? fmt::format("({})", w.type(to)) : w.declarations.function(scalar);
  };
  return w.text(
      "$T $name($F x) {\n"
      "  const $U h = $widen, size = (h & 0x7fffu) << 13, is_special = $mask(size >= 0x0f800000u);\n"
      "  const $U number = $bits(($T)($real(size) * 0x1p112f));\n"
      "  return $real(number | (is_special & 0x7f800000u) | ((h & 0x8000u) << 16));\n"
      "}\n",
      blank("U", w.type(wide)),
      blank("widen", vector ? fmt::format("__builtin_convertvector(x, {})", w.type(wide)) : "x"),
      blank("mask", vector ? fmt::format("({})", w.type(wide)) : "-(u32)"), blank("bits", cast(bits, wide)),
      blank("real", cast(real, w.f.type)));
}

// Truncates and saturates; NaN gives 0. `low` and `high` are the first numbers too far out, or the last
// inside (where both give the same).
std::string saturating(const Writer& w) {
  const DType to = w.f.type.dtype;
  const int bits = static_cast<int>(bytes_of(to)) * 8;
  const bool is_signed = is_signed_integer(to);
  const std::string suffix = w.f.from.dtype == DType::f32 ? "f" : "";
  const auto high = blank("high", fmt::format("0x1p{}{}", is_signed ? bits - 1 : bits, suffix));
  const auto low = blank("low", is_signed ? fmt::format("-0x1p{}{}", bits - 1, suffix) : "0");
  const auto most =
      blank("most", fmt::format("0x{:x}ULL", ~std::uint64_t{0} >> (is_signed ? 65 - bits : 64 - bits)));
  const auto least =
      blank("least", is_signed ? fmt::format("0x{:x}ULL", std::uint64_t{1} << (bits - 1)) : "0");
  if (w.f.type.lanes == 1) {
    return w.text(
        "$T $name($F x) {\n"
        "  return x >= $high ? ($T)$most : x > $low ? ($T)x : x <= $low ? ($T)$least : ($T)0;\n"
        "}\n",
        high, low, most, least);
  }
  const CFunction splat{.op = NestOp::splat, .type = w.f.type, .from = {}};
  return w.text(
      "$T $name($F x) {\n"
      "  const $G above = ($G)(x >= $high), below = ($G)(x <= $low), number = ($G)(x == x);\n"
      "  const $T inside = __builtin_convertvector(($F)(($G)x & number & ~(above | below)), $T);\n"
      "  const $T a = ($T)__builtin_convertvector(above, $M), b = ($T)__builtin_convertvector(below, "
      "$M);\n"
      "  return inside | (a & $splat(($E)$most)) | (b & $splat(($E)$least));\n"
      "}\n",
      high, low, most, least, blank("G", w.type(mask_of(w.f.from))),
      blank("splat", w.declarations.function(splat)));
}

std::string convert(const Writer& w) {
  const bool from_float = is_floating(w.f.from.dtype), to_float = is_floating(w.f.type.dtype);
  if (w.f.type.dtype == DType::f16) return to_half(w);
  if (w.f.from.dtype == DType::f16) return from_half(w);
  if (from_float && !to_float) return saturating(w);
  if (w.f.type.lanes == 1) return w.text("$T $name($F x) { return ($T)x; }\n");
  return w.text("$T $name($F x) { return __builtin_convertvector(x, $T); }\n");
}

// Halves until one lane is left.
std::string fold(const Writer& w) {
  const bool extreme = w.f.op == NestOp::fold_minimum || w.f.op == NestOp::fold_maximum;
  const NestOp op = w.f.op == NestOp::fold_minimum ? NestOp::minimum : NestOp::maximum;
  const std::string_view sign = w.f.op == NestOp::fold_add ? "+" : "*";
  const auto combined = [&](LaneType type, const std::string& low, const std::string& high) {
    if (!extreme) return fmt::format("{} {} {}", low, sign, high);
    return fmt::format("{}({}, {})", w.declarations.function({.op = op, .type = type, .from = {}}), low,
                       high);
  };
  std::string body, last = "x";
  for (int lanes = w.f.from.lanes / 2; lanes > 1; lanes /= 2) {
    const LaneType type{w.f.from.dtype, lanes};
    const auto half = [&](int first) {
      return fmt::format("__builtin_shufflevector({0}, {0}, {1})", last,
                         listed(lanes, [&](int lane) { return fmt::format("{}", first + lane); }));
    };
    const std::string name = fmt::format("x{}", lanes);
    body += fmt::format("  const {0} low{1} = {2}, high{1} = {3};\n  const {0} {4} = {5};\n", w.type(type),
                        lanes, half(0), half(lanes), name,
                        combined(type, fmt::format("low{}", lanes), fmt::format("high{}", lanes)));
    last = name;
  }
  const std::string result = combined(w.f.type, last + "[0]", last + "[1]");
  return w.text("$T $name($F x) {\n$body  return ($T)($result);\n}\n", blank("body", body),
                blank("result", result));
}

std::string any(const Writer& w) {
  return w.text(
      "$T $name($F x) {\n"
      "  $element all = 0;\n"
      "  for (int l = 0; l < $lanes; ++l) all |= x[l];\n"
      "  return all != 0;\n"
      "}\n",
      blank("element", w.type({w.f.from.dtype, 1})), blank("lanes", fmt::format("{}", w.f.from.lanes)));
}

std::string shuffle(const Writer& w) {
  const int lanes = w.f.type.lanes;
  const auto source = [&](int lane) {
    if (w.f.op == NestOp::even_lanes) return 2 * lane;
    return (w.f.op == NestOp::zip_low ? 0 : lanes / 2) + lane / 2 + (lane % 2) * lanes;
  };
  const std::string list = listed(lanes, [&](int lane) { return fmt::format("{}", source(lane)); });
  return w.text("$T $name($T a, $T b) { return __builtin_shufflevector(a, b, $list); }\n",
                blank("list", list));
}

std::string memory(const Writer& w) {
  const bool loads = w.f.op == NestOp::load;
  if (w.f.places == LanePlaces::next && !w.f.masked) {
    return loads ? w.text("$T $name(const $E *p) { return *(const $T_at *)p; }\n")
                 : w.text("void $name($E *p, $T x) { *($T_at *)p = x; }\n");
  }
  const Blank at = blank("at", w.f.places == LanePlaces::next      ? "l"
                               : w.f.places == LanePlaces::strided ? "l * stride"
                                                                   : "at[l]");
  std::string parameters;
  if (w.f.places == LanePlaces::strided) parameters = ", i64 stride";
  if (w.f.places == LanePlaces::indexed) parameters = fmt::format(", {} at", w.type(w.f.from));
  if (w.f.masked) parameters += fmt::format(", {} m", w.type(mask_of(w.f.type)));
  const auto with = blank("parameters", parameters);
  const auto guard = blank("guard", w.f.masked ? "if (m[l])" : "");
  if (loads) {
    return w.text(
        "$T $name(const $E *p$parameters) {\n"
        "  $T x = {0};\n"
        "  for (int l = 0; l < $N; ++l) $guard x[l] = p[$at];\n"
        "  return x;\n"
        "}\n",
        with, guard, at);
  }
  return w.text(
      "void $name($E *p$parameters, $T x) {\n"
      "  for (int l = 0; l < $N; ++l) $guard p[$at] = x[l];\n"
      "}\n",
      with, guard, at);
}

std::string define(const CFunction& f, std::string_view name, CDeclarations& declarations) {
  const Writer w{f, name, declarations};
  switch (f.op) {
    case NestOp::minimum:
    case NestOp::maximum: return extreme(w);
    case NestOp::multiply_add: return multiply_add(w);
    case NestOp::fused_multiply_add: return lane_function(w, "fma", 3);
    case NestOp::dot4: return dot4(w);
    case NestOp::sqrt: return lane_function(w, "sqrt", 1);
    case NestOp::absolute: return lane_function(w, "fabs", 1);
    case NestOp::copy_sign: return lane_function(w, "copysign", 2);
    case NestOp::floor: return lane_function(w, "floor", 1);
    case NestOp::ceil: return lane_function(w, "ceil", 1);
    case NestOp::round_even: return lane_function(w, "rint", 1);
    case NestOp::select:
      return w.text("$T $name($M m, $T a, $T b) { return DIJI_SELECT($T, $M, m, a, b); }\n");
    case NestOp::any: return any(w);
    case NestOp::convert: return convert(w);
    case NestOp::bitcast:
      return w.text("$T $name($F x) {\n  $T r;\n  __builtin_memcpy(&r, &x, sizeof(r));\n  return r;\n}\n");
    case NestOp::splat:
      return w.text("$T $name($E x) { return ($T){$list}; }\n",
                    blank("list", listed(f.type.lanes, [](int) { return std::string("x"); })));
    case NestOp::fold_add:
    case NestOp::fold_multiply:
    case NestOp::fold_minimum:
    case NestOp::fold_maximum: return fold(w);
    case NestOp::zip_low:
    case NestOp::zip_high:
    case NestOp::even_lanes: return shuffle(w);
    case NestOp::load:
    case NestOp::store: return memory(w);
    case NestOp::prefetch: return w.text("void $name(const void *p) { __builtin_prefetch(p, 0, 3); }\n");
    case NestOp::report_error:
      return w.text(
          "void $name(void *word, i64 node, i64 value, i64 code) {\n"
          "  u64 none = 0;\n"
          "  const u64 first = (u64)node << 8 | (u64)code | (u64)value << 32;\n"
          "  __atomic_compare_exchange_n((u64 *)word, &none, first, 0, __ATOMIC_RELAXED, "
          "__ATOMIC_RELAXED);\n"
          "}\n");
    default: check_failed("op", "an operation that C has a sign for");
  }
}

std::string infix(std::string_view sign, LaneType, const std::string& a, const std::string& b,
                  CDeclarations&) {
  return fmt::format("{} {} {}", a, sign, b);  // -fwrapv
}

constexpr CLanguage kC = {.prelude = kPrelude,
                          .head = head,
                          .tail = "  }\n}\n",
                          .vector_type = vector_type,
                          .function = define,
                          .function_words = "static inline __attribute__((always_inline)) ",
                          .infix = infix,
                          .long_suffix = "LL",
                          .open = "{",
                          .close = "}"};

}  // namespace

KernelText print_c(const LoopNest& nest) { return print_c_family(nest, kC); }

}  // namespace diji
