// The printer that C-like kernel languages share: structure, names, numbers and infix signs.
#include "codegen/c_language.h"

#include "base/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace diji {
namespace {

// The sign of a lane-by-lane operation; empty where it is a function.
std::string_view infix(NestOp op) {
  switch (op) {
    case NestOp::add: return "+";
    case NestOp::subtract: return "-";
    case NestOp::multiply: return "*";
    case NestOp::divide: return "/";
    case NestOp::remainder: return "%";
    case NestOp::bit_and: return "&";
    case NestOp::bit_or: return "|";
    case NestOp::bit_xor: return "^";
    case NestOp::shift_left: return "<<";
    case NestOp::shift_right: return ">>";
    case NestOp::less: return "<";
    case NestOp::less_equal: return "<=";
    case NestOp::equal: return "==";
    default: return "";
  }
}

std::string_view word(NestOp op) {
  switch (op) {
    case NestOp::minimum: return "minimum";
    case NestOp::maximum: return "maximum";
    case NestOp::multiply_add: return "multiply_add";
    case NestOp::fused_multiply_add: return "fused_multiply_add";
    case NestOp::dot4: return "dot4";
    case NestOp::sqrt: return "sqrt";
    case NestOp::absolute: return "absolute";
    case NestOp::copy_sign: return "copy_sign";
    case NestOp::floor: return "floor";
    case NestOp::ceil: return "ceil";
    case NestOp::round_even: return "round_even";
    case NestOp::select: return "select";
    case NestOp::any: return "any";
    case NestOp::convert: return "from";
    case NestOp::bitcast: return "bits";
    case NestOp::splat: return "splat";
    case NestOp::fold_add: return "fold_add";
    case NestOp::fold_multiply: return "fold_multiply";
    case NestOp::fold_minimum: return "fold_minimum";
    case NestOp::fold_maximum: return "fold_maximum";
    case NestOp::zip_low: return "zip_low";
    case NestOp::zip_high: return "zip_high";
    case NestOp::even_lanes: return "even_lanes";
    case NestOp::load: return "load";
    case NestOp::store: return "store";
    case NestOp::prefetch: return "prefetch";
    case NestOp::report_error: return "report_error";
    default: check_failed("op", "an operation that no function stands for");
  }
}

std::string type_name(LaneType type) {
  const std::string one(type.dtype == DType::boolean ? "boolean" : name_of(type.dtype));
  return type.lanes == 1 ? one : fmt::format("{}x{}", one, type.lanes);
}

std::string real_literal(double value, DType dtype) {
  CHECK(dtype != DType::f16, "constants are of dtypes that compute");
  if (std::isnan(value)) return fmt::format("DIJI_NAN_{}", name_of(dtype));
  if (std::isinf(value)) return fmt::format("({}DIJI_INF_{})", value < 0 ? "-" : "", name_of(dtype));
  const std::string_view suffix = dtype == DType::f64 ? "" : "f";
  const double rounded = dtype == DType::f64 ? value : static_cast<double>(static_cast<float>(value));
  return std::signbit(rounded) ? fmt::format("({:a}{})", rounded, suffix)
                               : fmt::format("{:a}{}", rounded, suffix);
}

std::string integer_literal(std::int64_t value, DType dtype, std::string_view suffix) {
  if (dtype == DType::boolean) return value != 0 ? "1" : "0";
  // The smallest number has no literal.
  const std::string number = value == INT64_MIN ? fmt::format("(-0x7fffffffffffffff{} - 1)", suffix)
                                                : fmt::format("{}{}", value, suffix);
  if (dtype == DType::i64) return value < 0 ? fmt::format("({})", number) : number;
  return fmt::format("(({}){})", name_of(dtype), number);
}

DType signed_of(std::int64_t bytes) {
  constexpr DType kSigned[] = {DType::i8, DType::i16, DType::i32, DType::i64};
  return kSigned[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3];
}

class Printer {
 public:
  Printer(const LoopNest& nest, const CLanguage& language)
      : nest_(nest),
        language_(language),
        declarations_(language),
        names_(nest.registers.size()),
        types_(nest.registers) {}

  KernelText run() {
    out_ = language_.head(nest_);
    block(nest_.body);
    out_ += language_.tail;
    return {.declarations = declarations_.take(), .function = std::move(out_)};
  }

 private:
  // ---- lines and names ----

  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    out_.append(2 * depth_, ' ');
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  const std::string& name(Reg reg) const { return names_[static_cast<std::size_t>(reg)]; }
  // As it is spelled: a vector of booleans is a mask of signed integers.
  LaneType& type(Reg reg) { return types_[static_cast<std::size_t>(reg)]; }
  bool is_mask(Reg reg) const { return nest_.type(reg).dtype == DType::boolean && nest_.type(reg).lanes > 1; }
  void alias(Reg reg, std::string expression) {
    names_[static_cast<std::size_t>(reg)] = std::move(expression);
  }
  std::string fresh(Reg reg) { return fmt::format("r{}", static_cast<int>(reg)); }
  void define(Reg reg, std::string_view expression) {
    alias(reg, fresh(reg));
    line("const {} {} = {};", declarations_.type(type(reg)), name(reg), expression);
  }
  // A result that is a mask, spelled as `as`.
  void define_mask(Reg reg, LaneType as, std::string_view expression) {
    type(reg) = mask_of(as);
    define(reg, expression);
  }

  template <typename... Arguments>
  std::string call(const CFunction& function, const Arguments&... arguments) {
    const std::vector<std::string> all = {arguments...};
    return fmt::format("{}({})", declarations_.function(function), fmt::join(all, ", "));
  }

  // A vector's bits as another type.
  std::string bits_as(const std::string& x, LaneType from, LaneType to) {
    if (language_.casts_vectors) return fmt::format("({})({})", declarations_.type(to), x);
    return from == to ? x : call({.op = NestOp::bitcast, .type = to, .from = from}, x);
  }
  // What the comparison of vectors of this type is.
  std::string compared(const std::string& comparison, LaneType type) {
    return bits_as(comparison, mask_of(type), mask_of(type));
  }

  // The mask with lanes as wide as those of `like`.
  std::string mask(Reg reg, LaneType like) {
    const LaneType from = type(reg), to = mask_of({like.dtype, from.lanes});
    return from == to ? name(reg) : convert(name(reg), from, to);
  }

  // ---- instructions ----

  void block(const std::vector<NestInstruction>& instructions) {
    ++depth_;
    for (const NestInstruction& i : instructions) instruction(i);
    --depth_;
  }

  void instruction(const NestInstruction& i) {
    switch (i.op) {
      case NestOp::constant: constant(i); break;
      case NestOp::size: alias(i.results[0], fmt::format("size{}", i.integer)); break;
      case NestOp::grid_index: alias(i.results[0], "grid"); break;
      case NestOp::select: select(i); break;
      case NestOp::any: any(i); break;
      case NestOp::convert: convert(i); break;
      case NestOp::bitcast: bitcast(i); break;
      case NestOp::splat: splat(i); break;
      case NestOp::lane_numbers: lane_numbers(i); break;
      case NestOp::fold_add:
      case NestOp::fold_multiply:
      case NestOp::fold_minimum:
      case NestOp::fold_maximum: fold(i); break;
      case NestOp::load: load(i); break;
      case NestOp::store: store(i); break;
      case NestOp::prefetch:
        if (language_.prefetches) prefetch(i);
        break;
      case NestOp::matrix_step: matrix_step(i); break;
      case NestOp::barrier: line("{};", language_.barrier); break;
      case NestOp::loop: loop(i); break;
      case NestOp::when: when(i); break;
      case NestOp::report_error: report_error(i); break;
      default: lane_by_lane(i); break;
    }
  }

  void constant(const NestInstruction& i) {
    const LaneType of = i.type;
    const std::string one = is_floating(of.dtype)
                                ? real_literal(i.real, of.dtype)
                                : integer_literal(i.integer, of.dtype, language_.long_suffix);
    alias(i.results[0], of.lanes == 1 ? one : broadcast(i.results[0], one));
  }

  // The expression of a scalar in all lanes of the register.
  std::string broadcast(Reg reg, std::string scalar) {
    if (is_mask(reg)) {
      // Any width will do: the one that makes a mask of a whole register of 64 bytes.
      const int lanes = nest_.type(reg).lanes;
      type(reg) = {signed_of(std::clamp(64 / lanes, 1, 8)), lanes};
      scalar = fmt::format("-({}){}", name_of(type(reg).dtype), scalar);
    }
    return call({.op = NestOp::splat, .type = type(reg), .from = {}}, scalar);
  }

  void lane_by_lane(const NestInstruction& i) {
    const Reg first = i.operands[0];
    if (nest_.type(first).dtype == DType::boolean) return logical(i);
    const std::string_view sign = infix(i.op);
    if (sign.empty()) {
      const CFunction function{.op = i.op, .type = i.type, .from = {}};
      std::vector<std::string> operands;
      for (const Reg operand : i.operands) operands.push_back(name(operand));
      define(i.results[0],
             fmt::format("{}({})", declarations_.function(function), fmt::join(operands, ", ")));
      return;
    }
    const LaneType operands = nest_.type(first);
    const std::string expression =
        language_.infix(sign, operands, name(first), name(i.operands[1]), declarations_);
    if (!is_mask(i.results[0])) return define(i.results[0], expression);
    define_mask(i.results[0], operands, compared(expression, operands));
  }

  // Of booleans: arithmetic of one bit, unsigned.
  void logical(const NestInstruction& i) {
    const Reg result = i.results[0];
    const bool vector = is_mask(result);
    if (vector) type(result) = type(i.operands[0]);
    const std::string a = name(i.operands[0]),
                      b = vector ? mask(i.operands[1], type(result)) : name(i.operands[1]);
    const std::string_view invert = vector ? "~" : "!";
    switch (i.op) {
      case NestOp::bit_and:
      case NestOp::multiply:
      case NestOp::minimum: return define(result, fmt::format("{} & {}", a, b));
      case NestOp::bit_or:
      case NestOp::maximum: return define(result, fmt::format("{} | {}", a, b));
      case NestOp::bit_xor:
      case NestOp::add:
      case NestOp::subtract: return define(result, fmt::format("{} ^ {}", a, b));
      case NestOp::less: return define(result, fmt::format("{}{} & {}", invert, a, b));
      case NestOp::less_equal: return define(result, fmt::format("{}{} | {}", invert, a, b));
      case NestOp::equal: return define(result, fmt::format("{}({} ^ {})", invert, a, b));
      default: check_failed("op", "an operation that booleans lack");
    }
  }

  void select(const NestInstruction& i) {
    const auto [condition, then, otherwise] = std::tuple(i.operands[0], i.operands[1], i.operands[2]);
    const Reg result = i.results[0];
    if (is_mask(result)) type(result) = type(then);
    const std::string last = is_mask(result) ? mask(otherwise, type(result)) : name(otherwise);
    if (!is_mask(condition))
      return define(result, fmt::format("{} ? {} : {}", name(condition), name(then), last));
    const CFunction function{.op = i.op, .type = type(result), .from = {}};
    define(result, call(function, mask(condition, type(result)), name(then), last));
  }

  void any(const NestInstruction& i) {
    const Reg of = i.operands[0];
    if (!is_mask(of)) return alias(i.results[0], name(of));
    define(i.results[0], call({.op = i.op, .type = i.type, .from = type(of)}, name(of)));
  }

  std::string convert(const std::string& x, LaneType from, LaneType to) {
    return call({.op = NestOp::convert, .type = to, .from = from}, x);
  }

  void convert(const NestInstruction& i) {
    const Reg x = i.operands[0], result = i.results[0];
    const LaneType from = nest_.type(x), to = i.type;
    CHECK(to.dtype != DType::boolean, "a number becomes a boolean by comparison");
    CHECK(to.dtype != DType::f16 || from.dtype == DType::f32, "16-bit floats are made of f32");
    if (is_mask(x)) {
      const LaneType number = mask_of(to);  // -1 is true
      const std::string ones = fmt::format("-{}", mask(x, number));
      if (is_floating(to.dtype)) return define(result, convert(ones, number, to));
      return define(result, bits_as(ones, number, to));
    }
    if (from.dtype == DType::f16 && to.dtype != DType::f32) {
      const LaneType middle{DType::f32, to.lanes};
      return define(result, convert(convert(name(x), from, middle), middle, to));
    }
    define(result, convert(name(x), from, to));
  }

  void bitcast(const NestInstruction& i) {
    const LaneType from = nest_.type(i.operands[0]);
    if (i.type.lanes > 1 && from.lanes > 1)
      return define(i.results[0], bits_as(name(i.operands[0]), from, i.type));
    define(i.results[0], call({.op = i.op, .type = i.type, .from = from}, name(i.operands[0])));
  }

  void splat(const NestInstruction& i) {
    const std::string expression = broadcast(i.results[0], name(i.operands[0]));
    define(i.results[0], expression);
  }

  void lane_numbers(const NestInstruction& i) {
    std::vector<int> numbers;
    for (int lane = 0; lane < i.type.lanes; ++lane) numbers.push_back(lane);
    const std::string type = declarations_.type(i.type);
    alias(i.results[0], i.type.lanes == 1 ? fmt::format("(({})0)", type)
                                          : fmt::format("(({}){}{}{})", type, language_.open,
                                                        fmt::join(numbers, ", "), language_.close));
  }

  void fold(const NestInstruction& i) {
    const Reg x = i.operands[0];
    if (nest_.type(x).lanes == 1) return alias(i.results[0], name(x));
    CHECK(!is_mask(x), "masks are folded by any");
    define(i.results[0], call({.op = i.op, .type = i.type, .from = nest_.type(x)}, name(x)));
  }

  // ---- memory ----

  // Booleans are bytes in memory.
  static LaneType stored(LaneType type) {
    return {type.dtype == DType::boolean ? DType::u8 : type.dtype, type.lanes};
  }

  std::string pointer(const NestInstruction& i, LaneType element, bool constant) {
    const std::string base = i.space == Space::local   ? "scratch"
                             : i.space == Space::group ? "shared"
                                                       : fmt::format("place{}", i.place);
    return fmt::format("({}{}{} *){}", constant ? "const " : "",
                       i.space == Space::group ? language_.group : language_.global,
                       declarations_.type({element.dtype, 1}), base);
  }

  // The function for a vector in memory and its arguments before the stored value.
  std::pair<CFunction, std::vector<std::string>> access(const NestInstruction& i, LaneType element) {
    const Reg index = i.operands[0], stride = i.operands[1], mask = i.operands[2];
    CFunction function{.op = i.op, .type = element, .from = {}};
    const std::string base = pointer(i, element, i.op == NestOp::load);
    std::vector<std::string> arguments;
    if (nest_.type(index).lanes > 1) {
      function.places = LanePlaces::indexed;
      function.from = nest_.type(index);
      arguments = {base, name(index)};
    } else {
      arguments = {fmt::format("{} + {}", base, name(index))};
      if (stride != Reg::none) {
        function.places = LanePlaces::strided;
        arguments.push_back(name(stride));
      }
    }
    if (mask != Reg::none) {
      function.masked = true;
      arguments.push_back(this->mask(mask, element));
    }
    return {function, std::move(arguments)};
  }

  void load(const NestInstruction& i) {
    const LaneType element = stored(i.type);
    const Reg result = i.results[0], mask = i.operands[2];
    if (element.lanes == 1) {
      const std::string one = fmt::format("({})[{}]", pointer(i, element, true), name(i.operands[0]));
      const std::string value = mask == Reg::none ? one : fmt::format("{} ? {} : 0", name(mask), one);
      return define(result, i.type == element ? value : fmt::format("({}) != 0", value));
    }
    const auto [function, arguments] = access(i, element);
    const std::string value =
        fmt::format("{}({})", declarations_.function(function), fmt::join(arguments, ", "));
    if (i.type == element) return define(result, value);
    const std::string zero = call({.op = NestOp::splat, .type = element, .from = {}}, std::string("0"));
    define_mask(result, element, compared(fmt::format("{} != {}", value, zero), element));
  }

  void store(const NestInstruction& i) {
    const LaneType element = stored(i.type);
    const Reg mask = i.operands[2], stored_value = i.operands[3];
    if (element.lanes == 1) {
      const std::string condition = mask == Reg::none ? "" : fmt::format("if ({}) ", name(mask));
      return line("{}({})[{}] = {};", condition, pointer(i, element, false), name(i.operands[0]),
                  name(stored_value));
    }
    auto [function, arguments] = access(i, element);
    arguments.push_back(i.type == element
                            ? name(stored_value)
                            : bits_as("-" + this->mask(stored_value, element), mask_of(element), element));
    line("{}({});", declarations_.function(function), fmt::join(arguments, ", "));
  }

  void prefetch(const NestInstruction& i) {
    const LaneType element = stored(i.type);
    line("{};", call({.op = i.op, .type = {DType::u8, 1}, .from = {}},
                     fmt::format("{} + {}", pointer(i, element, true), name(i.operands[0]))));
  }

  // ---- control ----

  void loop(const NestInstruction& i) {
    for (std::size_t k = 0; k < i.carried.size(); ++k) {
      const Reg carried = i.carried[k], initial = i.operands[3 + k];
      type(carried) = type(initial);
      alias(carried, fresh(carried));
      line("{} {} = {};", declarations_.type(type(carried)), name(carried), name(initial));
    }
    alias(i.induction, fresh(i.induction));
    line("for (i64 {0} = {1}; {0} < {2}; {0} += {3}) {{", name(i.induction), name(i.operands[0]),
         name(i.operands[1]), name(i.operands[2]));
    block(i.body);
    ++depth_;
    yield(i);
    --depth_;
    line("}}");
    for (std::size_t k = 0; k < i.carried.size(); ++k) {
      type(i.results[k]) = type(i.carried[k]);
      alias(i.results[k], name(i.carried[k]));
    }
  }

  // All at once: a value may be the last one of another.
  void yield(const NestInstruction& i) {
    std::vector<std::string> next;
    for (std::size_t k = 0; k < i.carried.size(); ++k) {
      const Reg carried = i.carried[k], yielded = i.yielded[k];
      std::string value = is_mask(carried) ? mask(yielded, type(carried)) : name(yielded);
      const bool taken = std::ranges::any_of(i.carried, [&](Reg other) { return name(other) == value; });
      if (taken && name(carried) != value) {
        const std::string kept = fmt::format("next_{}", name(carried));
        line("const {} {} = {};", declarations_.type(type(carried)), kept, value);
        value = kept;
      }
      next.push_back(std::move(value));
    }
    for (std::size_t k = 0; k < i.carried.size(); ++k) {
      if (name(i.carried[k]) != next[k]) line("{} = {};", name(i.carried[k]), next[k]);
    }
  }

  // The sums are variables that the language's function changes, which is named after the dtype.
  void matrix_step(const NestInstruction& i) {
    const std::size_t first_sum = i.operands.size() - i.results.size();
    std::vector<std::string> arguments;
    for (std::size_t k = 0; k < i.results.size(); ++k) {
      alias(i.results[k], fresh(i.results[k]));
      line("f32 {} = {};", name(i.results[k]), name(i.operands[first_sum + k]));
      arguments.push_back(name(i.results[k]));
    }
    for (std::size_t k = 0; k < first_sum; ++k) arguments.push_back(name(i.operands[k]));
    line("matrix_step_{}({});", name_of(i.type.dtype), fmt::join(arguments, ", "));
  }

  void when(const NestInstruction& i) {
    if (i.integer == 1) {
      line("if (DIJI_RARE({})) {{", name(i.operands[0]));
    } else {
      line("if ({}) {{", name(i.operands[0]));
    }
    block(i.body);
    line("}}");
  }

  void report_error(const NestInstruction& i) {
    line("if ({}) {};", name(i.operands[0]),
         call({.op = i.op, .type = {DType::i64, 1}, .from = {}}, std::string("error_word"),
              fmt::format("size{}", nest_.sizes.size()), name(i.operands[1]), fmt::format("{}", i.integer)));
  }

  const LoopNest& nest_;
  const CLanguage& language_;
  CDeclarations declarations_;
  std::vector<std::string> names_;
  std::vector<LaneType> types_;
  std::string out_;
  std::size_t depth_ = 1;
};

}  // namespace

LaneType mask_of(LaneType type) { return {signed_of(bytes_of(type.dtype)), type.lanes}; }

void CDeclarations::add(std::string_view name, std::string text) {
  texts_.push_back(language_.guarded
                       ? fmt::format("#ifndef HAS_{0}\n#define HAS_{0}\n{1}#endif\n", name, text)
                       : std::move(text));
}

std::string CDeclarations::type(LaneType type) {
  const auto [known, first] = types_.emplace(std::pair(type.dtype, type.lanes), type_name(type));
  if (first && type.lanes > 1) add(known->second, language_.vector_type(type, known->second));
  return known->second;
}

std::string CDeclarations::function(const CFunction& function) {
  const auto known = functions_.find(function.key());
  if (known != functions_.end()) return known->second;
  const bool whole = function.op == NestOp::prefetch || function.op == NestOp::report_error;
  std::string name =
      whole ? std::string(word(function.op)) : fmt::format("{}_{}", type(function.type), word(function.op));
  if (function.from.lanes > 1 || function.op == NestOp::convert || function.op == NestOp::bitcast)
    name += "_" + type(function.from);
  if (function.places != LanePlaces::next)
    name += function.places == LanePlaces::strided ? "_strided" : "_indexed";
  if (function.masked) name += "_masked";
  functions_.emplace(function.key(), name);
  std::string text = language_.function(function, name, *this);
  add(name, std::move(text));
  return name;
}

KernelText print_c_family(const LoopNest& nest, const CLanguage& language) {
  return Printer(nest, language).run();
}

}  // namespace diji
