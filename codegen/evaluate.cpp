// One vector of a scalar program. What is the same in all lanes is computed once, as a scalar.
#include "base/check.h"
#include "codegen/conversion.h"
#include "codegen/map_step.h"
#include "codegen/scalar.h"

#include <algorithm>
#include <limits>

namespace diji {
namespace {

// Integer operators that report errors.
bool may_report(const ScalarStep& step) {
  if (step.kind == ScalarStep::Kind::load) return !step.checks.empty() && !step.outside_is_zero;
  const bool divides = step.primitive == Primitive::divide || step.primitive == Primitive::remainder ||
                       step.primitive == Primitive::power;
  return step.kind == ScalarStep::Kind::map && divides && !is_floating(step.dtype);
}

// An i64 in every lane: base + lane · stride + varying.
struct LaneIndex {
  Reg base = Reg::none;
  Dim stride;
  Reg varying = Reg::none;
  bool varies() const { return varying != Reg::none || !stride.is(0); }
};

class Evaluation {
 public:
  Evaluation(NestBuilder& b, const ScalarProgram& program, const LanePosition& at, Reg result,
             std::vector<Reg> values)
      : b_(b), program_(program), at_(at), result_(result), values_(std::move(values)) {
    values_.resize(program.steps.size(), Reg::none);
  }

  Reg run() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (values_[i] == Reg::none) values_[i] = step(program_.steps[i]);
    }
    return widened(static_cast<int>(values_.size()) - 1, at_.lanes);
  }

  ElementAddress run_address() {
    for (std::size_t i = 0; i + 1 < values_.size(); ++i) {
      if (values_[i] == Reg::none) values_[i] = step(program_.steps[i]);
    }
    return address(program_.steps.back());
  }

  // Only the steps that depend on nothing unknown.
  std::vector<Reg> run_known() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (is_known(program_.steps[i])) values_[i] = step(program_.steps[i]);
    }
    return std::move(values_);
  }

 private:
  Reg value(int number) const { return values_[static_cast<std::size_t>(number)]; }
  int lanes(Reg reg) const { return b_.type(reg).lanes; }

  bool is_known(const ScalarStep& step) const {
    const auto known_access = [&](const Access& access) {
      for (std::size_t i = 0; i < access.strides.size(); ++i) {
        if (!access.strides[i].is(0) && at_.coordinates[i] == Reg::none) return false;
      }
      return true;
    };
    const auto known_terms = [&](const std::vector<IndexTerm>& terms) {
      return std::ranges::all_of(terms, [&](const IndexTerm& term) { return value(term.step) != Reg::none; });
    };
    return step.kind != ScalarStep::Kind::result && step.kind != ScalarStep::Kind::constant &&
           !may_report(step) && known_access(step.access) && known_terms(step.terms) &&
           std::ranges::all_of(step.operands, [&](int i) { return value(i) != Reg::none; }) &&
           std::ranges::all_of(step.checks, [&](const IndexCheck& check) {
             return known_access(check.index) && known_terms(check.terms);
           });
  }

  Reg step(const ScalarStep& step) {
    switch (step.kind) {
      case ScalarStep::Kind::load: return load(step);
      case ScalarStep::Kind::coordinate:
        return convert_step(b_, full(index(step.access, step.terms), 1), DType::i64, step.dtype);
      case ScalarStep::Kind::constant: return constant_value(b_, step.constant, 1);
      case ScalarStep::Kind::result: return result_;
      case ScalarStep::Kind::map: return map(step);
    }
    check_failed("step", "a kind of step");
  }

  Reg map(const ScalarStep& step) {
    int width = 1;
    for (const int operand : step.operands) width = std::max(width, lanes(value(operand)));
    std::vector<Reg> operands;
    for (const int operand : step.operands) operands.push_back(widened(operand, width));
    const DType operand_dtype = program_.steps[static_cast<std::size_t>(step.operands[0])].dtype;
    return map_step(b_, step, operand_dtype, operands, width == 1 ? Reg::none : at_.mask);
  }

  Reg widened(int number, int width) {
    const ScalarStep& step = program_.steps[static_cast<std::size_t>(number)];
    if (step.kind == ScalarStep::Kind::constant) return constant_value(b_, step.constant, width);
    return widened(value(number), width);
  }
  Reg widened(Reg reg, int width) { return lanes(reg) == width ? reg : b_.splat(reg, width); }

  LaneIndex index(const Access& access, const std::vector<IndexTerm>& terms) {
    LaneIndex result{.base = element_index(b_, access, at_.coordinates)};
    if (at_.lanes > 1 && at_.vector_axis) result.stride = access.strides[*at_.vector_axis];
    for (const IndexTerm& term : terms) {
      const Reg number = b_.convert(value(term.step), DType::i64);
      if (lanes(number) == 1) {
        result.base = b_.add(result.base, b_.multiply(number, b_.dim(term.stride)));
        continue;
      }
      const Reg part =
          term.stride.is(1) ? number : b_.multiply(number, b_.splat(b_.dim(term.stride), at_.lanes));
      result.varying = result.varying == Reg::none ? part : b_.add(result.varying, part);
    }
    return result;
  }

  // In one register, of at least `width` lanes.
  Reg full(const LaneIndex& index, int width) {
    if (!index.varies()) return widened(index.base, width);
    Reg result = b_.splat(index.base, at_.lanes);
    if (!index.stride.is(0)) {
      Reg numbers = b_.lane_numbers({DType::i64, at_.lanes});
      if (!index.stride.is(1)) numbers = b_.multiply(numbers, b_.splat(b_.dim(index.stride), at_.lanes));
      result = b_.add(result, numbers);
    }
    return index.varying == Reg::none ? result : b_.add(result, index.varying);
  }

  Reg both(Reg a, Reg b) {
    if (a == Reg::none || b == Reg::none) return a == Reg::none ? b : a;
    const int width = std::max(lanes(a), lanes(b));
    return b_.binary(NestOp::bit_and, widened(a, width), widened(b, width));
  }

  // Which lanes pass all checks; none when there are no checks.
  Reg inside(const ScalarStep& step) {
    Reg result = Reg::none;
    for (const IndexCheck& check : step.checks) {
      const Reg number = full(index(check.index, check.terms), 1);
      // As unsigned numbers, negative ones are above every size.
      const Reg unsigned_number = b_.convert(number, DType::u64);
      const Reg size = widened(b_.convert(b_.dim(check.size), DType::u64), lanes(number));
      result = both(result, b_.less(unsigned_number, size));
      if (step.outside_is_zero) continue;
      const Reg bad = both(b_.less_equal(size, unsigned_number), lanes(number) == 1 ? Reg::none : at_.mask);
      b_.report_error(b_.any(bad), kErrorIndexOutOfRange, reported(bad, number));
    }
    return result;
  }
  // One number to show: of several the largest.
  Reg reported(Reg bad, Reg number) {
    if (lanes(number) == 1) return number;
    const Reg smallest = b_.integer(std::numeric_limits<std::int64_t>::min(), DType::i64, lanes(number));
    return b_.fold(NestOp::fold_maximum, b_.select(bad, number, smallest));
  }

  Reg load(const ScalarStep& step) {
    const ElementAddress element = address(step);
    return load_element(b_, element.address, step.dtype, element.lanes);
  }

  ElementAddress address(const ScalarStep& step) {
    const LaneIndex where = index(step.access, step.terms);
    const Reg allowed = inside(step);
    NestBuilder::Address result{.place = step.input, .index = where.base, .mask = allowed};
    const bool one = !where.varies() && (allowed == Reg::none || lanes(allowed) == 1);
    if (one) return {result, 1};
    result.mask = both(at_.mask, allowed);
    if (result.mask != Reg::none) result.mask = widened(result.mask, at_.lanes);
    if (where.varying != Reg::none || where.stride.is(0)) {
      result.index = full(where, at_.lanes);
    } else if (!where.stride.is(1)) {
      result.stride = b_.dim(where.stride);
    }
    return {result, at_.lanes};
  }

  NestBuilder& b_;
  const ScalarProgram& program_;
  const LanePosition& at_;
  Reg result_;
  std::vector<Reg> values_;
};

}  // namespace

Reg evaluate(NestBuilder& b, const ScalarProgram& program, const LanePosition& at, Reg result,
             const Prepared& prepared) {
  return Evaluation(b, program, at, result, prepared.values).run();
}

ElementAddress evaluate_address(NestBuilder& b, const ScalarProgram& program, const LanePosition& at) {
  return Evaluation(b, program, at, Reg::none, {}).run_address();
}

Prepared prepare(NestBuilder& b, const ScalarProgram& program, const std::vector<Reg>& coordinates) {
  const LanePosition at{.coordinates = coordinates, .vector_axis = std::nullopt};
  return {Evaluation(b, program, at, Reg::none, {}).run_known()};
}

}  // namespace diji
