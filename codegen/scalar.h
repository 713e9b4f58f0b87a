// Scalar steps to registers: one vector of elements of a ScalarProgram at given loop coordinates.
#pragma once

#include "codegen/kernel_body.h"
#include "codegen/nest_builder.h"

#include <functional>
#include <optional>
#include <vector>

namespace diji {

/// Where in the loops an evaluation stands. Lane l of the vector is at coordinates + l along `vector_axis`.
struct LanePosition {
  std::vector<Reg> coordinates;            ///< i64, one a loop axis: of lane 0
  std::optional<std::size_t> vector_axis;  ///< none: one lane
  int lanes = 1;
  Reg mask = Reg::none;  ///< lanes beyond the end are off
};

/// What arithmetic happens in: 16-bit floats compute in f32, all others in themselves.
DType register_dtype(DType storage);

/// Values of a program's steps that a loop around an evaluation computed already; none elsewhere.
struct Prepared {
  std::vector<Reg> values;
};
/// All steps that depend only on coordinates that are known here (not none) and cannot report an error.
Prepared prepare(NestBuilder& b, const ScalarProgram& program, const std::vector<Reg>& coordinates);

/// The program's value, in register_dtype of its dtype. `result` is the root's value for epilogues.
Reg evaluate(NestBuilder& b, const ScalarProgram& program, const LanePosition& at, Reg result = Reg::none,
             const Prepared& prepared = {});

/// Where the load that is the program's last step would read, with its checks made.
struct ElementAddress {
  NestBuilder::Address address;
  int lanes = 1;  ///< 1 also where all lanes read the same
};
ElementAddress evaluate_address(NestBuilder& b, const ScalarProgram& program, const LanePosition& at);

Reg constant_value(NestBuilder& b, const HostTensor& constant, int lanes);

/// From registers to a buffer: converts to the place's dtype.
void store_element(NestBuilder& b, NestBuilder::Address address, Reg value);
Reg load_element(NestBuilder& b, NestBuilder::Address address, DType storage, int lanes);

/// offset + Σ coordinates · strides, as an i64.
Reg element_index(NestBuilder& b, const Access& access, const std::vector<Reg>& coordinates);

/// mask of lanes for which first + lane < end.
Reg lane_mask(NestBuilder& b, Reg first, Reg end, int lanes);

/// Codes in the low byte of an error word, and the sentence each stands for.
inline constexpr std::int64_t kErrorDivisionByZero = 1;
inline constexpr std::int64_t kErrorIndexOutOfRange = 2;
std::string_view sentence_of_error(std::int64_t code);

}  // namespace diji
