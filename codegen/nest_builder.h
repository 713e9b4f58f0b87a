// NestBuilder: writes loop nests with the types checked and constants folded as they are written.
#pragma once

#include "codegen/loop_nest.h"

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace diji {

class NestBuilder {
 public:
  explicit NestBuilder(LoopNest& nest) : nest_(nest), block_(&nest.body) {}

  LoopNest& nest() { return nest_; }
  LaneType type(Reg reg) const { return nest_.type(reg); }

  Reg integer(std::int64_t value, DType dtype = DType::i64, int lanes = 1);
  Reg real(double value, LaneType type);
  /// A number of the type's own class: 0 and 1 for booleans.
  Reg number(double value, LaneType type);
  /// An expression of sizes as an i64: a constant where it is one, else a size argument (each expression
  /// once).
  Reg dim(const Dim& dim);
  /// The constant an i64 register is known to be.
  std::optional<std::int64_t> known(Reg reg) const;

  Reg grid_index();
  Reg add(Reg a, Reg b);
  Reg subtract(Reg a, Reg b);
  Reg multiply(Reg a, Reg b);
  Reg divide(Reg a, Reg b);
  Reg remainder(Reg a, Reg b);
  Reg minimum(Reg a, Reg b) { return binary(NestOp::minimum, a, b); }
  Reg maximum(Reg a, Reg b) { return binary(NestOp::maximum, a, b); }
  Reg multiply_add(Reg a, Reg b, Reg c);
  Reg fused_multiply_add(Reg a, Reg b, Reg c);
  /// c[l] + Σ a[4l + j] · b[4l + j] for j < 4: a of u8, b of i8, c of i32.
  Reg dot4(Reg a, Reg b, Reg c);
  /// One product of a matrix unit's tiles added to the sums; `dtype` is f16 or bf16, two of them in each u32.
  std::vector<Reg> matrix_step(DType dtype, std::span<const Reg> lhs, std::span<const Reg> rhs,
                               std::span<const Reg> sums);
  /// Where the indices of a group wait for each other: all of them must come here equally often.
  void barrier();
  Reg unary(NestOp op, Reg x);
  Reg binary(NestOp op, Reg a, Reg b);
  Reg less(Reg a, Reg b) { return compare(NestOp::less, a, b); }
  Reg less_equal(Reg a, Reg b) { return compare(NestOp::less_equal, a, b); }
  Reg equal(Reg a, Reg b) { return compare(NestOp::equal, a, b); }
  Reg select(Reg condition, Reg then, Reg otherwise);
  Reg any(Reg mask);
  Reg convert(Reg x, DType dtype);
  Reg bitcast(Reg x, DType dtype);
  /// The same bytes in lanes of another width: four of u8 are one of i32, the first in its low byte.
  Reg bitcast(Reg x, LaneType type);
  Reg splat(Reg x, int lanes);
  Reg lane_numbers(LaneType type);
  Reg fold(NestOp op, Reg vector);
  Reg zip_low(Reg a, Reg b) { return binary(NestOp::zip_low, a, b); }
  Reg zip_high(Reg a, Reg b) { return binary(NestOp::zip_high, a, b); }
  Reg even_lanes(Reg a, Reg b) { return binary(NestOp::even_lanes, a, b); }

  struct Address {
    Space space = Space::global;
    int place = 0;
    Reg index = Reg::none;   ///< one lane, or one index for each lane
    Reg stride = Reg::none;  ///< elements between lanes; none: 1
    Reg mask = Reg::none;
    bool aligned = false;
  };
  Reg load(const Address& address, LaneType type);
  void store(const Address& address, Reg value);
  /// Only space, place and index count; `dtype` is the elements'.
  void prefetch(const Address& address, DType dtype);
  void report_error(Reg condition, std::int64_t code, Reg value);

  /// `body(induction, carried)` returns the next values; the results are the last ones.
  std::vector<Reg> loop(
      Reg lower, Reg upper, Reg step, std::vector<Reg> initial,
      const std::function<std::vector<Reg>(Reg induction, std::span<const Reg> carried)>& body);
  /// A loop that carries nothing.
  void for_each(Reg lower, Reg upper, Reg step, const std::function<void(Reg induction)>& body);
  /// `body` once where the condition (i1) holds.
  void when(Reg condition, const std::function<void()>& body);
  /// The same for what hardly ever happens, so that the device's compiler keeps its registers for the rest.
  void when_rare(Reg condition, const std::function<void()>& body);

 private:
  void conditional(Reg condition, bool rare, const std::function<void()>& body);
  Reg compare(NestOp op, Reg a, Reg b);
  Reg emit(NestInstruction instruction, LaneType result);
  LoopNest& nest_;
  std::vector<NestInstruction>* block_;
  std::vector<std::pair<Reg, std::int64_t>> known_;
};

}  // namespace diji
