// Functions in the words of OpenCL C. A float of 16 bits is its bits; a mask has signed integers as wide as
// the elements, which is what these languages compare vectors to.
#include "codegen/kernel_c_functions.h"

#include "base/check.h"
#include "codegen/c_writer.h"

#include <array>
#include <cmath>

namespace diji {
namespace {

// Masked memory is a branch a lane. It is called where it is used, often many times in a kernel: drivers that
// take it in everywhere compile for seconds.
constexpr std::string_view kCalled = "__attribute__((noinline)) ";

std::string lane(std::string_view value, int lanes, int number) {
  return lanes == 1 ? std::string(value) : fmt::format("{}.s{:x}", value, number);
}
// "(T)(item(0), item(1), …)"
std::string lanes_of(const Writer& w, const std::function<std::string(int)>& item) {
  return fmt::format("({})({})", w.type(w.f.type), listed(w.f.type.lanes, item));
}

std::string builtin(const Writer& w, std::string_view function, int operands) {
  constexpr std::string_view kNames[] = {"a", "b", "c"};
  const auto of = [&](std::string_view before) {
    return listed(operands, [&](int i) { return std::string(before) + std::string(kNames[i]); });
  };
  return w.text("$T $name($parameters) { return $function($operands); }\n",
                blank("parameters", of(w.type(w.f.type) + " ")), blank("function", std::string(function)),
                blank("operands", of("")));
}

// IEEE 754-2019 minimum and maximum: NaN wins. Equal numbers differ at most in the sign of 0, which one bit
// operation decides.
std::string extreme(const Writer& w) {
  const bool maximum = w.f.op == NestOp::maximum;
  if (!is_floating(w.f.type.dtype)) return builtin(w, maximum ? "max" : "min", 2);
  const auto sign = blank("sign", maximum ? ">" : "<"), join = blank("join", maximum ? "&" : "|"),
             real = blank("real", "as_" + kernel_c_word(w.f.type)),
             bits = blank("bits", "as_" + kernel_c_word(mask_of(w.f.type)));
  if (w.f.type.lanes == 1) {
    return w.text(
        "$T $name($T a, $T b) {\n"
        "  return a != a || b != b ? a + b : a $sign b ? a : b $sign a ? b : $real($bits(a) $join "
        "$bits(b));\n"
        "}\n",
        sign, join, real, bits);
  }
  return w.text(
      "$T $name($T a, $T b) {\n"
      "  const $T x = select(select($real($bits(a) $join $bits(b)), b, b $sign a), a, a $sign b);\n"
      "  return select(x, a + b, (a != a) | (b != b));\n"
      "}\n",
      sign, join, real, bits);
}

std::string dot4(const Writer& w) {
  const int lanes = w.f.type.lanes;
  const std::string sums = lanes_of(w, [&](int l) {
    return lane("c", lanes, l) + listed(
                                     4,
                                     [&](int j) {
                                       return fmt::format(" + (int){} * (int){}",
                                                          lane("a", 4 * lanes, 4 * l + j),
                                                          lane("b", 4 * lanes, 4 * l + j));
                                     },
                                     "");
  });
  return w.text("$T $name($A a, $B b, $T c) { return $sums; }\n", blank("A", w.type({DType::u8, 4 * lanes})),
                blank("B", w.type({DType::i8, 4 * lanes})), blank("sums", sums));
}

// Exact: the exponent is moved by a multiplication that subnormals survive too.
std::string from_half(const Writer& w) {
  const LaneType wide{DType::u32, w.f.type.lanes};
  const auto words =
      std::array{blank("U", w.type(wide)), blank("widen", "convert_" + kernel_c_word(wide)),
                 blank("real", "as_" + kernel_c_word(w.f.type)), blank("bits", "as_" + kernel_c_word(wide))};
  const std::string_view pick =
      wide.lanes == 1 ? "m >= 0x0f800000u ? (m | 0x7f800000u) : $bits($real(m) * as_float(0x77800000u))"
                      : "select($bits($real(m) * as_float(0x77800000u)), m | 0x7f800000u, m >= 0x0f800000u)";
  return w.text(
      "$T $name($F x) {\n"
      "  const $U h = $widen(x), m = (h & 0x7fffu) << 13;\n"
      "  return $real(($pick) | ((h & 0x8000u) << 16));\n"
      "}\n",
      words[0], words[1], words[2], words[3], blank("pick", filled(pick, words)));
}

// To nearest even: subnormals by adding 0.5, whose last bit is worth the smallest half; others in the bits.
std::string to_half(const Writer& w) {
  const LaneType wide{DType::u32, w.f.type.lanes}, real{DType::f32, w.f.type.lanes};
  const std::string_view pick =
      wide.lanes == 1
          ? "a > 0x7f800000u ? odd : a >= 0x47800000u ? 0x7c00u : a < 0x38800000u ? small : normal"
          : "select(select(select(normal, small, a < 0x38800000u), ($U)(0x7c00u), a >= 0x47800000u), odd, "
            "a > 0x7f800000u)";
  const auto wide_word = blank("U", w.type(wide));
  return w.text(
      "$T $name($F x) {\n"
      "  const $U all = $bits(x), a = all & 0x7fffffffu;\n"
      "  const $U normal = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;\n"
      "  const $U small = $bits($real(a) + as_float(0x3f000000u)) - 0x3f000000u;\n"
      "  const $U odd = 0x7e00u | ((a >> 13) & 0x3ffu);\n"
      "  return $narrow(($pick) | ((all >> 16) & 0x8000u));\n"
      "}\n",
      wide_word, blank("bits", "as_" + kernel_c_word(wide)), blank("real", "as_" + kernel_c_word(real)),
      blank("narrow", "convert_" + kernel_c_word({DType::u16, w.f.type.lanes})),
      blank("pick", filled(pick, std::span(&wide_word, 1))));
}

// Truncates and saturates; NaN gives 0. Lane by lane in vectors too: drivers do not agree on what their own
// saturating conversions do with NaN.
std::string saturating(const Writer& w) {
  const DType to = w.f.type.dtype;
  const bool is_signed = is_signed_integer(to);
  const int magnitude = static_cast<int>(bytes_of(to)) * 8 - (is_signed ? 1 : 0);
  const auto number = [&](double value) {
    return fmt::format("{:a}{}", value, w.f.from.dtype == DType::f32 ? "f" : "");
  };
  const std::uint64_t most = magnitude == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << magnitude) - 1;
  const std::string type = w.type({to, 1}), high = fmt::format("(({})0x{:x}UL)", type, most),
                    low = fmt::format("(({})0x{:x}UL)", type, is_signed ? ~most : 0),
                    above = number(std::ldexp(1.0, magnitude)),
                    below = number(is_signed ? -std::ldexp(1.0, magnitude) : 0);
  const auto converted = [&](int l) {
    return fmt::format("({0} < {1} ? ({0} >= {2} ? ({3}){0} : {4}) : {0} >= {1} ? {5} : ({3})0)",
                       lane("x", w.f.from.lanes, l), above, below, type, low, high);
  };
  return w.text("$T $name($F x) { return $value; }\n",
                blank("value", w.f.type.lanes == 1 ? converted(0) : lanes_of(w, converted)));
}

std::string convert(const Writer& w) {
  if (w.f.type.dtype == DType::f16) return to_half(w);
  if (w.f.from.dtype == DType::f16) return from_half(w);
  if (is_floating(w.f.from.dtype) && !is_floating(w.f.type.dtype)) return saturating(w);
  if (w.f.type.lanes == 1) return w.text("$T $name($F x) { return ($T)x; }\n");
  return w.text("$T $name($F x) { return convert_$word(x); }\n", blank("word", kernel_c_word(w.f.type)));
}

// Halves until one lane is left.
std::string fold(const Writer& w) {
  const auto combined = [&](LaneType type, const std::string& low, const std::string& high) {
    if (w.f.op == NestOp::fold_add || w.f.op == NestOp::fold_multiply) {
      const std::string_view sign = w.f.op == NestOp::fold_add ? "+" : "*";
      return w.declarations.language().infix(sign, type, low, high, w.declarations);
    }
    const NestOp op = w.f.op == NestOp::fold_minimum ? NestOp::minimum : NestOp::maximum;
    return fmt::format("{}({}, {})", w.declarations.function({.op = op, .type = type, .from = {}}), low,
                       high);
  };
  std::string body, last = "x";
  for (int lanes = w.f.from.lanes / 2; lanes > 1; lanes /= 2) {
    const LaneType type{w.f.from.dtype, lanes};
    const std::string name = fmt::format("x{}", lanes);
    body +=
        fmt::format("  const {} {} = {};\n", w.type(type), name, combined(type, last + ".lo", last + ".hi"));
    last = name;
  }
  return w.text("$T $name($F x) {\n$body  return $result;\n}\n", blank("body", body),
                blank("result", combined(w.f.type, last + ".lo", last + ".hi")));
}

std::string shuffle(const Writer& w) {
  const int lanes = w.f.type.lanes;
  return w.text("$T $name($T a, $T b) { return $lanes; }\n",
                blank("lanes", lanes_of(w, [&](int l) {
                        if (w.f.op == NestOp::even_lanes)
                          return lane(l < lanes / 2 ? "a" : "b", lanes, 2 * l % lanes);
                        return lane(l % 2 == 0 ? "a" : "b", lanes,
                                    (w.f.op == NestOp::zip_low ? 0 : lanes / 2) + l / 2);
                      })));
}

// Neighbours are read and written through a packed struct: vload and vstore of 16 lanes are 16 elements to a
// driver whose library is written so (PoCL's), whose compiler then spends its time on making one access of
// them.
std::string memory(const Writer& w) {
  const bool loads = w.f.op == NestOp::load, next = w.f.places == LanePlaces::next;
  const int lanes = w.f.type.lanes;
  std::string parameters =
      fmt::format("{}__global {} *p", loads ? "const " : "", w.type({w.f.type.dtype, 1}));
  if (w.f.places == LanePlaces::strided) parameters += ", i64 stride";
  if (w.f.places == LanePlaces::indexed) parameters += fmt::format(", {} at", w.type(w.f.from));
  if (w.f.masked) parameters += fmt::format(", {} m", w.type(mask_of(w.f.type)));
  const auto element = [&](int l) {
    return next                                ? fmt::format("p[{}]", l)
           : w.f.places == LanePlaces::strided ? fmt::format("p[stride * {}]", l)
                                               : fmt::format("p[{}]", lane("at", lanes, l));
  };
  const auto with = blank("parameters", parameters);
  const std::string_view head = loads ? "$T $name($parameters)" : "void $name($parameters, $T x)";
  const std::string whole = loads ? "((const __global $T_at *)p)->v" : "((__global $T_at *)p)->v = x";
  const auto say = [&](const std::string& body) {
    const std::string text = fmt::format("{} {{ {} }}\n", head, body);
    return w.f.masked ? std::string(kCalled) + w.bare(text, with) : w.text(text, with);
  };
  if (next && !w.f.masked) return say((loads ? "return " : "") + whole + ";");
  const std::string zero = fmt::format("({})0", w.type({w.f.type.dtype, 1}));
  if (loads) {
    const std::string each = lanes_of(w, [&](int l) {
      return w.f.masked ? fmt::format("{} ? {} : {}", lane("m", lanes, l), element(l), zero) : element(l);
    });
    return say(next ? fmt::format("return all(m) ? {} : {};", whole, each) : fmt::format("return {};", each));
  }
  const std::string each = listed(
      lanes,
      [&](int l) {
        const std::string guard = w.f.masked ? fmt::format("if ({}) ", lane("m", lanes, l)) : "";
        return fmt::format("{}{} = {};", guard, element(l), lane("x", lanes, l));
      },
      " ");
  return say(next ? fmt::format("if (all(m)) {{ {}; return; }} {}", whole, each) : each);
}

}  // namespace

std::string kernel_c_word(LaneType type) {
  CHECK(type.lanes <= 16, "vectors of this language have at most 16 lanes");
  constexpr std::string_view kSigned[] = {"char", "short", "", "int", "", "", "", "long"},
                             kUnsigned[] = {"uchar", "ushort", "", "uint", "", "", "", "ulong"};
  const auto at = static_cast<std::size_t>(bytes_of(type.dtype) - 1);
  const std::string_view one = type.dtype == DType::f64        ? "double"
                               : type.dtype == DType::f32      ? "float"
                               : is_signed_integer(type.dtype) ? kSigned[at]
                                                               : kUnsigned[at];
  return type.lanes == 1 ? std::string(one) : fmt::format("{}{}", one, type.lanes);
}

std::string kernel_c_function(const CFunction& f, std::string_view name, CDeclarations& declarations) {
  const Writer w{f, name, declarations};
  switch (f.op) {
    case NestOp::minimum:
    case NestOp::maximum: return extreme(w);
    case NestOp::multiply_add:
    case NestOp::fused_multiply_add: return builtin(w, "fma", 3);
    case NestOp::dot4: return dot4(w);
    case NestOp::sqrt: return builtin(w, "sqrt", 1);
    case NestOp::absolute: return builtin(w, "fabs", 1);
    case NestOp::copy_sign: return builtin(w, "copysign", 2);
    case NestOp::floor: return builtin(w, "floor", 1);
    case NestOp::ceil: return builtin(w, "ceil", 1);
    case NestOp::round_even: return builtin(w, "rint", 1);
    case NestOp::select: return w.text("$T $name($M m, $T a, $T b) { return select(b, a, m); }\n");
    case NestOp::any: return w.text("$T $name($F x) { return any(x); }\n");
    case NestOp::convert: return convert(w);
    case NestOp::bitcast:
      return w.text("$T $name($F x) { return as_$word(x); }\n", blank("word", kernel_c_word(f.type)));
    case NestOp::splat: return w.text("$T $name($E x) { return ($T)(x); }\n");
    case NestOp::fold_add:
    case NestOp::fold_multiply:
    case NestOp::fold_minimum:
    case NestOp::fold_maximum: return fold(w);
    case NestOp::zip_low:
    case NestOp::zip_high:
    case NestOp::even_lanes: return shuffle(w);
    case NestOp::load:
    case NestOp::store: return memory(w);
    case NestOp::report_error:
      // The low word decides who was first; nobody reads the high one before the launch is over.
      return w.text(
          "void $name(volatile __global int *word, i64 node, i64 value, i64 code) {\n"
          "  if (atomic_cmpxchg(word, 0, (int)((uint)node << 8 | (uint)code)) == 0) word[1] = (int)value;\n"
          "}\n");
    default: check_failed("op", "an operation that the language has a sign for");
  }
}

}  // namespace diji
