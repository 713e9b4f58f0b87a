// The printer: registers are constants of C, loops are loops, masks are vectors of int.
#include "codegen/print_kernel_c.h"

#include "base/check.h"
#include "codegen/kernel_c_words.h"
#include "codegen/simt_words.h"

#include <fmt/format.h>

namespace diji {
namespace {

// What differs between the languages.
struct Style {
  std::string_view helper;  // before a helper function
  std::string_view shared;  // before memory of a group
  std::string_view barrier;
};
constexpr Style kOpenCl = {"inline ", "__local ", "barrier(CLK_LOCAL_MEM_FENCE)"},
                kSimt = {"inline __device__ ", "DIJI_SHARED ", "group_barrier()"};

class Printer {
 public:
  Printer(const LoopNest& nest, const Style& style)
      : nest_(nest), style_(style), names_(nest.registers.size()) {}

  KernelText run() {
    block(nest_.body);
    std::string head = helpers_.text(style_.helper);
    std::string arguments, places;
    for (std::size_t i = 0; i < nest_.places.size(); ++i) {
      arguments += fmt::format("__global uchar* m{0}, long o{0}, ", i);
      places += fmt::format("  __global uchar* const p{0} = m{0} + o{0};\n", i);
    }
    for (std::size_t i = 0; i <= nest_.sizes.size(); ++i) arguments += fmt::format("long s{}, ", i);
    if (nest_.group_bytes > 0) {
      places +=
          fmt::format("  {}ulong together[{}];\n  __local uchar* const shared = (__local uchar*)together;\n",
                      style_.shared, (nest_.group_bytes + 7) / 8);
    }
    std::string function = fmt::format(
        "kernel void diji_{}({}__global uchar* em, long eo, __global uchar* scratch, long stride, long "
        "count) {{\n"
        "{}  __global uchar* const mine = scratch + get_global_id(0) * stride;\n"
        "  for (long grid = (long)get_global_id(0); grid < count; grid += (long)get_global_size(0)) {{\n{}  "
        "}}\n}}\n",
        nest_.entry, arguments, places, out_);
    return {.declarations = {std::move(head)}, .function = std::move(function)};
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    out_.append(static_cast<std::size_t>(depth_) * 2, ' ');
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }
  LaneType type(Reg reg) const { return nest_.type(reg); }
  std::string& name(Reg reg) { return names_[static_cast<std::size_t>(reg)]; }
  void define(Reg reg, std::string_view value) {
    name(reg) = fmt::format("r{}", static_cast<int>(reg));
    line("const {} {} = {};", kernel_c_type(type(reg)), name(reg), value);
  }
  void block(const std::vector<NestInstruction>& instructions) {
    for (const NestInstruction& each : instructions) instruction(each);
  }
  std::string operand(const NestInstruction& i, std::size_t at) { return name(i.operands[at]); }

  void instruction(const NestInstruction& i) {
    switch (i.op) {
      case NestOp::constant: constant(i); return;
      case NestOp::size: name(i.results[0]) = fmt::format("s{}", i.integer); return;
      case NestOp::grid_index: name(i.results[0]) = "grid"; return;
      case NestOp::store: store(i); return;
      case NestOp::prefetch: return;  // a hint that drivers have no use for
      case NestOp::loop: loop(i); return;
      case NestOp::matrix_step: matrix_step(i); return;
      case NestOp::barrier: line("{};", style_.barrier); return;
      case NestOp::when:
        line("if ({}) {{", operand(i, 0));
        inside([&] { block(i.body); });
        return;
      case NestOp::report_error:
        line("if ({}) {}((volatile __global int*)(em + eo), s{}, {}, {});", operand(i, 0), helpers_.report(),
             nest_.sizes.size(), i.integer, operand(i, 1));
        return;
      default: define(i.results[0], value(i)); return;
    }
  }

  void inside(const auto& body) {
    ++depth_;
    body();
    --depth_;
    line("}}");
  }

  void constant(const NestInstruction& i) {
    const std::string one = kernel_c_literal(i.type.dtype, i);
    name(i.results[0]) = i.type.lanes == 1 ? one : fmt::format("(({})({}))", kernel_c_type(i.type), one);
  }

  std::string value(const NestInstruction& i) {
    const auto call = [&](std::string_view function) {
      std::string arguments;
      for (const Reg each : i.operands) arguments += (arguments.empty() ? "" : ", ") + name(each);
      return fmt::format("{}({})", function, arguments);
    };
    switch (i.op) {
      case NestOp::add: return arithmetic(i, "+");
      case NestOp::subtract: return arithmetic(i, "-");
      case NestOp::multiply: return arithmetic(i, "*");
      case NestOp::divide: return narrowed(i, infix(i, "/"));
      case NestOp::remainder: return narrowed(i, infix(i, "%"));
      case NestOp::minimum:
      case NestOp::maximum: {
        const bool maximum = i.op == NestOp::maximum;
        return call(is_floating(i.type.dtype) ? helpers_.extreme(maximum, i.type) : maximum ? "max" : "min");
      }
      case NestOp::multiply_add:
      case NestOp::fused_multiply_add: return call("fma");
      case NestOp::dot4: return dot4(i);
      case NestOp::sqrt: return call("sqrt");
      case NestOp::absolute: return call("fabs");
      case NestOp::copy_sign: return call("copysign");
      case NestOp::floor: return call("floor");
      case NestOp::ceil: return call("ceil");
      case NestOp::round_even: return call("rint");
      case NestOp::bit_and: return narrowed(i, infix(i, "&"));
      case NestOp::bit_or: return narrowed(i, infix(i, "|"));
      case NestOp::bit_xor: return narrowed(i, infix(i, "^"));
      case NestOp::shift_left: return arithmetic(i, "<<");
      case NestOp::shift_right: return narrowed(i, infix(i, ">>"));
      case NestOp::less: return comparison(i, "<");
      case NestOp::less_equal: return comparison(i, "<=");
      case NestOp::equal: return comparison(i, "==");
      case NestOp::select: return select(i);
      case NestOp::any: return type(i.operands[0]).lanes == 1 ? operand(i, 0) : call("any");
      case NestOp::convert: return convert(i);
      case NestOp::bitcast: return fmt::format("as_{}({})", kernel_c_type(i.type), operand(i, 0));
      case NestOp::splat: {
        const bool mask = i.type.dtype == DType::boolean;
        return fmt::format("({})({}{})", kernel_c_type(i.type), mask ? "-" : "", operand(i, 0));
      }
      case NestOp::lane_numbers: return lanes_of(i.type, [](int lane) { return fmt::format("{}", lane); });
      case NestOp::fold_add:
      case NestOp::fold_multiply:
      case NestOp::fold_minimum:
      case NestOp::fold_maximum: return fold(i);
      case NestOp::zip_low:
      case NestOp::zip_high: {
        const int first = i.op == NestOp::zip_low ? 0 : i.type.lanes / 2;
        return lanes_of(i.type, [&](int lane) {
          return kernel_c_lane(operand(i, static_cast<std::size_t>(lane % 2)), i.type.lanes,
                               first + lane / 2);
        });
      }
      case NestOp::even_lanes:
        return fmt::format("({})({}.even, {}.even)", kernel_c_type(i.type), operand(i, 0), operand(i, 1));
      case NestOp::load: return load(i);
      default: break;
    }
    CHECK(false, "an instruction without a value");
    return "";
  }

  std::string lanes_of(LaneType type, const auto& lane_text) {
    std::string all;
    for (int lane = 0; lane < type.lanes; ++lane) all += (lane == 0 ? "" : ", ") + lane_text(lane);
    return fmt::format("({})({})", kernel_c_type(type), all);
  }

  std::string infix(const NestInstruction& i, std::string_view op) {
    return fmt::format("{} {} {}", operand(i, 0), op, operand(i, 1));
  }
  // C computes small integers in int.
  std::string narrowed(const NestInstruction& i, const std::string& value) {
    const bool small = i.type.lanes == 1 && !is_floating(i.type.dtype) && bytes_of(i.type.dtype) < 4 &&
                       i.type.dtype != DType::boolean;
    return small ? fmt::format("({})({})", kernel_c_type(i.type), value) : value;
  }
  // Signed integers wrap as unsigned ones do.
  std::string arithmetic(const NestInstruction& i, std::string_view op) {
    if (!is_signed_integer(i.type.dtype)) return narrowed(i, infix(i, op));
    constexpr DType kUnsigned[] = {DType::u8,  DType::u16, DType::u16, DType::u32,
                                   DType::u32, DType::u32, DType::u32, DType::u64};
    const LaneType as_unsigned{kUnsigned[bytes_of(i.type.dtype) - 1], i.type.lanes};
    const std::string to = kernel_c_type(i.type), u = kernel_c_type(as_unsigned);
    if (i.type.lanes == 1)
      return fmt::format("({})(({}){} {} ({}){})", to, u, operand(i, 0), op, u, operand(i, 1));
    return fmt::format("as_{}(as_{}({}) {} as_{}({}))", to, u, operand(i, 0), op, u, operand(i, 1));
  }

  // Masks are vectors of int, whatever was compared.
  std::string comparison(const NestInstruction& i, std::string_view op) {
    const LaneType compared = type(i.operands[0]);
    if (compared.lanes == 1) return infix(i, op);
    return as_mask(infix(i, op), compared);
  }
  static std::string as_mask(const std::string& compared, LaneType from) {
    const bool same = from.dtype == DType::boolean || bytes_of(from.dtype) == 4;
    return same ? compared : fmt::format("convert_int{}({})", from.lanes, compared);
  }

  std::string select(const NestInstruction& i) {
    const LaneType condition = type(i.operands[0]);
    if (condition.lanes == 1) return fmt::format("{} ? {} : {}", operand(i, 0), operand(i, 1), operand(i, 2));
    constexpr DType kSigned[] = {DType::i8,  DType::i16, DType::i16, DType::i32,
                                 DType::i32, DType::i32, DType::i32, DType::i64};
    const std::int64_t bytes = i.type.dtype == DType::boolean ? 4 : bytes_of(i.type.dtype);
    const std::string mask =
        bytes == 4
            ? operand(i, 0)
            : fmt::format("convert_{}({})", kernel_c_type({kSigned[bytes - 1], i.type.lanes}), operand(i, 0));
    return fmt::format("select({}, {}, {})", operand(i, 2), operand(i, 1), mask);
  }

  std::string convert(const NestInstruction& i) {
    const LaneType from = type(i.operands[0]), to = i.type;
    const std::string x = operand(i, 0);
    if (from.dtype == DType::f16 && to.dtype == DType::f16) return x;
    if (from.dtype == DType::f16) {
      CHECK(to.dtype == DType::f32, "halves become floats first");
      return fmt::format("{}({})", helpers_.half_to_float(from.lanes), x);
    }
    if (to.dtype == DType::f16) {
      CHECK(from.dtype == DType::f32, "floats become halves");
      return fmt::format("{}({})", helpers_.float_to_half(from.lanes), x);
    }
    if (is_floating(from.dtype) && !is_floating(to.dtype))
      return fmt::format("{}({})", helpers_.float_to_integer(from, to), x);
    if (from.lanes == 1) return fmt::format("({})({})", kernel_c_type(to), x);
    const std::string numbers = from.dtype == DType::boolean ? fmt::format("({} & 1)", x) : x;
    return fmt::format("convert_{}({})", kernel_c_type(to), numbers);
  }

  std::string fold(const NestInstruction& i) {
    LaneType now = type(i.operands[0]);
    std::string whole = operand(i, 0);
    while (now.lanes > 1) {
      now.lanes /= 2;
      const std::string low = whole + ".lo", high = whole + ".hi";
      std::string both;
      switch (i.op) {
        case NestOp::fold_add: both = wrapped(now, low, "+", high); break;
        case NestOp::fold_multiply: both = wrapped(now, low, "*", high); break;
        default: {
          const bool maximum = i.op == NestOp::fold_maximum;
          const std::string function = is_floating(now.dtype) ? helpers_.extreme(maximum, now)
                                       : maximum              ? "max"
                                                              : "min";
          both = fmt::format("{}({}, {})", function, low, high);
        }
      }
      whole = fmt::format("t{}", next_temporary_++);
      line("const {} {} = {};", kernel_c_type(now), whole, both);
    }
    return whole;
  }
  static std::string wrapped(LaneType type, const std::string& a, std::string_view op, const std::string& b) {
    const std::string text = kernel_c_type(type);
    return type.lanes == 1 ? fmt::format("({})({} {} {})", text, a, op, b)
                           : fmt::format("{} {} {}", a, op, b);
  }

  std::string dot4(const NestInstruction& i) {
    return lanes_of(i.type, [&](int lane) {
      std::string sum = kernel_c_lane(operand(i, 2), i.type.lanes, lane);
      for (int j = 0; j < 4; ++j) {
        sum +=
            fmt::format(" + (int){} * (int){}", kernel_c_lane(operand(i, 0), 4 * i.type.lanes, 4 * lane + j),
                        kernel_c_lane(operand(i, 1), 4 * i.type.lanes, 4 * lane + j));
      }
      return sum;
    });
  }

  // The sums are variables that the function changes: lhs, rhs and sums by reference, named after the dtype.
  void matrix_step(const NestInstruction& i) {
    const std::size_t first_sum = i.operands.size() - i.results.size();
    std::string arguments;
    for (std::size_t k = 0; k < i.results.size(); ++k) {
      name(i.results[k]) = fmt::format("r{}", static_cast<int>(i.results[k]));
      line("float {} = {};", name(i.results[k]), operand(i, first_sum + k));
      arguments += (k == 0 ? "" : ", ") + name(i.results[k]);
    }
    for (std::size_t k = 0; k < first_sum; ++k) arguments += ", " + operand(i, k);
    line("matrix_step_{}({});", name_of(i.type.dtype), arguments);
  }

  // ---- memory

  std::string pointer(const NestInstruction& i) const {
    const std::string_view scalar = kernel_c_scalar(kernel_c_stored(i.type).dtype);
    if (i.space == Space::group) return fmt::format("((__local {}*)shared)", scalar);
    const std::string base = i.space == Space::local ? "mine" : fmt::format("p{}", i.place);
    return fmt::format("((__global {}*){})", scalar, base);
  }
  bool scattered(const NestInstruction& i) const {
    return i.operands[1] != Reg::none || type(i.operands[0]).lanes > 1;
  }
  // The element of one lane, where neighbours in a vector are none in memory.
  std::string element(const NestInstruction& i, int lane) {
    if (i.operands[1] == Reg::none)
      return fmt::format("{}[{}]", pointer(i), kernel_c_lane(operand(i, 0), i.type.lanes, lane));
    return fmt::format("{}[{} + {} * {}]", pointer(i), operand(i, 0), operand(i, 1), lane);
  }

  std::string indices(const NestInstruction& i) {
    if (i.operands[1] == Reg::none) return operand(i, 0);
    const LaneType numbers{DType::i64, i.type.lanes};
    return fmt::format("{0} + {1} * {2}", operand(i, 0), operand(i, 1),
                       lanes_of(numbers, [](int lane) { return fmt::format("{}", lane); }));
  }

  std::string load(const NestInstruction& i) {
    const LaneType stored = kernel_c_stored(i.type);
    const std::string scalar(kernel_c_scalar(stored.dtype));
    const bool masked = i.operands[2] != Reg::none;
    std::string loaded;
    if (stored.lanes == 1) {
      const std::string one = fmt::format("{}[{}]", pointer(i), operand(i, 0));
      loaded = masked ? fmt::format("{} ? {} : ({})0", operand(i, 2), one, scalar) : one;
    } else if (scattered(i)) {
      loaded = masked ? fmt::format("{}({}, {}, {})", helpers_.masked_gather(stored), pointer(i), indices(i),
                                    operand(i, 2))
                      : lanes_of(stored, [&](int lane) { return element(i, lane); });
    } else if (masked) {
      loaded = fmt::format("{}({} + {}, {})", helpers_.masked_load(stored), pointer(i), operand(i, 0),
                           operand(i, 2));
    } else {
      loaded =
          fmt::format("((__global {}*)({} + {}))->v", helpers_.neighbours(stored), pointer(i), operand(i, 0));
    }
    if (i.type.dtype != DType::boolean) return loaded;
    if (stored.lanes == 1) return fmt::format("({}) != 0", loaded);
    return fmt::format("convert_int{}({} != ({})(0))", stored.lanes, loaded, kernel_c_type(stored));
  }

  void store(const NestInstruction& i) {
    const LaneType stored = kernel_c_stored(i.type);
    const bool masked = i.operands[2] != Reg::none;
    std::string value = operand(i, 3);
    if (i.type.dtype == DType::boolean) {
      value = stored.lanes == 1 ? fmt::format("(uchar)({})", value)
                                : fmt::format("convert_uchar{}({} & 1)", stored.lanes, value);
    }
    if (stored.lanes == 1) {
      line("{}{}[{}] = {};", masked ? fmt::format("if ({}) ", operand(i, 2)) : "", pointer(i), operand(i, 0),
           value);
    } else if (scattered(i) && masked) {
      line("{}({}, {}, {}, {});", helpers_.masked_scatter(stored), pointer(i), indices(i), operand(i, 2),
           value);
    } else if (scattered(i)) {
      const std::string whole = fmt::format("t{}", next_temporary_++);
      line("const {} {} = {};", kernel_c_type(stored), whole, value);
      for (int lane = 0; lane < stored.lanes; ++lane)
        line("{} = {};", element(i, lane), kernel_c_lane(whole, stored.lanes, lane));
    } else if (masked) {
      line("{}({} + {}, {}, {});", helpers_.masked_store(stored), pointer(i), operand(i, 0), operand(i, 2),
           value);
    } else {
      line("((__global {}*)({} + {}))->v = {};", helpers_.neighbours(stored), pointer(i), operand(i, 0),
           value);
    }
  }

  // ---- control

  void loop(const NestInstruction& i) {
    const std::string index = fmt::format("i{}", static_cast<int>(i.induction));
    name(i.induction) = index;
    for (std::size_t k = 0; k < i.carried.size(); ++k) {
      const std::string carried = fmt::format("c{}", static_cast<int>(i.carried[k]));
      line("{} {} = {};", kernel_c_type(type(i.carried[k])), carried, operand(i, 3 + k));
      name(i.carried[k]) = name(i.results[k]) = carried;
    }
    line("for (long {0} = {1}; {0} < {2}; {0} += {3}) {{", index, operand(i, 0), operand(i, 1),
         operand(i, 2));
    inside([&] {
      block(i.body);
      // All next values before any is taken: one may be another's present value.
      std::vector<std::string> next;
      for (std::size_t k = 0; k < i.carried.size(); ++k) {
        next.push_back(fmt::format("n{}", static_cast<int>(i.carried[k])));
        line("const {} {} = {};", kernel_c_type(type(i.carried[k])), next.back(), name(i.yielded[k]));
      }
      for (std::size_t k = 0; k < i.carried.size(); ++k) line("{} = {};", name(i.carried[k]), next[k]);
    });
  }

  const LoopNest& nest_;
  const Style& style_;
  std::vector<std::string> names_;
  KernelCHelpers helpers_;
  std::string out_;
  int depth_ = 2, next_temporary_ = 0;
};

}  // namespace

KernelText print_opencl(const LoopNest& nest) {
  KernelText text = Printer(nest, kOpenCl).run();
  text.declarations.insert(text.declarations.begin(), "#pragma OPENCL FP_CONTRACT OFF\n");
  return text;
}

KernelText print_simt(const LoopNest& nest) {
  const auto inside = [](const std::string& text) { return fmt::format("namespace diji {{\n{}}}\n", text); };
  const KernelText text = Printer(nest, kSimt).run();
  return {.declarations = {simt_words(), inside(text.declarations[0])}, .function = inside(text.function)};
}

}  // namespace diji
