// Emission of loop nests.
#include "codegen/nest_builder.h"

#include "base/check.h"

#include <algorithm>

namespace diji {

Reg NestBuilder::emit(NestInstruction instruction, LaneType result) {
  const auto reg = static_cast<Reg>(nest_.registers.size());
  nest_.registers.push_back(result);
  instruction.type = result;
  instruction.results = {reg};
  block_->push_back(std::move(instruction));
  return reg;
}

Reg NestBuilder::integer(std::int64_t value, DType dtype, int lanes) {
  const Reg reg = emit({.op = NestOp::constant, .integer = value}, {dtype, lanes});
  known_.emplace_back(reg, value);
  return reg;
}

Reg NestBuilder::real(double value, LaneType type) {
  return emit({.op = NestOp::constant, .real = value}, type);
}

Reg NestBuilder::number(double value, LaneType type) {
  if (is_floating(type.dtype)) return real(value, type);
  return integer(static_cast<std::int64_t>(value), type.dtype, type.lanes);
}

std::optional<std::int64_t> NestBuilder::known(Reg reg) const {
  const auto found = std::ranges::find(known_, reg, &std::pair<Reg, std::int64_t>::first);
  if (found == known_.end() || type(reg).lanes != 1) return std::nullopt;
  return found->second;
}

Reg NestBuilder::dim(const Dim& dim) {
  if (const auto constant = dim.constant()) return integer(*constant);
  const auto found = std::ranges::find(nest_.sizes, dim);
  const auto index = found - nest_.sizes.begin();
  if (found == nest_.sizes.end()) nest_.sizes.push_back(dim);
  return emit({.op = NestOp::size, .integer = index}, {DType::i64, 1});
}

Reg NestBuilder::grid_index() { return emit({.op = NestOp::grid_index}, {DType::i64, 1}); }

Reg NestBuilder::binary(NestOp op, Reg a, Reg b) {
  CHECK(type(a) == type(b), "operands of one type");
  return emit({.op = op, .operands = {a, b}}, type(a));
}

// The folding below is what keeps index arithmetic readable in the printed text; the device's compiler does
// the rest.
Reg NestBuilder::add(Reg a, Reg b) {
  if (known(a) == 0) return b;
  if (known(b) == 0) return a;
  if (known(a) && known(b)) return integer(*known(a) + *known(b));
  return binary(NestOp::add, a, b);
}

Reg NestBuilder::subtract(Reg a, Reg b) { return known(b) == 0 ? a : binary(NestOp::subtract, a, b); }

Reg NestBuilder::multiply(Reg a, Reg b) {
  if (known(a) == 1) return b;
  if (known(b) == 1) return a;
  if (known(a) == 0) return a;
  if (known(b) == 0) return b;
  return binary(NestOp::multiply, a, b);
}

Reg NestBuilder::divide(Reg a, Reg b) { return known(b) == 1 ? a : binary(NestOp::divide, a, b); }

Reg NestBuilder::remainder(Reg a, Reg b) {
  return known(b) == 1 ? integer(0) : binary(NestOp::remainder, a, b);
}

Reg NestBuilder::multiply_add(Reg a, Reg b, Reg c) {
  return emit({.op = NestOp::multiply_add, .operands = {a, b, c}}, type(c));
}

Reg NestBuilder::fused_multiply_add(Reg a, Reg b, Reg c) {
  return emit({.op = NestOp::fused_multiply_add, .operands = {a, b, c}}, type(c));
}

Reg NestBuilder::dot4(Reg a, Reg b, Reg c) {
  const int bytes = 4 * type(c).lanes;
  CHECK(type(a) == (LaneType{DType::u8, bytes}) && type(b) == (LaneType{DType::i8, bytes}) &&
            type(c).dtype == DType::i32,
        "four products a lane, of u8 and i8");
  return emit({.op = NestOp::dot4, .operands = {a, b, c}}, type(c));
}

std::vector<Reg> NestBuilder::matrix_step(DType dtype, std::span<const Reg> lhs, std::span<const Reg> rhs,
                                          std::span<const Reg> sums) {
  NestInstruction step{.op = NestOp::matrix_step, .type = {dtype, 1}};
  for (const std::span<const Reg> part : {lhs, rhs, sums})
    step.operands.insert(step.operands.end(), part.begin(), part.end());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    nest_.registers.push_back({DType::f32, 1});
    step.results.push_back(static_cast<Reg>(nest_.registers.size() - 1));
  }
  block_->push_back(step);
  return step.results;
}

Reg NestBuilder::unary(NestOp op, Reg x) { return emit({.op = op, .operands = {x}}, type(x)); }

Reg NestBuilder::compare(NestOp op, Reg a, Reg b) {
  CHECK(type(a) == type(b), "operands of one type");
  return emit({.op = op, .operands = {a, b}}, {DType::boolean, type(a).lanes});
}

Reg NestBuilder::select(Reg condition, Reg then, Reg otherwise) {
  CHECK(type(then) == type(otherwise), "both sides of one type");
  return emit({.op = NestOp::select, .operands = {condition, then, otherwise}}, type(then));
}

Reg NestBuilder::any(Reg mask) { return emit({.op = NestOp::any, .operands = {mask}}, {DType::boolean, 1}); }

Reg NestBuilder::convert(Reg x, DType dtype) {
  return type(x).dtype == dtype ? x : emit({.op = NestOp::convert, .operands = {x}}, {dtype, type(x).lanes});
}

Reg NestBuilder::bitcast(Reg x, DType dtype) {
  return emit({.op = NestOp::bitcast, .operands = {x}}, {dtype, type(x).lanes});
}

Reg NestBuilder::bitcast(Reg x, LaneType to) {
  const auto bytes = [](LaneType t) { return static_cast<int>(bytes_of(t.dtype)) * t.lanes; };
  CHECK(bytes(type(x)) == bytes(to), "a bitcast keeps the bytes");
  return type(x) == to ? x : emit({.op = NestOp::bitcast, .operands = {x}}, to);
}

Reg NestBuilder::splat(Reg x, int lanes) {
  return lanes == 1 ? x : emit({.op = NestOp::splat, .operands = {x}}, {type(x).dtype, lanes});
}

Reg NestBuilder::lane_numbers(LaneType type) { return emit({.op = NestOp::lane_numbers}, type); }

Reg NestBuilder::fold(NestOp op, Reg vector) {
  return emit({.op = op, .operands = {vector}}, {type(vector).dtype, 1});
}

Reg NestBuilder::load(const Address& address, LaneType type) {
  NestInstruction instruction{.op = NestOp::load, .operands = {address.index, address.stride, address.mask}};
  instruction.space = address.space;
  instruction.place = address.place;
  instruction.aligned = address.aligned;
  return emit(std::move(instruction), type);
}

void NestBuilder::store(const Address& address, Reg value) {
  NestInstruction instruction{.op = NestOp::store,
                              .type = type(value),
                              .operands = {address.index, address.stride, address.mask, value}};
  instruction.space = address.space;
  instruction.place = address.place;
  instruction.aligned = address.aligned;
  block_->push_back(std::move(instruction));
}

void NestBuilder::prefetch(const Address& address, DType dtype) {
  NestInstruction instruction{
      .op = NestOp::prefetch, .type = {dtype, 1}, .operands = {address.index, Reg::none}};
  instruction.space = address.space;
  instruction.place = address.place;
  block_->push_back(std::move(instruction));
}

void NestBuilder::barrier() { block_->push_back({.op = NestOp::barrier}); }

void NestBuilder::report_error(Reg condition, std::int64_t code, Reg value) {
  block_->push_back({.op = NestOp::report_error, .operands = {condition, value}, .integer = code});
}

std::vector<Reg> NestBuilder::loop(Reg lower, Reg upper, Reg step, std::vector<Reg> initial,
                                   const std::function<std::vector<Reg>(Reg, std::span<const Reg>)>& body) {
  const auto fresh = [&](LaneType type) {
    nest_.registers.push_back(type);
    return static_cast<Reg>(nest_.registers.size() - 1);
  };
  NestInstruction loop{.op = NestOp::loop, .operands = {lower, upper, step}};
  loop.induction = fresh({DType::i64, 1});
  for (const Reg value : initial) {
    loop.operands.push_back(value);
    loop.carried.push_back(fresh(type(value)));
    loop.results.push_back(fresh(type(value)));
  }
  std::vector<NestInstruction>* const outer = block_;
  block_ = &loop.body;
  loop.yielded = body(loop.induction, loop.carried);
  block_ = outer;
  CHECK(loop.yielded.size() == initial.size(), "a loop yields what it carries");
  std::vector<Reg> results = loop.results;
  block_->push_back(std::move(loop));
  return results;
}

void NestBuilder::for_each(Reg lower, Reg upper, Reg step, const std::function<void(Reg)>& body) {
  loop(lower, upper, step, {}, [&](Reg induction, std::span<const Reg>) -> std::vector<Reg> {
    body(induction);
    return {};
  });
}

void NestBuilder::conditional(Reg condition, bool rare, const std::function<void()>& body) {
  NestInstruction when{.op = NestOp::when, .operands = {condition}, .integer = rare ? 1 : 0};
  std::vector<NestInstruction>* const outer = block_;
  block_ = &when.body;
  body();
  block_ = outer;
  block_->push_back(std::move(when));
}

void NestBuilder::when(Reg condition, const std::function<void()>& body) {
  conditional(condition, false, body);
}

void NestBuilder::when_rare(Reg condition, const std::function<void()>& body) {
  conditional(condition, true, body);
}

}  // namespace diji
