// The LLVM IR printer.
#include "codegen/print_llvm.h"

#include "base/check.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <functional>
#include <set>

namespace diji {
namespace {

std::string_view scalar_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return "double";
    case DType::f32: return "float";
    case DType::f16: return "half";
    case DType::bf16: return "bfloat";
    case DType::boolean: return "i1";
    default: break;
  }
  constexpr std::string_view kIntegers[] = {"i8", "i16", "", "i32", "", "", "", "i64"};
  return kIntegers[bytes_of(dtype) - 1];
}

std::string llvm_type(LaneType type) {
  if (type.lanes == 1) return std::string(scalar_type(type.dtype));
  return fmt::format("<{} x {}>", type.lanes, scalar_type(type.dtype));
}

// The suffix of an overloaded intrinsic: "v16f32".
std::string suffix(LaneType type) {
  const std::string_view letter = is_floating(type.dtype) ? "f" : "i";
  const auto bits = type.dtype == DType::boolean ? 1 : bytes_of(type.dtype) * 8;
  return type.lanes == 1 ? fmt::format("{}{}", letter, bits)
                         : fmt::format("v{}{}{}", type.lanes, letter, bits);
}

std::string literal(const NestInstruction& constant) {
  const DType dtype = constant.type.dtype;
  std::string one;
  if (is_floating(dtype)) {
    // LLVM writes a float as the double of equal value, in hexadecimal.
    const double value =
        dtype == DType::f32 ? static_cast<double>(static_cast<float>(constant.real)) : constant.real;
    one = fmt::format("0x{:016X}", std::bit_cast<std::uint64_t>(value));
  } else if (dtype == DType::boolean) {
    one = constant.integer != 0 ? "true" : "false";
  } else {
    one = fmt::format("{}", constant.integer);
  }
  if (constant.type.lanes == 1) return one;
  std::string all;
  for (int i = 0; i < constant.type.lanes; ++i)
    all += fmt::format("{}{} {}", i == 0 ? "" : ", ", scalar_type(dtype), one);
  return fmt::format("<{}>", all);
}

class Printer {
 public:
  explicit Printer(const LoopNest& nest) : nest_(nest), names_(nest.registers.size()) {}

  KernelText run() {
    line("define void @{}(ptr %places, ptr %sizes, ptr %error_word, ptr %local, i64 %begin, i64 %end) {{",
         nest_.entry);
    line("entry:");
    for (std::size_t i = 0; i < nest_.places.size(); ++i) {
      line("  %place.at{} = getelementptr ptr, ptr %places, i64 {}", i, i);
      line("  %place{} = load ptr, ptr %place.at{}", i, i);
    }
    for (std::size_t i = 0; i <= nest_.sizes.size(); ++i) {  // the last one is the node's number
      line("  %size.at{} = getelementptr i64, ptr %sizes, i64 {}", i, i);
      line("  %size{} = load i64, ptr %size.at{}", i, i);
    }
    line("  br label %grid.head");
    line("grid.head:");
    line("  %grid = phi i64 [ %begin, %entry ], [ %grid.next, %grid.latch ]");
    line("  %grid.more = icmp slt i64 %grid, %end");
    line("  br i1 %grid.more, label %grid.body, label %grid.exit");
    label("grid.body");
    block(nest_.body);
    line("  br label %grid.latch");
    label("grid.latch");
    line("  %grid.next = add nsw i64 %grid, 1");
    line("  br label %grid.head");
    line("grid.exit:");
    line("  ret void");
    line("}}");
    KernelText text{.declarations = {}, .function = std::move(out_)};
    for (const std::string& declaration : declarations_) text.declarations.push_back(declaration + "\n");
    return text;
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }
  void label(std::string name) {
    line("{}:", name);
    current_ = std::move(name);
  }

  const std::string& name(Reg reg) const { return names_[static_cast<std::size_t>(reg)]; }
  void set_name(Reg reg, std::string text) { names_[static_cast<std::size_t>(reg)] = std::move(text); }
  std::string typed(Reg reg) const { return fmt::format("{} {}", llvm_type(nest_.type(reg)), name(reg)); }
  std::string& define(Reg reg) {
    std::string& result = names_[static_cast<std::size_t>(reg)];
    result = fmt::format("%r{}", static_cast<int>(reg));
    return result;
  }
  std::string temporary() { return fmt::format("%t{}", next_temporary_++); }

  void declare(std::string text) { declarations_.insert("declare " + std::move(text)); }
  // result = intrinsic(operands), all of `type` unless given with their types.
  void intrinsic(Reg result, std::string_view base, LaneType type, const std::vector<Reg>& operands) {
    std::vector<std::string> types, values;
    for (const Reg operand : operands) {
      types.push_back(llvm_type(nest_.type(operand)));
      values.push_back(typed(operand));
    }
    const std::string function = fmt::format("@llvm.{}.{}", base, suffix(type));
    declare(fmt::format("{} {}({})", llvm_type(type), function, fmt::join(types, ", ")));
    line("  {} = call {} {}({})", define(result), llvm_type(type), function, fmt::join(values, ", "));
  }

  void block(const std::vector<NestInstruction>& instructions) {
    for (const NestInstruction& instruction : instructions) this->instruction(instruction);
  }

  void simple(const NestInstruction& i, std::string_view word) {
    line("  {} = {} {} {}, {}", define(i.results[0]), word, llvm_type(nest_.type(i.operands[0])),
         name(i.operands[0]), name(i.operands[1]));
  }

  DType operand_dtype(const NestInstruction& i) const {
    return i.operands.empty() || i.operands[0] == Reg::none ? i.type.dtype : nest_.type(i.operands[0]).dtype;
  }

  void instruction(const NestInstruction& i) {
    const DType dtype = operand_dtype(i);
    const bool floating = is_floating(dtype), is_signed = is_signed_integer(dtype);
    switch (i.op) {
      case NestOp::constant: set_name(i.results[0], literal(i)); break;
      case NestOp::size: set_name(i.results[0], fmt::format("%size{}", i.integer)); break;
      case NestOp::grid_index: set_name(i.results[0], "%grid"); break;
      case NestOp::add: simple(i, floating ? "fadd" : "add"); break;
      case NestOp::subtract: simple(i, floating ? "fsub" : "sub"); break;
      case NestOp::multiply: simple(i, floating ? "fmul" : "mul"); break;
      case NestOp::divide: simple(i, floating ? "fdiv" : is_signed ? "sdiv" : "udiv"); break;
      case NestOp::remainder: simple(i, is_signed ? "srem" : "urem"); break;
      case NestOp::minimum:
        intrinsic(i.results[0], floating ? "minimum" : is_signed ? "smin" : "umin", i.type, i.operands);
        break;
      case NestOp::maximum:
        intrinsic(i.results[0], floating ? "maximum" : is_signed ? "smax" : "umax", i.type, i.operands);
        break;
      case NestOp::multiply_add: intrinsic(i.results[0], "fmuladd", i.type, i.operands); break;
      case NestOp::fused_multiply_add: intrinsic(i.results[0], "fma", i.type, i.operands); break;
      case NestOp::dot4: dot4(i); break;
      case NestOp::absolute: intrinsic(i.results[0], "fabs", i.type, i.operands); break;
      case NestOp::copy_sign: intrinsic(i.results[0], "copysign", i.type, i.operands); break;
      case NestOp::floor: intrinsic(i.results[0], "floor", i.type, i.operands); break;
      case NestOp::ceil: intrinsic(i.results[0], "ceil", i.type, i.operands); break;
      case NestOp::sqrt: intrinsic(i.results[0], "sqrt", i.type, i.operands); break;
      case NestOp::round_even: intrinsic(i.results[0], "rint", i.type, i.operands); break;
      case NestOp::bit_and: simple(i, "and"); break;
      case NestOp::bit_or: simple(i, "or"); break;
      case NestOp::bit_xor: simple(i, "xor"); break;
      case NestOp::shift_left: simple(i, "shl"); break;
      case NestOp::shift_right: simple(i, is_signed ? "ashr" : "lshr"); break;
      case NestOp::less: simple(i, floating ? "fcmp olt" : is_signed ? "icmp slt" : "icmp ult"); break;
      case NestOp::less_equal: simple(i, floating ? "fcmp ole" : is_signed ? "icmp sle" : "icmp ule"); break;
      case NestOp::equal: simple(i, floating ? "fcmp oeq" : "icmp eq"); break;
      case NestOp::select:
        line("  {} = select {}, {}, {}", define(i.results[0]), typed(i.operands[0]), typed(i.operands[1]),
             typed(i.operands[2]));
        break;
      case NestOp::any: any(i); break;
      case NestOp::convert: convert(i); break;
      case NestOp::bitcast:
        line("  {} = bitcast {} to {}", define(i.results[0]), typed(i.operands[0]), llvm_type(i.type));
        break;
      case NestOp::splat: set_name(i.results[0], splat(name(i.operands[0]), i.type)); break;
      case NestOp::lane_numbers: set_name(i.results[0], lane_numbers(i.type)); break;
      case NestOp::fold_add:
      case NestOp::fold_multiply:
      case NestOp::fold_minimum:
      case NestOp::fold_maximum: fold(i); break;
      case NestOp::zip_low:
      case NestOp::zip_high: {
        const int first = i.op == NestOp::zip_low ? 0 : i.type.lanes / 2;
        shuffle(i, [&](int lane) { return first + lane / 2 + (lane % 2) * i.type.lanes; });
        break;
      }
      case NestOp::even_lanes: shuffle(i, [](int lane) { return 2 * lane; }); break;
      case NestOp::load: load(i); break;
      case NestOp::store: store(i); break;
      case NestOp::prefetch: prefetch(i); break;
      case NestOp::loop: loop(i); break;
      case NestOp::when: when(i); break;
      case NestOp::report_error: report_error(i); break;
      case NestOp::matrix_step:
      case NestOp::barrier: CHECK(false, "lockstep belongs to SIMT dialects"); break;
    }
  }

  std::string splat(std::string_view scalar, LaneType type) {
    if (type.lanes == 1) return std::string(scalar);
    const std::string first = temporary(), all = temporary();
    line("  {} = insertelement {} poison, {} {}, i64 0", first, llvm_type(type), scalar_type(type.dtype),
         scalar);
    line("  {} = shufflevector {} {}, {} poison, <{} x i32> zeroinitializer", all, llvm_type(type), first,
         llvm_type(type), type.lanes);
    return all;
  }

  static std::string lane_numbers(LaneType type) {
    if (type.lanes == 1) return "0";
    std::string all;
    for (int lane = 0; lane < type.lanes; ++lane)
      all += fmt::format("{}{} {}", lane == 0 ? "" : ", ", scalar_type(type.dtype), lane);
    return fmt::format("<{}>", all);
  }

  void any(const NestInstruction& i) {
    const Reg mask = i.operands[0];
    if (nest_.type(mask).lanes == 1) {
      set_name(i.results[0], name(mask));
      return;
    }
    const std::string function = "@llvm.vector.reduce.or." + suffix(nest_.type(mask));
    declare(fmt::format("i1 {}({})", function, llvm_type(nest_.type(mask))));
    line("  {} = call i1 {}({})", define(i.results[0]), function, typed(mask));
  }

  void convert(const NestInstruction& i) {
    const LaneType from = nest_.type(i.operands[0]), to = i.type;
    const auto word = [&]() -> std::string_view {
      const bool from_float = is_floating(from.dtype), to_float = is_floating(to.dtype);
      if (from_float && to_float) return bytes_of(from.dtype) < bytes_of(to.dtype) ? "fpext" : "fptrunc";
      if (to_float) return is_signed_integer(from.dtype) ? "sitofp" : "uitofp";
      if (from.dtype == DType::boolean) return "zext";
      if (bytes_of(from.dtype) > bytes_of(to.dtype)) return "trunc";
      if (bytes_of(from.dtype) < bytes_of(to.dtype)) return is_signed_integer(from.dtype) ? "sext" : "zext";
      return "bitcast";  // the same bits under the other sign
    };
    if (is_floating(from.dtype) && !is_floating(to.dtype)) {
      CHECK(to.dtype != DType::boolean, "a float becomes a boolean by comparison");
      if (to.lanes > 1) return saturate(i);
      const std::string function = fmt::format(
          "@llvm.fpto{}i.sat.{}.{}", is_signed_integer(to.dtype) ? "s" : "u", suffix(to), suffix(from));
      declare(fmt::format("{} {}({})", llvm_type(to), function, llvm_type(from)));
      line("  {} = call {} {}({})", define(i.results[0]), llvm_type(to), function, typed(i.operands[0]));
      return;
    }
    line("  {} = {} {} to {}", define(i.results[0]), word(), typed(i.operands[0]), llvm_type(to));
  }

  // LLVM's saturating conversion of vectors goes lane by lane: clamp first, convert then. Where the highest
  // integer is no float, what lies above the highest float below it becomes it afterwards.
  void saturate(const NestInstruction& i) {
    const LaneType from = nest_.type(i.operands[0]), to = i.type;
    const bool is_signed = is_signed_integer(to.dtype);
    const int bits = static_cast<int>(bytes_of(to.dtype)) * 8, magnitude = bits - (is_signed ? 1 : 0);
    const int digits = from.dtype == DType::f64 ? 53 : 24;
    const std::string text = llvm_type(from);
    const auto number = [&](double value) {
      return literal({.op = NestOp::constant, .type = from, .real = value});
    };
    const double beyond = std::ldexp(1.0, magnitude), low = is_signed ? -beyond : 0;
    const double high = magnitude <= digits ? beyond - 1 : beyond - std::ldexp(1.0, magnitude - digits);
    std::string x = name(i.operands[0]);
    const auto choose = [&](std::string_view comparison, double limit, double otherwise) {
      const std::string holds = temporary(), kept = temporary();
      line("  {} = fcmp {} {} {}, {}", holds, comparison, text, x, number(limit));
      line("  {} = select <{} x i1> {}, {} {}, {} {}", kept, from.lanes, holds, text, x, text,
           number(otherwise));
      x = kept;
    };
    choose("ord", 0, 0);
    choose("ogt", low, low);
    const std::string unclamped = x;
    choose("olt", high, high);
    const LaneType wide = bits < 32 ? LaneType{DType::i32, to.lanes} : to;
    const std::string integer = temporary();
    line("  {} = fpto{}i {} {} to {}", integer, is_signed || bits < 32 ? "s" : "u", text, x, llvm_type(wide));
    if (bits < 32) {
      line("  {} = trunc {} {} to {}", define(i.results[0]), llvm_type(wide), integer, llvm_type(to));
    } else if (magnitude <= digits) {
      set_name(i.results[0], integer);
    } else {
      const std::string over = temporary();
      const std::int64_t most = is_signed ? std::int64_t((std::uint64_t{1} << magnitude) - 1) : -1;
      line("  {} = fcmp oge {} {}, {}", over, text, unclamped, number(beyond));
      line("  {} = select <{} x i1> {}, {} {}, {} {}", define(i.results[0]), to.lanes, over, llvm_type(to),
           literal({.op = NestOp::constant, .type = to, .integer = most}), llvm_type(to), integer);
    }
  }

  // Halves until one lane is left: the order is the same on every machine.
  void fold(const NestInstruction& i) {
    const LaneType full = nest_.type(i.operands[0]);
    std::string current = name(i.operands[0]);
    for (int lanes = full.lanes; lanes > 2; lanes /= 2) {
      const std::string low = half(current, {full.dtype, lanes}, 0),
                        high = half(current, {full.dtype, lanes}, lanes / 2);
      current = combine(i.op, {full.dtype, lanes / 2}, low, high);
    }
    if (full.lanes > 1) {
      const std::string low = temporary(), high = temporary();
      for (int lane = 0; lane < 2; ++lane) {
        line("  {} = extractelement <2 x {}> {}, i64 {}", lane == 0 ? low : high, scalar_type(full.dtype),
             current, lane);
      }
      current = combine(i.op, {full.dtype, 1}, low, high);
    }
    set_name(i.results[0], current);
  }

  // Lanes chosen from two vectors, counted through both.
  void shuffle(const NestInstruction& i, const std::function<int(int lane)>& source) {
    std::string lanes;
    for (int lane = 0; lane < i.type.lanes; ++lane)
      lanes += fmt::format("{}i32 {}", lane == 0 ? "" : ", ", source(lane));
    line("  {} = shufflevector {}, {}, <{} x i32> <{}>", define(i.results[0]), typed(i.operands[0]),
         typed(i.operands[1]), i.type.lanes, lanes);
  }

  std::string half(std::string_view vector, LaneType type, int first) {
    std::string lanes;
    for (int lane = 0; lane < type.lanes / 2; ++lane)
      lanes += fmt::format("{}i32 {}", lane == 0 ? "" : ", ", first + lane);
    const std::string result = temporary();
    line("  {} = shufflevector {} {}, {} poison, <{} x i32> <{}>", result, llvm_type(type), vector,
         llvm_type(type), type.lanes / 2, lanes);
    return result;
  }

  std::string combine(NestOp op, LaneType type, std::string_view low, std::string_view high) {
    const std::string result = temporary(), text = llvm_type(type);
    const bool floating = is_floating(type.dtype);
    if (op == NestOp::fold_add || op == NestOp::fold_multiply) {
      const std::string_view word = op == NestOp::fold_add ? "add" : "mul";
      line("  {} = {}{} {} {}, {}", result, floating ? "f" : "", word, text, low, high);
      return result;
    }
    const std::string_view letter = floating ? "" : is_signed_integer(type.dtype) ? "s" : "u";
    const std::string_view end = op == NestOp::fold_minimum ? "min" : "max";
    const std::string word = fmt::format("{}{}{}", letter, end, floating ? "imum" : "");
    const std::string function = fmt::format("@llvm.{}.{}", word, suffix(type));
    declare(fmt::format("{} {}({}, {})", text, function, text, text));
    line("  {} = call {} {}({} {}, {} {})", result, text, function, text, low, text, high);
    return result;
  }

  // Booleans are bytes in memory.
  static LaneType stored(LaneType type) {
    return {type.dtype == DType::boolean ? DType::u8 : type.dtype, type.lanes};
  }

  std::string address(const NestInstruction& i, LaneType type) {
    const std::string base = i.space == Space::local ? "%local" : fmt::format("%place{}", i.place);
    const std::string result = temporary();
    const Reg stride = i.operands[1];
    if (stride == Reg::none) {  // a pointer, or one a lane
      line("  {} = getelementptr {}, ptr {}, {}", result, scalar_type(type.dtype), base,
           typed(i.operands[0]));
      return result;
    }
    // One address a lane.
    const LaneType index{DType::i64, type.lanes};
    const std::string first = splat(name(i.operands[0]), index), step = splat(name(stride), index);
    const std::string scaled = temporary(), all = temporary();
    line("  {} = mul {} {}, {}", scaled, llvm_type(index), step, lane_numbers(index));
    line("  {} = add {} {}, {}", all, llvm_type(index), first, scaled);
    line("  {} = getelementptr {}, ptr {}, {} {}", result, scalar_type(type.dtype), base, llvm_type(index),
         all);
    return result;
  }

  // One address a lane: a stride, or indices of the lanes' own.
  bool scattered(const NestInstruction& i) const {
    return i.operands[1] != Reg::none || nest_.type(i.operands[0]).lanes > 1;
  }

  std::string all_lanes(int lanes) const {
    return literal({.op = NestOp::constant, .type = {DType::boolean, lanes}, .integer = 1});
  }

  void load(const NestInstruction& i) {
    const LaneType type = stored(i.type);
    const std::string text = llvm_type(type), at = address(i, type);
    const bool strided = scattered(i);
    const Reg mask = i.operands[2];
    const auto align = bytes_of(type.dtype) * (i.aligned ? type.lanes : 1);
    const std::string loaded = i.type == type ? define(i.results[0]) : temporary();
    if (type.lanes == 1 && mask != Reg::none) {
      load_if(loaded, at, type, name(mask));
    } else if (type.lanes > 1 && (strided || mask != Reg::none)) {
      const std::string mask_text = mask == Reg::none ? all_lanes(type.lanes) : name(mask);
      const std::string pointers = strided ? fmt::format("<{} x ptr>", type.lanes) : "ptr";
      const std::string function =
          fmt::format("@llvm.masked.{}.{}.{}", strided ? "gather" : "load", suffix(type),
                      strided ? fmt::format("v{}p0", type.lanes) : "p0");
      declare(
          fmt::format("{} {}({}, i32 immarg, <{} x i1>, {})", text, function, pointers, type.lanes, text));
      line("  {} = call {} {}({} {}, i32 {}, <{} x i1> {}, {} zeroinitializer)", loaded, text, function,
           pointers, at, align, type.lanes, mask_text, text);
    } else {
      line("  {} = load {}, ptr {}, align {}", loaded, text, at, align);
    }
    if (i.type != type)
      line("  {} = icmp ne {} {}, {}", define(i.results[0]), text, loaded,
           type.lanes == 1 ? "0" : "zeroinitializer");
  }

  // One element where a condition holds, else 0: a vector of one lane, which LLVM turns into a branch.
  void load_if(std::string_view loaded, std::string_view at, LaneType type, std::string_view condition) {
    const std::string element(scalar_type(type.dtype)), mask = temporary(), vector = temporary();
    const std::string function = fmt::format("@llvm.masked.load.v1{}.p0", suffix(type));
    declare(fmt::format("<1 x {}> {}(ptr, i32 immarg, <1 x i1>, <1 x {}>)", element, function, element));
    line("  {} = insertelement <1 x i1> poison, i1 {}, i64 0", mask, condition);
    line("  {} = call <1 x {}> {}(ptr {}, i32 {}, <1 x i1> {}, <1 x {}> zeroinitializer)", vector, element,
         function, at, bytes_of(type.dtype), mask, element);
    line("  {} = extractelement <1 x {}> {}, i64 0", loaded, element, vector);
  }

  void store_if(std::string_view value, std::string_view at, LaneType type, std::string_view condition) {
    const std::string element(scalar_type(type.dtype)), mask = temporary(), vector = temporary();
    const std::string function = fmt::format("@llvm.masked.store.v1{}.p0", suffix(type));
    declare(fmt::format("void {}(<1 x {}>, ptr, i32 immarg, <1 x i1>)", function, element));
    line("  {} = insertelement <1 x i1> poison, i1 {}, i64 0", mask, condition);
    line("  {} = insertelement <1 x {}> poison, {} {}, i64 0", vector, element, element, value);
    line("  call void {}(<1 x {}> {}, ptr {}, i32 {}, <1 x i1> {})", function, element, vector, at,
         bytes_of(type.dtype), mask);
  }

  void store(const NestInstruction& i) {
    const LaneType type = stored(i.type);
    const std::string text = llvm_type(type);
    std::string value = name(i.operands[3]);
    if (i.type != type) {
      const std::string bytes = temporary();
      line("  {} = zext {} to {}", bytes, typed(i.operands[3]), text);
      value = bytes;
    }
    const std::string at = address(i, type);
    const bool strided = scattered(i);
    const Reg mask = i.operands[2];
    const auto align = bytes_of(type.dtype) * (i.aligned ? type.lanes : 1);
    if (type.lanes == 1 && mask != Reg::none) {
      store_if(value, at, type, name(mask));
    } else if (type.lanes > 1 && (strided || mask != Reg::none)) {
      const std::string mask_text = mask == Reg::none ? all_lanes(type.lanes) : name(mask);
      const std::string pointers = strided ? fmt::format("<{} x ptr>", type.lanes) : "ptr";
      const std::string function =
          fmt::format("@llvm.masked.{}.{}.{}", strided ? "scatter" : "store", suffix(type),
                      strided ? fmt::format("v{}p0", type.lanes) : "p0");
      declare(fmt::format("void {}({}, {}, i32 immarg, <{} x i1>)", function, text, pointers, type.lanes));
      line("  call void {}({} {}, {} {}, i32 {}, <{} x i1> {})", function, text, value, pointers, at, align,
           type.lanes, mask_text);
    } else {
      line("  store {} {}, ptr {}, align {}", text, value, at, align);
    }
  }

  // A function of its own, so that the device's compiler can put an instruction in its place.
  void dot4(const NestInstruction& i) {
    const int lanes = i.type.lanes, bytes = 4 * lanes;
    const std::string sums = llvm_type(i.type), in = fmt::format("<{} x i8>", bytes);
    const std::string function = fmt::format("@diji.dot4.v{}i32", lanes);
    std::string body =
        fmt::format("define internal {0} {1}({2} %a, {2} %b, {0} %c) alwaysinline {{\n", sums, function, in);
    const std::string wide = fmt::format("<{} x i32>", bytes);
    body += fmt::format("  %u = zext {0} %a to {1}\n  %i = sext {0} %b to {1}\n  %p = mul {1} %u, %i\n", in,
                        wide);
    std::string sum = "%c";
    for (int j = 0; j < 4; ++j) {
      std::string from;
      for (int lane = 0; lane < lanes; ++lane)
        from += fmt::format("{}i32 {}", lane == 0 ? "" : ", ", 4 * lane + j);
      body += fmt::format("  %p{0} = shufflevector {1} %p, {1} poison, <{2} x i32> <{3}>\n", j, wide, lanes,
                          from);
      body += fmt::format("  %s{0} = add {1} {2}, %p{0}\n", j, sums, sum);
      sum = fmt::format("%s{}", j);
    }
    declarations_.insert(body + fmt::format("  ret {} {}\n}}", sums, sum));
    line("  {} = call {} {}({}, {}, {})", define(i.results[0]), sums, function, typed(i.operands[0]),
         typed(i.operands[1]), typed(i.operands[2]));
  }

  // Data for reading, to be kept in all caches.
  void prefetch(const NestInstruction& i) {
    declare("void @llvm.prefetch.p0(ptr, i32 immarg, i32 immarg, i32 immarg)");
    const std::string at = address(i, stored(i.type));
    line("  call void @llvm.prefetch.p0(ptr {}, i32 0, i32 3, i32 1)", at);
  }

  void loop(const NestInstruction& i) {
    const std::string id = fmt::format("loop{}", static_cast<int>(i.induction));
    const std::string before = current_, head = id + ".head", latch = id + ".latch";
    // Names first: the phis refer to values of the body, which is printed afterwards.
    define(i.induction);
    for (const Reg carried : i.carried) define(carried);
    line("  br label %{}", head);
    line("{}:", head);
    line("  {} = phi i64 [ {}, %{} ], [ %{}.next, %{} ]", name(i.induction), name(i.operands[0]), before, id,
         latch);
    const std::size_t phis = out_.size();
    label(id + ".body");
    block(i.body);
    line("  br label %{}", latch);
    label(latch);
    line("  %{}.next = add nsw i64 {}, {}", id, name(i.induction), name(i.operands[2]));
    line("  br label %{}", head);
    std::string header;
    for (std::size_t k = 0; k < i.carried.size(); ++k) {
      header += fmt::format("  {} = phi {} [ {}, %{} ], [ {}, %{} ]\n", name(i.carried[k]),
                            llvm_type(nest_.type(i.carried[k])), name(i.operands[3 + k]), before,
                            name(i.yielded[k]), latch);
      set_name(i.results[k], name(i.carried[k]));
    }
    header += fmt::format("  %{}.more = icmp slt i64 {}, {}\n", id, name(i.induction), name(i.operands[1]));
    header += fmt::format("  br i1 %{}.more, label %{}.body, label %{}.exit\n", id, id, id);
    out_.insert(phis, header);
    label(id + ".exit");
  }

  void when(const NestInstruction& i) {
    const std::string id = fmt::format("when{}", next_temporary_++);
    line("  br i1 {}, label %{}, label %{}.done{}", name(i.operands[0]), id, id,
         i.integer == 1 ? ", !prof !0" : "");
    if (i.integer == 1) declarations_.insert("!0 = !{!\"branch_weights\", i32 1, i32 2147483647}");
    label(id);
    block(i.body);
    line("  br label %{}.done", id);
    label(id + ".done");
  }

  void report_error(const NestInstruction& i) {
    const std::string id = fmt::format("error{}", next_temporary_++);
    line("  br i1 {}, label %{}, label %{}.done", name(i.operands[0]), id, id);
    line("{}:", id);
    line("  %{}.node = shl i64 %size{}, 8", id, nest_.sizes.size());
    line("  %{}.value = shl i64 {}, 32", id, name(i.operands[1]));
    line("  %{}.code = or i64 %{}.node, {}", id, id, i.integer);
    line("  %{}.word = or i64 %{}.code, %{}.value", id, id, id);
    line("  %{}.old = cmpxchg ptr %error_word, i64 0, i64 %{}.word monotonic monotonic", id, id);
    line("  br label %{}.done", id);
    label(id + ".done");
  }

  const LoopNest& nest_;
  std::vector<std::string> names_;
  std::string out_;
  std::string current_ = "entry";
  int next_temporary_ = 0;
  std::set<std::string> declarations_;
};

}  // namespace

KernelText print_llvm(const LoopNest& nest) { return Printer(nest).run(); }

}  // namespace diji
