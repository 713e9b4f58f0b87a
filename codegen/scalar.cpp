// Evaluation of scalar programs in registers.
#include "codegen/scalar.h"

#include "base/check.h"
#include "codegen/conversion.h"
#include "codegen/map_step.h"

namespace diji {
namespace {

Reg constant_step(NestBuilder& b, const HostTensor& constant, int lanes) {
  const LaneType type{register_dtype(constant.dtype()), lanes};
  if (is_floating(constant.dtype())) return b.real(constant.as_double(0), type);
  return b.integer(constant.as_int64()[0], type.dtype, lanes);
}

}  // namespace

DType register_dtype(DType storage) {
  return storage == DType::f16 || storage == DType::bf16 ? DType::f32 : storage;
}

std::string_view sentence_of_error(std::int64_t code) {
  return code == kErrorDivisionByZero ? "integer division by zero" : "unknown error code";
}

Reg element_index(NestBuilder& b, const Access& access, const std::vector<Reg>& coordinates) {
  Reg index = b.dim(access.offset);
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    if (access.strides[i].is(0)) continue;
    index = b.add(index, b.multiply(coordinates[i], b.dim(access.strides[i])));
  }
  return index;
}

Reg lane_mask(NestBuilder& b, Reg first, Reg end, int lanes) {
  const Reg left = b.splat(b.subtract(end, first), lanes);
  return b.less(b.lane_numbers({DType::i64, lanes}), left);
}

Reg load_element(NestBuilder& b, NestBuilder::Address address, DType storage, int lanes) {
  return from_storage(b, b.load(address, {memory_dtype(storage), lanes}), storage);
}

void store_element(NestBuilder& b, NestBuilder::Address address, Reg value) {
  const DType storage = b.nest().places[static_cast<std::size_t>(address.place)];
  b.store(address, to_storage(b, value, storage));
}

Reg evaluate(NestBuilder& b, const ScalarProgram& program, const LanePosition& at, Reg result) {
  std::vector<Reg> values;
  const auto load = [&](const ScalarStep& step) {
    NestBuilder::Address address{.place = step.input, .index = element_index(b, step.access, at.coordinates)};
    const Dim stride = at.vector_axis ? step.access.strides[*at.vector_axis] : Dim(0);
    if (at.lanes == 1) return load_element(b, address, step.dtype, 1);
    if (stride.is(0)) return b.splat(load_element(b, address, step.dtype, 1), at.lanes);
    if (!stride.is(1)) address.stride = b.dim(stride);
    address.mask = at.mask;
    return load_element(b, address, step.dtype, at.lanes);
  };
  for (const ScalarStep& step : program.steps) {
    const auto operand = [&](std::size_t i) { return values[static_cast<std::size_t>(step.operands[i])]; };
    switch (step.kind) {
      case ScalarStep::Kind::load: values.push_back(load(step)); break;
      case ScalarStep::Kind::constant: values.push_back(constant_step(b, step.constant, at.lanes)); break;
      case ScalarStep::Kind::result: values.push_back(result); break;
      case ScalarStep::Kind::map: {
        const DType operand_dtype = program.steps[static_cast<std::size_t>(step.operands[0])].dtype;
        std::vector<Reg> operands;
        for (std::size_t i = 0; i < step.operands.size(); ++i) operands.push_back(operand(i));
        values.push_back(map_step(b, step, operand_dtype, operands, at.mask));
        break;
      }
    }
  }
  return values.back();
}

}  // namespace diji
