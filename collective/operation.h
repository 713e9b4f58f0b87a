// The words of collectives: what is done, with which reduction, on which elements.
#pragma once

#include "base/dtype.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace diji::collective {

/// What the ranks of a communicator do together. Names as in MPI and NCCL. The forms with counts of their own
/// for each rank (v) are the same operations: a count is always a list, which the plain forms fill with one
/// number.
enum class Operation : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  scan,    ///< rank r: the reduction over ranks 0..r
  exscan,  ///< rank r: over ranks 0..r-1; rank 0's output is left as it was
  barrier,
  send,
  receive,
};
inline constexpr int kOperationCount = 13;

/// "all_reduce"
std::string_view name_of(Operation operation);
std::optional<Operation> parse_operation(std::string_view name);
/// Whether values of several ranks are combined.
bool reduces(Operation operation);
/// Whether one rank is told apart: broadcast, reduce, gather, scatter.
bool has_root(Operation operation);

/// Between two ranks, of which the others know nothing: send, receive.
inline bool is_point_to_point(Operation operation) {
  return operation == Operation::send || operation == Operation::receive;
}

/// How values of several ranks become one. Integers wrap; any NaN wins in min and max; `average` of integers
/// is their wrapped sum divided by the number of ranks, toward zero; logical operations take any value but 0
/// (and NaN) as true and give 0 or 1; `premul_sum` multiplies each rank's values by that rank's factor first.
enum class Reduction : std::uint8_t {
  sum,
  average,
  product,
  min,
  max,
  premul_sum,
  bit_and,
  bit_or,
  bit_xor,
  logical_and,
  logical_or,
  logical_xor,
};
inline constexpr int kReductionCount = 12;

/// "sum", "avg", "prod", "min", "max", "premul-sum", "band", "bor", "bxor", "land", "lor", "lxor"
std::string_view name_of(Reduction reduction);
std::optional<Reduction> parse_reduction(std::string_view name);

/// The element types of the house and the two 8-bit floats of the OCP specification, which only travel and
/// reduce here.
enum class ElementType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  boolean,
  f8e4m3,
  f8e5m2,
};
inline constexpr int kElementTypeCount = 15;

/// "f32", "bool", "f8e4m3", …
std::string_view name_of(ElementType type);
std::optional<ElementType> parse_element_type(std::string_view name);
std::int64_t bytes_of(ElementType type);
bool is_floating(ElementType type);
inline ElementType element_type(DType dtype) { return static_cast<ElementType>(dtype); }

/// What partial results are kept in and travel as: f32 for floats below 32 bits, else the type itself. In
/// exact mode f64 for f64 and f32.
ElementType accumulator_of(ElementType type, bool exact);
/// Whether the reduction has a meaning for the elements: bit operations not for floats; average and
/// premul_sum not for bool.
bool supports(Reduction reduction, ElementType type);

}  // namespace diji::collective
